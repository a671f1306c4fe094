"""Messages that were sent and have no receipt, as a table.

A capture that contains only the clients' frames consists of these messages, so they never become Python objects.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.columnar.lifecycles.arrow_columns import texts_at
from pcli.spark.columnar.lifecycles.bucket_rows import consumers_of, longs, producers_of
from pcli.spark.columnar.lifecycles.lifecycle_schemas import MESSAGES
from pcli.spark.columnar.lifecycles.message_table import UsualMessages, build_table
from pcli.spark.columnar.lifecycles.partial_tables import CONSUMED
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.state_certainty import EVIDENCE_WORDS, UNSTORED, evidence_of_unstored
from pcli.spark.columnar.lifecycles.unpaired_sends import lost_sends

__all__ = ["messages_without_receipt"]


def messages_without_receipt(published: pa.Table, facts: RecordingFacts, cluster: str) -> pa.Table:
    """Return MESSAGES of the rows of PUBLISHED that have no receipt, in order of time."""
    rows = published.filter(pc.less(published.column("receipt_number"), 0)).sort_by("sent_ns").combine_chunks()
    producers = producers_of(rows, facts)
    size, none = len(producers.ledger), np.zeros(0, np.int64)
    if not size:
        return MESSAGES.empty_table()
    usual = UsualMessages(none, none, none, none, none, none, np.arange(size), np.arange(size))
    usual.producers, usual.consumers = producers, consumers_of(CONSUMED.empty_table(), facts)
    stream, sent = longs(producers.table, "stream"), longs(producers.table, "sent_number")
    lost = lost_sends(facts, stream, longs(producers.table, "producer_id"), sent)
    states = np.where(lost, UNSTORED.index("lost"), UNSTORED.index("in_flight"))
    columns = {
        "ledger": pa.nulls(size, pa.int64()),
        "entry": pa.nulls(size, pa.int64()),
        "first_ns": pa.array(longs(producers.table, "sent_ns")),
        "state": texts_at(UNSTORED, states),
        "evidence": texts_at(EVIDENCE_WORDS, evidence_of_unstored(states, stream, sent, facts)),
    }
    table = build_table(usual, facts, cluster)
    for name, values in columns.items():
        table = table.set_column(MESSAGES.get_field_index(name), MESSAGES.field(name), values)
    return table
