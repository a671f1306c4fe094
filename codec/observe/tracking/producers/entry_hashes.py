"""Checks of the key hashes in the SENDs of V5 clients.

The high 16 bits of a key's hash select the segment. The low 16 bits are the entry hash, and the entry bucket of the
segment that contains them selects the consumer if several share the segment. A batch has the lowest and the highest
entry hash of its messages, which should be in one bucket: the broker dispatches it by the lowest.

Source: entries of a V5 client 5.0.1, and the metrics of a broker 5.0.1.
"""

from __future__ import annotations

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.records.scalable_records import SegmentRecord
from pcli.codec.scalable.routing import bucket_of, key_hashes
from pcli.codec.wire.texts import as_text


def check_hashes(facts: Facts, segment: SegmentRecord) -> None:
    """Record a SEND whose entry is in two buckets of its segment, or whose key belongs to another segment."""
    frame, metadata = facts.frame, facts.frame.metadata
    if metadata is None or not metadata.HasField("entry_hash_min"):
        return
    low, high, layout = metadata.entry_hash_min, metadata.entry_hash_max, segment.segment
    if layout is not None and bucket_of(layout, low) != bucket_of(layout, high):
        segment.straddling.add(frame.time_ns, frame.number, sample=f"{low} to {high}")
    if metadata.HasField("partition_key") and not metadata.partition_key_b64_encoded:
        key = as_text(metadata.partition_key)
        # a legacy segment of a migrated topic has the whole range, but is a partition with its own route
        if layout is None or not layout.legacy_topic:
            hash_of_key, _ = key_hashes(key.encode())
            if not segment.start <= hash_of_key <= segment.end:
                segment.misrouted.add(frame.time_ns, frame.number, sample=key)
