"""What is kept of a subscription beside its record: who is attached, what is acknowledged, who holds what. Internal.

Rules of this file
1. The state follows the broker's cursor (ManagedCursorImpl): all entries up to `mark_delete` are acknowledged, and so
   are the later positions in `acked`. `mark_delete` is None until a frame shows the cursor's position.
2. `pending_acks` contains the entries that were delivered and not acknowledged, by position, for all consumers. If the
   broker takes a delivery back (its consumer left, a rewind), it stays there with `held` 0 until it is redelivered.
"""

from __future__ import annotations

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

__all__ = ["INDIVIDUAL", "MAX_ACKED", "MAX_DONE", "AttachedConsumer", "SubscriptionState"]

INDIVIDUAL: Final = frozenset({"Shared", "Key_Shared"})
"""Subscription types that count unacked messages and acknowledge one by one (Subscription.isIndividualAckMode)."""

MAX_ACKED: Final = 200_000
"""Positions acknowledged behind the mark that are remembered of a subscription."""

_FAR: Final = 1 << 22
"""Entries that are looked at one by one when they are passed over."""

MAX_DONE: Final = 2_000
"""Acknowledged entries of a subscription whose ACKs are remembered, to know them when they come again."""


class AttachedConsumer:
    """A consumer on one connection."""

    __slots__ = (
        "ended",
        "id",
        "last_entries_out",
        "least_timeout",
        "ready",
        "record",
        "stream",
        "subscription",
        "timeouts",
        "unacked_offset",
    )

    def __init__(self, record: ConsumerRecord, subscription: SubscriptionState, stream: int, id: int) -> None:  # noqa: A002
        self.record = record
        self.subscription = subscription
        self.stream = stream
        self.id = id
        self.ended = False
        """Whether it is closed: the broker knows it no more."""
        self.ready = False
        """Whether it is attached, as far as is known."""
        self.least_timeout = 0
        """How long its client waits at least before an ack time-out, ns."""
        self.timeouts = (0, 0)
        """The least and the greatest age of messages that were asked for again at such an age; 0: none."""
        self.unacked_offset = 0
        """What the broker counts as unacknowledged beyond the messages that it holds: it takes those that are
        acknowledged in a transaction at once, and an abort does not give them back."""
        self.last_entries_out = 0
        """How many entries the subscription had been given when this consumer got one last."""


class SubscriptionState:
    """A subscription."""

    __slots__ = (
        "ack_frames",
        "ack_sets",
        "acked",
        "ambiguous_acks",
        "attached",
        "base",
        "current_second",
        "had_consumer",
        "highest",
        "individual",
        "keys",
        "last_ns",
        "lowest",
        "mark_delete",
        "open_seeks",
        "opened",
        "pending_acks",
        "possibly_evicted",
        "read_position",
        "record",
        "reset",
        "returned_ns",
        "rewound",
        "rewound_from",
        "selective",
        "since_ns",
        "snapshot",
        "sorted",
        "starts_at_next",
        "topic",
        "transaction_acks",
        "unidentified",
    )  # fmt: skip

    def __init__(self, topic: TopicState, record: SubscriptionRecord) -> None:
        self.topic = topic
        self.record = record
        self.individual = record.type in INDIVIDUAL
        """Whether messages are acknowledged one by one, and unacked ones counted."""
        self.attached: list[AttachedConsumer] = []
        """Attached consumers."""
        self.unidentified = False
        """Whether its SUBSCRIBE was not seen: it has a name that the capture gave it."""
        self.opened = False
        """Whether a SUBSCRIBE succeeded: until then it may be one that the broker does not know."""
        self.since_ns = -1
        """When its first consumer came."""
        self.mark_delete: Position | None = None
        self.acked: set[Position] = set()
        self.ack_frames: dict[Position, int] = {}
        """The frames of the last acknowledgements of whole entries, at least MAX_DONE."""
        self.pending_acks: dict[Position, Delivery] = {}
        self.sorted = True
        """Whether `pending_acks` is in order of positions."""
        self.ack_sets: dict[Position, int] = {}
        """What is left of batches acknowledged in part, as bits."""
        self.read_position: Position = (-1, -1)
        """The last position that the dispatcher has passed."""
        self.last_ns = -1
        """When something was delivered last, or it last could begin."""
        self.returned_ns = -1
        """When a delivery was taken back last."""
        self.reset: tuple[int, str, int] = (0, "", 0)
        """The frame at which everything was let go at once, why (topics.AGAIN), and the frame that caused it."""
        self.ambiguous_acks = False
        """Whether an ACK of its present consumers named parts of the same batch more than once: what the broker counts
        then depends on its own threads."""
        self.had_consumer = False
        """Whether it had a consumer since the broker loaded the topic: else it has no type there."""
        self.lowest: Position = (1 << 62, 0)
        self.highest: Position = (-1, -1)
        """What lies between these was delivered, or passed over, before that."""
        self.open_seeks: dict[int, tuple[Position, int] | None] = {}
        """SEEKs without an answer: frame to position and bits of the batch there (-1: all); None: by time."""
        self.transaction_acks: dict[tuple[int, int], list[TransactionAck]] = {}
        """Acknowledged in open transactions."""
        self.selective = False
        """Whether it passes over entries without acknowledging them: a reader of some keys, or of a compacted topic."""
        self.rewound_from: Position = (-1, -1)
        """Up to where entries were acknowledged before the cursor went back."""
        self.current_second = (0, 0)
        """The present second of the capture, and the entries delivered again in it."""
        self.possibly_evicted: Position = (-1, -1)
        """Up to where lives may have left memory before it could be given them: there an entry without one is no
        marker."""
        self.rewound = False
        """Whether reading begins again at the mark: then the oldest unacknowledged entry comes next."""
        self.starts_at_next = False
        """Whether it begins with the next entry that is stored."""
        self.base = self.snapshot = 0
        """`delivered` as base and snapshot of the topic."""
        self.keys: KeyOrder | None = None

    @property
    def in_order(self) -> bool:
        """Whether no entry waits while a later one is sent for the first time, but for delayed ones."""
        return self.record.type != "Key_Shared" or (len(self.attached) < 2 and self.record.key_shared_mode != "STICKY")

    def is_acked(self, at: Position) -> bool:
        """Whether it has acknowledged the entry there; not as long as nobody knows where it stands."""
        return (self.mark_delete is not None and at <= self.mark_delete) or at in self.acked

    def ack(self, at: Position) -> None:
        """The entry there is acknowledged whole."""
        self.ack_sets.pop(at, None)
        mark = self.mark_delete
        if mark is not None and at <= mark:
            return
        self.acked.add(at)
        if (mark is not None and at[1] - mark[1] <= 1) or len(self.acked) > MAX_ACKED:
            self.advance()

    def skips(self, at: Position) -> bool:
        """Whether the dispatcher acknowledges the entry there instead of sending it: a marker, an aborted message.

        What was never seen is taken for a marker, too, but not where entries are passed over all the time.
        """
        topic = self.topic
        return (
            at in topic.aborted
            or at in topic.markers
            or (at > self.possibly_evicted and at not in topic.lifecycles and not self.selective)
        )

    def ahead(self, before: Position) -> Iterable[Position]:
        """The positions behind where it stands, up to one, that excluded.

        None where they are too many to be looked at: a peer may name any entry. What becomes of them is not known.
        """
        start = (
            self.read_position
            if self.mark_delete is None or self.read_position > self.mark_delete
            else self.mark_delete
        )
        if self.topic.count(start, before) > _FAR:
            self.record.doubts.add("evicted")
            return ()
        return self.topic.between(start, before)

    def note_done(self, at: Position, frame: int) -> None:
        """A frame has acknowledged the entry there."""
        done = self.ack_frames
        done[at] = frame
        if len(done) > 2 * MAX_DONE:  # all at once: to look for the first one of a dict takes long when many have gone
            self.ack_frames = dict(islice(done.items(), MAX_DONE, None))

    def advance(self) -> None:
        """Move the mark over what is acknowledged behind it."""
        mark, acked = self.mark_delete, self.acked
        if mark is None or not acked:
            return
        while (at := (mark[0], mark[1] + 1)) in acked or (at := self.topic.following(mark) or at) in acked:
            acked.remove(at)
            mark = at
        self.mark_delete = mark
        if len(acked) > MAX_ACKED:
            # Only the count would be wrong: from here on it is not known.
            self.acked.clear()
            self.record.doubts.add("evicted")

    def move(self, to: Position) -> None:
        """Everything up to there is acknowledged."""
        if self.mark_delete is None or to > self.mark_delete:
            self.mark_delete = to
            if self.acked:
                self.acked = {at for at in self.acked if at > to}
            if self.ack_sets:
                self.ack_sets = {at: bits for at, bits in self.ack_sets.items() if at > to}
            self.advance()

    def reset_to(self, mark: Position | None) -> None:
        """The cursor is set: nothing behind the mark is acknowledged (seek, deletion)."""
        self.mark_delete = mark
        self.possibly_evicted = self.topic.last
        self.acked.clear()
        self.ack_sets.clear()
        self.read_position = (-1, -1) if mark is None else mark
