"""The table of all fields: names, kinds, sources, and getters.

Filters, JSON keys, columns and `pcli fields` are derived from this table.

The table combines the general fields (general_fields.py) with the fields of the protocol's messages
(protocol_fields.py): ``pulsar.<field of BaseCommand>.<proto path>``, ``pulsar.metadata.…``, ``pulsar.entry.…``,
``pulsar.batch.…``. If both define the same name (pulsar.error), the general field is used. Unknown fields,
``….unknown.<number>``, can be looked up by name but are not listed. Fields are created on demand: a lookup compiles the
plan of one command.
"""

from __future__ import annotations

import difflib
import re
from functools import cache

from pcli.codec.errors import LocalError
from pcli.codec.observe.fields.field import Field
from pcli.codec.observe.fields.general_fields import general_fields
from pcli.codec.observe.fields.protocol_fields import FAMILIES, family, unknown_field


def lookup_field(name: str) -> Field | None:
    """Return the field with this name, or None if there is none."""
    field = general_fields().get(name)
    if field is None and name.startswith("pulsar."):
        field = family(name.split(".", 2)[1]).get(name) or unknown_field(name)
    return field


def find_field(name: str) -> Field:
    """Return the field with this name. Raise LocalError with the most similar names if there is none."""
    field = lookup_field(name)
    if field is None:
        raise LocalError(f"no field {name!r}{nearest(name, [one.name for one in _all()])}")
    return field


def all_fields() -> list[Field]:
    """Return every known field: general fields, fields of the commands by number, and fields of other parts."""
    return list(_all())


def describe_fields(pattern: str = "") -> list[Field]:
    """Return the fields whose name or help contains the pattern: case-insensitive, with wildcards ``*`` and ``?``."""
    wanted = re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), re.IGNORECASE)
    return [field for field in _all() if wanted.search(field.name) or wanted.search(field.help)]


def nearest(word: str, words: list[str]) -> str:
    """Return ``; did you mean a, b?``, or an empty string if no name is similar."""
    found = difflib.get_close_matches(word[:200], words, 3, 0.6)
    # A long name without its first components has a low similarity ratio.
    last = word.rpartition(".")[2].lower()
    found += [one for one in words if last and one.lower().endswith(f".{last}") and one not in found][:3]
    return f"; did you mean {', '.join(found[:4])}?" if found else ""


@cache
def _all() -> tuple[Field, ...]:
    leaves = {name: field for word in FAMILIES for name, field in family(word).items()}
    return tuple({**leaves, **general_fields()}[name] for name in {**general_fields(), **leaves})
