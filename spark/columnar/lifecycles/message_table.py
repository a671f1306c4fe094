"""Usual messages, and messages that were sent and have no receipt, as a table, column by column.

Rules of this file
1. Values of the publication come from the SEND. If the SEND was not captured, the values come from the metadata of the
   first delivery.
2. A value of -1 in a partial aggregate becomes null.
3. Rows are created in TIME_ORDER, because sorting a table of lists afterwards would take as long as creating it.
4. A capture that contains only the clients' frames consists of messages without a receipt, so they never become Python
   objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.wire.topic_name import split_partition
from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.lifecycles.bucket_rows import Consumers, Producers, consumers_of, producers_of
from pcli.spark.columnar.lifecycles.lifecycle_schemas import MESSAGES
from pcli.spark.columnar.lifecycles.pairs_across_splits import lost_sends
from pcli.spark.columnar.lifecycles.partial_tables import CONSUMED
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.resent_messages import key_text
from pcli.spark.columnar.lifecycles.row_operations import (
    array_of,
    group_starts,
    joint_key,
    longs,
    longs_of,
    order_of,
    struct_of,
    texts_at,
    values_at,
)
from pcli.spark.columnar.lifecycles.state_certainty import (
    EVIDENCE_WORDS,
    FAR,
    UNSTORED,
    EvidenceInputs,
    evidence_codes,
    evidence_of_unstored,
)
from pcli.spark.columnar.table_schema import nanoseconds

_PRODUCER: Final = MESSAGES.field("producer").type
_DELIVERIES: Final = MESSAGES.field("deliveries").type
_ACKS: Final = pa.array(["individual", "cumulative"])
_STATES: Final = ["acked", "unacked", "never_delivered", "stored"]
_NONE: Final = np.zeros(0, np.int64)


@dataclass(slots=True)
class UsualMessages:
    """Usual messages, identified by the numbers of their groups, and their deliveries in order of groups."""

    group: Longs
    """The message of each pair of message and subscription."""
    delivered: Longs
    """The row of the pair's first delivery, as an index into the consumers' rows."""
    acked: Longs
    """The row with the pair's ACK; -1 if none."""
    cumulative_ns: Longs
    """The time of the cumulative ACK, used instead of ``acked``; -1 if none."""
    cumulative_number: Longs
    """The frame of the cumulative ACK."""
    redelivered: Longs
    """The row of a second delivery after a REDELIVER that is in the row of the first delivery; -1 if none."""
    groups: Longs = field(default_factory=lambda: _NONE)
    """All messages."""
    published: Longs = field(default_factory=lambda: _NONE)
    """The row of each message, as an index into the producers' rows; -1 if its SEND was not captured."""
    producers: Producers = None  # type: ignore[assignment]
    consumers: Consumers = None  # type: ignore[assignment]


def build_table(usual: UsualMessages, facts: RecordingFacts, cluster: str) -> pa.Table:
    """Return the usual messages as rows of MESSAGES."""
    size = len(usual.groups)
    if not size:
        return MESSAGES.empty_table()
    return _TableBuilder(usual, facts).table(cluster)


class _TableBuilder:
    """Values that several columns need."""

    def __init__(self, usual: UsualMessages, facts: RecordingFacts) -> None:
        self._usual, self._facts = usual, facts
        size, consumers = len(usual.groups), usual.consumers
        # Sort the messages by time; `place` is the index of the message of each pair of message and subscription.
        place = np.searchsorted(usual.groups, usual.group)
        order = _in_time(usual, place)
        if not (order[1:] > order[:-1]).all():
            usual.published = usual.published[order]
            rank = np.empty(size, np.int64)
            rank[order] = np.arange(size)
            place = rank[place]
        self._place, self._wide = place, (usual.acked < 0) & (usual.cumulative_ns < 0)
        # A second delivery is a separate item if its consumer is different.
        other = np.flatnonzero(usual.redelivered >= 0)
        other = other[~_same(consumers, usual.delivered[other], usual.redelivered[other])]
        pair = np.concatenate([np.arange(len(place)), other])
        rows = np.concatenate([usual.delivered, usual.redelivered[other]])
        # Sort the items by message, then by frame.
        order = _order(place.take(pair), consumers.delivered.take(rows))
        self._pair, self._rows = pair.take(order), rows.take(order)
        self._message = place.take(self._pair)
        self._second = order >= len(place)
        self._twice = (usual.redelivered >= 0)[self._pair]
        alone = np.zeros(len(place), np.bool_)
        alone[other] = True
        self._shared = self._twice & ~alone[self._pair]
        self._offsets = np.searchsorted(self._message, np.arange(size + 1))
        self._counts = np.diff(self._offsets)
        self._sent = usual.published >= 0
        self._all_sent = bool(self._sent.all())
        first = np.where(self._counts > 0, self._offsets[:-1], -1)
        self._first = values_at(self._rows, first)
        self._session = consumers.session.take(self._rows)
        self._publisher = values_at(usual.producers.publisher, usual.published)

    def table(self, cluster: str) -> pa.Table:
        usual, facts = self._usual, self._facts
        size = len(usual.groups)
        messages = self._sent_or_delivered("messages", "batch")
        messages = np.maximum(messages, 1)
        topic, names = self._topics()
        state = self._states(topic, names)
        sent, receipt = self._of_sent("sent_ns"), self._of_sent("receipt_ns")
        delivered = self._delivered_at()
        first = np.where(self._sent, np.minimum(sent, receipt), delivered)
        first = np.where(self._sent & (delivered >= 0), np.minimum(first, delivered), first)
        evidence = evidence_codes(self._evidence_inputs(topic, names), facts)
        columns = {
            "cluster": pa.repeat(cluster, size),
            "topic": texts_at(names, topic),
            "partition": longs_of(self._partitions(topic, names), pa.int32()),
            "ledger": self._ids("ledger"),
            "entry": self._ids("entry"),
            "first_ns": first,
            "producer": self._producer(messages),
            "deliveries": self._deliveries(messages),
            "chunk": None,
            "txn": None,
            "marker": self._of_sent("marker") >= 0,
            "state": texts_at(_STATES, state),
            "evidence": texts_at(EVIDENCE_WORDS, evidence),
        }
        arrays = [
            pa.nulls(size, one.type) if columns[one.name] is None else array_of(columns[one.name], one.type)
            for one in MESSAGES
        ]
        return pa.Table.from_arrays(arrays, schema=MESSAGES)

    # -- values by message

    def _of_sent(self, name: str) -> Longs:
        return values_at(longs(self._usual.producers.table, name), self._usual.published)

    def _of_first(self, name: str) -> Longs:
        """Return a column of the first delivery."""
        return values_at(longs(self._usual.consumers.table, name), self._first)

    def _delivered_at(self) -> Longs:
        """Return the earliest delivery. After a gap, frames may not be in order of their times."""
        found, there = np.full(len(self._counts), -1, np.int64), self._counts > 0
        if there.any():
            times = longs(self._usual.consumers.table, "delivered_ns").take(self._rows)
            found[there] = np.minimum.reduceat(times, self._offsets[:-1][there])
        return found

    def _sent_or_delivered(self, sent: str, delivered: str = "") -> Longs:
        if self._all_sent:
            return self._of_sent(sent)
        return np.where(self._sent, self._of_sent(sent), self._of_first(delivered or sent))

    def _ids(self, name: str) -> Longs:
        producers, consumers = self._usual.producers, self._usual.consumers
        mine = values_at(getattr(producers, name), self._usual.published)
        return mine if self._all_sent else np.where(self._sent, mine, values_at(getattr(consumers, name), self._first))

    def _topics(self) -> tuple[Longs, list[str]]:
        """Return the topic of each message as an index into a list (-1 if unknown), and the list."""
        facts = self._facts
        every = [one.topic for one in facts.publishers] + [one.topic for one in facts.sessions]
        every += facts.ledger_topics.values()
        names = sorted({one for one in every if one})
        place = {name: at for at, name in enumerate(names)}
        by_publisher = np.array([*(place.get(one.topic, -1) for one in facts.publishers), -1])
        by_session = np.array([*(place.get(one.topic, -1) for one in facts.sessions), -1])
        topic = by_publisher[self._publisher]
        if (topic < 0).any():
            # The maximum of all deliveries: all known topics of a message are equal, and an unknown topic is -1.
            found = np.full(len(topic), -1, np.int64)
            np.maximum.at(found, self._message, by_session[self._session])
            topic = np.where(topic >= 0, topic, found)
        if (topic < 0).any() and facts.ledger_topics:
            ledger = self._ids("ledger")
            for one in np.unique(ledger[topic < 0]).tolist():
                topic[(topic < 0) & (ledger == one)] = place.get(facts.ledger_topics.get(one, ""), -1)
        return topic, names

    def _partitions(self, topic: Longs, names: list[str]) -> Longs:
        by_publisher = np.array([*(one.partition for one in self._facts.publishers), -1])
        by_topic = np.array([*(split_partition(name)[1] for name in names), -1])
        found = np.where(self._sent, by_publisher[self._publisher], self._of_first("partition"))
        return np.where(found >= 0, found, by_topic[topic])

    def _states(self, topic: Longs, names: list[str]) -> Longs:
        """Return indices into _STATES."""
        open_ = np.zeros(len(topic), np.bool_)
        open_[self._place[self._wide]] = True
        asked = np.array([*(name in self._facts.subscribed_topics for name in names), False])[topic]
        return np.where(self._counts > 0, np.where(open_, 1, 0), np.where(asked, 2, 3))

    def _evidence_inputs(self, topic: Longs, names: list[str]) -> EvidenceInputs:
        usual, consumers = self._usual, self._usual.consumers
        acked = np.append(consumers.acked, -1).take(usual.acked)
        resolved = np.where(self._wide, FAR, np.where(usual.cumulative_ns >= 0, usual.cumulative_number, acked))
        rows = usual.delivered
        return EvidenceInputs(
            topic, names, self._of_sent("sent_number"), self._of_sent("stream"), self._counts == 0, self._place,
            consumers.sub.take(rows), longs(consumers.table, "stream").take(rows), consumers.delivered.take(rows),
            resolved,
        )  # fmt: skip

    # -- structs

    def _producer(self, messages: Longs) -> pa.Array:
        size = len(messages)
        publish, deliver = self._sent_or_delivered("publish_ms"), self._sent_or_delivered("deliver_at_ms")
        columns: dict[str, Any] = {
            "connection": longs_of(self._of_sent("stream")),
            "producer_id": longs_of(self._of_sent("producer_id")),
            "name": self._names(),
            "sequence_id": self._sequences(),
            "highest_sequence_id": longs_of(self._sent_or_delivered("highest")),
            "sent_ns": longs_of(self._of_sent("sent_ns")),
            "receipt_ns": longs_of(self._of_sent("receipt_ns")),
            "messages": messages,
            "batch": self._sent_or_delivered("batch") >= 0,
            "size": longs_of(self._sent_or_delivered("size")),
            "publish_ns": nanoseconds(publish, least=1),
            "deliver_at_ns": nanoseconds(deliver, least=1),
            "key": self._keys(),
            "resends": np.zeros(size, np.int32),
            "other_ids": pa.ListArray.from_arrays(
                np.zeros(size + 1, np.int32),
                pa.array([], _PRODUCER.field("other_ids").type.value_type),
                type=_PRODUCER.field("other_ids").type,
            ),
            "error": pa.nulls(size, pa.string()),
        }
        return struct_of(columns, _PRODUCER)

    def _sequences(self) -> pa.Array:
        """Return sequence ids.

        An id from a SEND may be any number; an id from a delivery is null if the metadata lacks it.
        """
        if self._all_sent:
            return pa.array(self._of_sent("sequence"))
        return pa.array(self._sent_or_delivered("sequence"), mask=~self._sent & (self._of_first("sequence") == -1))

    def _names(self) -> pa.Array:
        facts = self._facts
        texts = [one.name for one in facts.publishers]
        places = self._publisher.copy()
        if not self._all_sent:
            labels, ids = list(facts.labels.values()), np.array([*facts.labels, -1], np.int64)
            label = self._of_first("name")
            at = np.searchsorted(ids[:-1], label, sorter=np.argsort(ids[:-1], kind="stable"))
            order = np.append(np.argsort(ids[:-1], kind="stable"), len(labels))
            found = order[np.minimum(at, len(labels))]
            good = ~self._sent & (ids[found] == label)
            places = np.where(good, found + len(texts), places)
            texts = texts + labels
        return texts_at(texts, places, empty_is_null=True)

    def _keys(self) -> pa.Array:
        """Return keys as text. The bytes of most keys are valid UTF-8."""
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
        usual, facts = self._usual, self._facts
        table, rows, pair = usual.consumers.table, self._rows, self._pair
        sessions = facts.sessions
        open_, mark = self._wide.take(pair), usual.cumulative_ns.take(pair)
        acked = np.where(mark >= 0, mark, np.where(open_, -1, longs(table, "acked_ns").take(usual.acked.take(pair))))
        # An ACK after a second delivery belongs to that delivery.
        left = open_ | (self._twice & ~self._shared & ~self._second)
        brought = messages.take(self._message)
        redelivery = longs(table, "redelivery")
        latest, shared = redelivery.take(rows), np.flatnonzero(self._shared)
        latest[shared] = np.maximum(latest[shared], redelivery[usual.redelivered[pair[shared]]])
        nacked = self._twice & ~self._second
        columns: dict[str, Any] = {
            "connection": longs(table, "stream").take(rows),
            "consumer_id": longs(table, "consumer_id").take(rows),
            "subscription": texts_at([one.subscription for one in sessions], self._session),
            "consumer": texts_at([one.name for one in sessions], self._session),
            "subscription_type": texts_at([one.type for one in sessions], self._session),
            "delivered_ns": longs(table, "delivered_ns").take(rows),
            "count": np.where(self._shared, 2, 1).astype(np.int32),
            "redelivery_count": np.maximum(latest, 0).astype(np.int32),
            "messages": brought,
            "acked_ns": pa.array(acked, mask=left),
            "ack_type": _ACKS.take(pa.array(np.where(mark >= 0, 1, 0), mask=left)),
            "nacked_ns": pa.array(longs(table, "nacked_ns").take(rows), mask=~nacked),
            "unacked": np.where(open_, brought, 0),
            "again": texts_at(["nack"], np.where(self._shared | self._second, 0, -1)),
        }
        values = struct_of(columns, _DELIVERIES.value_type)
        return pa.ListArray.from_arrays(pa.array(self._offsets.astype(np.int32)), values, type=_DELIVERIES)


def _in_time(usual: UsualMessages, place: Longs) -> Longs:
    """Return the messages in TIME_ORDER; ``place`` is defined in `_TableBuilder` and is ascending."""
    sent = usual.published >= 0
    first = np.full(len(sent), FAR, np.int64)
    if sent.any():
        times = np.minimum(longs(usual.producers.table, "sent_ns"), longs(usual.producers.table, "receipt_ns"))
        first[sent] = times[usual.published[sent]]
    if len(place):
        begins = np.flatnonzero(group_starts(place))
        delivered = np.minimum.reduceat(longs(usual.consumers.table, "delivered_ns")[usual.delivered], begins)
        first[place[begins]] = np.minimum(first[place[begins]], delivered)
    return np.argsort(first, kind="stable")  # rows with the same time are already in order of ids


def _order(first: Longs, then: Longs) -> Longs:
    """Return the rows in order of two columns."""
    return order_of(joint_key((first, then))) if len(first) else first


def _same(consumers: Consumers, one: Longs, other: Longs) -> Bools:
    """Return whether two rows belong to the same session of the same consumer."""
    found: Bools = consumers.session[one] == consumers.session[other]
    for name in ("stream", "consumer_id"):
        values = longs(consumers.table, name)
        found &= values[one] == values[other]
    return found


def messages_without_receipt(published: pa.Table, facts: RecordingFacts, cluster: str) -> pa.Table:
    """Return MESSAGES of the rows of PUBLISHED that have no receipt, in order of time."""
    rows = published.filter(pc.less(published.column("receipt_number"), 0)).sort_by("sent_ns").combine_chunks()
    producers = producers_of(rows, facts)
    size, none = len(producers.ledger), np.zeros(0, np.int64)
    if not size:
        return MESSAGES.empty_table()
    usual = UsualMessages(none, none, none, none, none, none, np.arange(size), np.arange(size))
    usual.producers, usual.consumers = producers, consumers_of(CONSUMED.empty_table(), facts)
    stream, sent = longs(producers.table, "stream"), longs(producers.table, "sent_number")
    lost = lost_sends(facts, stream, longs(producers.table, "producer_id"), sent)
    states = np.where(lost, UNSTORED.index("lost"), UNSTORED.index("in_flight"))
    columns = {
        "ledger": pa.nulls(size, pa.int64()),
        "entry": pa.nulls(size, pa.int64()),
        "first_ns": pa.array(longs(producers.table, "sent_ns")),
        "state": texts_at(UNSTORED, states),
        "evidence": texts_at(EVIDENCE_WORDS, evidence_of_unstored(states, stream, sent, facts)),
    }
    table = build_table(usual, facts, cluster)
    for name, values in columns.items():
        table = table.set_column(MESSAGES.get_field_index(name), MESSAGES.field(name), values)
    return table
