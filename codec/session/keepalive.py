"""Keep-alive: a PING at each tick, and the end of a connection whose peer was silent for a whole interval.

Rules of this file (class PulsarHandler, the same on both sides)
1. Ticks occur at a fixed interval from the time the connection was accepted, regardless of traffic.
2. A tick ends the connection if the handshake is incomplete, or if a PING is unanswered and this side has not paused
   reading for throttling. Otherwise a PING is sent to peers of version 1 and later.
3. Any received command, not only a PONG, proves that the peer is alive.
"""

from __future__ import annotations

from enum import Enum


class TickAction(Enum):
    """The action that a tick requires."""

    NOTHING = "nothing"
    PING = "ping"
    CLOSE = "close"


class KeepAlive:
    """The keep-alive ticks of one connection. Times are in milliseconds."""

    __slots__ = ("due", "interval", "outstanding")

    def __init__(self, interval: int, now: int) -> None:
        self.interval = interval
        """Time between two ticks; 0 or less disables them."""
        self.due: int | None = now + interval if interval > 0 else None
        """Time of the next tick; None if ticks are disabled."""
        self.outstanding = False
        """Whether nothing has been received since the last PING. The code that receives a command clears this flag."""

    def tick(self, now: int, *, connected: bool, pings: bool, reading: bool = True) -> TickAction:
        """Run the due tick.

        ``pings`` states whether the peer supports PING, and ``reading`` whether this side reads.
        """
        self.due = now + self.interval
        if not connected or (self.outstanding and reading):
            return TickAction.CLOSE
        if not pings:
            return TickAction.NOTHING
        self.outstanding = True
        return TickAction.PING
