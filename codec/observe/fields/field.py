"""What a field is: a name, a kind, a source, and how to get it from the facts of a frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import EnumDescriptor

from pcli.codec.observe.observer_state import Facts

__all__ = ["Field", "Getter", "Reader", "enum_words"]

Getter = Callable[[Facts], Any]
"""From the facts of a frame to a raw value; None: it has none."""

Reader = Callable[[int], Getter | None]
"""From the number of a command type to what gets the field from such frames; None: they never have it."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field."""

    name: str
    """As in filters and JSON: ``pulsar.subscribe.subType``."""
    kind: str
    """One of values.KINDS, or ``list of`` one."""
    source: str
    """``Message.field = number`` of the protocol, or where else it comes from."""
    help: str
    """One line."""
    reader: Reader
    """How to get it, by command type."""
    words: tuple[tuple[str, int], ...] = ()
    """Names and numbers of an enum."""
    secret: bool = False
    """Whether it is hidden unless asked for: credentials, payloads."""
    listed: bool = True
    """Whether it stands in JSON; the others gather what stands there under other names."""

    @property
    def element(self) -> str:
        """The kind of one value."""
        return self.kind.removeprefix("list of ")

    @property
    def repeated(self) -> bool:
        """Whether it may have several values in one frame."""
        return self.kind.startswith("list of ")

    def get(self, facts: Facts) -> Any:
        """The raw value (see value_kinds.py), a list if it is repeated; None: the frame has none."""
        getter = self.reader(facts.frame.type)
        return None if getter is None else getter(facts)


def enum_words(enum: EnumDescriptor) -> tuple[tuple[str, int], ...]:
    """Names and numbers of a protobuf enum."""
    return tuple((value.name, value.number) for value in enum.values)
