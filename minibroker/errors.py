"""The error with which the broker rejects a request."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(Exception):  # noqa: N818  (it is an answer, not an error of ours)
    """A rejected request. ``code`` is a ServerError, and ``text`` is the message.

    Users of the broker do not receive it as an exception: a connection sends an error response, and the REST API
    returns a status.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
