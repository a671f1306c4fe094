"""The captured and live deliveries of a replay, by subscription and entry.

Rules of this file
1. Subscriptions and consumers are identified by the capture: a live delivery belongs to the consumer whose captured
   SUBSCRIBE was sent.
2. A consumer leaves at the step with which either side closes the consumer or its connection in the capture.
3. A live delivery needs a cause: it is the first delivery of its entry to the subscription, the previous receiver left,
   or the entry was requested (REDELIVER, SEEK). Otherwise it is a duplicate, and no rule may explain it.
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
from pcli.replay.player.id_translation import Ids, Position, position_of
from pcli.replay.player.response_matching import Pair, ResponseMatcher
from pcli.replay.player.script.recorded_exchanges import stored
from pcli.replay.player.script.script import Script, Step

Subscription = tuple[str, str]
"""Topic and subscription name."""

_MESSAGE: Final = BY_NAME["MESSAGE"].number
_LEAVE_COMMANDS: Final = ("CLOSE_CONSUMER", "UNSUBSCRIBE")


def messages_in(frame: Frame) -> int:
    """Return the number of unacknowledged messages in an entry. Its delivery uses this number of permits."""
    words = frame.command.message.ack_set
    if words:
        return set_of(words).bit_count()
    metadata = frame.metadata
    return metadata.num_messages_in_batch if metadata is not None else 1


class Deliveries:
    """All deliveries of one finished replay."""

    def __init__(self, script: Script, matcher: ResponseMatcher, ids: Ids) -> None:
        self._ids = ids
        self.consumers: dict[Subscription, set[Consumer]] = defaultdict(set)
        self.leaves: dict[Consumer, Step] = {}
        """The step with which each consumer left in the capture. Consumers that did not leave are absent."""
        self.permits: dict[int, int] = {}
        """The consumer's permits before each captured MESSAGE, by its index."""
        self.sent = {step.content for step in script.steps if step.name == "SEND"}
        """Content of the entries that the script publishes."""
        self._stored_contents = {(send.topic, position): send.content for send, _, position in stored(script.steps)}
        self._permits_left: Counter[Consumer] = Counter()
        """The permits of each consumer at the end of the capture."""
        self._permits_granted: Counter[Consumer] = Counter()
        self._redelivery_requests: dict[Subscription, list[tuple[int, set[Position]]]] = defaultdict(list)
        """Indexes of redelivery requests and SEEKs, with the requested entries; an empty set represents all entries."""
        self._sought: dict[Subscription, list[int]] = defaultdict(list)
        self._acked: dict[tuple[Subscription, Position], int] = {}
        self._acked_up_to: dict[Subscription, list[tuple[int, Position]]] = defaultdict(list)
        self._captured: dict[tuple[Subscription, Position], list[Step]] = defaultdict(list)
        self._live: dict[tuple[Subscription, Position], list[Pair]] = defaultdict(list)
        self._permits_used: Counter[Consumer] = Counter()
        self._furthest: dict[Consumer, int] = {}
        """For each consumer, the index of the last captured delivery that also occurred in the replay."""
        self._read(script)
        for pair in matcher.pairs:
            if pair.frame is not None and pair.frame.type == _MESSAGE and pair.consumer is not None:
                self._live[self._key(pair.consumer, pair.frame)].append(pair)
                self._permits_used[pair.consumer] += messages_in(pair.frame)
                if pair.step is not None:
                    self._furthest[pair.consumer] = max(pair.step.index, self._furthest.get(pair.consumer, -1))

    # -- reading the capture ---------------------------------------------------------------------------------------

    def _read(self, script: Script) -> None:
        here: dict[int, set[Consumer]] = defaultdict(set)
        permits_left = self._permits_left
        for step in script.steps:
            if step.frame is None:
                for consumer in here.pop(step.stream, ()):
                    self.leaves.setdefault(consumer, step)
            elif isinstance(step.peer, Consumer):
                if step.name == "SUBSCRIBE":
                    here[step.stream].add(step.peer)
                self._note(step, step.peer, step.frame, permits_left)

    def _note(self, step: Step, peer: Consumer, frame: Frame, permits_left: Counter[Consumer]) -> None:
        subscription = self.subscription_of(peer)
        match step.name:
            case "SUBSCRIBE":
                self.consumers[subscription].add(peer)
            case "FLOW":
                permits_left[peer] += frame.command.flow.messagePermits
                self._permits_granted[peer] += frame.command.flow.messagePermits
            case "MESSAGE":
                self.permits[step.index] = permits_left[peer]
                permits_left[peer] -= messages_in(frame)
                self._captured[subscription, position_of(frame.command.message.message_id)].append(step)
            case "ACK":
                for position in _fully_acked(frame.command.ack):
                    self._acked.setdefault((subscription, position), step.index)
                if frame.command.ack.ack_type == pb.CommandAck.Cumulative:
                    self._acked_up_to[subscription].append((step.index, position_of(frame.command.ack.message_id[0])))
            case name if name in _LEAVE_COMMANDS:
                self.leaves.setdefault(peer, step)
            case "SEEK":
                self._redelivery_requests[subscription].append((step.index, set()))
                self._sought[subscription].append(step.index)
            case "REDELIVER_UNACKNOWLEDGED_MESSAGES":
                ids = frame.command.redeliverUnacknowledgedMessages.message_ids
                self._redelivery_requests[subscription].append((step.index, set(map(position_of, ids))))

    # -- queries ---------------------------------------------------------------------------------------------------

    @staticmethod
    def subscription_of(consumer: object) -> Subscription:
        """Return the topic and the subscription name; both are empty if the argument is not a consumer."""
        return (consumer.topic, consumer.subscription) if isinstance(consumer, Consumer) else ("", "")

    def has_left(self, consumer: object, position: int) -> bool:
        """Return whether a consumer had left at this index of the script."""
        return isinstance(consumer, Consumer) and consumer in self.leaves and self.leaves[consumer].index <= position

    def is_starved(self, step: Step, consumer: Consumer) -> bool:
        """Return whether a captured delivery is missing from the replay because no remaining consumer had permits.

        Deliveries to a single consumer are ordered, so no later entry was delivered to that consumer. On a Key_Shared
        subscription, the captured consumer itself had no permits.
        """
        consumers = self.consumers[self.subscription_of(consumer)]
        if any(
            self._permits_granted[one] > self._permits_used[one]
            for one in consumers
            if not self.has_left(one, step.index)
        ):
            return False
        if len(consumers) > 1 and consumer.type in ("Shared", "Key_Shared"):
            return consumer.type == "Shared" or self.permits[step.index] <= 0
        return step.index > self._furthest.get(consumer, -1)

    def exceeds_permits(self, outcome: Outcome) -> bool:
        """Return whether an extra live delivery is a batch that exceeded the permits. Only a batch can exceed them."""
        frame, consumer = outcome.frame, outcome.pair.consumer
        metadata = frame.metadata if frame is not None else None
        if metadata is None or metadata.num_messages_in_batch < 2 or self.counts(outcome)[0]:
            return False
        consumers = self.consumers[self.subscription_of(consumer)]
        return all(self._permits_left[one] <= 0 for one in consumers) and self.is_justified(outcome)

    def is_justified(self, outcome: Outcome) -> bool:
        """Return whether a correct broker may send a live MESSAGE that was not captured (rule 3).

        This is the case if a client sent the entry, the id is the id in its receipt, the redelivery count does not
        exceed the number of earlier deliveries, and the delivery has a cause.
        """
        frame, consumer = outcome.frame, outcome.pair.consumer
        if frame is None or consumer is None:
            return False
        content, captured = self._ids.content(frame), self._captured_place(frame)
        stored_alike = captured is None or self._stored_contents.get((consumer.topic, captured), content) == content
        sent_by_client = stored_alike and content in self.sent
        before = [one for one in self._live[self._key(consumer, frame)] if one.order < outcome.pair.order]
        counted = frame.command.message.redelivery_count <= len(before)
        return (
            sent_by_client
            and counted
            and not self._is_doubled(consumer, frame)
            and not self._was_acked(outcome.pair, before)
        )

    def is_lost(self, step: Step) -> bool:
        """Return whether a captured delivery that is missing from the replay was required.

        It was required if it is the first delivery of its entry, or if the previous captured receiver had not left. It
        was also required if the entry was never delivered in the replay, or if its last live receiver left without an
        ACK.
        """
        subscription = self.subscription_of(step.peer)
        frame = step.frame
        assert frame is not None
        position = position_of(frame.command.message.message_id)
        before = [one for one in self._captured[subscription, position] if one.index < step.index]
        if not before or not self.has_left(before[-1].peer, step.index):
            return True
        live = self._live.get((subscription, self._ids.positions.get(position, position)), [])
        acked = (subscription, position) in self._acked
        return not live or (self.has_left(live[-1].consumer, step.index) and not acked)

    def counts(self, outcome: Outcome) -> tuple[int, int]:
        """Return how often a MESSAGE's entry was delivered to its subscription, in the capture and in the replay."""
        consumer = outcome.pair.consumer or (outcome.step.peer if outcome.step is not None else None)
        subscription = self.subscription_of(consumer)
        if outcome.frame is not None:
            live = position_of(outcome.frame.command.message.message_id)
            captured = self._ids.live_positions.get(live, live)
        else:
            assert outcome.step is not None
            assert outcome.step.frame is not None
            captured = position_of(outcome.step.frame.command.message.message_id)
            live = self._ids.positions.get(captured, captured)
        return len(self._captured.get((subscription, captured), ())), len(self._live.get((subscription, live), ()))

    def _key(self, consumer: Consumer, frame: Frame) -> tuple[Subscription, Position]:
        return self.subscription_of(consumer), position_of(frame.command.message.message_id)

    def _captured_place(self, frame: Frame) -> Position | None:
        return self._ids.live_positions.get(position_of(frame.command.message.message_id))

    def _was_requested(self, subscription: Subscription, position: Position | None, after: int, until: int) -> bool:
        """Return whether a redelivery of an entry was requested between two indexes of the script."""
        requested = (positions for at, positions in self._redelivery_requests[subscription] if after < at <= until)
        return any(not positions or position in positions for positions in requested)

    def _is_doubled(self, consumer: Consumer, frame: Frame) -> bool:
        subscription, captured = self.subscription_of(consumer), self._captured_place(frame)
        return any(
            not self.has_left(one.consumer, other.last_sent)
            and not self._was_requested(subscription, captured, one.last_sent, other.last_sent)
            for one, other in pairwise(self._live[self._key(consumer, frame)])
        )

    def _was_acked(self, pair: Pair, before: list[Pair]) -> bool:
        """Return whether the entry was acknowledged before this delivery, with no SEEK in between."""
        assert pair.frame is not None
        subscription, captured = self.subscription_of(pair.consumer), self._captured_place(pair.frame)
        if captured is None or not before:
            return False
        found = [at for at, position in self._acked_up_to[subscription] if captured < position]
        found += [self._acked[subscription, captured]] if (subscription, captured) in self._acked else []
        at = min(found, default=pair.last_sent)
        return at < pair.last_sent and not any(
            at < position <= pair.last_sent for position in self._sought[subscription]
        )


def _fully_acked(ack: pb.CommandAck) -> Iterator[Position]:
    """Yield the entries that an individual ACK outside a transaction acknowledges completely."""
    if ack.ack_type == pb.CommandAck.Individual and not ack.HasField("txnid_least_bits"):
        yield from (position_of(one) for one in ack.message_id if not one.ack_set)
