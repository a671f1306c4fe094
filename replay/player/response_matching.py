"""What the broker said in the capture, and which live answer stands for which captured one.

Rules of this file
1. Answers are paired by what their request had: request id on its connection, producer and sequence id. What the broker
   says unasked is paired by its kind and whom it speaks to, in order.
2. A MESSAGE is paired by its entry (metadata and payload) and its consumer; among several deliveries of one entry the
   one with the same redelivery count is taken, then the first. On a Shared subscription, which gives to anybody, a
   delivery to another consumer is as good; on a Key_Shared one it is the second choice. Both differ in the consumer.
3. PING and PONG are nobody's answer here: who is silent when is a matter of time.
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
    """A captured answer and the live one that stands for it. One of them may be missing."""

    __slots__ = ("consumer", "frame", "line", "order", "part", "said")

    def __init__(
        self, line: Line | None, part: int, frame: Frame | None, said: int, order: int, consumer: Consumer | None
    ) -> None:
        self.line = line
        """What was captured; None: the live broker said something that the captured one did not."""
        self.part = part
        """The connection on which the live answer came."""
        self.frame = frame
        """What came; None for the end of a connection, and where nothing came."""
        self.said = said
        """The place of the last line that was said when it came."""
        self.order = order
        """Live answers are counted from 0; -1: it never came."""
        self.consumer = consumer
        """To whom a live MESSAGE went."""


class Book:
    """Captured answers that are waited for."""

    def __init__(self, said: Iterable[Line]) -> None:
        """``said``: both sides' lines, of which the broker's are waited for."""
        lines = list(said)
        self.nameless = without_highest(lines)
        """Receipts whose highest sequence id means nothing."""
        self._open: dict[Hashable, list[Line]] = defaultdict(list)
        self._first: list[Line] = []
        """Every captured answer, in order; those in front that are settled are passed by ``_at``."""
        self._at = 0
        self.settled: set[int] = set()
        """Indexes of captured answers that came, or are waited for no more."""
        self.pairs: list[Pair] = []
        for line in lines:
            if not line.from_client and line.type not in KEEP_ALIVE:
                self._first.append(line)
                for key in _keys_of(line):
                    self._open[key].append(line)

    # -- live answers ----------------------------------------------------------------------------------------------

    def take(self, part: int, frame: Frame, content: bytes, consumer: Consumer | None, said: int) -> Pair:
        """A live answer came; the pair that it makes."""
        if frame.type == _MESSAGE:
            line = self._delivery(part, frame, content, consumer)
        else:
            line = self._pop(key_of(part, frame))
        return self._pair(line, part, frame, said, consumer)

    def end(self, part: int, said: int) -> Pair:
        """The live broker closed a connection: nothing is waited for on it any more."""
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
        """The first captured answer before this place of the play that has not come, and is still waited for."""
        first, settled = self._first, self.settled
        while self._at < len(first) and first[self._at].index in settled:
            self._at += 1
        if self._at < len(first) and first[self._at].index < index:
            return first[self._at]
        return None

    def give_up(self, index: int) -> None:
        """Wait no more for what is before this place; it may still come."""
        for line in self._first[self._at :]:
            if line.index >= index:
                break
            self.settled.add(line.index)

    def missing(self) -> list[Line]:
        """Captured answers that never came."""
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
    """Under which keys a captured answer is found."""
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
    """Whose answer a frame is, as far as it says: what the live one and the captured one have in common."""
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
