"""The columns `scalable_topic` and `segment` of tables with a column `topic`, from which their values are computed.

The columns are added when rows are written, so the code that computes the rows contains only the name of the topic.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.scalable.segment_name import SegmentName, scalable_topic
from pcli.spark.columnar.table_schema import LONG, TEXT, column

SEGMENT_COLUMNS = (
    column("scalable_topic", TEXT, "scalable topic to which the segment `topic` belongs; null for other topics"),
    column("segment", LONG, "number of that segment in its scalable topic"),
)
"""The columns; both follow the column ``topic``."""


def with_segment_columns(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a table with the columns."""
    place = schema.get_field_index("topic") + 1
    for number, field in enumerate(SEGMENT_COLUMNS):
        schema = schema.insert(place + number, field)
    return schema


def add_segments(rows: pa.Table) -> pa.Table:
    """Return rows with the columns. A classic topic that became a segment in a migration has null in both."""
    topics = rows["topic"].unique()
    places = pc.index_in(rows["topic"], value_set=topics)
    for field, values in zip(SEGMENT_COLUMNS, _values(topics), strict=True):
        rows = rows.append_column(field, values.take(places))
    return rows


def _values(topics: pa.Array) -> tuple[pa.Array, pa.Array]:
    names = [one or "" for one in topics.to_pylist()]
    segments = [SegmentName.parse(one) for one in names]
    ids = [one.id if one is not None and one.id < 1 << 63 else None for one in segments]
    return pa.array([scalable_topic(one) or None for one in names], TEXT), pa.array(ids, LONG)
