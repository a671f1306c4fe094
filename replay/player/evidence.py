"""What the rules of comparison ask of a replay: who left when, what was delivered how often, what was unanswered.

Everything is told from the capture's lines and the live answers; nothing is assumed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any, Final

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.frame import Frame
from pcli.replay.player.book import Book
from pcli.replay.player.compare import Outcome
from pcli.replay.player.ids import Ids
from pcli.replay.player.script import Line, Script
from pcli.replay.player.sends import stored
from pcli.replay.player.transactions import Transactions

__all__ = ["Evidence", "Subscription", "messages_in"]

Subscription = tuple[str, str]
"""Topic and name."""

_MESSAGE: Final = BY_NAME["MESSAGE"].number
_LEAVING: Final = ("CLOSE_CONSUMER", "UNSUBSCRIBE")
_OVER_QUOTA: Final = (pb.ProducerBlockedQuotaExceededError, pb.ProducerBlockedQuotaExceededException)


def messages_in(frame: Frame) -> int:
    """Messages in an entry, less those that its bit set says are acknowledged: what it takes from the permits."""
    bits = frame.command.message.ack_set
    if bits:
        return sum((word & 2**64 - 1).bit_count() for word in bits)
    metadata = frame.metadata
    return metadata.num_messages_in_batch if metadata is not None else 1


class Evidence:
    """One replay, ready to be asked."""

    def __init__(
        self,
        script: Script,
        book: Book,
        ids: Ids,
        outcomes: Collection[Outcome],
        *,
        own_broker: bool,
        deeds: Collection[str] = (),
    ) -> None:
        """Read a replay that is over.

        ``own_broker``: whether the live broker is the mini-broker; ``deeds``: topics to which an administrator did
        something in the capture only; an empty name: to all.
        """
        self.script, self.ids, self.own_broker, self.deeds = script, ids, own_broker, frozenset(deeds)
        self.consumers: dict[Subscription, set[Consumer]] = defaultdict(set)
        self.leaves: dict[Consumer, Line] = {}
        """The line with which each consumer of the capture left; who stayed is not in it."""
        self.requests: dict[tuple[int, int], Line] = {}
        """Requests by connection and request id."""
        self.answered: set[int] = set()
        """Numbers of the captured requests that were answered in the capture."""
        self.received: set[int] = {send.index for send, *_ in stored(script.lines)}
        """Places of the SENDs that have a receipt in the capture."""
        self._flows: list[tuple[int, Consumer, int]] = []
        """Place, consumer and permits of every FLOW."""
        self._got = [
            (pair.said, pair.consumer, messages_in(pair.frame))
            for pair in book.pairs
            if pair.frame is not None and pair.frame.type == _MESSAGE and pair.consumer is not None
        ]
        """Of every live MESSAGE: the place at which it came, its consumer, and the permits that it took."""
        self.permits: dict[int, int] = {}
        """By the place of a MESSAGE: permits that its consumer had before it."""
        self.last_told: dict[int, bool] = {}
        """By the place of an ACTIVE_CONSUMER_CHANGE: what the consumer was told before."""
        self.over_quota: set[str] = set()
        """Topics whose producers were refused for a backlog quota."""
        self.refused_by_quota: set[int] = set()
        """Places of these refusals."""
        self.told_end: set[Subscription] = {
            self.subscription_of(line.peer) for line in script.lines if line.name == "REACHED_END_OF_TOPIC"
        }
        """Subscriptions that were told of the end of their topic in the capture."""
        self._read(script)
        self.captured = Counter(self._entry(line.peer, line.frame) for line in script.lines if line.type == _MESSAGE)
        self.live = Counter(
            self._entry(pair.consumer, pair.frame)
            for pair in book.pairs
            if pair.frame is not None and pair.frame.type == _MESSAGE
        )
        self.transactions = Transactions(script, outcomes)
        self.last_ms = script.lines[-1].time_ms if script.lines else 0.0

    # -- reading the capture ---------------------------------------------------------------------------------------

    def _read(self, script: Script) -> None:
        here: dict[int, set[Consumer]] = defaultdict(set)
        permits: Counter[Consumer] = Counter()
        told: dict[Consumer, bool] = {}
        for line in script.lines:
            peer = line.peer if isinstance(line.peer, Consumer) else None
            if line.frame is None:
                for consumer in here.pop(line.part, ()):
                    self.leaves.setdefault(consumer, line)
                continue
            if line.request is not None:
                self.answered.add(line.request.number)
                if line.frame.command.error.error in _OVER_QUOTA and isinstance(line.request.topic, str):
                    self.over_quota.add(line.request.topic)
                    self.refused_by_quota.add(line.index)
            body = _body(line.frame)
            if line.from_client and getattr(body, "request_id", None) is not None:
                self.requests[line.part, body.request_id] = line
            if peer is None:
                continue
            if line.name == "SUBSCRIBE":
                self.consumers[peer.topic, peer.subscription].add(peer)
                here[line.part].add(peer)
            elif line.name in _LEAVING:
                self.leaves.setdefault(peer, line)
            elif line.name == "FLOW":
                permits[peer] += body.messagePermits
                self._flows.append((line.index, peer, body.messagePermits))
            elif line.name == "MESSAGE":
                self.permits[line.index] = permits[peer]
                permits[peer] -= messages_in(line.frame)
            elif line.name == "ACTIVE_CONSUMER_CHANGE":
                if peer in told:
                    self.last_told[line.index] = told[peer]
                told[peer] = body.is_active

    def _entry(self, consumer: object, frame: Frame | None) -> tuple[Subscription, bytes]:
        assert frame is not None
        return self.subscription_of(consumer), self.ids.content(frame)

    # -- questions -------------------------------------------------------------------------------------------------

    @staticmethod
    def subscription_of(consumer: object) -> Subscription:
        """Topic and name; empty ones for who is no consumer."""
        return (consumer.topic, consumer.subscription) if isinstance(consumer, Consumer) else ("", "")

    def deliveries(self, outcome: Outcome) -> tuple[int, int]:
        """How often the entry of a MESSAGE went to its subscription: in the capture, and live."""
        frame = outcome.frame or (outcome.line.frame if outcome.line is not None else None)
        consumer = outcome.pair.consumer or (outcome.line.peer if outcome.line is not None else None)
        key = self._entry(consumer, frame)
        return self.captured[key], self.live[key]

    def somebody_left(self, consumer: object, place: int) -> bool:
        """Whether a consumer of the same subscription had left before this place, or the broker had closed it."""
        others = self.consumers[self.subscription_of(consumer)]
        return any(one in self.leaves and self.leaves[one].index <= place for one in others)

    def starved(self, consumer: Consumer, place: int) -> bool:
        """Whether at this place no consumer of its subscription that is still there has permits left, live."""
        for one in self.consumers[self.subscription_of(consumer)]:
            given = sum(count for at, peer, count in self._flows if peer is one and at <= place)
            taken = sum(count for at, peer, count in self._got if peer is one and at <= place)
            here = one not in self.leaves or self.leaves[one].index > place
            if here and given > taken:
                return False
        return True

    def request_of(self, outcome: Outcome) -> Line | None:
        """The captured request that a live answer of the outcome answers."""
        frame = outcome.frame
        if frame is None:
            return None
        body = _body(frame)
        return self.requests.get((outcome.pair.part, getattr(body, "request_id", -1)))

    def send_of(self, outcome: Outcome) -> list[Line]:
        """The captured SENDs with the producer and sequence id of a live receipt."""
        body = _body(outcome.frame) if outcome.frame is not None else None
        return [
            line
            for line in self.script.lines
            if line.name == "SEND" and line.frame is not None and line.part == outcome.pair.part
            if (line.frame.command.send.producer_id, line.frame.command.send.sequence_id)
            == (getattr(body, "producer_id", -1), getattr(body, "sequence_id", -1))
        ]


def _body(frame: Frame) -> Any:
    row = COMMANDS.get(frame.type)
    return getattr(frame.command, row.field) if row is not None else None
