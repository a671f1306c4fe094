"""Internal state of a topic besides its record: lifecycles, positions, and entries that are not delivered.

Rules of this file
1. Entries of a ledger are numbered from 0 without gaps. The number of entries between two positions is therefore known
   even if their frames are not in the capture.
2. An entry that no frame contains is the marker of a transaction, or was written by another producer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.tracking.subscriptions.unreceipted_entries import UnreceiptedEntries

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
    from pcli.codec.observe.tracking.records.topic_records import TopicRecord
    from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState

MAX_REMOVED: Final = 100
"""Maximum number of removed subscriptions that are kept per topic, to find out what a new subscription skips."""

_MAX_SKIPPED: Final = 1 << 20
"""Maximum number of skipped entries that are processed one by one, in addition to _MORE_SKIPPED for each step."""

_MORE_SKIPPED: Final = 200

Position = tuple[int, int]
"""Ledger and entry."""


class EntryBudget:
    """A limit of the skipped entries that are processed one by one in a whole capture.

    A peer may send any position. Without the limit, the time for a capture would depend on the positions in it.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MAX_SKIPPED

    def take(self, count: int) -> bool:
        """Return whether this number of entries may be processed."""
        self._left += _MORE_SKIPPED
        if count > self._left:
            return False
        self._left -= count
        return True


class Removed(NamedTuple):
    """A durable subscription that an UNSUBSCRIBE removed."""

    remaining: int
    """Number of messages that were not acknowledged; an entry whose messages are unknown counts as one message."""
    available: int
    """`PublishCounts.available` at that time."""
    frame: int
    """Number of the frame with the response to the UNSUBSCRIBE."""


class BrokerLost(NamedTuple):
    """The counters of a topic whose last connection was ended by the broker's side."""

    messages_in: int
    entries_in: int
    delivered: dict[str, int]
    """`SubscriptionRecord.delivered` by subscription."""


@dataclass(slots=True, eq=False, repr=False)
class TopicState:
    """State of a topic."""

    record: TopicRecord
    budget: EntryBudget
    lifecycles: dict[Position, Lifecycle] = field(default_factory=dict)
    """Lifecycles by position; all chunks of a message refer to one lifecycle."""
    complete: dict[Position, Lifecycle] = field(default_factory=dict)
    """Complete lifecycles by position; see open_lifecycles.py."""
    unpositioned: dict[tuple[str, int, int] | str, Lifecycle] = field(default_factory=dict)
    """Lifecycles without a unique position: on non-persistent topics by `published_as`, for chunks by uuid."""
    subscriptions: dict[str, SubscriptionState] = field(default_factory=dict)
    """Subscriptions that exist."""
    removed: BoundedDict[str, Removed] = field(default_factory=lambda: BoundedDict(MAX_REMOVED))
    """Durable subscriptions that an UNSUBSCRIBE removed, by name."""
    ledgers: dict[int, int] = field(default_factory=dict)
    """The last known entry of each ledger."""
    written: set[int] = field(default_factory=set)
    """Ledgers whose last entry is known from receipts, not only from deliveries."""
    last: Position = (-1, -1)
    first: Position | None = None
    """The first known entry; if its number is above 0, the topic had earlier entries."""
    closed_ns: int = -1
    """Time of the first close by the broker while the cause is unknown, or -1."""
    closers: set[str] = field(default_factory=set)
    """Subscriptions closed by the broker since ``closed_ns``. An empty name represents a producer."""
    restarted: bool = False
    """Whether the topic was certainly unloaded."""
    base: int = 0
    base_entries: int = 0
    """messages_in and entries_in at the last load of the topic, when its counters restarted."""
    base_ledger: int = -1
    """The last known ledger at that time. The counters include only entries of later ledgers."""
    broker_lost: BrokerLost | None = None
    """The counters when the broker's side had ended all connections of the topic; None if it did not, or if a
    later frame shows whether the topic was loaded again."""
    unreceipted: UnreceiptedEntries = field(init=False)
    """Entries that were delivered, but whose receipt is not in the capture."""
    uncommitted: dict[tuple[int, int], list[Position]] = field(default_factory=dict)
    """Messages of open transactions."""
    aborted: set[Position] = field(default_factory=set)
    markers: set[Position] = field(default_factory=set)
    """Positions of transaction markers, assumed to follow the last entry known at the end of the transaction."""

    def __post_init__(self) -> None:
        self.unreceipted = UnreceiptedEntries(self.record)

    def grow(self, at: Position, *, written: bool) -> None:
        """Add an entry. ``written`` states whether the entry is known from a receipt."""
        ledger, entry = at
        if entry > self.ledgers.get(ledger, -1):
            self.ledgers[ledger] = entry
        if written:
            self.written.add(ledger)
        if at > self.last:
            self.last = at
        if self.first is None or at < self.first:
            self.first = at

    def count(self, after: Position, to: Position) -> int:
        """Return the number of entries after one position, up to and including another position."""
        total = 0
        for ledger, last in self.ledgers.items():
            if after[0] <= ledger <= to[0]:
                low = max(after[1], -1) if ledger == after[0] else -1
                high = min(last, to[1]) if ledger == to[0] else last
                total += max(0, high - low)
        return total

    @property
    def barrier(self) -> Position | None:
        """The first message of an open transaction (such a message blocks delivery), or None."""
        return min((min(places) for places in self.uncommitted.values() if places), default=None)

    def following(self, at: Position) -> Position | None:
        """Return the next position, or None at the end."""
        ledger, entry = at[0], max(at[1], -1)
        if entry < self.ledgers.get(ledger, -1):
            return (ledger, entry + 1)
        later = [one for one in self.ledgers if one > ledger]
        return (min(later), 0) if later else None

    def between(self, after: Position, before: Position) -> Iterator[Position]:
        """Yield the positions between two positions, both excluded."""
        at = self.following(after)
        while at is not None and at < before:
            yield at
            at = self.following(at)
