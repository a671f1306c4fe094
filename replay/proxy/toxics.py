"""Toxics in the JSON form of Toxiproxy's HTTP API. Each toxic is a byte fault in one direction.

Rules of this file
1. Names, attributes, units and defaults are those of Toxiproxy 2: times in milliseconds (``delay`` of a slicer in
   microseconds), ``rate`` in kilobytes per second, ``upstream`` for the bytes of the client.
2. A slicer has no ``size_variation``: each slice has the average size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.errors import LocalError
from pcli.codec.wire.near import near
from pcli.replay.proxy.byte_faults import ByteFault

_ATTRIBUTES: Final[dict[str, dict[str, str]]] = {
    "latency": {"latency": "latency={}ms", "jitter": "jitter={}ms"},
    "bandwidth": {"rate": "bandwidth={}000"},
    "slow_close": {"delay": "slow_close={}ms"},
    "timeout": {"timeout": "timeout={}ms"},
    "reset_peer": {"timeout": "reset_peer={}ms"},
    "slicer": {"average_size": "slice={}", "delay": "gap={}us", "size_variation": ""},
    "limit_data": {"bytes": "limit_data={}"},
}
"""The attributes of each type of toxic, as words of a byte fault."""

_SIDES: Final = {"upstream": "client", "downstream": "broker"}


@dataclass(slots=True)
class Toxic:
    """A byte fault with a name."""

    type: str
    name: str = ""
    """By default the type and the stream, for example ``latency_downstream``."""
    stream: str = "downstream"
    toxicity: float = 1.0
    """The probability that it applies to a connection."""
    attributes: dict[str, int] = field(default_factory=dict)
    fault: ByteFault = field(init=False)

    def __post_init__(self) -> None:
        """Raise LocalError if a value is invalid."""
        known = _ATTRIBUTES.get(self.type)
        if known is None:
            raise LocalError(f"toxic type {self.type!r}: write {', '.join(_ATTRIBUTES)}{near(self.type, _ATTRIBUTES)}")
        if self.stream not in _SIDES:
            raise LocalError(f"stream {self.stream!r}: write upstream or downstream")
        for name, value in self.attributes.items():
            if name not in known:
                raise LocalError(f"attribute {name!r}: write {', '.join(known)}{near(name, known)}")
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 10**9:
                raise LocalError(f"attribute {name}={value!r}: write an integer from 0 to 1000000000")
        if self.attributes.get("size_variation"):
            raise LocalError("attribute size_variation: only 0 is supported")
        if not isinstance(self.toxicity, (int, float)) or not 0 < self.toxicity <= 1:
            raise LocalError("toxicity: write a number above 0, up to 1")
        if "/" in self.name:
            raise LocalError(f"name {self.name!r}: write a name without /")
        self.attributes = dict.fromkeys(known, 0) | self.attributes
        self.name = self.name or f"{self.type}_{self.stream}"
        self.fault = ByteFault(self._words())

    def _words(self) -> str:
        words = [
            word.format(self.attributes[name])
            for name, word in _ATTRIBUTES[self.type].items()
            if word and (self.attributes[name] or self.type in ("timeout", "reset_peer"))
        ]
        if not words:
            names = ", ".join(name for name, word in _ATTRIBUTES[self.type].items() if word)
            raise LocalError(f"toxic {self.type}: set an attribute above 0: {names}")
        return " ".join(
            [*words, f"from={_SIDES[self.stream]}", f"probability={self.toxicity:.9f}".rstrip("0").rstrip(".")]
        )

    @classmethod
    def from_json(cls, values: object) -> Toxic:
        """Return the toxic of a request body; raise LocalError if a value is invalid."""
        if not isinstance(values, Mapping):
            raise LocalError("write a JSON object with type, attributes, and optionally name, stream and toxicity")
        texts = {name: values[name] for name in ("type", "name", "stream") if values.get(name)}
        for name, value in texts.items():
            if not isinstance(value, str):
                raise LocalError(f"{name}: write a string")
        attributes = values.get("attributes") or {}
        if not isinstance(attributes, Mapping):
            raise LocalError("attributes: write a JSON object")
        return cls(**{"type": "", **texts}, toxicity=values.get("toxicity", 1.0), attributes=dict(attributes))

    def changed(self, values: Mapping[str, Any]) -> Toxic:
        """Return the toxic with other attributes and another toxicity; raise LocalError if a value is invalid."""
        attributes = values.get("attributes") or {}
        if not isinstance(attributes, Mapping):
            raise LocalError("attributes: write a JSON object")
        toxicity = values.get("toxicity", self.toxicity)
        return Toxic(self.type, self.name, self.stream, toxicity, self.attributes | dict(attributes))

    def as_json(self) -> dict[str, Any]:
        """Return the toxic as in a response."""
        return {
            "name": self.name, "type": self.type, "stream": self.stream, "toxicity": self.toxicity,
            "attributes": self.attributes,
        }  # fmt: skip
