"""Reasons why the evidence of a record may be incomplete.

Every record contains a set of these keys, which is empty if all frames were captured. Rules check it before they report
a fault of a client or broker, because missing frames may explain what looks like a fault.
"""

from __future__ import annotations

from typing import Final

DOUBTS: Final[dict[str, str]] = {
    "gap": "packets of the connection are missing from the capture",
    "start": "events before the capture, or before the retained data, are unknown",
    "end": "events after the end of the capture are unknown",
    "cut": "packets were truncated by the snap length",
    "unread": "packets of the capture were not decoded",
    "one_way": "only one direction of the connection is in the capture",
    "weak_sync": "frames of the connection were found by search after a gap",
    "evicted": "some older data was evicted to limit memory",
}
"""Descriptions of the doubts of a record, by key."""
