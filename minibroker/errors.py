"""The error with which the broker rejects a request, and its use for damaged data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pcli.codec.proto import pb

__all__ = ["Refused", "decoding"]


class Refused(Exception):  # noqa: N818  (it is an answer, not an error of ours)
    """A rejected request. ``code`` is a ServerError, and ``text`` is the message.

    Users of the broker do not receive it as an exception: a connection sends an error response, and the REST API
    returns a status.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@contextmanager
def decoding(path: str) -> Iterator[None]:
    """Raise Refused (PersistenceError) instead of the errors that a damaged document with this path causes."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Refused(pb.PersistenceError, f"the document {path} is damaged") from error
