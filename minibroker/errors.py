"""What the broker refuses: an error of the protocol with its code, on its way to the answer that carries it."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(Exception):  # noqa: N818  (it is an answer, not an error of ours)
    """A request that is not granted. ``code``: a ServerError; ``text``: for people.

    It never leaves the broker: a command's handler makes an answer of it, the REST side a status.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
