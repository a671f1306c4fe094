"""The error with which the broker rejects a request, and its use for damaged data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pcli.codec.proto import pb

SERVICE_EXCEPTION: Final = "org.apache.pulsar.broker.service.BrokerServiceException"
"""The class of the real broker whose inner classes are its exceptions."""


class Refused(Exception):  # noqa: N818  (it is an answer, not an error of ours)
    """A rejected request. ``code`` is a ServerError, and ``text`` is the message.

    ``exception`` is the class of the real broker's BrokerServiceException, where the code does not determine it. Users
    of the broker do not receive a Refused as an exception: a connection sends an error response, and the REST API
    returns a status.
    """

    def __init__(self, code: int, text: str, exception: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.exception = exception


def service_exception(name: str, text: str) -> str:
    """Return the text of a BrokerServiceException with the name of its class, as Throwable.toString writes it."""
    return f"{SERVICE_EXCEPTION}${name}: {text}"


@contextmanager
def decoding(path: str) -> Iterator[None]:
    """Raise Refused (PersistenceError) instead of the errors that a damaged document with this path causes."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Refused(pb.PersistenceError, f"the document {path} is damaged") from error
