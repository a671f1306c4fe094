"""A message whose history needs to be followed event by event, as a row of MESSAGES."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.observe.tracking.entry_metadata import FIELD, key_of, number_of, pull_fields
from pcli.codec.wire.bits import left_of, set_of
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed
from pcli.codec.wire.topic_name import split_partition
from pcli.spark.columnar.lifecycles.entry_history import (
    ACKED,
    DELIVERED,
    NACKED,
    RESET,
    Event,
    Handed,
    Sub,
    ends,
    play,
    reached,
)
from pcli.spark.columnar.lifecycles.recording_facts import Back, Known
from pcli.spark.columnar.lifecycles.resent_messages import key_text
from pcli.spark.columnar.lifecycles.split_deliveries import unpack_ack
from pcli.spark.columnar.lifecycles.state_certainty import Story
from pcli.spark.columnar.timestamps import nanoseconds_of

__all__ = ["Parts", "Row", "finish", "follow", "story_of"]

Row = dict[str, Any]


@dataclass(slots=True)
class Parts:
    """The rows of one message."""

    published: Row | None = None
    publisher: int = -1
    settled: Row | None = None
    consumed: list[Row] = field(default_factory=list)

    @property
    def exists(self) -> bool:
        """Whether it was published or delivered in the capture."""
        published = self.published is not None or self.settled is not None
        return published or any(one["delivered_number"] >= 0 for one in self.consumed)


def story_of(parts: Parts, known: Known, cluster: str) -> Story:
    """The row of MESSAGES, but for what `weighing.weigh` adds."""
    row = _published(parts, known, cluster)
    subs = follow(parts.consumed, known, row["producer"]["messages"], row["topic"])
    row["topic"] = row["topic"] or next((one for one in map(_topic(known), parts.consumed) if one), None)
    if not row["topic"] and row["ledger"] is not None:
        row["topic"] = known.ledgers.get(row["ledger"])
    return finish(row, subs, known, parts)


def finish(row: Row, subs: dict[int, Sub], known: Known, parts: Parts) -> Story:
    """Write what follows from all that is known of it."""
    row["deliveries"] = deliveries_of(subs, known)
    if row["partition"] is None and row["topic"]:
        row["partition"] = _there(split_partition(row["topic"])[1])
    times = [
        row["producer"]["sent_ns"],
        row["producer"]["receipt_ns"],
        *(one["delivered_ns"] for one in row["deliveries"]),
    ]
    row["first_ns"] = min(one for one in times if one is not None)
    row["state"] = row["state"] or _state(row, subs, known)
    return Story(row, subs, (parts.settled or parts.published or {}).get("sent_number", -1))


def _state(row: Row, subs: dict[int, Sub], known: Known) -> str:
    got = [one for one in subs.values() if one.handed]
    if got:
        return "unacked" if any(one.left for one in got) else "acked"
    return "never_delivered" if row["topic"] in known.asked else "stored"


def _topic(known: Known) -> Any:
    return lambda row: known.sessions[row["session"]].topic if row["session"] >= 0 else ""


# -- the producer's side


def _published(parts: Parts, known: Known, cluster: str) -> Row:
    if parts.settled is not None:
        return _of_settled(parts.settled, cluster)
    row = parts.published
    if row is None:
        return _of_delivery(next(one for one in parts.consumed if one["delivered_number"] >= 0), known, cluster)
    one = known.publishers[parts.publisher] if parts.publisher >= 0 else None
    producer = {
        "connection": row["stream"], "producer_id": row["producer_id"], "name": (one.name if one else "") or None,
        "sequence_id": row["sequence"], "highest_sequence_id": _there(row["highest"]), "sent_ns": row["sent_ns"],
        "receipt_ns": row["receipt_ns"], "messages": max(1, row["messages"]), "batch": row["batch"] >= 0,
        "size": row["size"], "publish_ns": nanoseconds_of(row["publish_ms"], 1),
        "deliver_at_ns": nanoseconds_of(row["deliver_at_ms"], 1),
        "key": key_text(row["key"], row["key_kind"]) or None if row["key"] is not None else None,
        "resends": 0, "other_ids": [], "error": None,
    }  # fmt: skip
    return _blank(cluster, row["ledger"], row["entry"], producer) | {
        "topic": one.topic if one else None, "partition": _there(one.partition) if one else None,
        "marker": row["marker"] >= 0,
    }  # fmt: skip


def _of_settled(row: Row, cluster: str) -> Row:
    producer = {
        "connection": row["stream"], "producer_id": _there(row["producer_id"]), "name": row["name"] or None,
        "sequence_id": row["sequence"], "highest_sequence_id": _there(row["highest"]),
        "sent_ns": _there(row["sent_ns"]), "receipt_ns": _there(row["receipt_ns"]), "messages": row["messages"],
        "batch": row["batch"], "size": row["size"],
        "publish_ns": nanoseconds_of(row["publish_ms"], 1), "deliver_at_ns": nanoseconds_of(row["deliver_at_ms"], 1),
        "key": row["key"] or None, "resends": row["resends"], "other_ids": row["other_ids"],
        "error": row["error"] or None,
    }  # fmt: skip
    state = row["state"] if not row["stored"] else "non_persistent" if not row["persistent"] else ""
    return _blank(cluster, _there(row["ledger"]), _there(row["entry"]), producer) | {
        "topic": row["topic"] or None, "partition": _there(row["partition"]), "txn": row["txn"],
        "marker": row["marker"],
        "state": state,
    }  # fmt: skip


def _of_delivery(row: Row, known: Known, cluster: str) -> Row:
    """What the metadata of a MESSAGE says of the producer."""
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
        "connection": None, "producer_id": None, "name": known.labels.get(row["name"]) or None,
        "sequence_id": _there(row["sequence"]), "highest_sequence_id": _there(row["highest"]), "sent_ns": None,
        "receipt_ns": None, "messages": max(1, row["batch"]), "batch": row["batch"] >= 0, "size": _there(row["size"]),
        "publish_ns": nanoseconds_of(row["publish_ms"], 1),
        "deliver_at_ns": nanoseconds_of(row["deliver_at_ms"], 1),
        "key": key or None, "resends": 0, "other_ids": [], "error": None,
    }  # fmt: skip
    ids = row["ledger"], row["entry"]
    return _blank(cluster, *ids, producer) | {"partition": _there(row["partition"]), "txn": txn, "marker": marker}


def _blank(cluster: str, ledger: int | None, entry: int | None, producer: Row) -> Row:
    return {
        "cluster": cluster, "topic": None, "partition": None, "ledger": ledger, "entry": entry, "producer": producer,
        "chunk": None, "txn": None, "marker": False, "state": "",
    }  # fmt: skip


def _there(value: int) -> int | None:
    return None if value == -1 else value


# -- the consumers' side


def follow(rows: Iterable[Row], known: Known, size: int, topic: str | None) -> dict[int, Sub]:
    """What became of an entry of ``size`` messages at each subscription."""
    by_sub: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_sub[row["sub"]].append(row)
    return {sub: _follow_one(sub, of_sub, known, size, topic) for sub, of_sub in by_sub.items()}


def _follow_one(number: int, rows: list[Row], known: Known, size: int, topic: str | None) -> Sub:
    session = next((known.sessions[one["session"]] for one in rows if one["session"] >= 0), None)
    sub = Sub(size, session is not None and session.individual)
    events: list[Event] = []
    for row in rows:
        events += _events(row, size)
    events += [Event(one, RESET, -1) for one in known.resets.get(number, ())]
    marks = known.marks.get(number)
    if marks is not None:
        at = rows[0]["ledger"], rows[0]["entry"]
        events += reached(marks, at, [one.number for one in events if one.kind == DELIVERED])
    txns = {one.txn for one in events if one.txn is not None}
    if txns:
        name = session.subscription if session is not None else ""
        events += ends(known, txns, session.topic if session is not None else topic or "", name)
    return play(sub, events, known.failed)


def _events(row: Row, size: int) -> Iterable[Event]:
    owner = row["stream"], row["consumer_id"]
    if row["delivered_number"] >= 0:
        words = Frame.of(row["head"]).body.ack_set if row["head"] is not None else ()
        bits = set_of(words) if words else None
        messages = size if bits is None else left_of(bits, size)
        handed = Handed(
            *owner, row["session"], row["delivered_number"], row["delivered_ns"], max(0, row["redelivery"]), messages
        )
        yield Event(row["delivered_number"], DELIVERED, row["delivered_ns"], *owner, handed, given_bits=bits)
    if row["acked_number"] >= 0:
        event = Event(row["acked_number"], ACKED, row["acked_ns"], *owner)
        if row["ack"] is not None:
            event.txn, words = unpack_ack(row["ack"])
            event.bits = set_of(words) if words else event.bits
        yield event
    if row["nacked_number"] >= 0:
        yield Event(row["nacked_number"], NACKED, row["nacked_ns"], *owner)


def deliveries_of(subs: dict[int, Sub], known: Known) -> list[Row]:
    """The deliveries of MESSAGES: one for each consumer on its connection."""
    found = []
    for number, sub in subs.items():
        by_owner: dict[tuple[int, int, int], list[Handed]] = defaultdict(list)
        for one in sub.handed:
            by_owner[one.stream, one.consumer_id, one.session].append(one)
        found += [(handed[0].number, _delivery(handed, number, sub, known)) for handed in by_owner.values()]
    return [row for _, row in sorted(found, key=lambda one: one[0])]


def _delivery(handed: list[Handed], number: int, sub: Sub, known: Known) -> Row:
    first = handed[0]
    session = known.sessions[first.session] if first.session >= 0 else None
    acked = next((one for one in handed if one.acked_ns >= 0), None)
    nacked = next((one for one in handed if one.nacked_ns >= 0), None)
    return {
        "connection": first.stream, "consumer_id": first.consumer_id,
        "subscription": session.subscription if session else None, "consumer": session.name if session else None,
        "subscription_type": session.type if session else None, "delivered_ns": first.time_ns, "count": len(handed),
        "redelivery_count": max(one.redelivery for one in handed), "messages": first.messages,
        "acked_ns": acked.acked_ns if acked else None, "ack_type": acked.ack_type if acked else None,
        "nacked_ns": nacked.nacked_ns if nacked else None, "unacked": sub.left,
        "again": _why(handed[-1], number, sub, known),
    }  # fmt: skip


def _why(last: Handed, number: int, sub: Sub, known: Known) -> str | None:
    """Why it came again, as far as frames tell: a key of AGAIN; None: they do not.

    What set the whole subscription back says so; else what first took it back from its consumer.
    """
    before = sub.handed[: sub.handed.index(last)]
    if not before:
        return None
    past = before[-1]
    backs = [one for one in known.backs.get(number, ()) if past.number < one.number < last.number]
    resets = [one.why for one in backs if one.why in _RESETS]
    if resets:
        return resets[-1]
    causes = [(one.number, one.why) for one in backs if _of(one, past)]
    causes += [(past.nacked_number, "nack" if sub.individual else "rewind"), (past.aborted_number, "aborted")]
    doubt = known.doubts.get(past.stream)
    if doubt is not None and doubt.ended:
        causes.append((doubt.last_number, "lost"))
    causes = [one for one in causes if past.number <= one[0] < last.number]
    # On Exclusive and Failover a REDELIVER that names one message asks for all: another one's may be the cause.
    return min(causes)[1] if causes else "twice" if sub.individual else None


_RESETS: Final = frozenset({"seek", "unload"})
"""What sets the cursor of a whole subscription back."""


def _of(back: Back, handed: Handed) -> bool:
    same = (back.stream, back.consumer_id) == (handed.stream, handed.consumer_id)
    return back.stream < 0 or same != back.but
