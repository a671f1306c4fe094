"""Values as text: terminal-safe strings, short topic names, sizes, times and latencies."""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.scalable.segment_name import SegmentName

_DEFAULT_NAMESPACE: Final = "persistent://public/default/"


def printable(value: Any) -> str:
    r"""Return a value as one printable line, with other characters escaped as ``\x1b``, ``\n`` or ``\u202e``.

    Characters that ``str.isprintable`` rejects are escaped: control characters, line ends, surrogates, and the format
    characters that change the writing direction.
    """
    text = value if isinstance(value, str) else str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def short_topic(topic: Any) -> str:
    """Return a topic without a leading ``persistent://public/default/`` or ``persistent://``.

    The name of a segment is ``orders/0000-7fff-0``: no other topic has a short form like it.
    """
    if isinstance(topic, list):
        return ", ".join(map(short_topic, topic))
    text = printable(topic)
    if text.startswith("segment://") and SegmentName.parse(text) is not None:
        return text.removeprefix("segment://").removeprefix("public/default/")
    return text.removeprefix(_DEFAULT_NAMESPACE).removeprefix("persistent://")


def size_text(size: int) -> str:
    """Return a size with a unit: ``312 B``, ``1.2 kB``, ``4.9 MB``."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def epoch_text(time_ns: int) -> str:
    """Return a time as exact seconds since 1970: ``1795198511.250000000``."""
    return f"{time_ns // 1_000_000_000}.{time_ns % 1_000_000_000:09d}"


def latency_text(nanoseconds: int) -> str:
    """Return a latency with a unit: ``0.04 ms``, ``1.3 ms``, ``2.104 s``."""
    milliseconds = nanoseconds / 1e6
    if abs(milliseconds) < 1:
        return f"{milliseconds:.2f} ms"
    return f"{milliseconds:.1f} ms" if abs(milliseconds) < 1000 else f"{milliseconds / 1000:.3f} s"
