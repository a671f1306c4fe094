"""Times as text: Pulsar writes them in two forms, which differ when a second is whole.

| form | which answers | as in Java | whole seconds |
|---|---|---|---|
| `instant_text` | REST: statistics, headers of messages | Instant.toString | ``...:20Z`` |
| `date_text` | the wire: ``connectedSince`` of CONSUMER_STATS_RESPONSE | DateFormatter | ``...:20.000Z`` |

Times are ms since 1970, texts ISO 8601 in UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["date_text", "instant_text"]


def instant_text(ms: int) -> str:
    """A time as answers of REST have it: ``2026-11-21T15:02:00.063Z``, and ``2026-11-21T15:02:00Z`` without ms."""
    return date_text(ms) if ms % 1000 else _seconds(ms) + "Z"


def date_text(ms: int) -> str:
    """A time as commands on the wire have it, always with ms: ``2026-11-21T15:02:00.000Z``."""
    return f"{_seconds(ms)}.{ms % 1000:03d}Z"


def _seconds(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).isoformat().removesuffix("+00:00")
