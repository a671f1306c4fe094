"""The table `permits`: how many permits consumers had over time, by prefix sums over splits; nobody holds a history.

- buckets.py: what FLOWs gave and MESSAGEs took, by session and second; sessions.py: which session, and where it began
"""

from pcli.spark.columnar.permits.permit_buckets import (
    CHANGES,
    PERMITS,
    PERMITS_HOUR,
    PERMITS_ORDER,
    merge_permits,
    permit_parts,
    permit_rows,
    permit_totals,
)
from pcli.spark.columnar.permits.permit_sessions import EVENTS, permit_starts

__all__ = [
    "CHANGES",
    "EVENTS",
    "PERMITS",
    "PERMITS_HOUR",
    "PERMITS_ORDER",
    "merge_permits",
    "permit_parts",
    "permit_rows",
    "permit_starts",
    "permit_totals",
]
