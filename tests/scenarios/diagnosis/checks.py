"""The comparison of the findings and statistics with the expectation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scenarios.diagnosis.analysis import Analysis, Found
from scenarios.diagnosis.execution import COMPARED, Ran, StatsSample
from scenarios.diagnosis.log import Log
from scenarios.diagnosis.plan import V5_CLIENT, Plan, Problem, Track
from scenarios.diagnosis.segment_checks import differences_of_segments
from scenarios.diagnosis.trace_checks import differences

OUTCOMES = ("right", "missed", "false", "wrong cause", "wrong count")

_NEEDS: dict[str, set[str]] = {
    "stuck-unacked-limit": {"limit"},
    "stuck-blocked-hash": {"Key_Shared"},
    "slots-unowned": {"ranges"},
    "standby": {"Failover"},
    "messages-dropped": {"non-persistent"},
    "redelivered-after-ack-timeout": {"ack_timeout_ms"},
    "redelivered-after-ack-timeout requested": {"ack_timeout_ms", "nack"},
    "ack-timeout-too-short": {"ack_timeout_ms"},
    "redelivered-after-nack": {"nack"},
    "redelivered-after-abort": {"transaction"},
    "redelivered-after-reconnect left": {"close_consumer", "close", "stream"},
    "redelivered-after-reconnect lost": {"crash", "kill", "cut", "outage"},
    "redelivered-after-reconnect unload": {"crash", "unload", "delete", "outage"},
    "redelivered-after-reconnect takeover": {"Failover"},
    "redelivered-after-reconnect reopened": {"close_consumer", "stream"},
    "ack-lost": {"crash", "unload", "kill", "cut", "drop", "outage"},
    "duplicated-by-restart": {"sequences"},
    "rewound": {"redeliver_all", "ack_timeout_ms"},
    "after-seek": {"seek", "resetcursor"},
    "redelivered-without-cause": {"duplicate"},
    "redelivery-storm": {"nack"},
    "poison-message": {"nack", "dead_letter", "corrupt"},
    "key-order-broken": {"reorder", "any_order"},
    "key-order-across-segments": {"split", "merge", "rebucket", "migrate"},
    "double-subscribe": {"raw"},
    "subscribe-refused": {"refused", "unload", "stream"},
    "schema-refused": {"schema"},
    "schema-refused-consumer": {"schema"},
    "producer-refused": {"refused", "terminate", "unload", "transaction", "split", "merge", "rebucket", "migrate"},
    "request-refused": {"refused", "unload"},
    "producer-waiting": {"access"},
    "receipts-out-of-order": {"reorder", "drop"},
    "receipts-unexpected": {"duplicate", "raw"},
    "sequence-gap": {"sequences"},
    "resend-refused": {"crash", "sequences", "cut"},
    "resend-stored": {"crash", "resend", "cut", "outage", "rebucket", "reorder", "transaction"},
    "chunk-resent": {"cut"},
    "clock-skew": {"raw"},
    "transaction-open": {"transaction"},
    "first-bytes": {"raw"},
    "auth-refused": {"auth"},
    "auth-expired": {"auth"},
    "broker-unavailable": {"crash", "outage"},
    "reconnect-loop": {"cut", "auth", "outage", "crash"},
    "consumer-reconnect-loop": {"cut", "unload"},
    "producer-reconnect-loop": {"cut", "unload"},
    "keep-alive-missed": {"pause"},
    "wrong-crc": {"corrupt"},
    "oversize-frame": {"raw"},
    "answers-missing": {"crash", "drop", "access"},
    "answers-out-of-order": {"reorder"},
    "permits-leaked": {"corrupt", "raw"},
    "permits-doubled": {"duplicate", "raw"},
    "permits-wrong-count": {"duplicate", "raw"},
    "capture-incomplete": {"gap"},
    "balance-mismatch": {"skip", "expire"},
    "old-protocol": {"raw"},
    "watcher-gap": {"watcher"},
    "deprecated-command": {"deprecated"},
    "whole-batches-again": {"batch"},
    "producer-stuck": {"crash", "drop", "terminate", "cut"},
}
"""What must happen before a finding can be true: one of these features, by rule, or by rule and variant."""

_STORED_TWICE = ("resend-stored", "stored-in-two-segments")
"""Rules whose findings are right if the applications received at least as many messages with two ids."""

_REQUESTED = ("redelivered-after-nack", "redelivered-after-ack-timeout")
"""Rules for which a finding with the variant `requested`, whose cause is only possible, is right."""


@dataclass(frozen=True)
class Outcome:
    """The result for one problem, one false finding, or one figure."""

    rule: str
    """The name of a rule, or `stats FIGURE`."""
    kind: str
    """One of OUTCOMES."""
    detail: str = ""


def check(plan: Plan, ran: Ran, analysis: Analysis) -> list[Outcome]:
    """Return the outcomes for the problems, the other findings, the statistics and the lifecycles."""
    if plan.part:
        return list(_partial(plan, ran, analysis))
    problems = [(track, one) for track in plan.tracks for make in track.problems for one in make(ran.log)]
    explained: set[int] = set()
    outcomes = []
    for _track, problem in problems:
        outcomes.append(_outcome(problem, analysis.findings, explained))
    for number, found in enumerate(analysis.findings):
        if number not in explained:
            outcomes.extend(_unexpected(found, plan, ran.log))
    outcomes.extend(_stored_twice(plan, ran.log, analysis.findings))
    for sample, before, after in zip(ran.samples, analysis.stats[::2], analysis.stats[1::2], strict=True):
        outcomes.extend(_stats(sample, before, after))
    for name, found in differences(plan, ran.log, analysis.messages).items():
        outcomes.append(Outcome(name, "wrong count" if found else "right", "; ".join(found[:3])))
    return outcomes


def _partial(plan: Plan, ran: Ran, analysis: Analysis) -> Iterator[Outcome]:
    """Yield the outcomes for a capture that lacks a part: nothing that is certain contradicts the logs."""
    problems = [one for track in plan.tracks for make in track.problems for one in make(ran.log)]
    incomplete = any(found.rule == "capture-incomplete" for found in analysis.findings)
    yield Outcome("capture-incomplete", "right" if incomplete else "missed", plan.part)
    for found in analysis.findings:
        if found.certainty != "certain" or found.rule == "capture-incomplete":
            continue
        of = [one for one in problems if one.rule == found.rule and one.subject.items() <= found.subject.items()]
        outcomes = [_outcome(one, [found], set()) for one in of] or list(_unexpected(found, plan, ran.log))
        yield from (one for one in outcomes if one.kind != "wrong cause" or found.cause_certainty == "certain")
    for sample, before, after in zip(ran.samples, analysis.stats[::2], analysis.stats[1::2], strict=True):
        yield from _stats(sample, before, after, partial=True)


def _outcome(problem: Problem, findings: list[Found], explained: set[int]) -> Outcome:
    candidates = [
        number
        for number, found in enumerate(findings)
        if (found.rule == problem.rule or _is_undecided(found, problem))
        and problem.subject.items() <= found.subject.items()
    ]
    explained.update(candidates)
    if not candidates:
        return Outcome(problem.rule, "missed", f"expected {problem}")
    found = next(
        (findings[one] for one in candidates if findings[one].variant == problem.variant), findings[candidates[0]]
    )
    if found.culprit not in problem.culprit.split("|") or (
        problem.variant and found.variant and found.variant != problem.variant and not _is_undecided(found, problem)
    ):
        expected = f"{problem.culprit} {problem.variant}".strip()
        return Outcome(problem.rule, "wrong cause", f"expected {expected}; {found}")
    if problem.certain and found.cause_certainty != "certain":
        return Outcome(problem.rule, "wrong cause", f"expected {problem.culprit} for certain; {found}")
    if problem.count is not None:
        match = re.search(problem.pattern, found.text)
        counts = [found.count, int(match[1]) if match else None]
        if problem.rule in _REQUESTED or "topic" not in problem.subject:
            same = [one for one in candidates if problem.rule in _REQUESTED or findings[one].variant == found.variant]
            counts.append(sum(findings[one].count or 0 for one in same))
        if not any(count is not None and problem.count[0] <= count <= problem.count[1] for count in counts):
            return Outcome(problem.rule, "wrong count", f"expected {problem.count}; {found}")
    return Outcome(problem.rule, "right")


def _is_undecided(found: Found, problem: Problem) -> bool:
    """Return whether a finding leaves open which of the two requests of a consumer caused redeliveries."""
    return problem.rule in _REQUESTED and found.variant == "requested" and found.cause_certainty == "possible"


def _stored_twice(plan: Plan, log: Log, findings: list[Found]) -> Iterator[Outcome]:
    """Yield the outcome for each scalable topic's track whose applications received messages with two ids."""
    for track in plan.tracks:
        twice = log.stored_twice((f"{track.name}-",)) if track.client == V5_CLIENT else 0
        if twice:
            about = [one for one in findings if one.rule in _STORED_TWICE and track in _tracks_of(one, plan)]
            counted = sum(one.count or 0 for one in about)
            detail = f"{twice} messages of track {track.name} were received with two ids, {counted} found"
            yield Outcome("stored twice", "right" if counted >= twice else "missed", detail)


def _unexpected(found: Found, plan: Plan, log: Log) -> Iterator[Outcome]:
    tracks = _tracks_of(found, plan)
    features = {feature for track in tracks for feature in track.features}
    needs = _NEEDS.get(f"{found.rule} {found.variant}", _NEEDS.get(found.rule))
    if _is_shown(found, tracks, log):
        yield Outcome(found.rule, "right")
    elif needs is not None and not features & needs:
        yield Outcome(found.rule, "false", f"{found.severity} {found.certainty}, nothing explains it: {found}")
    elif found.severity != "note" and not any(found.rule in track.allowed for track in tracks):
        yield Outcome(found.rule, "false", f"{found.severity}: {found}")
    elif found.severity != "note" and all(track.culprits and found.culprit not in track.culprits for track in tracks):
        yield Outcome(found.rule, "wrong cause", str(found))


def _is_shown(found: Found, tracks: list[Track], log: Log) -> bool:
    """Return whether the logs show what a finding reports: messages with two ids, or a broker that is slow for a time.

    The machine can be busy with other work.
    """
    names = tuple(f"{track.name}-" for track in tracks)
    if found.rule in _STORED_TWICE:
        return 0 < (found.count or 0) <= log.stored_twice(names)
    if found.rule == "slow-answers" and found.subject.get("request") == "SEND":
        return log.longest_send(names) >= 1
    if found.rule == "producer-stuck" and found.variant == "slow":
        return log.longest_send(names) >= 10
    return found.rule == "dispatcher-silent" and log.longest_delivery(names) >= 5


def _tracks_of(found: Found, plan: Plan) -> list[Track]:
    """Return the tracks that a finding can be about: that of its topic, or all."""
    topic = found.subject.get("topic", "")
    return [track for track in plan.tracks if f"://{track.namespace}/" in topic] or plan.tracks


def _stats(sample: StatsSample, before: Any, after: Any, *, partial: bool = False) -> Iterator[Outcome]:
    """Compare the broker's figures with those of the capture before and after the request."""
    if sample.scalable:
        for figure, text in differences_of_segments(sample, before, after, partial=partial):
            yield Outcome(f"segments {figure}", "wrong count" if text else "right", text)
        return
    first, last = before.get(sample.topic, {}), after.get(sample.topic, {})
    yield from _compared("msgInCounter", sample.topic, sample.stats, first, last)
    for name, theirs in sample.stats.get("subscriptions", {}).items():
        ours = [one.get("subscriptions", {}).get(name, {}) for one in (first, last)]
        for figure in COMPARED:
            yield from _compared(figure, f"{sample.topic} {name}", theirs, *ours)
        for consumer, *rows in _consumers(theirs, *ours):
            for figure in COMPARED:
                yield from _compared(figure, f"{sample.topic} {name} {consumer['consumerName']}", consumer, *rows)


def _consumers(*subscriptions: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each consumer in all statistics. Consumers of equal names are paired by their messages."""
    for name in dict.fromkeys(one["consumerName"] for one in subscriptions[0].get("consumers", ())):
        columns = [[one for one in rows.get("consumers", ()) if one["consumerName"] == name] for rows in subscriptions]
        for column in columns:
            column.sort(key=lambda one: one.get("msgOutCounter") or 0)
        for number in range(len(columns[0])):
            yield [column[number] if number < len(column) else {} for column in columns]


def _compared(
    figure: str, place: str, theirs: dict[str, Any], first: dict[str, Any], last: dict[str, Any]
) -> Iterator[Outcome]:
    ours = [one.get(figure) for one in (first, last)]
    if figure not in theirs or None in ours:
        return  # unknown
    if min(ours) <= theirs[figure] <= max(ours):
        yield Outcome(f"stats {figure}", "right")
    else:
        yield Outcome(f"stats {figure}", "wrong count", f"{place}: the broker has {theirs[figure]}, pcli {ours}")
