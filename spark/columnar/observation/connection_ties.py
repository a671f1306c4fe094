"""Ties between connections: all values in a window's frames that require joint observation.

Rules of this file
1. Connections share a topic, a transaction, a ledger, a producer name or a proxied conversation. When the whole
   recording is known, `connection_groups` determines which of these values matter. This module only records the values;
   for frequent frames, it records them once for each window.
2. Only values that join records in pcli.codec.observe.tracking are ties: a topic in SUBSCRIBE or PRODUCER is a tie; a
   topic in LOOKUP is not. The segments of a scalable topic are tied by the name of the scalable topic. A topic in
   PARTITIONED_METADATA is a tie (``metadata``) only if it is the name of a scalable topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.observe.observer_state import Facts, open_frame
from pcli.codec.observe.tracking.subscriptions.dead_letters import origins
from pcli.codec.scalable.segment_name import scalable_namesake, scalable_topic
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.constants import MINUS_ONE
from pcli.codec.wire.frame import MESSAGE, SEND, Frame
from pcli.codec.wire.topic_name import full_name
from pcli.spark.columnar.frame_columns import Bools, Frames, Longs
from pcli.spark.columnar.observation.frame_header_rows import dead_letters
from pcli.spark.columnar.string_arrays import texts_of
from pcli.spark.columnar.table_schema import LONG, TEXT, column

TIES: Final = pa.schema(
    [
        column("place", LONG, "number of the frame, or of the first frame if equal ties are merged"),
        column("stream", LONG, "tcp.stream"),
        column(
            "tie",
            TEXT,
            "topic, metadata, transaction, ledger, sender, PRODUCER, SUBSCRIBE, CLOSE_PRODUCER, CONNECT, CONNECTED",
        ),
        column("side", TEXT, "producer or consumer, the kind of the owner; empty if none"),
        column("owner", LONG, "producer_id or consumer_id; -1 if none"),
        column("ledger", LONG, "ledger of messages or receipts; -1 if none"),
        column("text", TEXT, "topic, transaction, producer's name, proxy_to_broker_url"),
    ]
)
"""One row for each value that may tie a connection to other connections."""

_RECEIPT: Final = BY_NAME["SEND_RECEIPT"].number
_ACK: Final = BY_NAME["ACK"].number


def ties_of(frames: Frames, numbers: Longs) -> pa.RecordBatch:
    """Return the ties in a window's frames; ``numbers`` are the numbers of the frames."""
    rows = [*_control(frames, numbers), *_dead(frames, numbers), *_senders(frames, numbers)]
    client_ties = pa.RecordBatch.from_pylist(rows, TIES)
    return pa.concat_batches([client_ties, _ledgers(frames, numbers), _transactions(frames, numbers)])


def merge_ties(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the distinct ties of several windows, each with its lowest place. `connection_groups` uses them."""
    columns = [name for name in TIES.names if name != "place"]
    table = pa.Table.from_batches(batches, TIES).group_by(columns, use_threads=False).aggregate([("place", "min")])
    arrays = {name: table["place_min" if name == "place" else name].combine_chunks() for name in TIES.names}
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=TIES)


def _row(place: int, stream: int, tie: str, side: str = "", owner: int = -1, text: str = "") -> dict[str, Any]:
    return {"place": place, "stream": stream, "tie": tie, "side": side, "owner": owner, "ledger": -1, "text": text}


# -- infrequent commands


def _names(number: int, *paths: str) -> tuple[str, ...]:
    return tuple(f"pulsar.{COMMANDS[number].field}.{path}" for path in paths)


_TOPICS: Final = {
    BY_NAME[name].number: _names(BY_NAME[name].number, *paths)
    for name, paths in {
        "SUBSCRIBE": ("topic",),
        "PRODUCER": ("topic",),
        "END_TXN_ON_PARTITION": ("topic",),
        "END_TXN_ON_SUBSCRIPTION": ("subscription.topic",),
        "WATCH_TOPIC_LIST_SUCCESS": ("topic",),
        "WATCH_TOPIC_UPDATE": ("new_topics", "deleted_topics"),
        "SCALABLE_TOPIC_LOOKUP": ("topic",),
        "SCALABLE_TOPIC_UPDATE": ("resolved_topic_name",),
        "SCALABLE_TOPIC_SUBSCRIBE": ("topic",),
    }.items()
}
"""Commands whose topics the Tracker joins, and the fields that contain the topics."""

TRANSACTIONS: Final = {
    BY_NAME[name].number: _names(BY_NAME[name].number, "txnid_most_bits", "txnid_least_bits")
    for name in (
        "NEW_TXN_RESPONSE",
        "ADD_PARTITION_TO_TXN",
        "ADD_PARTITION_TO_TXN_RESPONSE",
        "ADD_SUBSCRIPTION_TO_TXN",
        "ADD_SUBSCRIPTION_TO_TXN_RESPONSE",
        "END_TXN",
        "END_TXN_RESPONSE",
        "END_TXN_ON_PARTITION",
        "END_TXN_ON_PARTITION_RESPONSE",
        "END_TXN_ON_SUBSCRIPTION",
        "END_TXN_ON_SUBSCRIPTION_RESPONSE",
    )
}
"""Commands that refer to transactions, and the fields that contain the transactions."""

_TEXTS: Final = {
    BY_NAME[name].number: _names(BY_NAME[name].number, path)[0] if path else ""
    for name, path in {
        "SUBSCRIBE": "",
        "PRODUCER": "producer_name",
        "CLOSE_PRODUCER": "",
        "CONNECT": "proxy_to_broker_url",
        "CONNECTED": "",
    }.items()
}
"""Commands that are recorded as ties, and the field that contains the text of each tie."""

_SIDES: Final = {
    BY_NAME["PRODUCER"].number: "producer",
    BY_NAME["CLOSE_PRODUCER"].number: "producer",
    BY_NAME["SUBSCRIBE"].number: "consumer",
}
"""Commands that concern a producer or a consumer."""

_METADATA: Final = BY_NAME["PARTITIONED_METADATA"].number
_METADATA_TOPIC: Final = _names(_METADATA, "topic")[0]

_CONTROL: Final = np.array(sorted({*_TOPICS, *TRANSACTIONS, *_TEXTS, _METADATA}), np.int64)


def _control(frames: Frames, numbers: Longs) -> Iterator[dict[str, Any]]:
    for row in np.flatnonzero(np.isin(frames.type, _CONTROL)).tolist():
        type_, place, stream = int(frames.type[row]), int(numbers[row]), int(frames.places.stream[row])
        values, whose = _facts(frames.head(row)).command, (_SIDES.get(type_, ""), int(frames.owner[row]))
        for name in _TOPICS.get(type_, ()):
            found = values.get(name, [])
            for topic in [found] if isinstance(found, str) else found:
                full = full_name(topic)
                yield _row(place, stream, "topic", *whose, full)
                if full.startswith("segment://") and scalable_topic(full):
                    yield _row(place, stream, "topic", *whose, scalable_topic(full))
        if type_ == _METADATA:
            name = scalable_namesake(full_name(str(values.get(_METADATA_TOPIC, ""))))
            if name:
                yield _row(place, stream, "metadata", text=name)
        if type_ in TRANSACTIONS:
            most, least = (values.get(name, 0) for name in TRANSACTIONS[type_])
            yield _row(place, stream, "transaction", text=_txn(most, least))
        if type_ in _TEXTS:
            text = values.get(_TEXTS[type_], "")
            yield _row(place, stream, COMMANDS[type_].name, *whose, text)


def _facts(data: bytes) -> Facts:
    return Facts(Frame.of(data), open_frame)  # type: ignore[arg-type]  # its position is not used


def _txn(most: int, least: int) -> str:
    return f"{most & MINUS_ONE}:{least & MINUS_ONE}"


def _dead(frames: Frames, numbers: Longs) -> Iterator[dict[str, Any]]:
    """Yield the ties between the sender of a dead letter and the original topic."""
    places = frames.places
    for row in dead_letters(frames).tolist():
        start = int(places.start[row])
        facts = _facts(places.data[start : start + int(places.kept[row])].tobytes())
        for topic, _, _ in origins(facts):
            whose = ("producer", int(frames.owner[row]))
            yield _row(int(numbers[row]), int(places.stream[row]), "topic", *whose, full_name(topic))


# -- frequent frames


def _distinct(rows: Bools, numbers: Longs, **columns: Longs) -> pa.Table:
    """Return the distinct values of columns in these rows, each with its lowest number as ``place``."""
    chosen = np.flatnonzero(rows)
    table = pa.table({"place": numbers[chosen], **{name: values[chosen] for name, values in columns.items()}})
    found = table.group_by(list(columns), use_threads=False).aggregate([("place", "min")])
    return found.rename_columns([*columns, "place"])


def _ledgers(frames: Frames, numbers: Longs) -> pa.RecordBatch:
    """Yield the ledgers from which consumers receive messages, and in which producers store messages."""
    receipts = frames.type == _RECEIPT
    rows = (receipts | (frames.type == MESSAGE)) & (frames.ledger >= 0)
    found = _distinct(rows, numbers, **_owners_of(frames, receipts), ledger=frames.ledger)
    return _batch(found, "ledger", {"text": pa.array([""] * found.num_rows, TEXT)})


def _transactions(frames: Frames, numbers: Longs) -> pa.RecordBatch:
    """Yield the transactions of messages and acknowledgements."""
    sends = frames.type == SEND
    rows = (sends | (frames.type == _ACK)) & ((frames.txn_most != -1) | (frames.txn_least != -1))
    found = _distinct(rows, numbers, **_owners_of(frames, sends), most=frames.txn_most, least=frames.txn_least)
    texts = [
        _txn(most, least) for most, least in zip(found["most"].to_pylist(), found["least"].to_pylist(), strict=True)
    ]
    blank = pa.array([-1] * found.num_rows, LONG)
    return _batch(found, "transaction", {"ledger": blank, "text": pa.array(texts, TEXT)})


def _owners_of(frames: Frames, produced: Bools) -> dict[str, Longs]:
    """Yield the producers (if ``produced``) or consumers of frames."""
    return {"stream": frames.places.stream, "produced": produced.astype(np.int64), "owner": frames.owner}


def _batch(found: pa.Table, tie: str, more: dict[str, pa.Array]) -> pa.RecordBatch:
    columns = {name: found[name].combine_chunks() for name in found.column_names} | more
    columns["tie"] = pa.array([tie] * found.num_rows, TEXT)
    sides = np.where(found["produced"].to_numpy() != 0, "producer", "consumer")
    columns["side"] = pa.array(sides.tolist(), TEXT)
    return pa.RecordBatch.from_arrays([columns[name] for name in TIES.names], schema=TIES)


def _senders(frames: Frames, numbers: Longs) -> Iterator[dict[str, Any]]:
    """Yield producer names in messages: the first and the last name of each producer in the window."""
    rows = (frames.type == SEND) & (frames.name_start >= 0)
    index = np.arange(len(frames))
    found = _distinct(rows, index, stream=frames.places.stream, owner=frames.owner)
    last = _distinct(rows, -index, stream=frames.places.stream, owner=frames.owner)
    chosen = np.concatenate([found["place"].to_numpy(), -last["place"].to_numpy()])
    names = texts_of(frames.places.data, frames.name_start[chosen], frames.name_end[chosen]).to_pylist()
    for row, name in zip(chosen.tolist(), names, strict=True):
        stream, owner = int(frames.places.stream[row]), int(frames.owner[row])
        yield _row(int(numbers[row]), stream, "sender", "producer", owner, name)
