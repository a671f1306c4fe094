"""Why something did not come to be: what a broker refused, or what happened on the way.

Rules of this file
1. A refusal is a value and travels to the continuation of whoever asked; nothing is raised inside the engine. The shell
   turns it into an error at its doors.
2. ``error`` is the name of a ServerError where a broker said it, else one of our own: ``TimeOut``, ``Disconnected``,
   ``Closed``, ``Connect`` (no connection came to be), ``NotFound`` (over HTTP), ``Invalid…``, ``NotAllowed``,
   ``NotSupported``, ``Crypto``.
3. What may be tried again is what PulsarClientException.isRetriableError says of the exception that
   ClientCnx.getPulsarClientException makes of a ServerError (4.2.4). ``InvalidTopicName`` and ``ChecksumError`` of a
   broker become a plain PulsarClientException there, and so may be tried again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.errors import LocalError, PcliError, RemoteError
from pcli.codec.proto import pb

__all__ = ["Refusal", "refusal_of"]

_FINAL: Final = frozenset((
    "AuthorizationError", "ConsumerAssignError", "ConsumerBusy", "IncompatibleSchema", "NotAllowedError",
    "ProducerBusy", "SubscriptionNotFound", "TopicNotFound", "TransactionConflict",
    "Crypto", "InvalidConfiguration", "InvalidMessage", "NotAllowed", "NotFound", "NotSupported",
))  # fmt: skip
"""What no second try helps with."""

_OURS: Final = frozenset(("InvalidConfiguration", "InvalidMessage", "InvalidTopicName", "NotAllowed", "NotSupported"))
"""What the caller asked wrongly, before anything was sent."""


_FAILING: Final = (pb.CommandLookupTopicResponse, pb.CommandPartitionedTopicMetadataResponse)
"""The answers that say in a field whether they are good."""


_SAID: Final = frozenset(pb.ServerError.keys())
"""What brokers say."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something did not come to be."""

    error: str
    """Its name: a ServerError's or one of our own."""
    message: str
    """One line for people."""

    @property
    def retriable(self) -> bool:
        """Whether a second try may help (PulsarClientException.isRetriableError)."""
        return self.error not in _FINAL

    def __str__(self) -> str:
        return f"{self.error}: {self.message}" if self.message else self.error

    def to_error(self) -> PcliError:
        """As an exception, for a shell: LocalError when the caller asked wrongly, else RemoteError."""
        if self.error in _OURS:
            return LocalError(self.message)
        return RemoteError(str(self) if self.error in _SAID else self.message)


def refusal_of(body: Any) -> Refusal | None:
    """What an answer says of its request's failure; None: it went well.

    ERROR, and the answers with an error of their own (``error`` or ``error_code``, and a message beside it).
    """
    for field, text in (("error", "message"), ("error_code", "error_message")):
        if field in body.DESCRIPTOR.fields_by_name and body.HasField(field):
            return Refusal(pb.ServerError.Name(getattr(body, field)), getattr(body, text))
    if isinstance(body, _FAILING) and body.response == body.Failed:
        return Refusal("UnknownError", "the broker says no more than that it failed")
    return None
