"""Reconnect loops: causes, minimum rate, and the culprit for the end of a session.

Rules of this file
1. Three rounds within a minute are a loop. Sessions ended by the application or by a seek are not counted.
2. Every cause has a culprit and advice.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pcli.codec.observe.rules.finding import Cause

ROUNDS: Final = 3
LOOP_NS: Final = 60_000_000_000

CAUSES: Final = {
    "keep_alive": ("network", "a PING was not answered", "See keep-alive-missed to find out which side is silent."),
    "fin_broker": ("broker", "the broker closed the connection", "Check the broker's log at these times."),
    "reset_broker": ("network", "the broker's side reset the connection", "Check for a restart or a middlebox."),
    "reset_client": ("client", "the client's side reset the connection", "Check whether the client process restarts."),
    "auth": ("application", "the login was refused", "See auth-refused, and correct the credentials."),
}
"""Culprit, event and advice by cause of a lost connection, a key of ENDS."""

PEER_CAUSES: Final = {
    **CAUSES,
    "broker": (
        "broker",
        "the broker closed the session",
        "Check the broker's log for unloads, load shedding, deletions or limits.",
    ),
}
"""Causes of lost producers and consumers."""

_CULPRITS: Final = {**{word: row[0] for word, row in PEER_CAUSES.items()}, "silence": "network"}


_DECIDE: Final = "The logs of the client and the broker at that time."
_BY_CULPRIT: Final = {
    "application": Cause("application", "likely", ("a client library that closes the connection",), _DECIDE),
    "client": Cause("client", "likely", ("a process that was killed", "a network that reset the connection"), _DECIDE),
    "broker": Cause("broker", "likely", ("a network that reset the connection",), _DECIDE),
    "network": Cause("network", "likely", ("a process that hangs or was killed",), _DECIDE),
}
"""The cause of a lost connection, by culprit. TCP does not show why a side closed or reset a connection."""


def cause_of_end(end: str) -> Cause:
    """Return the cause of a session that ended in this way, a key of PEER_CAUSES."""
    return Cause("broker") if end == "broker" else _BY_CULPRIT[_CULPRITS[end]]


def cause_of_ends(ends: Collection[str]) -> Cause:
    """Return the cause of sessions that ended in these ways (keys of ENDS); the default is the client."""
    found = {_CULPRITS[end] for end in ends if end in _CULPRITS}
    return _BY_CULPRIT[next((one for one in ("broker", "network", "application") if one in found), "client")]


def cause_of_loss(ends: Collection[str]) -> Cause:
    """Return the cause of frames that were lost when sessions ended in these ways: the broker or the network.

    A broker whose process is killed resets its connections. It ignores the frames of sessions that it closed.
    """
    by_broker = {"fin_broker", "reset_broker"}.intersection(ends) or set(ends) == {"broker"}
    return _BY_CULPRIT["broker" if by_broker else "network"]
