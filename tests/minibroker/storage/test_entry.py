"""Entries: their metadata."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.minibroker.storage.entry import Entry

NUMBERS = st.sampled_from([0, 1, 127, 128, 2**31 - 1])
REQUIRED = {"producer_name": "p", "sequence_id": 1, "publish_time": 1}
FIELDS = st.fixed_dictionaries(
    {name: st.just(value) for name, value in REQUIRED.items()},
    optional={
        "compression": st.sampled_from([0, 2]),
        "uncompressed_size": NUMBERS,
        "num_messages_in_batch": NUMBERS | st.just(-1),
        "highest_sequence_id": NUMBERS,
        "partition_key": st.just("k"),
        "deliver_at_time": NUMBERS,
        "marker_type": NUMBERS,
        "uuid": st.just("u"),
        "ordering_key": st.just(b"o"),
    },
)


@given(FIELDS | st.fixed_dictionaries({}, optional={name: st.just(value) for name, value in REQUIRED.items()}))
def test_recognized_metadata_has_the_values_of_parsed_metadata(fields):
    """Ordinary metadata is recognized by its bytes; other metadata is parsed."""
    metadata = pb.MessageMetadata(**fields)
    entry = Entry(0, 1, 2, push_entry(metadata.SerializePartialToString(), b"payload"))
    entry.parse()
    if fields.keys() < REQUIRED.keys():
        assert (entry.broken, entry.messages, entry.plain, entry.metadata) == (True, 1, False, None)
        return
    assert entry.metadata == metadata
    assert not entry.broken
    assert entry.messages == max(0, metadata.num_messages_in_batch)
    assert entry.deliver_at == metadata.deliver_at_time
    assert (entry.marker, entry.chunked) == (metadata.HasField("marker_type"), metadata.HasField("uuid"))
    assert entry.plain == (not entry.marker and not entry.deliver_at)


@given(st.binary(max_size=40), st.integers(0, 45))
def test_damaged_metadata_is_never_recognized(data, size):
    """What is recognized, protobuf can parse."""
    entry = Entry(0, 1, 2, b"\x0e\x01" + bytes(4) + size.to_bytes(4, "big") + b"\x0a\x01p" + data)
    entry.parse()
    try:
        metadata = pb.MessageMetadata.FromString(entry.data[10 : 10 + size])
        whole = metadata.IsInitialized() and size <= len(data) + 3
    except Exception:
        whole = False
    assert entry.broken != whole
