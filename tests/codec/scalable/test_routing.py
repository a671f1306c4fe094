"""The route of a key, compared with the entries that V5 clients have sent to a broker 5.0.1."""

import pytest

from pcli.codec.capture import read_capture
from pcli.codec.scalable.layout import Segment
from pcli.codec.scalable.routing import bucket_of, key_hashes
from pcli.codec.scalable.segment_name import SegmentName
from pcli.codec.wire.frame import Frame

SEND, PRODUCER = 6, 5


def keyed_sends(path):
    """Yield segment, key and entry hashes of each unbatched SEND with a key to a segment."""
    segments = {}
    with path.open("rb") as file:
        for frame in read_capture([(path.name, file)]):
            if not isinstance(frame, Frame):
                continue
            if frame.type == PRODUCER:
                producer = frame.command.producer
                segments[frame.stream.number, producer.producer_id] = SegmentName.parse(producer.topic)
            metadata = frame.metadata if frame.type == SEND else None
            if metadata is not None and metadata.HasField("partition_key"):
                segment = segments[frame.stream.number, frame.command.send.producer_id]
                if segment is not None and not metadata.HasField("num_messages_in_batch"):
                    yield segment, metadata.partition_key.encode(), metadata.entry_hash_min, metadata.entry_hash_max


@pytest.mark.parametrize("name", ["healthy", "split-merge-under-load", "consumers-join-leave-crash", "queue-dlq"])
def test_the_segments_and_entry_hashes_of_a_client(captures_5, name):
    sends = list(keyed_sends(captures_5 / f"{name}.pcap"))
    assert sends
    for segment, key, low, high in sends:
        hash_of_key, entry_hash = key_hashes(key)
        assert segment.start <= hash_of_key <= segment.end
        assert low == high == entry_hash


@pytest.mark.parametrize(
    ("hash_of_entry", "bucket"), [(0, 0), (16383, 0), (16384, 1), (32767, 1), (32768, 2), (49152, 3), (65535, 3)]
)
def test_the_bucket_of_an_entry(hash_of_entry, bucket):
    segment = Segment(0, 0, 65535, active=True, bucket_starts=(16384, 32768, 49152))
    assert bucket_of(segment, hash_of_entry) == bucket
