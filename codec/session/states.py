"""The states of a connection, and which commands a broker takes in which.

Source: class ServerCnx. `START`, with authentication `CONNECTING`, then `CONNECTED`; `FAILED` is the end. A command in
the wrong state costs the connection, without an answer.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from pcli.codec.wire.commands import BY_NAME

__all__ = ["State", "may_receive"]


class State(Enum):
    """Where a connection stands."""

    START = "Start"
    CONNECTING = "Connecting"
    CONNECTED = "Connected"
    FAILED = "Failed"


_ALWAYS: Final = frozenset(BY_NAME[name].number for name in ("PING", "PONG", "AUTH_RESPONSE"))
"""Taken in every state but the last."""

_CONNECT: Final = BY_NAME["CONNECT"].number


def may_receive(state: State, number: int) -> bool:
    """Whether a broker in this state takes a command of this type."""
    if state is State.FAILED:
        return False
    if number in _ALWAYS:
        return True
    return state is (State.START if number == _CONNECT else State.CONNECTED)
