"""Times as text. Pulsar has two formats, which differ for whole seconds.

| function | used in | Java | whole seconds |
|---|---|---|---|
| `instant_text` | REST: statistics, headers of messages | Instant.toString | ``...:20Z`` |
| `date_text` | the wire: ``connectedSince`` of CONSUMER_STATS_RESPONSE | DateFormatter | ``...:20.000Z`` |

Times are in ms since 1970. Formatted times are in ISO 8601 format, in UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime


def instant_text(ms: int) -> str:
    """Return a time for REST responses: ``2026-11-21T15:02:00.063Z``, or ``2026-11-21T15:02:00Z`` at a whole second."""
    return date_text(ms) if ms % 1000 else _seconds(ms) + "Z"


def date_text(ms: int) -> str:
    """Return a time for commands on the wire, always with milliseconds: ``2026-11-21T15:02:00.000Z``."""
    return f"{_seconds(ms)}.{ms % 1000:03d}Z"


def _seconds(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).isoformat().removesuffix("+00:00")
