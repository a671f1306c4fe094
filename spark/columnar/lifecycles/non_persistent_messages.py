"""Messages of non-persistent topics, which all have the id 0:0: told apart by producer and sequence id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.columnar.lifecycles.bucket_rows import Consumers, Producers
from pcli.spark.columnar.lifecycles.event_histories import Parts, story_of
from pcli.spark.columnar.lifecycles.recording_facts import Known
from pcli.spark.columnar.lifecycles.state_certainty import Story

__all__ = ["loose_messages"]


def loose_messages(
    producers: Producers, consumers: Consumers, settled: pa.Table, known: Known, cluster: str
) -> list[Story]:
    """The messages of all that is of non-persistent topics, but what never reached them."""
    found: dict[tuple[str, str, int], Parts] = {}
    rows = np.flatnonzero(~producers.persistent)
    for row, at in zip(producers.pick(rows).table.to_pylist(), producers.publisher[rows].tolist(), strict=True):
        one = known.publishers[at]
        found[one.topic, one.name, row["sequence"]] = Parts(row, at)
    of_settled = pc.and_(settled.column("stored"), pc.invert(settled.column("persistent")))
    for row in settled.filter(of_settled).to_pylist():
        found[row["topic"], row["name"], row["sequence"]] = Parts(settled=row)
    for row in consumers.pick(np.flatnonzero(~consumers.persistent)).rows():
        name = known.sessions[row["session"]].topic, known.labels.get(row["name"], ""), row["sequence"]
        if row["delivered_number"] >= 0:
            found.setdefault(name, Parts()).consumed.append(row)
    return [_story(parts, known, cluster) for parts in found.values()]


def _story(parts: Parts, known: Known, cluster: str) -> Story:
    story = story_of(parts, known, cluster)
    row = story.row
    row["ledger"] = row["entry"] = None
    row["state"] = "non_persistent"
    for one in row["deliveries"]:
        one["unacked"] = None
    return story
