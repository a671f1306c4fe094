"""Refused producers and consumers: the culprit for an error, and whether a later attempt succeeded."""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.finding_text import at
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord
from pcli.codec.observe.tracking.records.counters import Occurrences

__all__ = ["culprit_of_error", "succeeded_later"]

_BROKERS: Final = frozenset(("ServiceNotReady", "MetadataError", "PersistenceError", "TooManyRequests", "UnknownError"))
"""Errors caused by the broker's state rather than by the request."""


def culprit_of_error(error: str) -> str:
    """Return the culprit: the application, unless the broker's state or damage in transit caused the ServerError."""
    if error == "ChecksumError":
        return "network"
    return "broker" if error in _BROKERS else "application"


def succeeded_later(peer: ConsumerRecord | ProducerRecord, refused: Occurrences) -> str:
    """Return ``It succeeded later, in frame 9.``, or an empty string."""
    session = peer.session
    if session is None or session.ready_ns <= refused.last_ns:
        return ""
    return f"It succeeded later, in {at(session.ready_frame)}."
