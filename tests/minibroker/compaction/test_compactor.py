"""Compactions of entries that the recorded conversations in tests/conform do not contain."""

from __future__ import annotations

from pcli.codec.payload.batch import split_batch
from pcli.codec.payload.compression import decompress
from pcli.codec.proto import pb
from pcli.minibroker.storage.entry import metadata_bounds

from .conftest import batch, single


def payloads(ledger):
    """Return the kept payloads by entry id; those of a batch as a list, in which removed messages are None."""
    found = {}
    for entry in ledger.read(0, 100):
        entry.parse()
        metadata, payload = entry.metadata, entry.data[metadata_bounds(entry.data, entry.block)[1] :]
        if not metadata.HasField("num_messages_in_batch"):
            found[entry.entry_id] = payload.decode()
            continue
        data = decompress(metadata.compression, payload, metadata.uncompressed_size)
        parts, _ = split_batch(data, metadata.num_messages_in_batch)
        found[entry.entry_id] = [None if one.compacted_out else data[start:end].decode() for one, start, end in parts]
    return found


def test_a_compressed_batch_is_compressed_again(compact):
    stored = [batch(("a", "a0" * 50), ("b", "b0" * 50), compression=pb.ZLIB), single("b1", partition_key="b")]
    ledger = compact(stored)
    assert payloads(ledger) == {0: ["a0" * 50, None], 1: "b1"}
    [kept, _] = ledger.read(0, 2)
    kept.parse()
    assert kept.metadata.compression == pb.ZLIB


def test_the_broker_entry_metadata_of_a_batch_remains(compact):
    plain = batch(("a", "a0"), ("a", "a1"))
    block = pb.BrokerEntryMetadata(index=4).SerializeToString()
    stored = b"\x0e\x02" + len(block).to_bytes(4, "big") + block + plain
    ledger = compact([stored])
    [kept] = ledger.read(0, 1)
    kept.parse()
    assert kept.data.startswith(stored[: kept.block])
    assert payloads(ledger) == {0: [None, "a1"]}


def test_a_null_value_removes_its_key_even_with_a_payload(compact):
    stored = [single("a0", partition_key="a"), single("a1", partition_key="a", null_value=True)]
    assert payloads(compact(stored)) == {}
