"""The error for an invalid value of a policy."""

from __future__ import annotations

from pcli.codec.errors import LocalError


class BadValueError(LocalError):
    """An invalid value of a policy.

    ``status`` is the HTTP status. The status 500 with an empty text is a failure of the real broker's HTTP server.
    """

    def __init__(self, text: str, status: int = 412) -> None:
        super().__init__(text)
        self.status = status


def unexpected_error(message: str, exception: str = "java.lang.NullPointerException") -> str:
    """Return the text for a value that makes the real broker fail, without the lines of the stack."""
    text = f"{exception}: {message}" if message != "null" else exception
    return f"\n --- An unexpected error occurred in the server ---\n\nMessage: {message}\n\nStacktrace:\n\n{text}\n"
