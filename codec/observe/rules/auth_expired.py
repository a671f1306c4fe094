"""Credentials that expired on an open connection and were not renewed.

## What it means

Once a minute (authenticationRefreshCheckSeconds) the broker checks whether the credentials of a connection have
expired. If so, it requests new credentials. The client must send them before the next check, and they must belong to
the same role.

## On the wire

AUTH_CHALLENGE on an established connection. Normally an AUTH_RESPONSE follows and the connection continues. If the
renewal fails, there is no AUTH_RESPONSE and the broker closes the connection, or the connection ends within five
seconds of the AUTH_RESPONSE.

## What would disprove it

An AUTH_RESPONSE after the listed frames, possibly in a gap in the capture. If the connection ends immediately after an
AUTH_RESPONSE, there may be another reason: check the broker's log.

## What to do

Configure the client with credentials that can be renewed: a supplier or a file instead of a fixed token. The new token
must have the same subject. If an old client does not support AUTH_CHALLENGE, the broker closes its connection when the
credentials expire.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.connection_text import about_connection, connection_subject
from pcli.codec.observe.rules.finding import GAPS, Cause, Finding, Moment, certainty, rule, why_unsure
from pcli.codec.observe.rules.finding_text import span
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

_NOT_RENEWED: Final = Cause(
    "application",
    "likely",
    ("a client library that cannot renew credentials", "a broker that closed the connection for another reason"),
    "The broker's log at that time, and the authentication settings of the client.",
)

_GRACE_NS: Final = 10_000_000_000
"""Time that a client may need to obtain new credentials."""

_REFUSED_NS: Final = 5_000_000_000
"""If a connection ends within this time after an AUTH_RESPONSE, the credentials were presumably refused."""

_BY_BROKER: Final = ("fin_broker", "reset_broker", "auth")


@rule(
    "connection",
    facts=("challenges", "challenge_open_ns", "refreshed_ns", "end", "ended_ns", "doubts"),
    title="credentials that expired and were not renewed",
    issue="PIP-55",
)
def evaluate(record: ConnectionRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if a challenge was not answered or the response was not accepted."""
    until = record.ended_ns if record.end else moment.now_ns
    by_broker = record.end in _BY_BROKER
    open_ = record.challenge_open_ns >= 0 and "one_way" not in record.doubts
    if open_ and (by_broker or until - record.challenge_open_ns >= _GRACE_NS):
        yield _finding(
            record,
            "unanswered",
            f"The broker requested new credentials on {about_connection(record)} and received none within "
            f"{span(until - record.challenge_open_ns)}",
            record.challenge_open_ns,
            "An AUTH_RESPONSE after the AUTH_CHALLENGE would disprove the finding; there is none.",
        )
    elif _refused(record, by_broker=by_broker):
        yield _finding(
            record,
            "refused",
            f"The broker closed {about_connection(record)} {span(record.ended_ns - record.refreshed_ns)} after the "
            "client had sent new credentials: they were not accepted or belong to a different role",
            record.refreshed_ns,
            "The broker may have closed the connection for another reason, which its log shows.",
        )


def _refused(record: ConnectionRecord, *, by_broker: bool) -> bool:
    """Return whether the connection ended just after an AUTH_RESPONSE; False if frames may be missing."""
    soon = record.refreshed_ns >= 0 and record.ended_ns - record.refreshed_ns <= _REFUSED_NS
    return by_broker and soon and not GAPS.intersection(record.doubts)


def _finding(record: ConnectionRecord, cause: str, what: str, since_ns: int, opposite: str) -> Finding:
    ended = "; it closed the connection" if record.end in _BY_BROKER and cause == "unanswered" else ""
    return Finding(
        "error",
        certainty(record.doubts - {"start"}, "certain" if cause == "unanswered" else "likely"),
        _NOT_RENEWED,
        connection_subject(record),
        f"{what}{ended}.",
        since_ns,
        [*record.challenges.frames, record.last_frame],
        opposite + why_unsure(record.doubts),
        "Configure credentials that can be renewed (a token supplier or file) and belong to the same role.",
        cause,
    )
