"""The table `permits`: permits of consumers over time.

Prefix sums across splits are used, so no task needs to hold a whole history.

- permit_buckets: permits granted by FLOWs and used by MESSAGEs, by session and second
- permit_sessions: the session to which each sum belongs, and the balance at its start
"""

from pcli.spark.columnar.permits.permit_buckets import (
    CHANGES,
    PERMITS,
    PERMITS_ORDER,
    PERMITS_TIME,
    merge_permits,
    permit_parts,
    permit_rows,
    permit_totals,
)
from pcli.spark.columnar.permits.permit_sessions import EVENTS, PermitSessions

__all__ = [
    "CHANGES",
    "EVENTS",
    "PERMITS",
    "PERMITS_ORDER",
    "PERMITS_TIME",
    "PermitSessions",
    "merge_permits",
    "permit_parts",
    "permit_rows",
    "permit_totals",
]
