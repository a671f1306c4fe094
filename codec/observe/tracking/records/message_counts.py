"""Counts of messages per topic and subscription, from which statistics.message_balance computes the balances.

All counts are messages: a batch counts all its messages, and a chunked message counts once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PublishCounts:
    """Messages that producers sent to a topic."""

    sent: int = 0
    """Messages without resends; a chunked message counts at its last chunk."""
    refused: int = 0
    """Messages whose last response is a SEND_ERROR, or that a non-persistent topic dropped."""
    deduplicated: int = 0
    """Messages that deduplication dropped and of which the capture contains no other copy."""
    stored: int = 0
    """Messages with the receipt of their id."""
    stored_twice: int = 0
    """Further copies of these messages, which a resend stored."""
    unreceipted: int = 0
    """Copies that were delivered although their receipt is not in the capture; the capture contains the receipt of a
    resend. See unreceipted_entries.py."""
    sent_again: int = 0
    """Stored messages that a restarted producer sent again; see repeated_contents.py."""
    uncommitted: int = 0
    """Stored messages of open transactions, which are not delivered yet."""
    aborted: int = 0
    """Stored messages of aborted transactions, which are never delivered."""

    moved: int = 0
    """Messages to a sealed segment that the client sent again to another segment; see segment_resends.py."""
    moved_refused: int = 0
    """Messages counted in ``moved`` whose response was a SEND_ERROR."""
    moved_stored: int = 0
    """Messages counted in ``moved`` that were stored in the sealed segment after all."""

    @property
    def unknown(self) -> int:
        """Messages without a response in the capture."""
        return self.sent - self.refused - self.deduplicated - self.stored

    @property
    def available(self) -> int:
        """Messages that subscriptions can receive."""
        return self.stored + self.stored_twice - self.uncommitted - self.aborted


@dataclass(slots=True)
class DeliveryCounts:
    """Messages of a subscription. If it was removed and created again, the counts continue."""

    start: int = 0
    """`PublishCounts.available` when the subscription began."""
    start_ns: int = -1
    """Time at which the subscription began, or -1 if it did not begin in the capture."""
    started_open: frozenset[tuple[int, int]] = frozenset()
    """Transactions that were open at that time."""
    early: int = 0
    """Delivered messages that were stored before the subscription began, or whose SEND is not in the capture."""
    delivered: int = 0
    """Messages that were delivered at least once."""
    redelivered: int = 0
    """Further deliveries of these messages."""
    removed_stored: int = 0
    """Messages that were available to the subscription before it was removed."""
    removed_delivered: int = 0
    """Delivered messages that were not acknowledged when the subscription was removed."""
    removed_waiting: int = 0
    """Messages that were not delivered when the subscription was removed."""
