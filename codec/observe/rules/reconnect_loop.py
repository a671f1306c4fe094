"""A client that repeatedly connects and loses its connection for the same reason.

## What it means

At least three connections or attempts within a minute ended for the same reason:

- *auth*: the login is refused; see auth-refused.
- *keep_alive*: a PING was not answered; see keep-alive-missed.
- *fin_broker*, *reset_broker*, *reset_client*: one side closes or resets the connection.

Connections that an application opens and closes itself are not counted.

## On the wire

SYN, CONNECT, CONNECTED, some traffic, FIN or RST, and the same again from another port. The pauses start at 100 ms and
double each time, up to a minute. If no connection succeeds, see broker-unavailable.

## What would disprove it

Several clients on one host that each lost their connection once, for example when the broker restarted. If the last
connection stayed open, the problem is over and the finding is a warning.

## What to do

Find out why the connections end. The finding states how they ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from pcli.codec.observe.rules.connection_text import about_host, host_subject
from pcli.codec.observe.rules.finding import Finding, Moment, certainty, rule, why_unsure
from pcli.codec.observe.rules.finding_text import span
from pcli.codec.observe.rules.reconnect_causes import CAUSES, LOOP_NS, ROUNDS, cause_of_end
from pcli.codec.observe.tracking.records.connection_records import HostRecord


@rule(
    "host",
    facts=("recent_ends", "attempt_times", "attempts", "doubts"),
    title="connections that break repeatedly, and the reason",
    issue="apache/pulsar#20591",
    because_of=("broker-unavailable", "auth-refused"),
    effect=("connection ended", "connections ended"),
)
def evaluate(host: HostRecord, _moment: Moment) -> Iterator[Finding]:
    """Return one finding for each cause."""
    for cause in dict.fromkeys(word for _, word, _ in host.recent_ends if word in CAUSES):
        rounds = _longest(host, cause)
        if len(rounds) >= ROUNDS:
            yield _finding(host, cause, rounds)


def _longest(host: HostRecord, cause: str) -> list[tuple[int, int]]:
    """Return time and frame of each end in the longest dense series in which an attempt precedes each end."""
    attempts = sorted(host.attempt_times)
    best: list[tuple[int, int]] = []
    row: list[tuple[int, int]] = []
    for time_ns, word, frame in sorted(host.recent_ends):
        if word != cause:
            continue
        last = row[-1][0] if row else time_ns - LOOP_NS - 1
        if time_ns - last > LOOP_NS:
            row = []
        tried = bisect_right(attempts, last) < bisect_right(attempts, time_ns)
        if tried or not row:
            row.append((time_ns, frame))
            best = max(best, row, key=len)
    if len(best) >= ROUNDS and best[ROUNDS - 1][0] - best[0][0] > LOOP_NS:
        return []
    return list(best)


def _finding(host: HostRecord, cause: str, rounds: list[tuple[int, int]]) -> Finding:
    _, what, advice = CAUSES[cause]
    over = host.attempts.last_ns > rounds[-1][0]
    return Finding(
        "warning" if over else "error",
        certainty(host.doubts - {"start", "end"}),
        cause_of_end(cause),
        host_subject(host),
        f"{about_host(host)}: {what} {len(rounds)} times within {span(rounds[-1][0] - rounds[0][0])}, and the "
        "client reconnected.",
        rounds[0][0],
        [frame for _, frame in rounds],
        "Lasting connections in between, or clients that were started and stopped on purpose, would explain this."
        + why_unsure(host.doubts),
        advice,
        cause,
        count=len(rounds),
    )
