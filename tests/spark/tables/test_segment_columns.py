"""The columns `scalable_topic` and `segment`, and the tables that have them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.scalable.segment_name import SegmentName
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.segment_columns import add_segments

SEGMENTS = st.builds(
    SegmentName,
    st.sampled_from(["topic://public/default/a", "topic://t/n/b"]),
    st.integers(0, 65535),
    st.integers(0, 65535),
    st.integers(0, (1 << 63) - 1),
)
OTHERS = st.sampled_from(
    [None, "", "persistent://public/default/a", "segment://public/default/a", "segment://public/default/a/zz",
     "non-persistent://public/default/a-partition-1", "topic:/x"]
)  # fmt: skip


@given(st.lists(st.lists(st.one_of(SEGMENTS, OTHERS), max_size=6), max_size=3))
def test_the_columns_follow_the_name_of_the_topic(chunks):
    names = [[str(one) if isinstance(one, SegmentName) else one for one in some] for some in chunks]
    rows = pa.table({"topic": pa.chunked_array(names, pa.string())})
    wanted = [(one.topic, one.id) if isinstance(one, SegmentName) else (None, None) for some in chunks for one in some]
    found = add_segments(rows)
    assert list(zip(found["scalable_topic"].to_pylist(), found["segment"].to_pylist(), strict=True)) == wanted


@pytest.mark.parametrize(
    ("topic", "values"),
    [
        ("topic://public/default/a", ("topic://public/default/a", None)),
        (f"segment://public/default/a/0000-ffff-{(1 << 63)}", ("topic://public/default/a", None)),
    ],
)
def test_a_topic_without_a_number_that_fits(topic, values):
    [row] = add_segments(pa.table({"topic": [topic]})).to_pylist()
    assert (row["scalable_topic"], row["segment"]) == values


def test_tables_with_the_columns():
    have = {name for name, table in TABLES.items() if {"scalable_topic", "segment"} <= set(table.schema.names)}
    assert have == {
        "messages", "topics", "subscriptions", "balances", "consumers", "producers", "segments", "assignments"
    }  # fmt: skip
