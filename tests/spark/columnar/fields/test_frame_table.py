"""The table `frames` compared with the frames."""

from __future__ import annotations

import numpy as np
import pytest

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.observe import Observer
from pcli.codec.wire.commands import name_of
from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.fields.frame_table import FRAMES, frame_rows
from pcli.spark.columnar.fields.from_captured_frames import places_of
from pcli.spark.columnar.table_schema import description_of


def rows_of(path) -> tuple[list[CapturedFrame], list[dict]]:
    with path.open("rb") as file:
        found = [item for item in read_capture([(path.name, file)]) if isinstance(item, CapturedFrame)]
    numbers = np.array([frame.number for frame in found], np.int64)
    batch = frame_rows(read_fields(places_of(found)), numbers, cluster="here")
    batch.validate(full=True)
    assert batch.schema.equals(FRAMES, check_metadata=True)
    return found, batch.to_pylist()


@pytest.mark.parametrize(
    "name",
    ["java/batch-index-ack.pcapng", "java/broker-entry-metadata.pcap", "go/transaction.pcap", "go/chunks.pcap",
     "java/cut-packets.pcap", "python/30-snaplen-96.pcap", "java/ack-receipts.pcap"],
)  # fmt: skip
def test_a_row_equals_its_frame(captures, name):
    found, rows = rows_of(captures / name)
    assert len(rows) == len(found) > 20
    observer = Observer()
    for frame, row in zip(found, rows, strict=True):
        judge(frame, observer.see(frame).command, row)


def judge(frame: CapturedFrame, values: dict, row: dict) -> None:
    """Return the ids by their names in pcli's fields, and the other values from the frame."""
    assert (row["cluster"], row["number"], row["packet"]) == ("here", frame.number, frame.packet)
    assert (row["time_ns"], row["connection"]) == (frame.time_ns, frame.stream.number)
    assert (row["type"], row["sync"]) == (name_of(frame.type), frame.sync)
    assert (row["size"], row["captured_size"]) == (frame.length, len(frame.data))
    assert (row["problems"] or []) == [one.kind for one in frame.capture_problems]
    assert row["checksum"] == {"good": "good", "bad": "bad"}.get(frame.checksum or "")
    for key in ("producer_id", "consumer_id", "request_id"):
        wanted = next((value for name, value in values.items() if name.endswith(f".{key}")), None)
        assert row[key] == wanted, key
    ids = values.get("pulsar.ack.message_id", [])
    assert len(row["acked"] or []) == len(ids)
    for one, place in zip(ids, row["acked"] or [], strict=True):
        assert (one.get("ledgerId"), one.get("entryId")) == (place["ledger"], place["entry"])
        assert one.get("ack_set") == place["ack_set"]
    judge_metadata(frame, row)


def judge_metadata(frame: CapturedFrame, row: dict) -> None:
    metadata = frame.metadata
    if metadata is None or frame.missing:
        return
    assert row["producer_name"] == metadata.producer_name
    assert row["publish_ns"] == metadata.publish_time * 1_000_000
    assert row["batch"] == metadata.HasField("num_messages_in_batch")
    assert row["messages"] == metadata.num_messages_in_batch
    assert row["payload_size"] == len(frame.payload or b"")
    assert row["key"] == (metadata.ordering_key.decode() or metadata.partition_key or None)
    assert row["chunk_id"] == (metadata.chunk_id if metadata.HasField("chunk_id") else None)
    assert row["uuid"] == (metadata.uuid or None)
    in_command = frame.from_client and frame.body.HasField("txnid_most_bits")
    assert (row["txn_most_bits"] is not None) == (in_command or metadata.HasField("txnid_most_bits"))


def test_absent_values_are_null_and_columns_are_described(captures):
    _, rows = rows_of(captures / "java/broker-entry-metadata.pcap")
    flow = next(row for row in rows if row["type"] == "FLOW")
    assert flow["permits"] > 0
    assert flow["consumer_id"] is not None
    for name in ("producer_id", "ledger", "producer_name", "batch", "messages", "num_messages", "acked", "ack_type"):
        assert flow[name] is None
    assert all(description_of(field) for field in FRAMES)


def test_no_frames_no_rows():
    batch = frame_rows(read_fields(places_of([])), np.zeros(0, np.int64))
    assert batch.num_rows == 0
    assert batch.schema.equals(FRAMES)
