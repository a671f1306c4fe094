"""The states of a connection, and the commands that a broker accepts in each.

Source: class ServerCnx. The order of the states is `START`, `CONNECTING` (only with authentication), `CONNECTED`;
`FAILED` is final. If a command arrives in the wrong state, the broker closes the connection without a response.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from pcli.codec.wire.commands import BY_NAME


class State(Enum):
    """The state of a connection."""

    START = "Start"
    CONNECTING = "Connecting"
    CONNECTED = "Connected"
    FAILED = "Failed"


_ALWAYS: Final = frozenset(BY_NAME[name].number for name in ("PING", "PONG", "AUTH_RESPONSE"))
"""The commands accepted in every state except FAILED."""

_CONNECT: Final = BY_NAME["CONNECT"].number


def may_receive(state: State, number: int) -> bool:
    """Whether a broker in this state accepts a command of this type."""
    if state is State.FAILED:
        return False
    if number in _ALWAYS:
        return True
    return state is (State.START if number == _CONNECT else State.CONNECTED)
