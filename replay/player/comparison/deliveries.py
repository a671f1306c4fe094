"""The captured and live deliveries of a replay, by subscription and entry.

Rules of this file
1. Subscriptions are those of the capture; a live delivery belongs to the captured consumer whose SUBSCRIBE was sent.
2. A consumer leaves where either side of the capture closes it or its connection.
3. A live delivery must have a cause: it is the first of its entry to the subscription, the previous receiver left, or
   the entry was requested (REDELIVER, SEEK). Otherwise it is a duplicate, and no rule may explain it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.bits import set_of
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.replay.player.comparison.compare_responses import Outcome
from pcli.replay.player.id_translation import Ids, Place, place_of
from pcli.replay.player.response_matching import Book, Pair
from pcli.replay.player.script.recorded_sends import stored
from pcli.replay.player.script.script import Line, Script

__all__ = ["Deliveries", "Subscription"]

Subscription = tuple[str, str]
"""Topic and subscription name."""

_MESSAGE: Final = BY_NAME["MESSAGE"].number
_LEAVING: Final = ("CLOSE_CONSUMER", "UNSUBSCRIBE")


def messages_in(frame: Frame) -> int:
    """Return the number of messages in an entry that its ack set leaves unacknowledged: the permits that it uses."""
    words = frame.command.message.ack_set
    if words:
        return set_of(words).bit_count()
    metadata = frame.metadata
    return metadata.num_messages_in_batch if metadata is not None else 1


class Deliveries:
    """All deliveries of one finished replay."""

    def __init__(self, script: Script, book: Book, ids: Ids) -> None:
        self._ids = ids
        self.consumers: dict[Subscription, set[Consumer]] = defaultdict(set)
        self.leaves: dict[Consumer, Line] = {}
        """The line with which each consumer left in the capture; consumers that stayed are absent."""
        self.permits: dict[int, int] = {}
        """By the index of a captured MESSAGE: the consumer's permits before it."""
        self.sent = {line.content for line in script.lines if line.name == "SEND"}
        """Content of the entries that the script publishes."""
        self._stored = {(send.topic, place): send.content for send, _, place in stored(script.lines)}
        self._left: Counter[Consumer] = Counter()
        """Each consumer's permits at the end of the capture."""
        self._given: Counter[Consumer] = Counter()
        self._asked: dict[Subscription, list[tuple[int, set[Place]]]] = defaultdict(list)
        """Indexes of redelivery requests and SEEKs, with the requested entries; an empty set means all."""
        self._sought: dict[Subscription, list[int]] = defaultdict(list)
        self._acked: dict[tuple[Subscription, Place], int] = {}
        self._acked_up_to: dict[Subscription, list[tuple[int, Place]]] = defaultdict(list)
        self._captured: dict[tuple[Subscription, Place], list[Line]] = defaultdict(list)
        self._live: dict[tuple[Subscription, Place], list[Pair]] = defaultdict(list)
        self._taken: Counter[Consumer] = Counter()
        self._furthest: dict[Consumer, int] = {}
        """The index of the last captured delivery of each consumer that also occurred live."""
        self._read(script)
        for pair in book.pairs:
            if pair.frame is not None and pair.frame.type == _MESSAGE and pair.consumer is not None:
                self._live[self._key(pair.consumer, pair.frame)].append(pair)
                self._taken[pair.consumer] += messages_in(pair.frame)
                if pair.line is not None:
                    self._furthest[pair.consumer] = max(pair.line.index, self._furthest.get(pair.consumer, -1))

    # -- reading the capture ---------------------------------------------------------------------------------------

    def _read(self, script: Script) -> None:
        here: dict[int, set[Consumer]] = defaultdict(set)
        left = self._left
        for line in script.lines:
            if line.frame is None:
                for consumer in here.pop(line.part, ()):
                    self.leaves.setdefault(consumer, line)
            elif isinstance(line.peer, Consumer):
                if line.name == "SUBSCRIBE":
                    here[line.part].add(line.peer)
                self._note(line, line.peer, line.frame, left)

    def _note(self, line: Line, peer: Consumer, frame: Frame, left: Counter[Consumer]) -> None:
        subscription = self.subscription_of(peer)
        match line.name:
            case "SUBSCRIBE":
                self.consumers[subscription].add(peer)
            case "FLOW":
                left[peer] += frame.command.flow.messagePermits
                self._given[peer] += frame.command.flow.messagePermits
            case "MESSAGE":
                self.permits[line.index] = left[peer]
                left[peer] -= messages_in(frame)
                self._captured[subscription, place_of(frame.command.message.message_id)].append(line)
            case "ACK":
                for place in _wholly(frame.command.ack):
                    self._acked.setdefault((subscription, place), line.index)
                if frame.command.ack.ack_type == pb.CommandAck.Cumulative:
                    self._acked_up_to[subscription].append((line.index, place_of(frame.command.ack.message_id[0])))
            case name if name in _LEAVING:
                self.leaves.setdefault(peer, line)
            case "SEEK":
                self._asked[subscription].append((line.index, set()))
                self._sought[subscription].append(line.index)
            case "REDELIVER_UNACKNOWLEDGED_MESSAGES":
                ids = frame.command.redeliverUnacknowledgedMessages.message_ids
                self._asked[subscription].append((line.index, set(map(place_of, ids))))

    # -- queries ---------------------------------------------------------------------------------------------------

    @staticmethod
    def subscription_of(consumer: object) -> Subscription:
        """Return topic and name, both empty if the argument is not a consumer."""
        return (consumer.topic, consumer.subscription) if isinstance(consumer, Consumer) else ("", "")

    def has_left(self, consumer: object, place: int) -> bool:
        """Return whether a consumer had left at this index of the script."""
        return isinstance(consumer, Consumer) and consumer in self.leaves and self.leaves[consumer].index <= place

    def is_starved(self, line: Line, consumer: Consumer) -> bool:
        """Return whether a captured delivery is missing live because no remaining consumer had permits.

        Deliveries to a single consumer are ordered: nothing after the missing one was delivered either. For Key_Shared,
        the captured consumer itself had no permits.
        """
        consumers = self.consumers[self.subscription_of(consumer)]
        if any(self._given[one] > self._taken[one] for one in consumers if not self.has_left(one, line.index)):
            return False
        if len(consumers) > 1 and consumer.type in ("Shared", "Key_Shared"):
            return consumer.type == "Shared" or self.permits[line.index] <= 0
        return line.index > self._furthest.get(consumer, -1)

    def is_beyond(self, outcome: Outcome) -> bool:
        """Return whether an extra live delivery is a batch that exceeded the permits; a single message cannot."""
        frame, consumer = outcome.frame, outcome.pair.consumer
        metadata = frame.metadata if frame is not None else None
        if metadata is None or metadata.num_messages_in_batch < 2 or self.counts(outcome)[0]:
            return False
        consumers = self.consumers[self.subscription_of(consumer)]
        return all(self._left[one] <= 0 for one in consumers) and self.is_founded(outcome)

    def is_founded(self, outcome: Outcome) -> bool:
        """Return whether a correct broker may send a live MESSAGE that was not captured (rule 3).

        A client sent the entry, it has the id of its receipt, its redelivery count does not exceed the earlier
        deliveries, and it has a cause.
        """
        frame, consumer = outcome.frame, outcome.pair.consumer
        if frame is None or consumer is None:
            return False
        content, captured = self._ids.content(frame), self._captured_place(frame)
        there = captured is None or self._stored.get((consumer.topic, captured), content) == content
        known = there and content in self.sent
        before = [one for one in self._live[self._key(consumer, frame)] if one.order < outcome.pair.order]
        counted = frame.command.message.redelivery_count <= len(before)
        return known and counted and not self._is_doubled(consumer, frame) and not self._was_acked(outcome.pair, before)

    def is_lost(self, line: Line) -> bool:
        """Return whether a captured delivery that is missing live was required.

        It was if it is the first of its entry, if the previous captured receiver had not left, or if the entry was
        never delivered live or its last live receiver left without an ACK.
        """
        subscription = self.subscription_of(line.peer)
        frame = line.frame
        assert frame is not None
        place = place_of(frame.command.message.message_id)
        before = [one for one in self._captured[subscription, place] if one.index < line.index]
        if not before or not self.has_left(before[-1].peer, line.index):
            return True
        live = self._live.get((subscription, self._ids.places.get(place, place)), [])
        acked = (subscription, place) in self._acked
        return not live or (self.has_left(live[-1].consumer, line.index) and not acked)

    def counts(self, outcome: Outcome) -> tuple[int, int]:
        """Return how often the entry of a MESSAGE was delivered to its subscription: captured and live."""
        consumer = outcome.pair.consumer or (outcome.line.peer if outcome.line is not None else None)
        subscription = self.subscription_of(consumer)
        if outcome.frame is not None:
            live = place_of(outcome.frame.command.message.message_id)
            captured = self._ids.live_places.get(live, live)
        else:
            assert outcome.line is not None
            assert outcome.line.frame is not None
            captured = place_of(outcome.line.frame.command.message.message_id)
            live = self._ids.places.get(captured, captured)
        return len(self._captured.get((subscription, captured), ())), len(self._live.get((subscription, live), ()))

    def _key(self, consumer: Consumer, frame: Frame) -> tuple[Subscription, Place]:
        return self.subscription_of(consumer), place_of(frame.command.message.message_id)

    def _captured_place(self, frame: Frame) -> Place | None:
        return self._ids.live_places.get(place_of(frame.command.message.message_id))

    def _was_asked(self, subscription: Subscription, place: Place | None, after: int, until: int) -> bool:
        """Return whether a redelivery of an entry was requested between two indexes of the script."""
        asked = (places for at, places in self._asked[subscription] if after < at <= until)
        return any(not places or place in places for places in asked)

    def _is_doubled(self, consumer: Consumer, frame: Frame) -> bool:
        subscription, captured = self.subscription_of(consumer), self._captured_place(frame)
        return any(
            not self.has_left(one.consumer, other.said)
            and not self._was_asked(subscription, captured, one.said, other.said)
            for one, other in pairwise(self._live[self._key(consumer, frame)])
        )

    def _was_acked(self, pair: Pair, before: list[Pair]) -> bool:
        """Return whether the entry was acknowledged before this delivery, with no SEEK in between."""
        assert pair.frame is not None
        subscription, captured = self.subscription_of(pair.consumer), self._captured_place(pair.frame)
        if captured is None or not before:
            return False
        found = [at for at, place in self._acked_up_to[subscription] if captured < place]
        found += [self._acked[subscription, captured]] if (subscription, captured) in self._acked else []
        at = min(found, default=pair.said)
        return at < pair.said and not any(at < place <= pair.said for place in self._sought[subscription])


def _wholly(ack: pb.CommandAck) -> Iterator[Place]:
    """Yield the entries that an individual ACK outside a transaction acknowledges completely."""
    if ack.ack_type == pb.CommandAck.Individual and not ack.HasField("txnid_least_bits"):
        yield from (place_of(one) for one in ack.message_id if not one.ack_set)
