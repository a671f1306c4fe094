"""Entries whose receipt was lost: the client resent the message, and both copies are stored.

Rules of this file
1. The receipt of the first SEND is not in the capture, but the entry is delivered. The capture contains the receipt of
   a resend with another id. Both entries have the same producer name, sequence id, publish time and number of messages.
2. The delivery and the receipt may be captured in any order. MAX_ENTRIES of each are kept per topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.topic_records import TopicRecord

MAX_ENTRIES: Final = 256
"""Maximum number of delivered entries, and of resent entries, per topic."""

_Key = tuple[str, int, int, int]
_Entries = BoundedDict[_Key, tuple[str, int]]
"""The id and the frame of each entry."""


class UnreceiptedEntries:
    """Delivered entries without a receipt, and resent entries with a receipt."""

    __slots__ = ("_delivered", "_resent", "_topic", "count")

    def __init__(self, topic: TopicRecord) -> None:
        self._topic = topic
        self._delivered: _Entries | None = None
        self._resent: _Entries | None = None
        self.count = 0
        """Number of entries without a receipt of which a resend is stored."""

    def delivered(self, lifecycle: Lifecycle, time_ns: int, frame: int) -> None:
        """Add a delivered entry that has no receipt so far."""
        resent = self._resent.pop(_key(lifecycle), None) if self._resent else None
        if resent is not None:
            self._count(lifecycle, (lifecycle.id, frame), resent, time_ns)
            return
        if self._delivered is None:
            self._delivered = BoundedDict(MAX_ENTRIES)
        self._delivered[_key(lifecycle)] = (lifecycle.id, frame)

    def stored(self, lifecycle: Lifecycle) -> None:
        """Process the receipt of an entry."""
        if not self._delivered and not lifecycle.resent:
            return
        copy = self._delivered.pop(_key(lifecycle), None) if self._delivered else None
        if copy is None and not lifecycle.resent:
            return
        entry = (lifecycle.id, lifecycle.receipt_frame)
        if copy is None:
            if self._resent is None:
                self._resent = BoundedDict(MAX_ENTRIES)
            self._resent[_key(lifecycle)] = entry
        elif copy[0] != lifecycle.id:
            self._count(lifecycle, copy, entry, lifecycle.receipt_ns)

    def _count(self, lifecycle: Lifecycle, copy: tuple[str, int], resent: tuple[str, int], time_ns: int) -> None:
        """Count a message that is stored twice: the ids and frames of its delivered and of its resent entry."""
        self.count += 1
        self._topic.messages.unreceipted += lifecycle.messages
        producer = self._topic.producers.get(lifecycle.producer_name)
        if producer is not None:
            sample = f"{copy[0]} and {resent[0]}"
            producer.duplicates_delivered.add(time_ns, copy[1], resent[1], sample=sample, count=lifecycle.messages)


def _key(lifecycle: Lifecycle) -> _Key:
    return (lifecycle.producer_name, lifecycle.sequence_id, lifecycle.publish_ms, lifecycle.messages)
