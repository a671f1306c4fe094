"""Usual messages as a table, column by column.

Rules of this file
1. What the SEND says comes from the SEND, else from the metadata of the first delivery.
2. -1 in a partial becomes null here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.bulk.columns import Bools, Longs
from pcli.codec.bulk.lives.known import Known
from pcli.codec.bulk.lives.settling import key_text
from pcli.codec.bulk.lives.sides import Consumers, Producers, longs
from pcli.codec.bulk.lives.tables import MESSAGES
from pcli.codec.bulk.lives.weighing import EVIDENCE_WORDS, FAR, Weighed, weigh_all
from pcli.codec.bulk.schema import LONG
from pcli.codec.wire.topic_name import split_partition

__all__ = ["Usual", "build"]

_PRODUCER: Final = MESSAGES.field("producer").type
_DELIVERIES: Final = MESSAGES.field("deliveries").type
_ACKS: Final = pa.array(["individual", "cumulative"])
_STATES: Final = ["acked", "unacked", "never_delivered", "stored"]
_NONE: Final = np.zeros(0, np.int64)


@dataclass(slots=True)
class Usual:
    """Usual messages, by the number of their group, and their deliveries in order of groups."""

    group: Longs
    """Of each delivery."""
    delivered: Longs
    """Its row among the consumers' rows."""
    acked: Longs
    """The row that has the ACK; -1: none has."""
    mark: Longs
    """The time of the cumulative ACK, in place of ``acked``; -1: there is none."""
    marked: Longs
    """Its frame."""
    groups: Longs = field(default_factory=lambda: _NONE)
    """All messages."""
    published: Longs = field(default_factory=lambda: _NONE)
    """The row of each among the producers' rows; -1: it was not published in the capture."""
    producers: Producers = None  # type: ignore[assignment]
    consumers: Consumers = None  # type: ignore[assignment]


def build(usual: Usual, known: Known, cluster: str) -> pa.Table:
    """MESSAGES of the usual ones."""
    size = len(usual.groups)
    if not size:
        return MESSAGES.empty_table()
    return _Building(usual, known).table(cluster)


class _Building:
    """What several columns need."""

    def __init__(self, usual: Usual, known: Known) -> None:
        self._usual, self._known = usual, known
        consumers = usual.consumers
        # Deliveries in order of messages, and of time in each.
        order = np.lexsort((consumers.delivered[usual.delivered], usual.group))
        self._group, self._rows = usual.group[order], usual.delivered[order]
        self._acked, self._mark, self._marked = usual.acked[order], usual.mark[order], usual.marked[order]
        self._message = np.searchsorted(usual.groups, self._group)
        self._offsets = np.searchsorted(self._message, np.arange(len(usual.groups) + 1))
        self._counts = np.diff(self._offsets)
        self._sent = usual.published >= 0
        first = np.where(self._counts > 0, self._offsets[:-1], -1)
        self._first = np.where(first >= 0, np.append(self._rows, -1)[first], -1)
        self._session = consumers.session[self._rows]
        self._open = (self._acked < 0) & (self._mark < 0)
        self._publisher = np.where(self._sent, np.append(usual.producers.publisher, -1)[usual.published], -1)

    def table(self, cluster: str) -> pa.Table:
        usual, known = self._usual, self._known
        size = len(usual.groups)
        messages = self._either("messages", "batch")
        messages = np.maximum(messages, 1)
        topic, names = self._topics()
        state = self._states(topic, names)
        sent, delivered = self._either("sent_ns", "delivered_ns"), self._of_first("delivered_ns")
        receipt = self._of_sent("receipt_ns")
        first = np.where(self._sent, np.minimum(sent, receipt), delivered)
        first = np.where(self._sent & (delivered >= 0), np.minimum(first, delivered), first)
        evidence = weigh_all(self._weighed(topic, names), known)
        columns = {
            "cluster": pa.repeat(cluster, size),
            "topic": _texts(names, topic),
            "partition": _longs(self._partitions(topic, names), pa.int32()),
            "ledger": self._ids("ledger"),
            "entry": self._ids("entry"),
            "first_ns": first,
            "producer": self._producer(messages),
            "deliveries": self._deliveries(messages),
            "chunk": None,
            "txn": None,
            "marker": self._of_sent("marker") >= 0,
            "state": _texts(_STATES, state),
            "evidence": _texts(EVIDENCE_WORDS, evidence),
        }
        arrays = [
            pa.nulls(size, one.type) if columns[one.name] is None else _array(columns[one.name], one.type)
            for one in MESSAGES
        ]
        return pa.Table.from_arrays(arrays, schema=MESSAGES)

    # -- values by message

    def _of_sent(self, name: str) -> Longs:
        values: Longs = longs(self._usual.producers.table, name)
        return np.where(self._sent, np.append(values, -1)[self._usual.published], -1)

    def _of_first(self, name: str) -> Longs:
        """Of the first delivery."""
        values: Longs = longs(self._usual.consumers.table, name)
        return np.where(self._first >= 0, np.append(values, -1)[self._first], -1)

    def _either(self, sent: str, delivered: str = "") -> Longs:
        return np.where(self._sent, self._of_sent(sent), self._of_first(delivered or sent))

    def _ids(self, name: str) -> Longs:
        producers, consumers = self._usual.producers, self._usual.consumers
        mine, other = getattr(producers, name), getattr(consumers, name)
        return np.where(self._sent, np.append(mine, -1)[self._usual.published], np.append(other, -1)[self._first])

    def _topics(self) -> tuple[Longs, list[str]]:
        """Of each message the topic, as place in a list; -1: none is known."""
        known = self._known
        every = [one.topic for one in known.publishers] + [one.topic for one in known.sessions]
        every += known.ledgers.values()
        names = sorted({one for one in every if one})
        place = {name: at for at, name in enumerate(names)}
        by_publisher = np.array([*(place.get(one.topic, -1) for one in known.publishers), -1])
        by_session = np.array([*(place.get(one.topic, -1) for one in known.sessions), -1])
        topic = by_publisher[self._publisher]
        if (topic < 0).any():
            # The highest of its deliveries' topics: all that have one have the same.
            found = np.full(len(topic), -1, np.int64)
            np.maximum.at(found, self._message, by_session[self._session])
            topic = np.where(topic >= 0, topic, found)
        if (topic < 0).any() and known.ledgers:
            ledger = self._ids("ledger")
            for one in np.unique(ledger[topic < 0]).tolist():
                topic[(topic < 0) & (ledger == one)] = place.get(known.ledgers.get(one, ""), -1)
        return topic, names

    def _partitions(self, topic: Longs, names: list[str]) -> Longs:
        by_publisher = np.array([*(one.partition for one in self._known.publishers), -1])
        by_topic = np.array([*(split_partition(name)[1] for name in names), -1])
        found = np.where(self._sent, by_publisher[self._publisher], self._of_first("partition"))
        return np.where(found >= 0, found, by_topic[topic])

    def _states(self, topic: Longs, names: list[str]) -> Longs:
        """Places in _STATES."""
        open_ = np.bincount(self._message, weights=self._open, minlength=len(topic)) > 0
        asked = np.array([*(name in self._known.asked for name in names), False])[topic]
        return np.where(self._counts > 0, np.where(open_, 1, 0), np.where(asked, 2, 3))

    def _weighed(self, topic: Longs, names: list[str]) -> Weighed:
        consumers = self._usual.consumers
        acked = np.append(consumers.acked, -1)[self._acked]
        settled = np.where(self._open, FAR, np.where(self._mark >= 0, self._marked, acked))
        return Weighed(
            topic, names, self._of_sent("sent_number"), self._of_sent("stream"), self._counts == 0, self._message,
            consumers.sub[self._rows], longs(consumers.table, "stream")[self._rows], consumers.delivered[self._rows],
            settled,
        )  # fmt: skip

    # -- structs

    def _producer(self, messages: Longs) -> pa.Array:
        size, sent = len(messages), self._sent
        publish, deliver = self._either("publish_ms"), self._either("deliver_at_ms")
        columns: dict[str, Any] = {
            "connection": _longs(self._of_sent("stream")),
            "producer_id": _longs(self._of_sent("producer_id")),
            "name": self._names(),
            "sequence_id": pa.array(self._either("sequence"), mask=~sent & (self._of_first("sequence") == -1)),
            "highest_sequence_id": _longs(self._either("highest")),
            "sent_ns": _longs(self._of_sent("sent_ns")),
            "receipt_ns": _longs(self._of_sent("receipt_ns")),
            "messages": messages,
            "batch": self._either("batch") >= 0,
            "size": _longs(self._either("size")),
            "publish_ns": _longs(np.where(publish > 0, publish * 1_000_000, -1)),
            "deliver_at_ns": _longs(np.where(deliver > 0, deliver * 1_000_000, -1)),
            "key": self._keys(),
            "resends": np.zeros(size, np.int32),
            "other_ids": pa.ListArray.from_arrays(
                np.zeros(size + 1, np.int32),
                pa.array([], _PRODUCER.field("other_ids").type.value_type),
                type=_PRODUCER.field("other_ids").type,
            ),
            "error": pa.nulls(size, pa.string()),
        }
        return _struct(columns, _PRODUCER)

    def _names(self) -> pa.Array:
        known = self._known
        texts = [one.name for one in known.publishers]
        places = self._publisher.copy()
        if not self._sent.all():
            labels, ids = list(known.labels.values()), np.array([*known.labels, -1], np.int64)
            label = self._of_first("name")
            at = np.searchsorted(ids[:-1], label, sorter=np.argsort(ids[:-1], kind="stable"))
            order = np.append(np.argsort(ids[:-1], kind="stable"), len(labels))
            found = order[np.minimum(at, len(labels))]
            good = ~self._sent & (ids[found] == label)
            places = np.where(good, found + len(texts), places)
            texts = texts + labels
        return _texts(texts, places, empty_is_null=True)

    def _keys(self) -> pa.Array:
        """Keys as text, whose bytes mostly are text already."""
        usual = self._usual
        both = [one.table.column("key").combine_chunks() for one in (usual.producers, usual.consumers)]
        if all(one.null_count == len(one) for one in both):
            return pa.nulls(len(usual.groups), pa.string())
        keys = pa.concat_arrays([one if isinstance(one, pa.Array) else one.combine_chunks() for one in both])
        kinds = np.concatenate([longs(usual.producers.table, "key_kind"), longs(usual.consumers.table, "key_kind")])
        place = np.where(self._sent, usual.published, self._first + len(usual.producers.ledger))
        picked, kind = keys.take(pa.array(place)), kinds[place]
        try:
            texts = picked.cast(pa.string())
        except pa.ArrowInvalid:
            found = [
                None if key is None else key_text(key, one)
                for key, one in zip(picked.to_pylist(), kind.tolist(), strict=True)
            ]
            texts = pa.array(found, pa.string())
        return pa.compute.if_else(pa.compute.equal(texts, ""), None, texts)

    def _deliveries(self, messages: Longs) -> pa.Array:
        usual, known = self._usual, self._known
        table, rows = usual.consumers.table, self._rows
        count, sessions = len(rows), known.sessions
        acked = np.append(longs(table, "acked_ns"), -1)[self._acked]
        brought = messages[self._message]
        columns: dict[str, Any] = {
            "connection": longs(table, "stream")[rows],
            "consumer_id": longs(table, "consumer_id")[rows],
            "subscription": _texts([one.subscription for one in sessions], self._session),
            "consumer": _texts([one.name for one in sessions], self._session),
            "subscription_type": _texts([one.type for one in sessions], self._session),
            "delivered_ns": longs(table, "delivered_ns")[rows],
            "count": np.ones(count, np.int32),
            "redelivery_count": np.maximum(longs(table, "redelivery")[rows], 0).astype(np.int32),
            "messages": brought,
            "acked_ns": _longs(np.where(self._mark >= 0, self._mark, np.where(self._acked >= 0, acked, -1))),
            "ack_type": _ACKS.take(pa.array(np.where(self._mark >= 0, 1, 0), mask=self._open)),
            "nacked_ns": pa.nulls(count, pa.int64()),
            "unacked": np.where(self._open, brought, 0),
            "again": pa.nulls(count, pa.string()),
        }
        values = _struct(columns, _DELIVERIES.value_type)
        return pa.ListArray.from_arrays(pa.array(self._offsets.astype(np.int32)), values, type=_DELIVERIES)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _struct(columns: dict[str, Any], kind: pa.StructType) -> pa.Array:
    arrays = [_array(columns[one.name], one.type) for one in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _longs(values: Longs, kind: pa.DataType = LONG) -> pa.Array:
    """-1 as null."""
    missing: Bools = values == -1
    return pa.array(values, kind, mask=missing if missing.any() else None)


def _texts(texts: list[str], places: Longs, *, empty_is_null: bool = False) -> pa.Array:
    """The text at each place; null where that is -1."""
    values = pa.array([one or None if empty_is_null else one for one in texts] + [None], pa.string())
    return values.take(pa.array(places, mask=places < 0))
