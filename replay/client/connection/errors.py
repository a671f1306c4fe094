"""Failures of client operations: errors in responses, and failures of the connection.

Rules of this file
1. A failure is a value that is passed to the callback of the operation. The engine raises no exception for a failure;
   the asyncio client converts it to an exception.
2. ``error`` is the name of a ServerError if a broker sent it, or else an error name of this client: ``TimeOut``,
   ``Disconnected``, ``Closed``, ``Connect`` (the connection could not be opened), ``NotFound`` (HTTP), ``Invalid…``,
   ``NotAllowed``, ``NotSupported``, ``Crypto``.
3. A failure is retriable if PulsarClientException.isRetriableError returns true for the exception that
   ClientCnx.getPulsarClientException creates from the ServerError (4.2.4). ``InvalidTopicName`` and ``ChecksumError``
   from a broker become a plain PulsarClientException in that method, and are therefore retriable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.errors import LocalError, PcliError, RemoteError
from pcli.codec.proto import pb

_FINAL: Final = frozenset((
    "AuthorizationError", "ConsumerAssignError", "ConsumerBusy", "IncompatibleSchema", "NotAllowedError",
    "ProducerBusy", "SubscriptionNotFound", "TopicNotFound", "TransactionConflict",
    "Crypto", "InvalidConfiguration", "InvalidMessage", "NotAllowed", "NotFound", "NotSupported",
))  # fmt: skip
"""Errors that a retry cannot fix."""

_OURS: Final = frozenset(("InvalidConfiguration", "InvalidMessage", "InvalidTopicName", "NotAllowed", "NotSupported"))
"""Errors in the caller's arguments, found before anything is sent."""


_FAILING: Final = (pb.CommandLookupTopicResponse, pb.CommandPartitionedTopicMetadataResponse)
"""Responses whose ``response`` field reports success or failure."""


_SAID: Final = frozenset(pb.ServerError.keys())
"""Errors that brokers send."""


@dataclass(frozen=True, slots=True)
class ClientFailure:
    """The reason why an operation failed."""

    error: str
    """Name of a ServerError, or of an error of this client."""
    message: str
    """A description on one line."""

    @property
    def retriable(self) -> bool:
        """Whether a retry may succeed (PulsarClientException.isRetriableError)."""
        return self.error not in _FINAL

    def __str__(self) -> str:
        return f"{self.error}: {self.message}" if self.message else self.error

    def to_error(self) -> PcliError:
        """Return the exception to raise: LocalError if the caller's arguments are invalid, or else RemoteError."""
        if self.error in _OURS:
            return LocalError(self.message)
        return RemoteError(str(self) if self.error in _SAID else self.message)


def failure_in_response(body: Any) -> ClientFailure | None:
    """Return the failure that a response reports, or None if the request succeeded.

    ERROR and responses with ``error`` or ``error_code`` and a message field report failures.
    """
    for field, text in (("error", "message"), ("error_code", "error_message")):
        if field in body.DESCRIPTOR.fields_by_name and body.HasField(field):
            return ClientFailure(pb.ServerError.Name(getattr(body, field)), getattr(body, text))
    if isinstance(body, _FAILING) and body.response == body.Failed:
        return ClientFailure("UnknownError", "the broker reported a failure without a reason")
    return None
