"""Protobuf strings with invalid UTF-8."""

from __future__ import annotations

__all__ = ["as_text"]


def as_text(value: str | bytes) -> str:
    r"""Return a string field always as text: protobuf returns invalid UTF-8 as bytes (proto2 does not check it).

    An invalid byte becomes ``\xff``. The frame's own problems report the invalid text.
    """
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")
