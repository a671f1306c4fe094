"""Match live responses to the captured responses of the broker.

Rules of this file
1. Responses are matched by their request: request id on its connection, or producer and sequence id. Unrequested frames
   are matched in order by command and by producer or consumer.
2. A MESSAGE is matched by its entry (metadata and payload) and its consumer. Among several deliveries of one entry the
   one with the same redelivery count is preferred, then the first. On a Shared subscription, a delivery to another
   consumer is an equal match; on a Key_Shared one it is the second choice. Both then differ in the consumer.
3. PING and PONG are not matched: they depend on timing alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME, COMMANDS, name_of
from pcli.codec.wire.constants import MINUS_ONE
from pcli.codec.wire.frame import Frame
from pcli.replay.player.script.recorded_sends import without_highest
from pcli.replay.player.script.script import Line

__all__ = ["KEEP_ALIVE", "Book", "Pair", "key_of"]

KEEP_ALIVE: Final = frozenset(BY_NAME[name].number for name in ("PING", "PONG"))

_MESSAGE: Final = BY_NAME["MESSAGE"].number
_UNASKED: Final = frozenset(
    BY_NAME[name].number
    for name in ("CLOSE_PRODUCER", "CLOSE_CONSUMER", "ACTIVE_CONSUMER_CHANGE", "REACHED_END_OF_TOPIC", "TOPIC_MIGRATED")
)
_RECEIPTS: Final = frozenset(BY_NAME[name].number for name in ("SEND_RECEIPT", "SEND_ERROR"))
_LOGIN: Final = frozenset(BY_NAME[name].number for name in ("CONNECTED", "AUTH_CHALLENGE", "ERROR"))
_SPREADING: Final = ("Shared", "Key_Shared")


class Pair:
    """A captured response and the live one that matches it. One of them may be missing."""

    __slots__ = ("consumer", "frame", "line", "order", "part", "said")

    def __init__(
        self, line: Line | None, part: int, frame: Frame | None, said: int, order: int, consumer: Consumer | None
    ) -> None:
        self.line = line
        """The captured response; None if only the live broker sent one."""
        self.part = part
        """The connection on which the live response arrived."""
        self.frame = frame
        """The live response; None for the end of a connection, and if none arrived."""
        self.said = said
        """The index of the last line that was sent before it arrived."""
        self.order = order
        """The number of the live response, from 0; -1 if none arrived."""
        self.consumer = consumer
        """The receiver of a live MESSAGE."""


class Book:
    """The captured responses, and the live ones matched to them so far."""

    def __init__(self, said: Iterable[Line]) -> None:
        """``said``: the lines of both sides; those of the broker are expected."""
        lines = list(said)
        self.nameless = without_highest(lines)
        """Receipts whose highest sequence id is undefined."""
        self._open: dict[Hashable, list[Line]] = defaultdict(list)
        self._first: list[Line] = []
        """All captured responses in order; ``_at`` is the index of the first that may still be awaited."""
        self._at = 0
        self.settled: set[int] = set()
        """Indexes of captured responses that arrived or are no longer awaited."""
        self.pairs: list[Pair] = []
        for line in lines:
            if not line.from_client and line.type not in KEEP_ALIVE:
                self._first.append(line)
                for key in _keys_of(line):
                    self._open[key].append(line)

    # -- live responses --------------------------------------------------------------------------------------------

    def take(self, part: int, frame: Frame, content: bytes, consumer: Consumer | None, said: int) -> Pair:
        """Match a live response and return the pair."""
        if frame.type == _MESSAGE:
            line = self._delivery(part, frame, content, consumer)
        else:
            line = self._pop(key_of(part, frame))
        return self._pair(line, part, frame, said, consumer)

    def end(self, part: int, said: int) -> Pair:
        """Process the live broker's closing of a connection: its responses are no longer awaited."""
        self.settled.update(line.index for line in self._first if line.part == part)
        return self._pair(self._pop((part, "end")), part, None, said, None)

    def _pair(self, line: Line | None, part: int, frame: Frame | None, said: int, consumer: Consumer | None) -> Pair:
        pair = Pair(line, part, frame, said, len(self.pairs), consumer)
        self.pairs.append(pair)
        if line is not None:
            self.settled.add(line.index)
            self._taken(line)
        return pair

    def _pop(self, key: Hashable) -> Line | None:
        waiting = self._open.get(key)
        return waiting[0] if waiting else None

    def _taken(self, line: Line) -> None:
        for key in _keys_of(line):
            self._open[key].remove(line)

    def _delivery(self, part: int, frame: Frame, content: bytes, consumer: Consumer | None) -> Line | None:
        found = list(self._open.get((part, frame.command.message.consumer_id, content), ()))
        if consumer is not None and consumer.type in _SPREADING:
            found += [
                line
                for line in self._open.get((consumer.topic, consumer.subscription, content), ())
                if line not in found
            ]
        return min(found, key=_likeness(part, frame.command.message, consumer), default=None)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def missing_before(self, index: int) -> Line | None:
        """Return the first captured response before this index that is still awaited, or None."""
        first, settled = self._first, self.settled
        while self._at < len(first) and first[self._at].index in settled:
            self._at += 1
        if self._at < len(first) and first[self._at].index < index:
            return first[self._at]
        return None

    def give_up(self, index: int) -> None:
        """Stop waiting for the responses before this index; they may still arrive."""
        for line in self._first[self._at :]:
            if line.index >= index:
                break
            self.settled.add(line.index)

    def missing(self) -> list[Line]:
        """Return the captured responses that never arrived."""
        came = {pair.line.index for pair in self.pairs if pair.line is not None}
        return [line for line in self._first if line.index not in came]


def _likeness(
    part: int, message: pb.CommandMessage, consumer: Consumer | None
) -> Callable[[Line], tuple[bool, bool, int]]:
    shared = consumer is not None and consumer.type == "Shared"

    def unlike(line: Line) -> tuple[bool, bool, int]:
        assert line.frame is not None
        counted = line.frame.command.message.redelivery_count == message.redelivery_count
        other = line.part != part or line.peer is not consumer
        return (other and not shared, not counted, line.index)

    return unlike


def _keys_of(line: Line) -> list[Hashable]:
    """Return the keys under which a captured response is indexed."""
    frame = line.frame
    if frame is None:
        return [(line.part, "end")]
    if frame.type != _MESSAGE:
        return [key_of(line.part, frame)]
    keys: list[Hashable] = [(line.part, frame.command.message.consumer_id, line.content)]
    if isinstance(line.peer, Consumer) and line.peer.type in _SPREADING:
        keys.append((line.peer.topic, line.peer.subscription, line.content))
    return keys


def key_of(part: int, frame: Frame) -> Hashable:
    """Return the key that a live response and its captured counterpart have in common."""
    row = COMMANDS.get(frame.type)
    if row is None:
        return part, name_of(frame.type)
    body = frame.body
    if frame.type in _UNASKED:
        told = getattr(body, "is_active", None)
        return part, row.name, getattr(body, "consumer_id", -1), getattr(body, "producer_id", -1), told
    if frame.type in _RECEIPTS:
        return part, "send", body.producer_id, body.sequence_id
    request_id = getattr(body, "request_id", MINUS_ONE)
    if request_id != MINUS_ONE:
        return part, "request", request_id
    return part, "login" if frame.type in _LOGIN else row.name
