"""The commands that a broker accepts in each state (broker 4.2.4: conform's connect.*_before_connect)."""

from __future__ import annotations

import pytest

from pcli.codec.session.states import State, may_receive
from pcli.codec.wire.commands import BY_NAME, COMMANDS

ALWAYS = {"PING", "PONG", "AUTH_RESPONSE"}


@pytest.mark.parametrize(
    ("state", "names"),
    [
        (State.START, ALWAYS | {"CONNECT"}),
        (State.CONNECTING, ALWAYS),
        (State.CONNECTED, set(BY_NAME) - {"CONNECT"}),
        (State.FAILED, set()),
    ],
)
def test_accepted_commands(state, names):
    assert {row.name for number, row in COMMANDS.items() if may_receive(state, number)} == names
