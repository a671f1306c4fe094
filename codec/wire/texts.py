"""Protobuf strings with invalid UTF-8."""

from __future__ import annotations


def as_text(value: str | bytes) -> str:
    r"""Return a string field as text. protobuf returns it as bytes if it is invalid UTF-8, which proto2 allows.

    An invalid byte becomes ``\xff``. The invalid string is reported as a problem with the frame.
    """
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")
