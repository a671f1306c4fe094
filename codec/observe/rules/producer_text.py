"""Names and subjects of producers in findings."""

from __future__ import annotations

from typing import Any

from pcli.codec.observe.text_format import printable, short_topic
from pcli.codec.observe.tracking.records.client_records import ProducerRecord


def about_producer(producer: ProducerRecord) -> str:
    """Return ``producer web on orders``."""
    name = f"producer {printable(producer.name)}" if producer.name else _numbered(producer)
    where = f"on {short_topic(producer.topic)}" if producer.topic else "(its PRODUCER is not in the capture)"
    return f"{name} {where}"


def producer_subject(producer: ProducerRecord) -> dict[str, Any]:
    """Return the subject of a finding about a producer."""
    return {"topic": producer.topic, "producer": producer.name or _numbered(producer)}


def sets_own_sequence_ids(producer: ProducerRecord) -> bool:
    """Return whether the application probably sets sequence ids: more than one in ten SENDs skips ids."""
    return producer.gaps.count * 10 > producer.sent_entries


def _numbered(producer: ProducerRecord) -> str:
    session = producer.session
    return "a producer" if session is None else f"producer #{session.id} of stream {session.stream}"
