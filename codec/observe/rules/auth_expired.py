"""Credentials that ran out on an open connection, and were not renewed.

## What it means

Brokers check once a minute (authenticationRefreshCheckSeconds) whether the credentials of a connection have expired. If
so they ask for new ones; a client has until the next check to give them. What it gives must be of the same role.

## On the wire

AUTH_CHALLENGE on a connection that has long been open. Then an AUTH_RESPONSE, and all is well: nobody is told anything.
Or no AUTH_RESPONSE, and the broker ends the connection; or an AUTH_RESPONSE and the end within five seconds.

## What speaks for the opposite

An AUTH_RESPONSE behind the frames that are named, perhaps in a hole of the capture. An end right behind the
AUTH_RESPONSE may have another reason; the broker's log would tell.

## What to do

Give the client a source of credentials that renews them: a supplier or a file instead of a fixed token. Mind that the
new token has the same subject. Clients that do not know AUTH_CHALLENGE (old ones) are cut off without being asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.link_words import about_connection, connection_subject
from pcli.codec.observe.rules.wording import HOLES, certainty, span, why_unsure
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

__all__ = ["RULE", "look"]

_PATIENCE_NS: Final = 10_000_000_000
"""How long a client may take to get new credentials."""

_REFUSED_NS: Final = 5_000_000_000
"""Within this time behind an AUTH_RESPONSE an end is taken for its refusal."""

_BY_BROKER: Final = ("fin_broker", "reset_broker", "auth")


def look(record: ConnectionRecord, moment: Moment) -> Iterator[Finding]:
    """A challenge without answer, or whose answer was not accepted."""
    until = record.ended_ns if record.end else moment.now_ns
    by_broker = record.end in _BY_BROKER
    open_ = record.challenge_open_ns >= 0 and "one_way" not in record.doubts
    if open_ and (by_broker or until - record.challenge_open_ns >= _PATIENCE_NS):
        yield _finding(
            record,
            "unanswered",
            f"The broker asked {about_connection(record)} for fresh credentials, and had none within "
            f"{span(until - record.challenge_open_ns)}",
            record.challenge_open_ns,
            "An AUTH_RESPONSE behind the AUTH_CHALLENGE: there is none.",
        )
    elif _refused(record, by_broker=by_broker):
        yield _finding(
            record,
            "refused",
            f"The broker ended {about_connection(record)} {span(record.ended_ns - record.refreshed_ns)} after the "
            "client had renewed its credentials: they were not accepted, or are of another role",
            record.refreshed_ns,
            "Another reason of the broker to end the connection, which its log would tell.",
        )


def _refused(record: ConnectionRecord, *, by_broker: bool) -> bool:
    """Whether the end follows an AUTH_RESPONSE; with holes nobody knows who ended it."""
    soon = record.refreshed_ns >= 0 and record.ended_ns - record.refreshed_ns <= _REFUSED_NS
    return by_broker and soon and not HOLES.intersection(record.doubts)


def _finding(record: ConnectionRecord, cause: str, what: str, since_ns: int, opposite: str) -> Finding:
    ended = ", and ended the connection" if record.end in _BY_BROKER and cause == "unanswered" else ""
    return Finding(
        "auth-expired",
        "error",
        "application",
        certainty(record.doubts - {"start"}, "certain" if cause == "unanswered" else "likely"),
        connection_subject(record),
        f"{what}{ended}.",
        since_ns,
        [*record.challenges.frames, record.last_frame],
        opposite + why_unsure(record.doubts),
        "Give the client a source of credentials that renews them (a token supplier or file), and a role that stays.",
        cause,
    )


RULE = Rule(
    name="auth-expired",
    group="connection",
    facts=("challenges", "challenge_open_ns", "refreshed_ns", "end", "ended_ns", "doubts"),
    title="credentials that expired and were not renewed",
    issue="PIP-55",
    look=look,
)
