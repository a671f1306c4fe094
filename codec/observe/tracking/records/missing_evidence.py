"""Why the evidence of a record may be incomplete: what the capture has not seen of it.

Every record carries a set of these words; an empty one means that all was seen. Rules look there before they blame
anybody: what a hole could explain is the capture's doing until the opposite is shown.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DOUBTS"]

DOUBTS: Final[dict[str, str]] = {
    "gap": "packets of its connection are missing in the capture",
    "start": "it began before the capture, or before the retained data",
    "end": "it had not ended when the capture ended",
    "cut": "packets were truncated by the snap length",
    "one_way": "only one direction of its connection is in the capture",
    "weak_sync": "frames of its connection were found by search after a gap",
    "evicted": "older data of it was evicted to limit memory",
}
"""Word to what it says of the record."""
