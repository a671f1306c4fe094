"""Who was there, and what he got: the deliveries of a replay, captured and live, by subscription and entry.

Rules of this file
1. Subscriptions are those of the capture; a live delivery belongs to the captured consumer whose SUBSCRIBE was said.
2. A consumer has left where the capture closes it, by either side, or its connection.
3. A live delivery has a cause: the entry's first to its subscription; or who had it before has left, or somebody asked
   for it (REDELIVER, SEEK). Without one it is a duplicate, and no rule may explain it.
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
"""Topic and name."""

_MESSAGE: Final = BY_NAME["MESSAGE"].number
_LEAVING: Final = ("CLOSE_CONSUMER", "UNSUBSCRIBE")


def messages_in(frame: Frame) -> int:
    """Messages in an entry, less those that its bit set says are acknowledged: what it takes from the permits."""
    words = frame.command.message.ack_set
    if words:
        return set_of(words).bit_count()
    metadata = frame.metadata
    return metadata.num_messages_in_batch if metadata is not None else 1


class Deliveries:
    """All deliveries of one replay that is over."""

    def __init__(self, script: Script, book: Book, ids: Ids) -> None:
        self._ids = ids
        self.consumers: dict[Subscription, set[Consumer]] = defaultdict(set)
        self.leaves: dict[Consumer, Line] = {}
        """The line with which each consumer of the capture left; who stayed is not in it."""
        self.permits: dict[int, int] = {}
        """By the place of a captured MESSAGE: permits that its consumer had before it."""
        self.sent = {line.content for line in script.lines if line.name == "SEND"}
        """What somebody of the play publishes."""
        self._stored = {(send.topic, place): send.content for send, _, place in stored(script.lines)}
        self._left: Counter[Consumer] = Counter()
        """Permits that each consumer had in the end, in the capture."""
        self._given: Counter[Consumer] = Counter()
        self._asked: dict[Subscription, list[tuple[int, set[Place]]]] = defaultdict(list)
        """Where somebody asked for entries again, and for which; none: for all."""
        self._sought: dict[Subscription, list[int]] = defaultdict(list)
        self._acked: dict[tuple[Subscription, Place], int] = {}
        self._acked_up_to: dict[Subscription, list[tuple[int, Place]]] = defaultdict(list)
        self._captured: dict[tuple[Subscription, Place], list[Line]] = defaultdict(list)
        self._live: dict[tuple[Subscription, Place], list[Pair]] = defaultdict(list)
        self._taken: Counter[Consumer] = Counter()
        self._furthest: dict[Consumer, int] = {}
        """The last captured delivery of each consumer that came live."""
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

    # -- questions -------------------------------------------------------------------------------------------------

    @staticmethod
    def subscription_of(consumer: object) -> Subscription:
        """Topic and name; empty ones for who is no consumer."""
        return (consumer.topic, consumer.subscription) if isinstance(consumer, Consumer) else ("", "")

    def has_left(self, consumer: object, place: int) -> bool:
        """Whether a consumer had left at this place of the play."""
        return isinstance(consumer, Consumer) and consumer in self.leaves and self.leaves[consumer].index <= place

    def is_starved(self, line: Line, consumer: Consumer) -> bool:
        """Whether a captured delivery did not come live for want of permits: nobody who was there has any left.

        Who is alone has an order: nothing that is behind it came either. Of a Key_Shared subscription the captured
        consumer had none left itself.
        """
        consumers = self.consumers[self.subscription_of(consumer)]
        if any(self._given[one] > self._taken[one] for one in consumers if not self.has_left(one, line.index)):
            return False
        if len(consumers) > 1 and consumer.type in ("Shared", "Key_Shared"):
            return consumer.type == "Shared" or self.permits[line.index] <= 0
        return line.index > self._furthest.get(consumer, -1)

    def is_beyond(self, outcome: Outcome) -> bool:
        """Whether a live delivery is a batch that nobody in the capture had permits for: no one message goes beyond."""
        frame, consumer = outcome.frame, outcome.pair.consumer
        metadata = frame.metadata if frame is not None else None
        if metadata is None or metadata.num_messages_in_batch < 2 or self.counts(outcome)[0]:
            return False
        consumers = self.consumers[self.subscription_of(consumer)]
        return all(self._left[one] <= 0 for one in consumers) and self.is_founded(outcome)

    def is_founded(self, outcome: Outcome) -> bool:
        """Whether a live MESSAGE that was not captured is one that a sound broker may give: rule 3.

        Somebody sent it, it comes from where it was stored, was delivered before as often as it says, and has a cause.
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
        """Whether a captured delivery that did not come live had to: who has the entry live has left, or nobody had it.

        So had its first delivery, and one for which somebody asked.
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
        """How often the entry of a MESSAGE went to its subscription: in the capture, and live."""
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
        """Whether somebody asked for an entry again, between two places of the play."""
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
        """Whether it was acknowledged by who had it, and nobody has sought another place since."""
        assert pair.frame is not None
        subscription, captured = self.subscription_of(pair.consumer), self._captured_place(pair.frame)
        if captured is None or not before:
            return False
        found = [at for at, place in self._acked_up_to[subscription] if captured < place]
        found += [self._acked[subscription, captured]] if (subscription, captured) in self._acked else []
        at = min(found, default=pair.said)
        return at < pair.said and not any(at < place <= pair.said for place in self._sought[subscription])


def _wholly(ack: pb.CommandAck) -> Iterator[Place]:
    """Entries that an ACK takes away one by one, outside of transactions."""
    if ack.ack_type == pb.CommandAck.Individual and not ack.HasField("txnid_least_bits"):
        yield from (place_of(one) for one in ack.message_id if not one.ack_set)
