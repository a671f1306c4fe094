"""Entries whose receipt was lost: the client resent the message, and both copies are stored.

Rules of this file
1. The receipt of the first SEND is not in the capture, but the entry is delivered. The capture contains the receipt of
   a resend with another id. Both entries have the same producer name, sequence id, publish time and number of messages.
2. The delivery and the receipt may be captured in any order. MAX_ENTRIES of each are kept per topic.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle

__all__ = ["MAX_ENTRIES", "UnreceiptedEntries"]

MAX_ENTRIES: Final = 256
"""Maximum number of delivered entries, and of resent entries, per topic."""

_Key = tuple[str, int, int, int]
_Positions = BoundedDict[_Key, tuple[int, int]]


class UnreceiptedEntries:
    """Delivered entries without a receipt, and resent entries with a receipt."""

    __slots__ = ("_delivered", "_resent", "count")

    def __init__(self) -> None:
        self.count = 0
        """Number of entries without a receipt of which a resend is stored."""
        self._delivered: _Positions | None = None
        self._resent: _Positions | None = None

    def is_copy_delivered(self, lifecycle: Lifecycle) -> bool:
        """Add a delivered entry without a receipt; return whether a resend of its message is stored."""
        if self._resent and self._resent.pop(_key(lifecycle), None) is not None:
            self.count += 1
            return True
        if self._delivered is None:
            self._delivered = BoundedDict(MAX_ENTRIES)
        self._delivered[_key(lifecycle)] = (lifecycle.ledger, lifecycle.entry)
        return False

    def is_copy_stored(self, lifecycle: Lifecycle) -> bool:
        """Process the receipt of an entry; return whether its message was delivered from an entry without a receipt."""
        at = (lifecycle.ledger, lifecycle.entry)
        copy = self._delivered.pop(_key(lifecycle), None) if self._delivered else None
        if copy is None and lifecycle.resent:
            if self._resent is None:
                self._resent = BoundedDict(MAX_ENTRIES)
            self._resent[_key(lifecycle)] = at
        found = copy is not None and copy != at
        self.count += found
        return found


def _key(lifecycle: Lifecycle) -> _Key:
    return (lifecycle.producer_name, lifecycle.sequence_id, lifecycle.publish_ms, lifecycle.messages)
