"""Network faults: latency, jitter, bandwidth limits, slices and resets. They correspond to Toxiproxy's toxics.

A fault is written as words NAME=VALUE in any order: ``latency=50ms jitter=20ms from=broker``. Times are written as
``250us``, ``50ms`` or ``1.5s``; sizes are written as a number of bytes, ``64K`` or ``1M``. Rules of this file:

1. A fault applies to a whole connection with a probability, in one direction (``from=client|broker``) or both. The
   caller passes the random numbers. Bytes are neither lost nor reordered, because the connection is a TCP stream.
2. Each chunk of bytes that is read is delayed by the latency, plus or minus a random time up to the jitter. Each slice,
   and each part that a bandwidth limit creates, is a separate write.
3. The connection is reset after the number of bytes in ``reset`` and before the next byte is sent.
4. The caller passes the time in nanoseconds since 1970, like the steps of codec.faults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Final

from pcli.codec.errors import LocalError
from pcli.codec.faults import Step
from pcli.codec.wire.near import near

__all__ = ["ByteFault", "TrafficShaper"]

_MS: Final = 1_000_000
_TIMES: Final = {"us": 1_000, "ms": _MS, "s": 1_000 * _MS}
_SIZES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_GAP: Final = 1 * _MS
_PARTS: Final = 20
"""Number of writes per second under a bandwidth limit."""


def _time(value: str) -> int:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(us|ms|s)", value, re.ASCII)
    if match is None:
        raise LocalError("write a time: 250us, 50ms, 1.5s")
    return round(float(match[1]) * _TIMES[match[2]])


def _size(value: str) -> int:
    match = re.fullmatch(r"(\d{1,15})([KMG]?)B?", value.upper(), re.ASCII)
    if match is None or not int(match[1]):
        raise LocalError("write a size: 100, 64K, 1M")
    return int(match[1]) * _SIZES[match[2]]


def _probability(value: str) -> float:
    if not re.fullmatch(r"[01]|[01]?\.\d{1,9}", value, re.ASCII) or not 0 < float(value) <= 1:
        raise LocalError("write a probability above 0, up to 1")
    return float(value)


def _side(value: str) -> str:
    if value not in ("client", "broker"):
        raise LocalError("write client or broker")
    return value


_WORDS: Final[dict[str, Callable[[str], int | float | str]]] = {
    "latency": _time,
    "jitter": _time,
    "bandwidth": _size,
    "slice": _size,
    "gap": _time,
    "reset": _size,
    "probability": _probability,
    "from": _side,
}
_ACTIONS: Final = ("latency", "jitter", "bandwidth", "slice", "reset")


class ByteFault:
    """A network fault, and the number of connections that it applied to."""

    __slots__ = (
        "_words",
        "bandwidth",
        "fired",
        "gap",
        "jitter",
        "latency",
        "probability",
        "reset",
        "seen",
        "side",
        "slice",
    )

    def __init__(self, words: str) -> None:
        """Raise LocalError if the text is invalid."""
        values = dict(_pairs(words))
        if not any(name in values for name in _ACTIONS):
            raise LocalError(f"bytes {words!r}: write one or more of {', '.join(f'{name}=…' for name in _ACTIONS)}")
        if "gap" in values and "slice" not in values:
            raise LocalError(f"bytes {words!r}: gap requires slice")
        self._words = words
        self.latency = int(values.get("latency", 0))
        """Delay of each chunk in nanoseconds."""
        self.jitter = int(values.get("jitter", 0))
        """Maximum change of the latency in nanoseconds; the delay is never negative."""
        self.bandwidth = int(values.get("bandwidth", 0))
        """Bandwidth limit in bytes per second, or 0 if there is none."""
        self.slice = int(values.get("slice", 0))
        """Maximum number of bytes per write, or 0 if there is no maximum."""
        self.gap = int(values.get("gap", _GAP if self.slice else 0))
        """Delay between two slices in nanoseconds."""
        self.reset = int(values.get("reset", 0))
        """Number of bytes before the reset, or 0 if there is no reset."""
        self.probability = float(values.get("probability", 1))
        self.side = str(values.get("from", ""))
        """The sender whose bytes are affected: client or broker; empty for both."""
        self.seen = 0
        """Number of connections so far."""
        self.fired = 0
        """Number of connections that the fault applied to."""

    def draws(self, random: Random) -> bool:
        """Count a new connection and return whether the fault applies to it."""
        self.seen += 1
        befallen = self.probability >= 1 or random.random() < self.probability
        self.fired += befallen
        return befallen

    def __repr__(self) -> str:
        return f"ByteFault({self._words}; {self.seen} connections seen, fired {self.fired})"


def _pairs(words: str) -> Iterator[tuple[str, int | float | str]]:
    for word in words.split():
        name, _, value = word.partition("=")
        if name not in _WORDS:
            raise LocalError(f"bytes {words!r}: {name!r} is none of {', '.join(_WORDS)}{near(name, _WORDS)}")
        try:
            yield name, _WORDS[name](value)
        except LocalError as fault:
            raise LocalError(f"bytes {words!r}: {word!r}: {fault.text}") from None


class TrafficShaper:
    """The faults in one direction of one connection."""

    def __init__(self, faults: Iterable[ByteFault], random: Random) -> None:
        self._active_faults = [_ActiveFault(fault, random) for fault in faults]

    def feed(self, step: Step) -> list[Step]:
        """Split the bytes of a step into the steps in which they are sent. Return these steps with their times."""
        steps = [step]
        for fault in self._active_faults:
            steps = [later for earlier in steps for later in fault.feed(earlier)]
        return steps


class _ActiveFault:
    """One fault in one direction."""

    __slots__ = ("_fault", "_next_free_ns", "_part", "_random", "_until_reset")

    def __init__(self, fault: ByteFault, random: Random) -> None:
        self._fault = fault
        self._random = random
        self._next_free_ns = 0
        """The earliest time for the next bytes."""
        self._until_reset = fault.reset
        sizes = [size for size in (fault.slice, -(-fault.bandwidth // _PARTS)) if size]
        self._part = min(sizes, default=0)

    def feed(self, step: Step) -> Iterator[Step]:
        fault, data = self._fault, step.data
        due = step.due_ns + max(0, fault.latency + round(self._random.uniform(-fault.jitter, fault.jitter)))
        if step.cut:
            yield Step(max(due, self._next_free_ns), step.to_broker, bytearray(), cut=True)
            return
        size = self._part or len(data)
        for start in range(0, len(data), size):
            part = data[start : start + size]
            if fault.reset:
                part = part[: self._until_reset]
                self._until_reset -= len(part)
            due = max(due, self._next_free_ns) + (len(part) * 1_000 * _MS // fault.bandwidth if fault.bandwidth else 0)
            self._next_free_ns = due + fault.gap
            yield Step(due, step.to_broker, part)
            if fault.reset and start + len(part) < len(data) and not self._until_reset:
                yield Step(due, step.to_broker, bytearray(), cut=True)
                return
