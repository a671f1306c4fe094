"""Messages that the driver completes: chunks, and messages that need a cumulative ACK of a different bucket."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.lifecycles.bucket_rows import consumers_of
from pcli.spark.columnar.lifecycles.chunked_messages import ChunkIds, join_chunks
from pcli.spark.columnar.lifecycles.event_histories import MessageRows, message_of
from pcli.spark.columnar.lifecycles.lifecycle_schemas import MESSAGES
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.state_certainty import add_evidence

__all__ = ["AckQuestions", "messages_of_driver", "questions_of"]

AckQuestions = tuple[Longs, Longs, Longs, Longs]
"""Subscriptions, ledgers, entries, and frames: the first cumulative ACK after the frame that covers the position."""


def questions_of(chunks: pa.Table, left: Sequence[MessageRows], facts: RecordingFacts) -> AckQuestions:
    """Return the cumulative ACKs that `messages_of_driver` needs."""
    consumers = consumers_of(chunks.combine_chunks(), facts)
    names = ("sub", "ledger", "entry", "delivered_number")
    rows = [tuple(one[name] for name in names) for some in left for one in some.consumed]
    more = np.array(rows, np.int64).reshape(-1, 4)
    columns = (consumers.sub, consumers.ledger, consumers.entry, consumers.delivered)
    sub, ledger, entry, since = (np.concatenate([one, more[:, at]]) for at, one in enumerate(columns))
    kept = np.isin(sub, list(facts.later_acks)) & (since >= 0)
    return sub[kept], ledger[kept], entry[kept], since[kept]


def messages_of_driver(
    chunks: pa.Table, left: Sequence[MessageRows], resolved: pa.Table, facts: RecordingFacts, cluster: str
) -> tuple[pa.Table, pa.Table, list[ChunkIds]]:
    """Return MESSAGES of these rows of all buckets: of usual messages, and of chunked messages with their ids.

    ``facts.cumulative_acks`` contains the answers.
    """
    rest = add_evidence([message_of(one, facts, cluster) for one in left], facts)
    return pa.Table.from_pylist(rest, MESSAGES), *join_chunks(chunks, resolved, facts, cluster)
