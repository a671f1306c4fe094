"""SENDs and receipts that are not plain pairs, matched by the ProducerTracker of pcli.codec.

Rules of this file
1. The ProducerTracker processes all commands about connections and producers, all unusual SENDs, receipts and errors,
   and the candidate rows of ``published``, in order. The tracker thus handles resends across sessions, duplicates,
   chunks, transactions, and refused and lost messages.
2. The results are lifecycles with their publication; the deliveries are merged by message id.
3. ``state`` is final only for lifecycles without an id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import pyarrow as pa

from pcli.codec.capture.frames import CapturedFrame, Note, Stream, StreamEnd
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.tracking.entry_metadata import ordering_key_text
from pcli.codec.observe.tracking.producers.producer_tracker import ProducerTracker
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.records.topic_records import TopicRecord
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.hot import push_send_receipt
from pcli.codec.wire.message_id import signed
from pcli.spark.columnar.frame_columns import short
from pcli.spark.columnar.lifecycles.frame_replay import frame_row, replay, with_role
from pcli.spark.columnar.lifecycles.partial_tables import FORWARDED, Partials
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.row_operations import shuffle_key, table_in_batches
from pcli.spark.columnar.table_schema import BOOL, INT, LONG, TEXT, column, many, record

_ID: Final = record(column("ledger", LONG, "ledger"), column("entry", LONG, "entry"))

RESOLVED: Final = pa.schema([
    column("place", LONG, "shuffle key, equal in all rows of one message"),
    column("ledger", LONG, "ledger; -1 if the message has no id"),
    column("entry", LONG, "entry"),
    column("stream", LONG, "the connection of the last SEND"),
    column("producer_id", LONG, "producer_id on that connection; -1 if unknown"),
    column("topic", TEXT, "full name; empty if unknown"),
    column("partition", LONG, "number of the partition; -1 if none"),
    column("name", TEXT, "name of the producer"),
    column("sequence", LONG, "sequence_id, 64 bits"),
    column("highest", LONG, "highest_sequence_id"),
    column("sent_number", LONG, "frame of the first SEND"),
    column("sent_ns", LONG, "time of that frame"),
    column("receipt_number", LONG, "frame of the response; -1 if none"),
    column("receipt_ns", LONG, "time of that frame"),
    column("messages", LONG, "messages in the entry"),
    column("batch", BOOL, "whether the entry is a batch"),
    column("size", LONG, "bytes of the payload, including all chunks"),
    column("publish_ms", LONG, "publish_time"),
    column("deliver_at_ms", LONG, "deliver_at_time"),
    column("key", TEXT, "key"),
    column("resends", INT, "further SENDs"),
    column("other_ids", many(_ID), "further ids"),
    column("error", TEXT, "error of the SEND_ERROR"),
    column("txn", record(
        column("most", LONG, "most significant bits"), column("least", LONG, "least significant bits"),
    ), "null if there is none"),
    column("marker", BOOL, "whether the entry is a marker"),
    column("uuid", TEXT, "uuid of a chunked message; empty if the message is not chunked"),
    column("chunks", INT, "number of chunks"),
    column("entries", many(record(
        column("id", INT, "chunk"), column("ledger", LONG, "-1 if unknown"), column("entry", LONG, "-1 if unknown"),
    )), "chunks as sent"),
    column("stored", BOOL, "whether the message has an id, or a receipt on a non-persistent topic"),
    column("persistent", BOOL, "whether the topic is persistent"),
    column("state", TEXT, "in_flight, lost, refused, duplicate; other states are determined later"),
])  # fmt: skip
"""Lifecycles with their publication. They are shuffled by ``place``. `join_chunks` processes lifecycles with a uuid."""


def resolve_sends(small: Partials, back: pa.Table, facts: RecordingFacts, streams: Sequence[Stream]) -> pa.Table:
    """Return RESOLVED of all unusual frames in ``small`` and of the rows of PUBLISHED in ``back``."""
    outcomes = _ProducerOutcomes()
    tracker = Tracker()
    tracker.subscriptions = cast(SubscriptionTracker, outcomes)
    outcomes.capture = tracker.capture
    tracker.producers = ProducerTracker(tracker.subscriptions)
    observer = Observer()
    forwarded = pa.concat_tables([with_role(small.forwarded, "control", "unusual"), _forwarded(back, facts)])
    for _, _, item in replay(forwarded, small.events, {one.number: one for one in streams}):
        if isinstance(item, CapturedFrame):
            observed = observer.see(item)
            tracker.see(observed)
            if observed.peer is not None:
                outcomes.owners[item.number] = observed.peer.id
        elif isinstance(item, StreamEnd):
            tracker.ended(item)
        elif isinstance(item, Note):
            tracker.note(item)
    tracker.finish()
    rows = (_row(lifecycle, outcomes.owners, stored=stored) for lifecycle, stored in outcomes.found.values())
    table = table_in_batches(rows, RESOLVED)
    ids = (table.column(name).to_numpy() for name in ("ledger", "entry", "sequence"))
    return table.set_column(0, RESOLVED.field("place"), pa.array(shuffle_key(*ids)))


class _ProducerOutcomes:
    """A replacement for the tracker's SubscriptionTracker that collects the results of the ProducerTracker."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[Lifecycle, bool]] = {}
        self.owners: dict[int, int] = {}
        """Producer ids by frame."""
        self.capture = CaptureRecord()
        self.lifecycles = OpenLifecycles(self.capture, None, None, 0)

    def topic(self, name: str) -> TopicRecord:
        """Return the record of a topic, as SubscriptionTracker does."""
        return self.lifecycles.topic(name).record

    def stored(self, lifecycle: Lifecycle) -> None:
        """Collect a stored lifecycle."""
        self.found[id(lifecycle)] = lifecycle, True

    def never_stored(self, lifecycle: Lifecycle) -> None:
        """Collect a lifecycle that was not stored."""
        self.found.setdefault(id(lifecycle), (lifecycle, False))

    def see(self, observed: object) -> None:
        """Ignore a frame."""

    def producer_lost(self, name: str) -> None:
        """Ignore the loss of a producer's connection, which changes only counters."""

    def add_doubts(self, stream: int, doubts: set[str]) -> None:
        """Ignore doubts."""

    def records(self) -> Iterator[tuple[str, Any]]:
        """Yield no records."""
        yield from ()

    def end(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        """Ignore the end of a connection."""

    def finish(self, now_ns: int) -> None:
        """Ignore the end of the capture."""


def _row(item: Lifecycle, owners: dict[int, int], *, stored: bool) -> dict[str, Any]:
    last = item.resent[-1][1] if item.resent else item.sent_frame
    return {
        "place": 0, "stream": item.stream, **_place(item.ledger, item.entry),
        "producer_id": signed(owners.get(last, -1)),
        "topic": "" if item.topic is None else item.topic.name, "partition": item.partition,
        "name": item.producer_name, "sequence": signed(item.sequence_id), "highest": signed(item.highest_sequence_id),
        "sent_number": item.sent_frame, "sent_ns": item.sent_ns, "receipt_number": item.receipt_frame or -1,
        "receipt_ns": item.receipt_ns, "messages": item.messages, "batch": item.batch, "size": item.size,
        "publish_ms": signed(item.publish_ms), "deliver_at_ms": signed(item.deliver_at_ms), "key": item.key,
        "resends": len(item.resent), "other_ids": [_place(*one) for one in item.other_ids], "error": item.error,
        "txn": None if item.txn is None else {"most": signed(item.txn[0]), "least": signed(item.txn[1])},
        "marker": item.marker, "uuid": item.uuid, "chunks": short(item.num_chunks),
        "entries": [{"id": short(one[0]), **_place(*one[2:])} for one in item.chunks],
        "stored": stored, "persistent": item.topic is None or item.topic.persistent, "state": item.state,
    }  # fmt: skip


def _place(ledger: int, entry: int) -> dict[str, int]:
    return {"ledger": signed(ledger), "entry": signed(entry)}


# -- rows of PUBLISHED as frames


def _forwarded(back: pa.Table, facts: RecordingFacts) -> pa.Table:
    places = facts.producers.find(*(back.column(name).to_numpy() for name in ("stream", "producer_id", "sent_number")))
    names = (facts.publishers[facts.publisher[place]].name if place >= 0 else "" for place in places.tolist())
    rows = [row for one, name in zip(back.to_pylist(), names, strict=True) for row in _frames(one, name)]
    return pa.Table.from_pylist(rows, FORWARDED)


_ANSWERED: Final = ("producer_id", "sequence", "ledger", "entry")


def _frames(row: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield a SEND without its payload, and its receipt, or the one of them that the row contains.

    ``name`` is the name of the producer.
    """
    if row["sent_number"] >= 0:
        yield _send_of(row, name)
    if row["receipt_number"] >= 0:
        producer, sequence, ledger, entry = (_unsigned(row[name]) for name in _ANSWERED)
        data = push_send_receipt(producer, sequence, ledger, entry, 0)
        yield frame_row("unusual", row, "receipt", data, from_client=False)


def _send_of(row: dict[str, Any], name: str) -> dict[str, Any]:
    send = pb.CommandSend(producer_id=_unsigned(row["producer_id"]), sequence_id=_unsigned(row["sequence"]))
    if row["messages"] != -1:
        send.num_messages = short(row["messages"])
    if row["highest"] != -1:
        send.highest_sequence_id = _unsigned(row["highest"])
    data = push_frame(send, push_entry(_metadata(row, name), b"", checksum=False))
    return frame_row("unusual", row, "sent", data, payload=max(0, row["size"]), from_client=True)


def _metadata(row: dict[str, Any], name: str) -> pb.MessageMetadata:
    metadata = pb.MessageMetadata(
        producer_name=name, sequence_id=_unsigned(row["sequence"]), publish_time=max(0, row["publish_ms"])
    )
    if row["batch"] != -1:
        metadata.num_messages_in_batch = short(row["batch"])
    if row["deliver_at_ms"] != -1:
        metadata.deliver_at_time = row["deliver_at_ms"]
    if row["marker"] != -1:
        metadata.marker_type = short(row["marker"])
    if row["key_kind"] == 2:
        metadata.ordering_key = row["key"]
    elif row["key_kind"]:
        metadata.partition_key = row["key"].decode(errors="replace")
    return metadata


def _unsigned(value: int) -> int:
    return value & (1 << 64) - 1


def key_text(key: bytes, kind: int) -> str:
    """Return a key as pcli.codec.observe.tracking.entry_metadata.key_of does."""
    return ordering_key_text(key) if kind == 2 else key.decode(errors="replace")
