"""Keep-alive: a PING at each tick, and the end of a peer that let a whole interval pass in silence.

Rules of this file (class PulsarHandler, the same on both sides)
1. Ticks come every interval, counted from the accept, whatever the traffic.
2. At a tick: a handshake that is not complete ends the connection. So does a PING without any answer since, unless
   reading is paused by our own throttling. Otherwise a PING goes out, to peers of version 1 and later.
3. Whatever command arrives shows that the peer lives, not only a PONG.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Beat", "KeepAlive"]


class Beat(Enum):
    """What a tick asks for."""

    NOTHING = "nothing"
    PING = "ping"
    CLOSE = "close"


class KeepAlive:
    """The ticks of one connection. Times are milliseconds."""

    __slots__ = ("due", "interval", "outstanding")

    def __init__(self, interval: int, now: int) -> None:
        self.interval = interval
        """Between two ticks; 0 or less: there are none."""
        self.due: int | None = now + interval if interval > 0 else None
        """When the next tick is due; None: never."""
        self.outstanding = False
        """A PING went out, and nothing came since. Whoever receives a command clears it."""

    def tick(self, now: int, *, connected: bool, pings: bool, reading: bool = True) -> Beat:
        """The tick that is due. ``pings``: the peer knows PING; ``reading``: its bytes are not held back by us."""
        self.due = now + self.interval
        if not connected or (self.outstanding and reading):
            return Beat.CLOSE
        if not pings:
            return Beat.NOTHING
        self.outstanding = True
        return Beat.PING
