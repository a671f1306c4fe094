"""The definition of a field: name, kind, source, and the function that gets its value from the facts of a frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import EnumDescriptor

from pcli.codec.observe.observer_state import Facts

Getter = Callable[[Facts], Any]
"""A function that returns the raw value from the facts of a frame, or None if the frame has no value."""

Reader = Callable[[int], Getter | None]
"""A function that returns the field's getter for a command type, or None if its frames never have the field."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field."""

    name: str
    """The name in filters and JSON: ``pulsar.subscribe.subType``."""
    kind: str
    """A key of value_kinds.KINDS, or ``list of`` and a key."""
    source: str
    """``Message.field = number`` of the protocol, or a description of another source."""
    help: str
    """One line of help."""
    reader: Reader
    """Function from a command type to the getter."""
    words: tuple[tuple[str, int], ...] = ()
    """Names and numbers of the enum values."""
    secret: bool = False
    """Whether the value (credentials, payloads) is hidden unless requested."""
    listed: bool = True
    """Whether JSON contains the field. If not, the field combines values that JSON contains under other names."""

    @property
    def element(self) -> str:
        """The kind of one value."""
        return self.kind.removeprefix("list of ")

    @property
    def repeated(self) -> bool:
        """Whether a frame may have several values of the field."""
        return self.kind.startswith("list of ")

    def get(self, facts: Facts) -> Any:
        """Return the raw value (see value_kinds.py), a list for a repeated field, or None if the frame has no value."""
        getter = self.reader(facts.frame.type)
        return None if getter is None else getter(facts)


def enum_words(enum: EnumDescriptor) -> tuple[tuple[str, int], ...]:
    """Return the names and numbers of a protobuf enum."""
    return tuple((value.name, value.number) for value in enum.values)
