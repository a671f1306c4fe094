"""Message lifecycles as JSON objects with stable keys.

Times are strings of seconds since 1970 with nine decimals, as in `dissect -T ndjson`; durations are in milliseconds.
"""

from __future__ import annotations

from typing import Any

from pcli.codec.observe.text_format import epoch_text
from pcli.codec.observe.tracking.message_timeline import Step, duration_ns, since, steps_of
from pcli.codec.observe.tracking.records.lifecycle import Delivery, Lifecycle


def lifecycle_object(lifecycle: Lifecycle) -> dict[str, Any]:
    """Return a lifecycle as an object; a value that the capture does not contain is None."""
    return {
        "message_id": lifecycle.id or None,
        "topic": lifecycle.topic.name if lifecycle.topic is not None else None,
        "partition": lifecycle.partition,
        "producer": lifecycle.producer_name or (lifecycle.producer.name if lifecycle.producer is not None else None),
        "sequence_id": lifecycle.sequence_id,
        "highest_sequence_id": max(lifecycle.sequence_id, lifecycle.highest_sequence_id),
        "key": lifecycle.key or None,
        "messages": lifecycle.messages,
        "batch": lifecycle.batch,
        "size": lifecycle.size,
        "publish_time": lifecycle.publish_ms or None,
        "deliver_at_time": lifecycle.deliver_at_ms or None,
        "chunks": [
            {"chunk": chunk, "frame": frame, "message_id": f"{ledger}:{entry}"}
            for chunk, frame, ledger, entry in lifecycle.chunks
        ],
        "txn": f"({lifecycle.txn[0]},{lifecycle.txn[1]})" if lifecycle.txn is not None else None,
        "other_message_ids": [f"{ledger}:{entry}" for ledger, entry in lifecycle.other_ids],
        "earlier_attempts": [_attempt_object(one) for one in lifecycle.earlier],
        "sent_again_elsewhere": lifecycle.moved,
        "state": lifecycle.state,
        "error": lifecycle.error or None,
        "unacked": dict(lifecycle.unacked),
        "dead_letter": lifecycle.dead_letters[0][0] if lifecycle.dead_letters else None,
        "complete": not lifecycle.doubts,
        "doubts": sorted(lifecycle.doubts),
        "duration_ms": _ms(duration_ns(lifecycle)),
        "steps": [_step_object(step) for step in steps_of(lifecycle)],
        "deliveries": [
            _delivery_object(delivery) for deliveries in lifecycle.deliveries.values() for delivery in deliveries
        ],
    }


def _attempt_object(lifecycle: Lifecycle) -> dict[str, Any]:
    return {
        "topic": lifecycle.topic.name if lifecycle.topic is not None else None,
        "producer": lifecycle.producer_name or None,
        "sequence_id": lifecycle.sequence_id,
        "frame": lifecycle.sent_frame or None,
        "message_id": lifecycle.id or None,
        "error": lifecycle.error or None,
    }


def _step_object(step: Step) -> dict[str, Any]:
    return {
        "what": step.what,
        "frame": step.frame or None,
        "time": _seconds(step.time_ns),
        "from": step.sender or "broker",
        "to": step.receiver or "broker",
        "after_ms": _ms(step.after_ns),
    }


def _delivery_object(delivery: Delivery) -> dict[str, Any]:
    known = bool(delivery.consumer.topic)
    return {
        "subscription": delivery.consumer.subscription_name if known else None,
        "consumer": delivery.consumer.name if known else None,
        "stream": delivery.stream,
        "frame": delivery.frame,
        "time": _seconds(delivery.time_ns),
        "redelivery_count": delivery.redelivery_count,
        "messages": delivery.messages,
        "chunk": delivery.chunk,
        "why_again": delivery.why or None,
        "why_frame": delivery.why_frame or None,
        "asked_again_frame": delivery.again[0] or None,
        "held": delivery.held,
        "acks": [
            {
                "frame": ack.frame,
                "time": _seconds(ack.time_ns),
                "kind": ack.kind,
                "left": ack.left,
                "effective": ack.effective,
                "answer_frame": ack.answer_frame or None,
                "answer_ms": _ms(since(ack.answer_ns, ack.time_ns)),
                "error": ack.error or None,
                "validation_error": ack.validation_error or None,
            }
            for ack in delivery.acks
        ],
    }


def _seconds(time_ns: int) -> str | None:
    return None if time_ns < 0 else epoch_text(time_ns)


def _ms(nanoseconds: int) -> float | None:
    return None if nanoseconds < 0 else round(nanoseconds / 1e6, 6)
