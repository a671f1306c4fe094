"""The error with which the broker rejects a request."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(Exception):  # noqa: N818  (it is an answer, not an error of ours)
    """A rejected request. ``code`` is a ServerError, ``text`` the message.

    It is not raised to users of the broker: a connection sends it as a response, the REST API as a status.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
