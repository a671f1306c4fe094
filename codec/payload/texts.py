"""Texts out of protobuf that are no UTF-8."""

from __future__ import annotations

__all__ = ["as_text"]


def as_text(value: str | bytes) -> str:
    r"""A string field as text, always: protobuf hands out one that is no UTF-8 as bytes (proto2 checks nothing).

    A wrong byte is shown as ``\xff``; that such a text came at all is told with the frame's own problems.
    """
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")
