"""Messages of non-persistent topics.

All of these messages have the id 0:0, so producer and sequence id identify them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.columnar.lifecycles.bucket_rows import Consumers, Producers
from pcli.spark.columnar.lifecycles.event_histories import MessageRows, message_of
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.state_certainty import MessageHistory

__all__ = ["messages_of_non_persistent_topics"]


def messages_of_non_persistent_topics(
    producers: Producers, consumers: Consumers, resolved: pa.Table, facts: RecordingFacts, cluster: str
) -> list[MessageHistory]:
    """Return all messages of non-persistent topics that reached the broker."""
    found: dict[tuple[str, str, int], MessageRows] = {}
    rows = np.flatnonzero(~producers.persistent)
    for row, at in zip(producers.pick(rows).table.to_pylist(), producers.publisher[rows].tolist(), strict=True):
        one = facts.publishers[at]
        found[one.topic, one.name, row["sequence"]] = MessageRows(row, at)
    of_resolved = pc.and_(resolved.column("stored"), pc.invert(resolved.column("persistent")))
    for row in resolved.filter(of_resolved).to_pylist():
        found[row["topic"], row["name"], row["sequence"]] = MessageRows(resolved=row)
    for row in consumers.pick(np.flatnonzero(~consumers.persistent)).rows():
        name = facts.sessions[row["session"]].topic, facts.labels.get(row["name"], ""), row["sequence"]
        if row["delivered_number"] >= 0:
            found.setdefault(name, MessageRows()).consumed.append(row)
    return [_history(parts, facts, cluster) for parts in found.values()]


def _history(parts: MessageRows, facts: RecordingFacts, cluster: str) -> MessageHistory:
    story = message_of(parts, facts, cluster)
    row = story.row
    row["ledger"] = row["entry"] = None
    row["state"] = "non_persistent"
    for one in row["deliveries"]:
        one["unacked"] = None
    return story
