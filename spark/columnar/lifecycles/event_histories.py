"""Rows of MESSAGES for messages whose history must be processed event by event.

The messages of non-persistent topics are among them: all of these have the id 0:0, so producer and sequence id identify
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.observe.tracking.entry_metadata import FIELD, key_of, number_of, pull_fields
from pcli.codec.wire.bits import left_of, set_of
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed
from pcli.codec.wire.topic_name import split_partition
from pcli.spark.columnar.lifecycles.bucket_rows import Consumers, Producers
from pcli.spark.columnar.lifecycles.entry_history import (
    ACKED,
    DELIVERED,
    NACKED,
    RESET,
    Delivery,
    EntryAtSubscription,
    Event,
    apply_events,
    cumulative_ack_events,
    transaction_ends,
)
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts, RedeliveryCause
from pcli.spark.columnar.lifecycles.resent_messages import key_text
from pcli.spark.columnar.lifecycles.split_deliveries import unpack_ack
from pcli.spark.columnar.lifecycles.state_certainty import MessageHistory
from pcli.spark.columnar.table_schema import nanoseconds_of

Row = dict[str, Any]


@dataclass(slots=True)
class MessageRows:
    """The rows of one message."""

    published: Row | None = None
    publisher: int = -1
    resolved: Row | None = None
    consumed: list[Row] = field(default_factory=list)

    @property
    def exists(self) -> bool:
        """Whether the message was published or delivered in the capture."""
        published = self.published is not None or self.resolved is not None
        return published or any(one["delivered_number"] >= 0 for one in self.consumed)


def message_of(parts: MessageRows, facts: RecordingFacts, cluster: str) -> MessageHistory:
    """Return the row of MESSAGES without its ``evidence``, which `add_evidence` sets."""
    row = _published(parts, facts, cluster)
    subs = replay_at_subscriptions(parts.consumed, facts, row["producer"]["messages"], row["topic"])
    row["topic"] = row["topic"] or next((one for one in map(_topic(facts), parts.consumed) if one), None)
    if not row["topic"] and row["ledger"] is not None:
        row["topic"] = facts.ledger_topics.get(row["ledger"])
    return finish_row(row, subs, facts, parts)


def needs_later_acks(parts: MessageRows, facts: RecordingFacts) -> bool:
    """Return whether the facts of a bucket lack a cumulative ACK that the message needs."""
    for number in {row["sub"] for row in parts.consumed} & facts.cumulative_acks.keys():
        rows = [row for row in parts.consumed if row["sub"] == number]
        delivered = [row["delivered_number"] for row in rows if row["delivered_number"] >= 0]
        if facts.cumulative_acks[number].unknown(rows[0]["ledger"], rows[0]["entry"], delivered):
            return True
    return False


def finish_row(
    row: Row, subs: dict[int, EntryAtSubscription], facts: RecordingFacts, parts: MessageRows
) -> MessageHistory:
    """Set the columns that depend on the other columns: deliveries, partition, time and state."""
    row["deliveries"] = deliveries_of(subs, facts)
    if row["partition"] is None and row["topic"]:
        row["partition"] = _or_none(split_partition(row["topic"])[1])
    times = [
        row["producer"]["sent_ns"],
        row["producer"]["receipt_ns"],
        *(one["delivered_ns"] for one in row["deliveries"]),
    ]
    row["first_ns"] = min(one for one in times if one is not None)
    row["state"] = row["state"] or _state(row, subs, facts)
    return MessageHistory(row, subs, (parts.resolved or parts.published or {}).get("sent_number", -1))


def _state(row: Row, subs: dict[int, EntryAtSubscription], facts: RecordingFacts) -> str:
    got = [one for one in subs.values() if one.deliveries]
    if got:
        return "unacked" if any(one.unacked for one in got) else "acked"
    return "never_delivered" if row["topic"] in facts.subscribed_topics else "stored"


def _topic(facts: RecordingFacts) -> Any:
    return lambda row: facts.sessions[row["session"]].topic if row["session"] >= 0 else ""


# -- publication


def _published(parts: MessageRows, facts: RecordingFacts, cluster: str) -> Row:
    if parts.resolved is not None:
        return _of_resolved(parts.resolved, cluster)
    row = parts.published
    if row is None:
        return _of_delivery(next(one for one in parts.consumed if one["delivered_number"] >= 0), facts, cluster)
    one = facts.publishers[parts.publisher] if parts.publisher >= 0 else None
    producer = {
        "connection": row["stream"], "producer_id": row["producer_id"], "name": (one.name if one else "") or None,
        "sequence_id": row["sequence"], "highest_sequence_id": _or_none(row["highest"]), "sent_ns": row["sent_ns"],
        "receipt_ns": row["receipt_ns"], "messages": max(1, row["messages"]), "batch": row["batch"] >= 0,
        "size": row["size"], "publish_ns": nanoseconds_of(row["publish_ms"]),
        "deliver_at_ns": nanoseconds_of(row["deliver_at_ms"]),
        "key": key_text(row["key"], row["key_kind"]) or None if row["key"] is not None else None,
        "resends": 0, "other_ids": [], "error": None,
    }  # fmt: skip
    return _empty_row(cluster, row["ledger"], row["entry"], producer) | {
        "topic": one.topic if one else None, "partition": _or_none(one.partition) if one else None,
        "marker": row["marker"] >= 0,
    }  # fmt: skip


def _of_resolved(row: Row, cluster: str) -> Row:
    producer = {
        "connection": row["stream"], "producer_id": _or_none(row["producer_id"]), "name": row["name"] or None,
        "sequence_id": row["sequence"], "highest_sequence_id": _or_none(row["highest"]),
        "sent_ns": _or_none(row["sent_ns"]), "receipt_ns": _or_none(row["receipt_ns"]), "messages": row["messages"],
        "batch": row["batch"], "size": row["size"],
        "publish_ns": nanoseconds_of(row["publish_ms"]), "deliver_at_ns": nanoseconds_of(row["deliver_at_ms"]),
        "key": row["key"] or None, "resends": row["resends"], "other_ids": row["other_ids"],
        "error": row["error"] or None,
    }  # fmt: skip
    state = row["state"] if not row["stored"] else "non_persistent" if not row["persistent"] else ""
    return _empty_row(cluster, _or_none(row["ledger"]), _or_none(row["entry"]), producer) | {
        "topic": row["topic"] or None, "partition": _or_none(row["partition"]), "txn": row["txn"],
        "marker": row["marker"],
        "state": state,
    }  # fmt: skip


def _of_delivery(row: Row, facts: RecordingFacts, cluster: str) -> Row:
    """Return the publication as described by the metadata of a MESSAGE."""
    key = key_text(row["key"], row["key_kind"]) if row["key"] is not None else ""
    txn, marker = None, False
    if row["head"] is not None:
        parts = Frame.of(row["head"]).parts
        fields = pull_fields(row["head"], parts.metadata_start, parts.metadata_end) if parts.metadata_start >= 0 else {}
        key, marker = key_of(fields), FIELD["marker_type"] in fields
        if FIELD["txnid_most_bits"] in fields:
            most, least = (signed(number_of(fields, FIELD[f"txnid_{half}_bits"])) for half in ("most", "least"))
            txn = {"most": most, "least": least}
    producer = {
        "connection": None, "producer_id": None, "name": facts.labels.get(row["name"]) or None,
        "sequence_id": _or_none(row["sequence"]), "highest_sequence_id": _or_none(row["highest"]), "sent_ns": None,
        "receipt_ns": None, "messages": max(1, row["batch"]), "batch": row["batch"] >= 0, "size": _or_none(row["size"]),
        "publish_ns": nanoseconds_of(row["publish_ms"]),
        "deliver_at_ns": nanoseconds_of(row["deliver_at_ms"]),
        "key": key or None, "resends": 0, "other_ids": [], "error": None,
    }  # fmt: skip
    ids = row["ledger"], row["entry"]
    return _empty_row(cluster, *ids, producer) | {"partition": _or_none(row["partition"]), "txn": txn, "marker": marker}


def _empty_row(cluster: str, ledger: int | None, entry: int | None, producer: Row) -> Row:
    return {
        "cluster": cluster, "topic": None, "partition": None, "ledger": ledger, "entry": entry, "producer": producer,
        "chunk": None, "txn": None, "marker": False, "state": "",
    }  # fmt: skip


def _or_none(value: int) -> int | None:
    return None if value == -1 else value


# -- deliveries


def replay_at_subscriptions(
    rows: Iterable[Row], facts: RecordingFacts, size: int, topic: str | None
) -> dict[int, EntryAtSubscription]:
    """Return the state of an entry of ``size`` messages at each subscription."""
    by_sub: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_sub[row["sub"]].append(row)
    return {sub: _replay_at_subscription(sub, of_sub, facts, size, topic) for sub, of_sub in by_sub.items()}


def _replay_at_subscription(
    number: int, rows: list[Row], facts: RecordingFacts, size: int, topic: str | None
) -> EntryAtSubscription:
    session = next((facts.sessions[one["session"]] for one in rows if one["session"] >= 0), None)
    sub = EntryAtSubscription(size, session is not None and session.individual)
    events: list[Event] = []
    for row in rows:
        events += _events(row, size)
    events += [Event(one, RESET, -1) for one in facts.cursor_resets.get(number, ())]
    marks = facts.cumulative_acks.get(number)
    if marks is not None:
        at = rows[0]["ledger"], rows[0]["entry"]
        events += cumulative_ack_events(marks, at, [one.number for one in events if one.kind == DELIVERED])
    transactions = {one.txn for one in events if one.txn is not None}
    if transactions:
        name = session.subscription if session is not None else ""
        events += transaction_ends(facts, transactions, session.topic if session is not None else topic or "", name)
    return apply_events(sub, events, facts.failed_acks)


def _events(row: Row, size: int) -> Iterable[Event]:
    owner = row["stream"], row["consumer_id"]
    if row["delivered_number"] >= 0:
        words = Frame.of(row["head"]).body.ack_set if row["head"] is not None else ()
        bits = set_of(words) if words else None
        messages = size if bits is None else left_of(bits, size)
        delivery = Delivery(
            *owner, row["session"], row["delivered_number"], row["delivered_ns"], max(0, row["redelivery"]), messages
        )
        yield Event(row["delivered_number"], DELIVERED, row["delivered_ns"], *owner, delivery, remaining_bits=bits)
    if row["acked_number"] >= 0:
        event = Event(row["acked_number"], ACKED, row["acked_ns"], *owner)
        if row["ack"] is not None:
            event.txn, words = unpack_ack(row["ack"])
            event.bits = set_of(words) if words else event.bits
        yield event
    if row["nacked_number"] >= 0:
        yield Event(row["nacked_number"], NACKED, row["nacked_ns"], *owner)


def deliveries_of(subs: dict[int, EntryAtSubscription], facts: RecordingFacts) -> list[Row]:
    """Return the deliveries of MESSAGES: one for each consumer on its connection."""
    found = []
    for number, sub in subs.items():
        by_owner: dict[tuple[int, int, int], list[Delivery]] = defaultdict(list)
        for one in sub.deliveries:
            by_owner[one.stream, one.consumer_id, one.session].append(one)
        found += [(delivery[0].number, _delivery(delivery, number, sub, facts)) for delivery in by_owner.values()]
    return [row for _, row in sorted(found, key=lambda one: one[0])]


def _delivery(delivery: list[Delivery], number: int, sub: EntryAtSubscription, facts: RecordingFacts) -> Row:
    first = delivery[0]
    session = facts.sessions[first.session] if first.session >= 0 else None
    acked = next((one for one in delivery if one.acked_ns >= 0), None)
    nacked = next((one for one in delivery if one.nacked_ns >= 0), None)
    return {
        "connection": first.stream, "consumer_id": first.consumer_id,
        "subscription": session.subscription if session else None, "consumer": session.name if session else None,
        "subscription_type": session.type if session else None, "delivered_ns": first.time_ns, "count": len(delivery),
        "redelivery_count": max(one.redelivery for one in delivery), "messages": first.messages,
        "acked_ns": acked.acked_ns if acked else None, "ack_type": acked.ack_type if acked else None,
        "nacked_ns": nacked.nacked_ns if nacked else None, "unacked": sub.unacked,
        "again": _redelivery_cause(delivery[-1], number, sub, facts),
    }  # fmt: skip


def _redelivery_cause(last: Delivery, number: int, sub: EntryAtSubscription, facts: RecordingFacts) -> str | None:
    """Return the cause of the last redelivery, a key of AGAIN; None if the frames do not show the cause.

    A cursor reset of the whole subscription has priority. Otherwise the cause is the first event that released the
    message from its consumer.
    """
    place = next(place for place, one in enumerate(sub.deliveries) if one is last)
    if not place:
        return None
    past = sub.deliveries[place - 1]
    redelivery_causes = [
        one for one in facts.redelivery_causes.get(number, ()) if past.number < one.number < last.number
    ]
    cursor_resets = [one.cause for one in redelivery_causes if one.cause in _RESETS]
    if cursor_resets:
        return cursor_resets[-1]
    causes = [(one.number, one.cause) for one in redelivery_causes if _applies_to(one, past)]
    causes += [(past.nacked_number, "nack" if sub.individual else "rewind"), (past.aborted_number, "aborted")]
    gaps_of_connection = facts.connection_gaps.get(past.stream)
    if gaps_of_connection is not None and gaps_of_connection.ended:
        causes.append((gaps_of_connection.last_number, "lost"))
    causes = [one for one in causes if past.number <= one[0] < last.number]
    # On Exclusive and Failover subscriptions, a REDELIVER with one id requests all messages, so a REDELIVER with a
    # different id may be the cause.
    return min(causes)[1] if causes else "twice" if sub.individual else None


_RESETS: Final = frozenset({"seek", "reset", "unload"})
"""Causes that reset the cursor of a whole subscription."""


def _applies_to(back: RedeliveryCause, delivery: Delivery) -> bool:
    same = (back.stream, back.consumer_id) == (delivery.stream, delivery.consumer_id)
    return back.stream < 0 or same != back.all_but


def messages_of_non_persistent_topics(
    producers: Producers, consumers: Consumers, resolved: pa.Table, facts: RecordingFacts, cluster: str
) -> list[MessageHistory]:
    """Return all messages of non-persistent topics that reached the broker."""
    found: dict[tuple[str, str, int], MessageRows] = {}
    rows = np.flatnonzero(~producers.persistent)
    for row, at in zip(producers.pick(rows).table.to_pylist(), producers.publisher[rows].tolist(), strict=True):
        one = facts.publishers[at]
        found[one.topic, one.name, row["sequence"]] = MessageRows(row, at)
    of_resolved = pc.and_(resolved.column("stored"), pc.invert(resolved.column("persistent")))
    for row in resolved.filter(of_resolved).to_pylist():
        found[row["topic"], row["name"], row["sequence"]] = MessageRows(resolved=row)
    for row in consumers.pick(np.flatnonzero(~consumers.persistent)).rows():
        name = facts.sessions[row["session"]].topic, facts.labels.get(row["name"], ""), row["sequence"]
        if row["delivered_number"] >= 0:
            found.setdefault(name, MessageRows()).consumed.append(row)
    return [_history(parts, facts, cluster) for parts in found.values()]


def _history(parts: MessageRows, facts: RecordingFacts, cluster: str) -> MessageHistory:
    history = message_of(parts, facts, cluster)
    row = history.row
    row["ledger"] = row["entry"] = None
    row["state"] = "non_persistent"
    for one in row["deliveries"]:
        one["unacked"] = None
    return history
