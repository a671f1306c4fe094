"""The schemas of the tables that observation produces.

TABLES are written for users; INNER are passed from the groups to `observe_group.conclude`.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from pcli.spark.columnar.observation.client_tables import CONNECTION_CELLS, CONSUMER_CELLS, PRODUCER_CELLS
from pcli.spark.columnar.observation.finding_table import FINDING_CELLS
from pcli.spark.columnar.observation.host_history import HOST_EVENTS
from pcli.spark.columnar.observation.record_columns import schema_of
from pcli.spark.columnar.observation.recording_context import CAPTURE_PARTS
from pcli.spark.columnar.observation.scalable_tables import ASSIGNMENT_CELLS, LAYOUT_CELLS, SEGMENT_CELLS
from pcli.spark.columnar.observation.topic_tables import BALANCE_CELLS, KEY_CELLS, SUBSCRIPTION_CELLS, TOPIC_CELLS

TABLES: Final[dict[str, pa.Schema]] = {
    "findings": schema_of(FINDING_CELLS),
    "consumers": schema_of(CONSUMER_CELLS),
    "producers": schema_of(PRODUCER_CELLS),
    "connections": schema_of(CONNECTION_CELLS),
    "keys": schema_of(KEY_CELLS),
    "subscriptions": schema_of(SUBSCRIPTION_CELLS),
    "topics": schema_of(TOPIC_CELLS),
    "balances": schema_of(BALANCE_CELLS),
    "segments": schema_of(SEGMENT_CELLS),
    "layouts": schema_of(LAYOUT_CELLS),
    "assignments": schema_of(ASSIGNMENT_CELLS),
}
"""Tables that `observe` returns for each group."""

INNER: Final[dict[str, pa.Schema]] = {"host_events": HOST_EVENTS, "capture_parts": CAPTURE_PARTS}
"""Additional tables that `observe` returns for `conclude`."""
