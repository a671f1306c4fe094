"""The spans of a message: one for its SEND, and one for each delivery to a consumer.

Rules of this file
1. A span follows the semantic conventions for messaging. A message with trace headers was created in the span of an
   application, so its ``send`` span has the kind client and is a child of that span, to which it has a link. A message
   without headers has a trace of its own, with the ``send`` span, of the kind producer, as its root.
2. A delivery is a ``process`` span from MESSAGE to the ACK, the request for redelivery, or the moment at which the
   broker takes it back. If the capture contains none of these, it is a ``receive`` span without a duration. The parent
   is that of rule 1, and there is a link to the ``send`` span and to the span of the application.
3. The messages of a batch can belong to several traces. The entry then has spans for each of them, which contain the
   positions of their messages in the batch and have links to each other.
4. Ids of spans are digests of what the wire shows, so a later export of the same message, or an export of a capture of
   another host, has the same ids.
5. Hosts of captures have different clocks. A span that would end before it begins has no duration, and
   ``pcli.clock_skew_ms`` is the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pcli.codec.observe.telemetry.delivery_periods import Period, periods_of
from pcli.codec.observe.telemetry.message_contexts import Contexts
from pcli.codec.observe.telemetry.send_events import send_events
from pcli.codec.observe.telemetry.spans import Attributes, Link, Span
from pcli.codec.observe.telemetry.trace_ids import (
    TraceContext,
    publication_trace_id,
    span_id,
    span_text,
    trace_id,
    trace_text,
)
from pcli.codec.observe.tracking.producers.sends import SKEW_MS
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import final_state
from pcli.codec.scalable.segment_name import SegmentName
from pcli.codec.wire.topic_name import split_partition

Addresses = Callable[[int], Attributes]
"""A function that returns the attributes of a connection by ``tcp.stream``; empty if it is unknown."""


@dataclass(slots=True)
class MessageTrace:
    """The spans of one message, or of the messages of a batch that one span of an application created."""

    trace_id: int
    spans: list[Span]
    """The ``send`` span, if the capture contains the SEND, and the spans of deliveries."""
    sampled: bool | None
    """Whether the application exports the trace; None if unknown."""


@dataclass(slots=True)
class _Group:
    """Messages of one entry that have the same creation context."""

    context: TraceContext | None
    indexes: tuple[int, ...]
    """Positions in the batch; empty for all messages of the entry."""
    trace_id: int
    send_id: int
    own_id: str
    """The stable id of the entry, which distinguishes it from other entries in the trace of an application."""


def message_trace_id(lifecycle: Lifecycle, cluster: str) -> int:
    """Return the stable trace id of a message, which applies if it has no trace headers."""
    topic = lifecycle.topic.name if lifecycle.topic is not None else ""
    if lifecycle.ledger >= 0 and (lifecycle.topic is None or lifecycle.topic.persistent):
        return trace_id(cluster, topic, lifecycle.ledger, lifecycle.entry)
    return publication_trace_id(cluster, topic, *lifecycle.published_as, lifecycle.checksum)


def frames_of(lifecycle: Lifecycle) -> Iterator[int]:
    """Yield the frames with the message: the first SEND, resends, chunks, and deliveries. 0 is an unknown frame."""
    for one in (lifecycle, *lifecycle.earlier):
        yield one.sent_frame
        yield from (frame for _, frame, _ in one.resent)
        yield from (frame for _, frame, _, _ in one.chunks)
    for deliveries in lifecycle.deliveries.values():
        yield from (one.frame for one in deliveries)


def traces_of(lifecycle: Lifecycle, contexts: Contexts, cluster: str, addresses: Addresses) -> list[MessageTrace]:
    """Return the spans of a lifecycle, by the creation contexts of its messages."""
    groups = _groups(lifecycle, contexts, cluster)
    common = _common(lifecycle, cluster)
    found = []
    for group in groups:
        others = [Link(one.trace_id, one.send_id) for one in groups if one is not group]
        spans = [_send(lifecycle, group, common, others, addresses)] if lifecycle.sent_frame else []
        for name in lifecycle.deliveries:
            spans += _deliveries(lifecycle, name, group, common, addresses)
        found.append(MessageTrace(group.trace_id, spans, group.context.sampled if group.context is not None else None))
    return found


def _groups(lifecycle: Lifecycle, contexts: Contexts, cluster: str) -> list[_Group]:
    merged: dict[tuple[int, int], TraceContext] = {}
    for _, one in contexts:
        merged[one[:2]] = one.merge(merged.get(one[:2], one))
    indexes: dict[TraceContext | None, list[int]] = {}
    for index, one in contexts:
        indexes.setdefault(merged[one[:2]], []).append(index)
    with_context = {index for index, _ in contexts}
    if lifecycle.batch and contexts:
        rest = [one for one in range(lifecycle.messages) if one not in with_context]
        indexes |= {None: rest} if rest else {}
    own = message_trace_id(lifecycle, cluster)
    own_id = trace_text(own)
    found = []
    for context, places in (indexes or {None: []}).items():
        trace = own if context is None else context.trace_id
        creator = "" if context is None else span_text(context.span_id)
        several = tuple(places) if len(indexes) > 1 else ()
        found.append(_Group(context, several, trace, span_id(trace, "send", own_id, creator), own_id))
    return found


def _common(lifecycle: Lifecycle, cluster: str) -> Attributes:
    """Return the attributes of all spans of a message."""
    found: Attributes = {"messaging.system": "pulsar", "messaging.pulsar.state": _state(lifecycle)}
    values: tuple[tuple[str, str | int, bool], ...] = (
        ("messaging.pulsar.cluster", cluster, bool(cluster)),
        ("messaging.pulsar.entry.id", lifecycle.id, lifecycle.ledger >= 0),
        ("messaging.pulsar.sequence_id", lifecycle.sequence_id, lifecycle.sequence_id >= 0),
        ("messaging.pulsar.publish_time", lifecycle.publish_ms, lifecycle.publish_ms > 0),
        ("messaging.pulsar.deliver_at_time", lifecycle.deliver_at_ms, lifecycle.deliver_at_ms > 0),
        ("messaging.pulsar.chunk.count", lifecycle.num_chunks, lifecycle.num_chunks > 1),
    )
    found |= {name: value for name, value, known in values if known}
    if lifecycle.txn is not None:
        found["messaging.pulsar.transaction.id"] = f"({lifecycle.txn[0]},{lifecycle.txn[1]})"
    if lifecycle.batch:
        found["messaging.pulsar.entry.size"] = lifecycle.size
    else:
        found["messaging.message.body.size"] = lifecycle.size
        if lifecycle.ledger >= 0:
            found["messaging.message.id"] = f"{lifecycle.id}:{lifecycle.partition}"
    doubts = lifecycle.doubts | ({"evicted"} if lifecycle.evicted else set())
    if doubts:
        found["pcli.doubts"] = ",".join(sorted(doubts))
    return found | _destination(lifecycle.topic.name if lifecycle.topic is not None else "")


def _state(lifecycle: Lifecycle) -> str:
    """Return the state; for a lifecycle that is still open, the state that it would have if the capture ended now."""
    return final_state(lifecycle) if lifecycle.state == "stored" and lifecycle.ledger >= 0 else lifecycle.state


def _destination(topic: str) -> Attributes:
    segment = SegmentName.parse(topic)
    if segment is not None:
        return {
            "messaging.destination.name": segment.topic,
            "messaging.pulsar.segment": topic.rpartition("/")[2],
        }
    base, partition = split_partition(topic)
    found: Attributes = {"messaging.destination.name": base} if base else {}
    return found | ({"messaging.destination.partition.id": str(partition)} if partition >= 0 else {})


def _of_group(lifecycle: Lifecycle, group: _Group, messages: int) -> Attributes:
    if not lifecycle.batch:
        return {}
    if group.indexes:
        return {
            "messaging.batch.message_count": len(group.indexes),
            "messaging.pulsar.batch.indexes": group.indexes,
        }
    return {"messaging.batch.message_count": messages}


def _operation(name: str, common: Attributes) -> Attributes:
    return {"messaging.operation.type": name, "messaging.operation.name": name, **common}


def _title(name: str, common: Attributes) -> str:
    return f"{name} {common['messaging.destination.name']}" if "messaging.destination.name" in common else name


def _send(lifecycle: Lifecycle, group: _Group, common: Attributes, others: list[Link], addresses: Addresses) -> Span:
    start = min(one.sent_ns for one in (*lifecycle.earlier, lifecycle) if one.sent_ns >= 0)
    end = lifecycle.receipt_ns if lifecycle.receipt_ns >= 0 else lifecycle.sent_ns
    end = max([end, *(time_ns for _, _, time_ns in lifecycle.resent)])
    attributes = _operation("send", common) | _of_group(lifecycle, group, lifecycle.messages)
    attributes |= {"pcli.frame": lifecycle.sent_frame, "pcli.stream": lifecycle.stream} | addresses(lifecycle.stream)
    if lifecycle.producer_name:
        attributes["messaging.client.id"] = lifecycle.producer_name
    if lifecycle.chunks:
        attributes["pcli.frame.chunks"] = tuple(frame for _, frame, _, _ in lifecycle.chunks)
    if lifecycle.receipt_frame:
        attributes["pcli.frame.end"] = lifecycle.receipt_frame
    if lifecycle.other_ids:
        attributes["messaging.pulsar.other_entry.ids"] = ",".join(f"{one}:{two}" for one, two in lifecycle.other_ids)
    age_ms = lifecycle.sent_ns // 1_000_000 - lifecycle.publish_ms
    if lifecycle.publish_ms and not 0 <= age_ms <= SKEW_MS:
        attributes["pcli.clock_skew_ms"] = -age_ms
    error = lifecycle.error or (lifecycle.state if lifecycle.state == "lost" else "")
    if error:
        attributes["error.type"] = error
    context = group.context
    links = [] if context is None else [Link(context.trace_id, context.span_id, context.state)]
    kind = "producer" if context is None else "client"
    return Span(
        group.trace_id, group.send_id, _title("send", common), kind, start, max(start, end),
        0 if context is None else context.span_id, context is not None, "" if context is None else context.state,
        attributes, send_events(lifecycle), links + others, error,
    )  # fmt: skip


def _deliveries(
    lifecycle: Lifecycle, name: str, group: _Group, common: Attributes, addresses: Addresses
) -> Iterator[Span]:
    seen: dict[tuple[str, int], int] = {}
    context = group.context
    parent = group.send_id if context is None else context.span_id
    links = [Link(group.trace_id, group.send_id)]
    if context is not None:
        links.append(Link(context.trace_id, context.span_id, context.state))
    for period in periods_of(lifecycle, name, group.indexes):
        consumer, count = period.consumer_name, period.first.redelivery_count
        ordinal = seen[consumer, count] = seen.get((consumer, count), 0) + 1
        words = ("process", group.own_id, str(parent), name, consumer, str(count), str(ordinal))
        attributes = _operation(period.operation, common) | _of_group(lifecycle, group, period.first.messages)
        attributes |= _of_period(lifecycle, period) | addresses(period.first.stream)
        yield Span(
            group.trace_id, span_id(group.trace_id, *words), _title(period.operation, common),
            "consumer" if period.operation == "process" else "client", period.start_ns,
            max(period.start_ns, period.end_ns), parent, context is not None, "" if context is None else context.state,
            attributes, period.events, links, period.error,
        )  # fmt: skip


def _of_period(lifecycle: Lifecycle, period: Period) -> Attributes:
    first = period.first
    consumer = first.consumer
    found: Attributes = {
        "pcli.frame": first.frame,
        "pcli.stream": first.stream,
        "messaging.pulsar.redelivery.count": first.redelivery_count,
    }
    values = (
        ("messaging.destination.subscription.name", consumer.subscription_name),
        ("messaging.pulsar.subscription.type", consumer.type),
        ("messaging.client.id", consumer.name),
        ("pcli.frame.end", period.end_frame),
        ("error.type", period.error),
    )
    found |= {name: value for name, value in values if value}
    skew = max(period.start_ns - period.end_ns, lifecycle.sent_ns - period.start_ns)
    if skew > 0:
        found["pcli.clock_skew_ms"] = skew / 1e6
    return found
