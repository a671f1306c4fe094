"""The values of `consume --from`: earliest, latest, a message id or a time."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.replay.client.message_ids import ClientMessageId

_AGO: Final = re.compile(r"-(\d{1,9})(s|m|h|d)", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ID: Final = re.compile(r"\d+:\d+(:-?\d+){0,2}", re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,15}", re.ASCII)


def starting_position(text: str) -> ClientMessageId | int:
    """Return the id for ``earliest``, ``latest`` or a message id, or the milliseconds since 1970 for a time.

    A time is ISO 8601 (local time if it has no time zone), a number of milliseconds, or ``-10m`` for ten minutes ago.
    """
    from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId

    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    if _ID.fullmatch(word):
        return ClientMessageId.parse(word)
    if _NUMBER.fullmatch(word):
        return int(word)
    if match := _AGO.fullmatch(word):
        return int((time.time() - int(match[1]) * _SECONDS[match[2]]) * 1000)
    try:
        return int(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except (ValueError, OverflowError):
        forms = "earliest, latest, an id such as 5:0, or a time such as 2026-01-31T08:00:00Z or -10m"
        raise LocalError(f"--from {text}: write {forms}") from None
