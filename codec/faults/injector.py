"""Application of faults to the bytes of live connections: which bytes to forward, when, and to which side.

Rules of this file
1. Bytes are held until their frame is complete, because half a frame cannot be dropped. Bytes that cannot be a frame
   are forwarded unchanged.
2. A delayed frame delays all later frames of its direction, as TCP does. Only `reorder` changes the order.
3. Times are in nanoseconds since 1970. The caller stores the steps that are due later, and executes steps with the same
   due time in the order in which they were returned.
4. A cut ends the connection: no later bytes are forwarded.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcli.codec.faults.corrupt import corrupted
from pcli.codec.faults.fault import Fault, Faults
from pcli.codec.observe.live_frames import LiveFrames
from pcli.codec.observe.observer_state import Facts
from pcli.codec.wire.frame import Frame

_MS = 1_000_000


@dataclass(slots=True)
class Step:
    """An action for the caller: forward bytes, or cut the connection."""

    due_ns: int
    """Earliest time of the step, ns since 1970."""
    to_broker: bool
    """Whether the bytes go to the broker; otherwise they go to the client."""
    data: bytearray
    cut: bool = False
    """Whether to cut the connection without forwarding anything."""
    reset: bool = True
    """Whether a cut is a TCP reset. Otherwise both sides receive the end of the stream."""


class _Direction:
    """One direction of one connection."""

    __slots__ = ("due", "held", "passed", "postponed")

    def __init__(self, passed: int = 0) -> None:
        self.due = 0
        """Due time of the direction's latest step."""
        self.held = bytearray()
        """Bytes of an incomplete frame."""
        self.passed = passed
        """Number of bytes of the current frame that were forwarded before the injector was attached."""
        self.postponed = b""
        """Frames that are forwarded after the next frame."""


class Injector:
    """A converter of the bytes of all connections to steps."""

    def __init__(self, faults: Faults, live: LiveFrames) -> None:
        """``live`` may already contain connections. From now on, only this injector may add bytes to ``live``."""
        self.faults = faults
        self._live = live
        self._ways: dict[tuple[int, bool], _Direction] = {}
        self._cut: set[int] = set()

    def open(self, number: int, client: tuple[str, int], server: tuple[str, int]) -> None:
        """Open a connection, given its number and the (address, port) of both ends."""
        self._live.open(number, client, server)

    def close(self, number: int) -> None:
        """Close a connection and discard its state."""
        self._live.close(number)
        self._cut.discard(number)
        for from_client in (True, False):
            self._ways.pop((number, from_client), None)

    def feed(self, number: int, data: bytes, time_ns: int, *, from_client: bool) -> list[Step]:
        """Add bytes received from one side at the given time. Return the resulting steps."""
        if number in self._cut:
            return []
        direction = self._way(number, from_client=from_client)
        steps: list[Step] = []
        direction.held += data
        for facts in self._live.feed(number, data, time_ns, from_client=from_client):
            size = len(facts.frame.data)
            del direction.held[: size - direction.passed]
            fault = None if direction.passed else self.faults.pick(facts)
            if fault is not None:
                self._act(fault, facts, direction, time_ns, steps)
            else:
                self._pass(facts.frame.data[direction.passed :], direction, time_ns, steps, to_broker=from_client)
            direction.passed = 0
            if number in self._cut:
                return steps
            if direction.postponed and (fault is None or fault.do != "reorder"):
                self._pass(direction.postponed, direction, time_ns, steps, to_broker=from_client)
                direction.postponed = b""
        if direction.held and self._live.broken(number, from_client=from_client):
            self._pass(bytes(direction.held), direction, time_ns, steps, to_broker=from_client)
            direction.held.clear()
        return steps

    def last_due(self, number: int, *, from_client: bool) -> int:
        """Return the due time of the last step for bytes from one side (ns since 1970), or 0 if there was none."""
        direction = self._ways.get((number, from_client))
        return 0 if direction is None else direction.due

    def _way(self, number: int, *, from_client: bool) -> _Direction:
        direction = self._ways.get((number, from_client))
        if direction is None:
            passed = self._live.pending(number, from_client=from_client)
            direction = self._ways[number, from_client] = _Direction(passed)
        return direction

    def _act(self, fault: Fault, facts: Facts, direction: _Direction, now: int, steps: list[Step]) -> None:
        frame = facts.frame
        data, to_broker = frame.data, frame.from_client
        match fault.do:
            case "delay":
                direction.due = max(direction.due, now + fault.ms * _MS)
                self._pass(data, direction, now, steps, to_broker=to_broker)
            case "duplicate":
                self._pass(data + data, direction, now, steps, to_broker=to_broker)
            case "reorder":
                direction.postponed += data
            case "corrupt":
                self._pass(corrupted(Frame(data, frame.type)), direction, now, steps, to_broker=to_broker)
            case "replace":
                self._pass(fault.replacement, direction, now, steps, to_broker=to_broker)
            case "error":
                answer = fault.answer(facts)
                back = self._way(frame.stream.number, from_client=not to_broker)
                self._pass(answer or b"", back, now, steps, to_broker=not to_broker)
            case "close":
                self._cut.add(frame.stream.number)
                steps.append(Step(max(direction.due, now), to_broker, bytearray(), cut=True))

    def _pass(self, data: bytes, direction: _Direction, now: int, steps: list[Step], *, to_broker: bool) -> None:
        direction.due = max(direction.due, now)
        last = steps[-1] if steps else None
        if last is not None and last.to_broker == to_broker and last.due_ns == direction.due:
            last.data += data
        else:
            steps.append(Step(direction.due, to_broker, bytearray(data)))
