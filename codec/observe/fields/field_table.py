"""THE table of fields: names, kinds, sources, and how to get each from a frame.

Filters, JSON keys, columns and `pcli fields` are all read from here.

Two sources, one list: the general fields (general.py) and those of the protocol's messages (leaves.py):
``pulsar.<field of BaseCommand>.<proto path>``, ``pulsar.metadata.…``, ``pulsar.entry.…``, ``pulsar.batch.…``. Where
both have a name (pulsar.error), the general field has it. Fields of no known version are ``….unknown.<number>``; they
are found by name but stand in no list. Nothing is made before somebody asks: one name costs the plan of one command.
"""

from __future__ import annotations

import difflib
import re
from functools import cache

from pcli.codec.errors import LocalError
from pcli.codec.observe.fields.field import Field
from pcli.codec.observe.fields.general_fields import general_fields
from pcli.codec.observe.fields.protocol_fields import FAMILIES, family, unknown_field

__all__ = ["all_fields", "describe_fields", "find_field", "lookup_field", "nearest"]


def lookup_field(name: str) -> Field | None:
    """The field of this name; None when there is none."""
    field = general_fields().get(name)
    if field is None and name.startswith("pulsar."):
        field = family(name.split(".", 2)[1]).get(name) or unknown_field(name)
    return field


def find_field(name: str) -> Field:
    """The field of this name; LocalError with the nearest names when there is none."""
    field = lookup_field(name)
    if field is None:
        raise LocalError(f"no field {name!r}{nearest(name, [one.name for one in _all()])}")
    return field


def all_fields() -> list[Field]:
    """Every field but the unknown ones: the general ones first, then commands by number, then the other parts."""
    return list(_all())


def describe_fields(pattern: str = "") -> list[Field]:
    """The fields whose name or help holds the pattern: a piece of text, case ignored, with ``*`` and ``?``."""
    wanted = re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), re.IGNORECASE)
    return [field for field in _all() if wanted.search(field.name) or wanted.search(field.help)]


def nearest(word: str, words: list[str]) -> str:
    """``; did you mean a, b?``, or nothing when no word is near."""
    found = difflib.get_close_matches(word[:200], words, 3, 0.6)
    # Who leaves out the beginning of a long name is not near it by letters.
    last = word.rpartition(".")[2].lower()
    found += [one for one in words if last and one.lower().endswith(f".{last}") and one not in found][:3]
    return f"; did you mean {', '.join(found[:4])}?" if found else ""


@cache
def _all() -> tuple[Field, ...]:
    leaves = {name: field for word in FAMILIES for name, field in family(word).items()}
    return tuple({**leaves, **general_fields()}[name] for name in {**general_fields(), **leaves})
