"""Network faults: delays, bandwidth limits, slices, outages and ends of connections, as the toxics of Toxiproxy.

A fault is written as words NAME=VALUE in any order: ``latency=50ms jitter=20ms from=broker``. Times are written as
``250us``, ``50ms`` or ``1.5s``; sizes are written as a number of bytes, ``64K`` or ``1M``. Rules of this file:

1. A fault applies to a whole connection with a probability, in one direction (``from=client|broker``) or both. The
   caller passes the random numbers. Bytes are neither lost nor reordered, because the connection is a TCP stream.
2. Each chunk of bytes that is read is delayed by the latency, plus or minus a random time up to the jitter. Each slice,
   and each part that a bandwidth limit creates, is a separate write.
3. The connection is reset after the number of bytes in ``reset`` and before the next byte is sent. ``limit_data`` ends
   it in the same place without a reset. ``reset_peer`` resets it after a time.
4. ``timeout`` withholds all bytes and ends the connection after a time; with ``0ms``, it does not end. The bytes are
   forwarded if the fault is removed; Toxiproxy discards them. The end of the stream is not withheld. ``slow_close``
   delays it.
5. The caller passes the time in nanoseconds since 1970, like the steps of codec.faults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Final

from pcli.codec.errors import LocalError
from pcli.codec.faults import Step
from pcli.codec.wire.near import near

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
    "limit_data": _size,
    "timeout": _time,
    "reset_peer": _time,
    "slow_close": _time,
    "probability": _probability,
    "from": _side,
}
_ACTIONS: Final = (
    "latency", "jitter", "bandwidth", "slice", "reset", "limit_data", "timeout", "reset_peer", "slow_close",
)  # fmt: skip


class ByteFault:
    """A network fault, and the number of connections that it applied to."""

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
        self.limit_data = int(values.get("limit_data", 0))
        """Number of bytes before the end of the stream, or 0 if there is no limit."""
        self.timeout = int(values.get("timeout", -1))
        """Time in nanoseconds after which the connection, whose bytes are withheld, ends; 0 for never, -1 for none."""
        self.reset_peer = int(values.get("reset_peer", -1))
        """Time in nanoseconds after which the connection is reset; -1 for never."""
        self.slow_close = int(values.get("slow_close", 0))
        """Delay of the end of the stream in nanoseconds."""
        self.probability = float(values.get("probability", 1))
        self.side = str(values.get("from", ""))
        """The sender whose bytes are affected: client or broker; empty for both."""
        self.seen = 0
        """Number of connections so far."""
        self.fired = 0
        """Number of connections that the fault applied to."""

    def __str__(self) -> str:
        return self._words

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
        self._random = random
        self._active_faults: list[_ActiveFault] = []
        self.update(faults)

    def update(self, faults: Iterable[ByteFault]) -> None:
        """Replace the faults. A fault that remains keeps its state, such as its number of bytes."""
        known = {active.fault: active for active in self._active_faults}
        self._active_faults = [known.get(fault) or _ActiveFault(fault, self._random) for fault in faults]
        self.withholds = any(active.fault.timeout >= 0 for active in self._active_faults)
        """Whether no bytes are forwarded."""
        self.slow_close = sum(active.fault.slow_close for active in self._active_faults)
        """Delay of the end of the stream in nanoseconds."""

    def feed(self, step: Step) -> list[Step]:
        """Split the bytes of a step into the steps in which they are sent. Return these steps with their times."""
        steps = [step]
        for fault in self._active_faults:
            steps = [later for earlier in steps for later in fault.feed(earlier)]
        return steps


class _ActiveFault:
    """One fault in one direction."""

    def __init__(self, fault: ByteFault, random: Random) -> None:
        self.fault = fault
        self._random = random
        self._next_free_ns = 0
        """The earliest time for the next bytes."""
        self._until_end = min((size for size in (fault.reset, fault.limit_data) if size), default=0)
        """Number of bytes before the connection ends, if there is a limit."""
        sizes = [size for size in (fault.slice, -(-fault.bandwidth // _PARTS)) if size]
        self._part = min(sizes, default=0)

    def feed(self, step: Step) -> Iterator[Step]:
        fault, data = self.fault, step.data
        due = step.due_ns + max(0, fault.latency + round(self._random.uniform(-fault.jitter, fault.jitter)))
        if step.cut:
            yield Step(max(due, self._next_free_ns), step.to_broker, bytearray(), cut=True, reset=step.reset)
            return
        size, limited = self._part or len(data) or 1, bool(fault.reset or fault.limit_data)
        for start in range(0, len(data), size):
            part = data[start : start + size]
            if limited:
                part = part[: self._until_end]
                self._until_end -= len(part)
            due = max(due, self._next_free_ns) + (len(part) * 1_000 * _MS // fault.bandwidth if fault.bandwidth else 0)
            self._next_free_ns = due + fault.gap
            yield Step(due, step.to_broker, part)
            if limited and start + len(part) < len(data) and not self._until_end:
                yield Step(due, step.to_broker, bytearray(), cut=True, reset=self._resets())
                return

    def _resets(self) -> bool:
        """Return whether the limit that was reached resets the connection."""
        fault = self.fault
        return bool(fault.reset) and not 0 < fault.limit_data < fault.reset
