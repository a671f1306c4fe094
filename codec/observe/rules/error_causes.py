"""Refused requests: the cause of an error, and whether a later attempt succeeded."""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.finding import Cause
from pcli.codec.observe.rules.finding_text import at
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord
from pcli.codec.observe.tracking.records.counters import Occurrences

__all__ = ["cause_of_error", "succeeded_later"]

_BROKERS: Final = frozenset(("PersistenceError", "TooManyRequests", "UnknownError"))
"""Errors caused by the broker's state rather than by the request."""

_NOT_READY: Final = frozenset(("ServiceNotReady", "MetadataError"))
"""Errors of a broker that starts, shuts down or moves a topic."""

_NETWORK: Final = Cause(
    "network", "likely", ("a client that computes a wrong checksum",), "A capture on the client's host."
)
_BROKER: Final = Cause(
    "broker", "likely", ("a limit or a policy that the request exceeds",), "The broker's log at that time."
)
_UNREADY: Final = Cause(
    "broker",
    "likely",
    ("a metadata store that is not available",),
    "The broker's log at that time, and whether its process was restarted.",
)
_NO_CONSUMER: Final = Cause(
    "client",
    "likely",
    ("a consumer that the broker had closed",),
    "The SUBSCRIBE and its response, and a CLOSE_CONSUMER, before the request.",
)
"""The cause if the broker does not know the consumer: usually the client did not wait for the response to SUBSCRIBE."""

_APPLICATION: Final = Cause(
    "application",
    "likely",
    ("a limit or a policy of the broker",),
    "The error message, and the policies of the topic and its namespace.",
)


def cause_of_error(error: str, message: str = "") -> Cause:
    """Return the application as cause, unless the client, the broker's state or damage in transit caused the error."""
    if error == "ChecksumError":
        return _NETWORK
    if message == "Consumer not found":
        return _NO_CONSUMER
    if error in _NOT_READY:
        return _UNREADY
    return _BROKER if error in _BROKERS else _APPLICATION


def succeeded_later(peer: ConsumerRecord | ProducerRecord, refused: Occurrences) -> str:
    """Return ``It succeeded later, in frame 9.``, or an empty string."""
    session = peer.session
    if session is None or session.ready_ns <= refused.last_ns:
        return ""
    return f"It succeeded later, in {at(session.ready_frame)}."
