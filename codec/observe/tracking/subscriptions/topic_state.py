"""What is kept of a topic beside its record: its lives, its positions, what nobody is shown. Internal.

Rules of this file
1. Entries of a ledger are numbered from 0 without holes, so two positions say how many entries lie between them,
   whether their frames were seen or not: a backlog is counted, not collected.
2. An entry that no frame showed is a transaction's marker, or somebody else's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
    from pcli.codec.observe.tracking.records.topic_records import TopicRecord
    from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState

__all__ = ["Position", "TopicState"]

Position = tuple[int, int]
"""Ledger and entry."""


class TopicState:
    """A topic."""

    __slots__ = (
        "aborted",
        "base",
        "closed_ns",
        "closers",
        "first",
        "last",
        "ledgers",
        "lifecycles",
        "markers",
        "record",
        "restarted",
        "subscriptions",
        "uncommitted",
        "unpositioned",
        "written",
    )  # fmt: skip

    def __init__(self, record: TopicRecord) -> None:
        self.record = record
        self.lifecycles: dict[Position, Lifecycle] = {}
        """By position; all chunks of a message lead to one life."""
        self.unpositioned: dict[tuple[str, int] | str, Lifecycle] = {}
        """Lives without a position of their own: by producer and sequence id on non-persistent topics, chunked
        messages of which not all chunks have come by uuid."""
        self.subscriptions: dict[str, SubscriptionState] = {}
        """Those that the broker knows still."""
        self.ledgers: dict[int, int] = {}
        """The last entry known of each ledger."""
        self.written: set[int] = set()
        """Ledgers whose end is known from receipts, not only from what was delivered."""
        self.last: Position = (-1, -1)
        self.first: Position | None = None
        """The first entry that is known: with a number above 0 it had others before the capture."""
        self.closed_ns = -1
        """When the broker began to close peers of it, and nobody knows yet whether it was unloaded; -1: not so."""
        self.closers: set[str] = set()
        """Subscriptions that were closed then; an empty name for a producer."""
        self.restarted = False
        """Whether it was an unload for sure."""
        self.base = 0
        """messages_in when the broker loaded it last: its counters begin anew then."""
        self.uncommitted: dict[tuple[int, int], list[Position]] = {}
        """Messages of open transactions."""
        self.aborted: set[Position] = set()
        self.markers: set[Position] = set()
        """Where the broker wrote the ends of transactions: as far as is known, right behind what was there."""

    def grow(self, at: Position, *, written: bool) -> None:
        """There is an entry at this position; ``written``: a receipt tells."""
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
        """How many entries lie behind one position up to another, that included."""
        total = 0
        for ledger, last in self.ledgers.items():
            if after[0] <= ledger <= to[0]:
                low = max(after[1], -1) if ledger == after[0] else -1
                high = min(last, to[1]) if ledger == to[0] else last
                total += max(0, high - low)
        return total

    @property
    def barrier(self) -> Position | None:
        """The first message of an open transaction: nothing from there on is delivered; None: there is none."""
        return min((min(places) for places in self.uncommitted.values() if places), default=None)

    def following(self, at: Position) -> Position | None:
        """The next position; None at the end."""
        ledger, entry = at[0], max(at[1], -1)
        if entry < self.ledgers.get(ledger, -1):
            return (ledger, entry + 1)
        later = [one for one in self.ledgers if one > ledger]
        return (min(later), 0) if later else None

    def between(self, after: Position, before: Position) -> Iterator[Position]:
        """The positions between two, both excluded."""
        at = self.following(after)
        while at is not None and at < before:
            yield at
            at = self.following(at)
