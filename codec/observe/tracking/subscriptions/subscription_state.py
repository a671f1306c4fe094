"""What is kept of a subscription beside its record: who is attached, what is acknowledged, who holds what. Internal.

Rules of this file
1. A subscription is followed as the broker does (ManagedCursorImpl): everything up to ``mark`` is acknowledged, and
   behind it the positions in ``acked``. ``mark`` is None until a frame shows where the subscription stands.
2. What was delivered and not acknowledged is in ``open``, by position, whoever holds it; a delivery that the broker
   took back (its consumer left, a rewind) stays there with ``held`` 0 until it comes again.
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
        "book",
        "drift",
        "ended",
        "id",
        "least_timeout",
        "ready",
        "record",
        "stream",
        "timeouts",
        "turn",
    )

    def __init__(self, record: ConsumerRecord, book: SubscriptionState, stream: int, id: int) -> None:  # noqa: A002
        self.record = record
        self.book = book
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
        self.drift = 0
        """What the broker counts as unacknowledged beyond the messages that it holds: it takes those that are
        acknowledged in a transaction at once, and an abort does not give them back."""
        self.turn = 0
        """How many entries the subscription had been given when this consumer got one last."""


class SubscriptionState:
    """A subscription."""

    __slots__ = (
        "acked", "at_next", "base", "blind", "done", "freed_ns", "highest", "individual", "keys", "last_ns", "lowest",
        "mark", "members", "open", "opened", "picky", "read", "record", "redo", "repeats", "reset", "rewound", "second",
        "seeking", "served", "sets", "since_ns", "snapshot", "sorted", "stranger", "topic", "txns",
    )  # fmt: skip

    def __init__(self, topic: TopicState, record: SubscriptionRecord) -> None:
        self.topic = topic
        self.record = record
        self.individual = record.type in INDIVIDUAL
        """Whether messages are acknowledged one by one, and unacked ones counted."""
        self.members: list[AttachedConsumer] = []
        """Attached consumers."""
        self.stranger = False
        """Whether its SUBSCRIBE was not seen: it has a name that the capture gave it."""
        self.opened = False
        """Whether a SUBSCRIBE succeeded: until then it may be one that the broker does not know."""
        self.since_ns = -1
        """When its first consumer came."""
        self.mark: Position | None = None
        self.acked: set[Position] = set()
        self.done: dict[Position, int] = {}
        """The frames of the last acknowledgements of whole entries, at least MAX_DONE."""
        self.open: dict[Position, Delivery] = {}
        self.sorted = True
        """Whether `open` is in order of positions."""
        self.sets: dict[Position, int] = {}
        """What is left of batches acknowledged in part, as bits."""
        self.read: Position = (-1, -1)
        """The last position that the dispatcher has passed."""
        self.last_ns = -1
        """When something was delivered last, or it last could begin."""
        self.freed_ns = -1
        """When a delivery was taken back last."""
        self.reset: tuple[int, str, int] = (0, "", 0)
        """The frame at which everything was let go at once, why (topics.AGAIN), and the frame that caused it."""
        self.repeats = False
        """Whether an ACK of its present consumers named parts of the same batch more than once: what the broker counts
        then depends on its own threads."""
        self.served = False
        """Whether it had a consumer since the broker loaded the topic: else it has no type there."""
        self.lowest: Position = (1 << 62, 0)
        self.highest: Position = (-1, -1)
        """What lies between these was delivered, or passed over, before that."""
        self.seeking: dict[int, tuple[Position, int] | None] = {}
        """SEEKs without an answer: frame to position and bits of the batch there (-1: all); None: by time."""
        self.txns: dict[tuple[int, int], list[TransactionAck]] = {}
        """Acknowledged in open transactions."""
        self.picky = False
        """Whether it passes over entries without acknowledging them: a reader of some keys, or of a compacted topic."""
        self.redo: Position = (-1, -1)
        """Up to where entries were acknowledged before the cursor went back."""
        self.second = (0, 0)
        """The present second of the capture, and the entries delivered again in it."""
        self.blind: Position = (-1, -1)
        """Up to where lives may have left memory before it could be given them: there an entry without one is no
        marker."""
        self.rewound = False
        """Whether reading begins again at the mark: then the oldest unacknowledged entry comes next."""
        self.at_next = False
        """Whether it begins with the next entry that is stored."""
        self.base = self.snapshot = 0
        """`delivered` as base and snapshot of the topic."""
        self.keys: KeyOrder | None = None

    @property
    def in_order(self) -> bool:
        """Whether no entry waits while a later one is sent for the first time, but for delayed ones."""
        return self.record.type != "Key_Shared" or (len(self.members) < 2 and self.record.key_shared_mode != "STICKY")

    def is_acked(self, at: Position) -> bool:
        """Whether it has acknowledged the entry there; not as long as nobody knows where it stands."""
        return (self.mark is not None and at <= self.mark) or at in self.acked

    def ack(self, at: Position) -> None:
        """The entry there is acknowledged whole."""
        self.sets.pop(at, None)
        mark = self.mark
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
            at in topic.aborted or at in topic.markers or (at > self.blind and at not in topic.lives and not self.picky)
        )

    def ahead(self, before: Position) -> Iterable[Position]:
        """The positions behind where it stands, up to one, that excluded.

        None where they are too many to be looked at: a peer may name any entry. What becomes of them is not known.
        """
        start = self.read if self.mark is None or self.read > self.mark else self.mark
        if self.topic.count(start, before) > _FAR:
            self.record.doubts.add("evicted")
            return ()
        return self.topic.between(start, before)

    def note_done(self, at: Position, frame: int) -> None:
        """A frame has acknowledged the entry there."""
        done = self.done
        done[at] = frame
        if len(done) > 2 * MAX_DONE:  # all at once: to look for the first one of a dict takes long when many have gone
            self.done = dict(islice(done.items(), MAX_DONE, None))

    def advance(self) -> None:
        """Move the mark over what is acknowledged behind it."""
        mark, acked = self.mark, self.acked
        if mark is None or not acked:
            return
        while (at := (mark[0], mark[1] + 1)) in acked or (at := self.topic.following(mark) or at) in acked:
            acked.remove(at)
            mark = at
        self.mark = mark
        if len(acked) > MAX_ACKED:
            # Only the count would be wrong: from here on it is not known.
            self.acked.clear()
            self.record.doubts.add("evicted")

    def move(self, to: Position) -> None:
        """Everything up to there is acknowledged."""
        if self.mark is None or to > self.mark:
            self.mark = to
            if self.acked:
                self.acked = {at for at in self.acked if at > to}
            if self.sets:
                self.sets = {at: bits for at, bits in self.sets.items() if at > to}
            self.advance()

    def reset_to(self, mark: Position | None) -> None:
        """The cursor is set: nothing behind the mark is acknowledged (seek, deletion)."""
        self.mark = mark
        self.blind = self.topic.last
        self.acked.clear()
        self.sets.clear()
        self.read = (-1, -1) if mark is None else mark
