"""What the rules about refused producers and consumers have in common: whose doing it is, and whether it is over."""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.wording import at
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord
from pcli.codec.observe.tracking.records.counters import Tally

__all__ = ["succeeded_later", "whose_error"]

_BROKERS: Final = frozenset(("ServiceNotReady", "MetadataError", "PersistenceError", "TooManyRequests", "UnknownError"))
"""Errors that tell of the broker's own state, not of what was asked for."""


def whose_error(error: str) -> str:
    """The culprit, by the ServerError: the application unless it is the broker's own state, or damage on the way."""
    if error == "ChecksumError":
        return "network"
    return "broker" if error in _BROKERS else "application"


def succeeded_later(peer: ConsumerRecord | ProducerRecord, refused: Tally) -> str:
    """``It succeeded later, in frame 9.``; empty when it did not."""
    session = peer.session
    if session is None or session.ready_ns <= refused.last_ns:
        return ""
    return f"It succeeded later, in {at(session.ready_frame)}."
