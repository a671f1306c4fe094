"""Internal state of a subscription besides its record: attached consumers, acknowledged positions, and pending acks.

Rules of this file
1. The state follows the broker's cursor (ManagedCursorImpl): all entries up to `mark_delete` and the later positions in
   `acked` are acknowledged. `mark_delete` is None until a frame shows the cursor's position.
2. `pending_acks` contains the entries that were delivered and not acknowledged, by position, for all consumers. If the
   broker takes a delivery back (its consumer left, or the cursor was rewound), the entry remains with `held` 0 until it
   is redelivered.
3. A topic contains its subscriptions and a subscription refers to its topic, as in the broker. The types that refer to
   each other (here, topic_state, key_order, ack_effects, redelivery) are imported for annotations only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
    from pcli.codec.observe.tracking.records.lifecycle import Delivery
    from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord
    from pcli.codec.observe.tracking.subscriptions.ack_effects import TransactionAck
    from pcli.codec.observe.tracking.subscriptions.key_order import KeyOrder
    from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState

__all__ = [
    "INDIVIDUAL",
    "MAX_ACKED",
    "MAX_DONE",
    "MAX_ENDS",
    "_MAX_REVISABLE",
    "AttachedConsumer",
    "SubscriptionState",
]

INDIVIDUAL: Final = frozenset({"Shared", "Key_Shared"})
"""Subscription types with individual acks and a count of unacked messages (Subscription.isIndividualAckMode)."""

MAX_ACKED: Final = 200_000
"""Maximum number of acknowledged positions after the mark-delete position, per subscription."""

MAX_DONE: Final = 2_000
"""Minimum number of acknowledged entries whose ACKs are kept, to recognize a redelivery after the ACK."""


_MAX_REVISABLE: Final = 10_000
"""Maximum number of redeliveries that are kept to correct their causes later."""

MAX_ENDS: Final = 256
"""Maximum number of ends of sessions that are kept, to find the cause of a redelivery after the ACK."""


class AttachedConsumer:
    """A consumer on one connection."""

    __slots__ = (
        "able_entries_out",
        "acked_frame",
        "acks_each_message",
        "ended",
        "epoch",
        "expired",
        "id",
        "least_timeout",
        "ready",
        "record",
        "stream",
        "subscription",
        "timeouts",
        "timeouts_since_taken",
    )

    def __init__(self, record: ConsumerRecord, subscription: SubscriptionState, stream: int, id: int) -> None:  # noqa: A002
        self.record = record
        self.subscription = subscription
        self.stream = stream
        self.id = id
        self.ended = False
        """Whether the consumer is closed."""
        self.ready = False
        """Whether the consumer is attached, according to the capture."""
        self.least_timeout = 0
        """Minimum ack timeout of the consumer's client library, in ns."""
        self.timeouts: dict[int, tuple[int, int]] = {}
        """Minimum and maximum age of messages at possible ack timeouts of the consumer, by redelivery count."""
        self.timeouts_since_taken: dict[int, tuple[int, int]] = {}
        """The same from the time at which a sequential application has taken the message."""
        self.acks_each_message = False
        """Whether the client sends one ACK for each message of a batch, without its index."""
        self.acked_frame = 0
        """The latest delivery to the consumer that was acknowledged."""
        self.expired: list[Delivery] = []
        """Deliveries in the last REDELIVER, if an ack timeout may be its cause."""
        self.epoch = (-1, 0)
        """The highest consumer epoch in a REDELIVER, and the frame. The broker sent messages with a lower epoch before
        it received this REDELIVER, and sends them again.
        """
        self.able_entries_out = 0
        """Number of entries delivered by the subscription at the last delivery to this consumer. If it then had no
        permits: the maximum number that the broker sent before it received the FLOW.
        """


class SubscriptionState:
    """State of a subscription."""

    __slots__ = (
        "aborting",
        "ack_frames",
        "ack_sets",
        "acked",
        "ambiguous_acks",
        "attached",
        "attached_frame",
        "base",
        "current_second",
        "first_certain",
        "had_consumer",
        "highest",
        "individual",
        "keys",
        "known_ns",
        "last_ns",
        "lowest",
        "mark_delete",
        "newest",
        "open_seeks",
        "opened",
        "pending_acks",
        "pending_sets",
        "possibly_evicted",
        "read_position",
        "record",
        "reset",
        "resumed",
        "returned_ns",
        "revisable",
        "rewound",
        "rewound_from",
        "selective",
        "session_ends",
        "since_ns",
        "snapshot",
        "sorted",
        "sought",
        "starts_at_next",
        "topic",
        "transaction_acks",
        "unidentified",
    )  # fmt: skip

    def __init__(self, topic: TopicState, record: SubscriptionRecord) -> None:
        self.topic = topic
        self.record = record
        self.individual = record.type in INDIVIDUAL
        """Whether messages are acknowledged individually and unacked messages are counted."""
        self.attached: list[AttachedConsumer] = []
        """Attached consumers."""
        self.attached_frame = 0
        """The frame since which consumers are attached without interruption: the cursor was not reset."""
        self.unidentified = False
        """Whether the SUBSCRIBE is missing. If it is, the tracker has assigned the name of the subscription."""
        self.resumed = False
        """Whether a consumer subscribed again that had subscribed before the capture."""
        self.opened = False
        """Whether a SUBSCRIBE succeeded; before that the subscription may not exist."""
        self.since_ns = -1
        """Time at which the subscription's first consumer attached."""
        self.known_ns = -1
        """The response after which every stored entry is after the cursor: to the first SUBSCRIBE, or to a SEEK."""
        self.first_certain: Position | None = None
        """The first entry whose SEND follows `known_ns`, while the position of the cursor is unknown."""
        self.mark_delete: Position | None = None
        self.acked: set[Position] = set()
        self.ack_frames: dict[Position, int] = {}
        """Frames of the last acknowledgements of whole entries; at least MAX_DONE are kept."""
        self.pending_acks: dict[Position, Delivery] = {}
        self.newest: Position = (-1, -1)
        """The entry that was last added to `pending_acks`."""
        self.sorted = True
        """Whether `pending_acks` is known to be in the order of positions."""
        self.ack_sets: dict[Position, int] = {}
        """Unacknowledged messages of partly acknowledged batches, as bits, according to the cursor."""
        self.sought = False
        """Whether the cursor was reset by a SEEK or by an administrator. This removes the ack sets of the cursor, so
        that `ack_sets` contains all of them."""
        self.pending_sets: dict[Position, int] = {}
        """Messages of batches that are neither acknowledged nor pending in a transaction, as bits, if the cursor has a
        different ack set: on Shared and Key_Shared subscriptions of topics with transactions, the broker also records
        acknowledgements in PendingAckHandle."""
        self.read_position: Position = (-1, -1)
        """The last position that the dispatcher has read."""
        self.last_ns = -1
        """Time of the last delivery, or the later time from which the next delivery was possible."""
        self.returned_ns = -1
        """Time at which a delivery was last taken back."""
        self.reset: tuple[int, str, int] = (0, "", 0)
        """Frame of the last cursor reset, its cause (a key of topic_records.AGAIN), and the frame that caused it."""
        self.session_ends: deque[tuple[ConsumerRecord, str, int]] = deque(maxlen=MAX_ENDS)
        """Ends of sessions: the consumer, the reason (a key of topic_records.AGAIN), and the frame."""
        self.revisable: deque[tuple[ConsumerRecord, str, Delivery, int]] = deque(maxlen=_MAX_REVISABLE)
        """Redeliveries whose cause a later frame can disprove: the consumer that held the entry, the entry, the
        redelivery, its messages."""
        self.ambiguous_acks = False
        """Whether an ACK of an attached consumer contained several ack sets of the same batch: the broker's count then
        depends on its threads.
        """
        self.had_consumer = False
        """Whether the subscription has had a consumer since the last load of the topic. If not, it has no type in the
        broker."""
        self.lowest: Position = (1 << 62, 0)
        self.highest: Position = (-1, -1)
        """Entries between `lowest` and `highest` were delivered or skipped before the last reset."""
        self.open_seeks: dict[int, tuple[Position, int] | None] = {}
        """SEEKs without a response: frame to position and ack set of the batch (-1 for all), or None for a SEEK by
        time."""
        self.transaction_acks: dict[tuple[int, int], list[TransactionAck]] = {}
        """Acknowledgements in open transactions."""
        self.aborting: dict[tuple[int, int], int] = {}
        """Open transactions whose abort was requested, with the frame of the request."""
        self.selective = False
        """Whether the subscription skips entries without acknowledging them: it reads only some keys, or a compacted
        topic."""
        self.rewound_from: Position = (-1, -1)
        """Entries up to this position were acknowledged before the cursor moved back."""
        self.current_second = (0, 0)
        """The current second of the capture, and the number of redeliveries in it."""
        self.possibly_evicted: Position = (-1, -1)
        """Lifecycles up to this position may have left memory before the subscription existed, so an unknown entry in
        this range is not a marker.
        """
        self.rewound = False
        """Whether reading restarts at the mark-delete position, so that the oldest unacknowledged entry is next."""
        self.starts_at_next = False
        """Whether the subscription begins with the next stored entry."""
        self.base = self.snapshot = 0
        """`delivered` at the last load of the topic, and at the last close by the broker."""
        self.keys: KeyOrder | None = None

    @property
    def in_order(self) -> bool:
        """Return whether the first deliveries of entries, except delayed entries, are in order."""
        return self.record.type != "Key_Shared" or (len(self.attached) < 2 and self.record.key_shared_mode != "STICKY")

    def is_acked(self, at: Position) -> bool:
        """Return whether the entry is acknowledged; False if the mark-delete position is unknown."""
        return (self.mark_delete is not None and at <= self.mark_delete) or at in self.acked

    def ack(self, at: Position) -> None:
        """Acknowledge a whole entry."""
        if self.ack_sets:
            self.ack_sets.pop(at, None)
        mark, acked = self.mark_delete, self.acked
        if mark is not None:
            if at <= mark:
                return
            if at[1] - mark[1] == 1 and at[0] == mark[0] and not acked:
                self.mark_delete = at
                return
        acked.add(at)
        if (mark is not None and at[1] - mark[1] <= 1) or len(acked) > MAX_ACKED:
            self.advance()

    def skips(self, at: Position) -> bool:
        """Return whether the dispatcher acknowledges the entry without delivery: a marker, or an aborted message.

        An unknown entry is treated as a marker, unless the subscription is selective.
        """
        topic = self.topic
        return (
            at in topic.aborted
            or at in topic.markers
            or (at > self.possibly_evicted and at not in topic.lifecycles and not self.selective)
        )

    def ahead(self, before: Position) -> Iterable[Position]:
        """Return the positions from the read or mark-delete position up to another position, both excluded.

        Return no positions if there are too many for `TopicState.budget`. The state of these entries is then unknown.
        """
        start = (
            self.read_position
            if self.mark_delete is None or self.read_position > self.mark_delete
            else self.mark_delete
        )
        if not self.topic.budget.take(self.topic.count(start, before)):
            self.record.doubts.add("evicted")
            return ()
        return self.topic.between(start, before)

    def note_done(self, at: Position, frame: int) -> None:
        """Record the frame of an acknowledgement."""
        done = self.ack_frames
        done[at] = frame
        if len(done) > 2 * MAX_DONE:  # all at once: finding the first key of a dict is slow after many deletions
            self.ack_frames = dict(islice(done.items(), MAX_DONE, None))

    def advance(self) -> None:
        """Advance the mark-delete position past acknowledged entries."""
        mark, acked = self.mark_delete, self.acked
        if mark is None or not acked:
            return
        while acked and ((at := (mark[0], mark[1] + 1)) in acked or (at := self.topic.following(mark) or at) in acked):
            acked.remove(at)
            mark = at
        self.mark_delete = mark
        if len(acked) > MAX_ACKED:
            # Later counts would be wrong.
            self.acked.clear()
            self.record.doubts.add("evicted")

    def move(self, to: Position) -> None:
        """Acknowledge all entries up to a position."""
        if self.mark_delete is None or to > self.mark_delete:
            self.mark_delete = to
            if self.acked:
                self.acked = {at for at in self.acked if at > to}
            if self.ack_sets:
                self.ack_sets = {at: bits for at, bits in self.ack_sets.items() if at > to}
            self.advance()

    @property
    def after(self) -> Position | None:
        """Return a position that is not before the cursor; no entry after it was ever acknowledged outside the capture.

        It is the mark-delete position or, if that is unknown, the position before `first_certain`.
        """
        first = self.first_certain
        return self.mark_delete or (None if first is None else (first[0], first[1] - 1))

    def stored(self, at: Position, sent_ns: int) -> None:
        """Record an entry with a receipt; ``sent_ns`` is the time of its SEND, or -1."""
        if self.mark_delete is None and self.first_certain is None and sent_ns > self.known_ns >= 0:
            self.first_certain = at
            if self.starts_at_next:
                self.starts_at_next = False
                self.mark_delete = self.read_position = (at[0], at[1] - 1)

    def reset_to(self, mark: Position | None, time_ns: int) -> None:
        """Set the cursor: no entry after the position is acknowledged. ``time_ns`` is that of the response."""
        self.mark_delete = mark
        self.first_certain, self.known_ns = None, time_ns
        self.possibly_evicted = self.topic.last
        self.acked.clear()
        self.ack_sets.clear()
        self.read_position = (-1, -1) if mark is None else mark
