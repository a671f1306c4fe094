"""A client that connects, loses its connection, and connects again, always for the same reason.

## What it means

Three rounds or more within a minute, with one cause:

- *refused*: nobody listens at that address and port (a RST answers the SYN);
- *auth*: the login is refused, see auth-refused;
- *keep_alive*: a PING stayed without answer, see keep-alive-missed;
- *fin_broker*, *reset_broker*, *reset_client*: somebody ends or resets the connection, unasked.

Clients that an application opens and closes itself are no loop.

## On the wire

SYN, CONNECT, CONNECTED, some traffic, FIN or RST, and the same again from another port; or SYN and RST only. The pauses
grow (100 ms, doubled each time) until they reach a minute.

## What speaks for the opposite

Several clients on one host that each lost their connection once, as at a restart of the broker: with refused ones
attempts at one moment count once. If the last attempt lasted, it is over, and only a warning.

## What to do

Find the cause: its name above says where to look. A broker that is starting needs patience only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.link_words import about_host, host_subject
from pcli.codec.observe.rules.loops import CAUSES, LOOP_NS, ROUNDS
from pcli.codec.observe.rules.wording import certainty, span, why_unsure
from pcli.codec.observe.tracking.records.connection_records import HostRecord
from pcli.codec.wire.constants import DEFAULT_PORT, DEFAULT_TLS_PORT

__all__ = ["RULE", "look"]

_APART_NS: Final = 50_000_000
"""Refused attempts that are nearer than this are several clients' at once."""


def look(host: HostRecord, _moment: Moment) -> Iterator[Finding]:
    """One finding for each cause."""
    if not (host.attempts.count or host.server[1] in (DEFAULT_PORT, DEFAULT_TLS_PORT)):
        return
    for cause in dict.fromkeys(word for _, word, _ in host.recent_ends if word in CAUSES):
        rounds = _longest(host, cause)
        if len(rounds) >= ROUNDS:
            yield _finding(host, cause, rounds)


def _longest(host: HostRecord, cause: str) -> list[tuple[int, int]]:
    """The ends, time and frame, of the longest row that is close together, with an attempt before each."""
    attempts = sorted(host.attempt_times)
    best: list[tuple[int, int]] = []
    row: list[tuple[int, int]] = []
    for time_ns, word, frame in sorted(host.recent_ends):
        if word != cause:
            continue
        last = row[-1][0] if row else time_ns - LOOP_NS - 1
        if time_ns - last > LOOP_NS:
            row = []
        tried = (
            time_ns - last > _APART_NS
            if cause == "refused"
            else bisect_right(attempts, last) < bisect_right(attempts, time_ns)
        )
        if tried or not row:
            row.append((time_ns, frame))
            best = max(best, row, key=len)
    if len(best) >= ROUNDS and best[ROUNDS - 1][0] - best[0][0] > LOOP_NS:
        return []
    return list(best)


def _finding(host: HostRecord, cause: str, rounds: list[tuple[int, int]]) -> Finding:
    culprit, what, advice = CAUSES[cause]
    where = f" (first in {host.refused.sample})" if cause == "refused" else ""
    over = host.attempts.last_ns > rounds[-1][0]
    return Finding(
        "reconnect-loop",
        "warning" if over else "error",
        culprit,
        certainty(host.doubts - {"start", "end"}, "likely"),
        host_subject(host),
        f"{about_host(host)}: {len(rounds)} times within {span(rounds[-1][0] - rounds[0][0])} {what}{where}, and it "
        f"tried again{'; in the end it got through' if over and cause == 'refused' else ''}.",
        rounds[0][0],
        [frame for _, frame in rounds],
        "Connections in between that lasted, or clients that were started and stopped on purpose."
        + why_unsure(host.doubts),
        advice,
        cause,
    )


RULE = Rule(
    name="reconnect-loop",
    group="host",
    facts=("recent_ends", "attempt_times", "attempts", "doubts", "refused"),
    title="connections that break again and again, and why",
    issue="apache/pulsar#20591",
    look=look,
)
