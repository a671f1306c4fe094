"""`--admin URL`: compares a diagnosis with what a live broker reports, and prints the result.

Rules of this file
1. Each topic of the capture takes three requests or more, so at most MAX_TOPICS topics are requested: first those with
   findings.
2. A failed request ends the comparison. The diagnosis is printed nevertheless, and the exit code is 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.admin_api import NOT_FOUND, AdminApi, topic_path
from pcli.cli.common.output import Exit
from pcli.cli.diagnosis.finding_output import wrapped
from pcli.codec.errors import PcliError

if TYPE_CHECKING:
    from pcli.codec.observe.broker_checks import BrokerNote, BrokerTopic
    from pcli.codec.observe.rules import Finding
    from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState
    from pcli.replay.service_url import Security

MAX_TOPICS: Final = 50
"""Maximum number of topics that are requested."""

_UNAVAILABLE: Final = (NOT_FOUND, 405, 412)
"""Statuses of a policy that does not exist: on another version, or with topicLevelPoliciesEnabled=false."""


@dataclass(slots=True)
class BrokerReport:
    """The result of a comparison with a broker."""

    url: str
    notes: list[BrokerNote] = field(default_factory=list)
    omitted: int = 0
    """Number of topics that were not requested."""
    error: str = ""
    """Why the comparison was not completed; empty if it was."""

    @property
    def failure(self) -> str:
        """A line that states why the comparison was not completed; empty if it was."""
        return f"{self.error}; the findings were not compared with the broker" if self.error else ""

    def exit_code(self, code: Exit) -> Exit:
        """Return the exit code of the command: 2 if the comparison failed."""
        return Exit.USAGE if self.error else code


def admin_api(url: str, security: Security) -> AdminApi | None:
    """Return the admin API at the URL in ``--admin``; None if it is empty. Raises LocalError if it is invalid."""
    return AdminApi("--admin", url, security) if url else None


def compare_with_broker(
    api: AdminApi, findings: Sequence[Finding], topics: dict[str, TopicState], only: tuple[str, str] | None = None
) -> BrokerReport:
    """Return what the broker reports about the findings and the topics.

    ``topics`` are the topics of the capture. ``only`` restricts the comparison to one topic, and to one of
    its subscriptions unless the name of the subscription is empty.
    """
    report = BrokerReport(api.url)
    try:
        report.notes = list(_notes(api, report, findings, topics, only))
    except PcliError as fault:
        report.error = str(fault)
    return report


def _notes(
    api: AdminApi,
    report: BrokerReport,
    findings: Sequence[Finding],
    topics: dict[str, TopicState],
    only: tuple[str, str] | None,
) -> Iterator[BrokerNote]:
    from pcli.codec.observe.broker_checks import check_finding, check_topic

    concerned = [str(one.subject.get("topic", "")) for one in findings]
    own = [name for name, one in topics.items() if not one.record.system]
    names = [name for name in dict.fromkeys([*concerned, *own]) if _is_full(name) and (only is None or name == only[0])]
    report.omitted = max(0, len(names) - MAX_TOPICS)
    if not names:
        api.get("clusters")  # so that a wrong URL is reported
    for name in names[:MAX_TOPICS]:
        topic = _topic(api, name, topics.get(name))
        for one in findings:
            if one.subject.get("topic") == name:
                note = check_finding(one, topic, findings)
                if note is not None:
                    yield note
        for note in check_topic(name, topic):
            if only is None or only[1] in ("", note.subject.get("subscription", only[1])):
                yield note


def _is_full(topic: str) -> bool:
    domain, _, rest = topic.partition("://")
    return domain in ("persistent", "non-persistent") and rest.count("/") >= 2


def _topic(api: AdminApi, name: str, capture: TopicState | None) -> BrokerTopic:
    """Request a topic. Policies are requested when they are read, each at most once."""
    from pcli.codec.observe.broker_checks import BrokerTopic

    path = topic_path(name)
    known: dict[str, Any] = {}

    def policy(word: str) -> Any:
        if word not in known:
            known[word] = api.get(f"{path}/{word}?applied=true", missing=_UNAVAILABLE)
        return known[word]

    stats = api.get(f"{path}/stats?getPreciseBacklog=true", missing=(NOT_FOUND,))
    persistent = name.startswith("persistent:")
    internal = api.get(f"{path}/internalStats", missing=_UNAVAILABLE) if persistent and stats is not None else None
    cursors = (internal or {}).get("cursors", {})
    positions = {one: _position(cursor.get("markDeletePosition", "")) for one, cursor in cursors.items()}
    return BrokerTopic(stats, {one: at for one, at in positions.items() if at is not None}, policy, capture)


def _position(text: str) -> Position | None:
    """Return a position such as ``7:12``; None if the text has another form."""
    ledger, _, entry = text.partition(":")
    try:
        return int(ledger), int(entry)
    except ValueError:
        return None


# -- output


def report_lines(report: BrokerReport | None, width: int) -> list[str]:
    """Return the section of the text output, one paragraph for each finding and object; empty without a report."""
    from pcli.codec.observe.broker_checks import FACT

    if report is None or not report.notes:
        return []
    counts = Counter(one.verdict for one in report.notes)
    words = [f"{count} {verdict}{'s' if verdict == FACT and count != 1 else ''}" for verdict, count in counts.items()]
    rows = wrapped("", f"confirmed by the broker at {report.url}, now: {', '.join(words)}", width)
    for one in report.notes:
        rule = f"{one.finding.rule}, " if one.finding is not None else ""
        rows += wrapped(f"  {one.verdict:<13}", f"{rule}{_subject_text(one.subject)}: {one.text}", width)
    if report.omitted:
        rows.append(f"  {report.omitted} more topics were not requested")
    return [*rows, ""]


def _subject_text(subject: dict[str, Any]) -> str:
    from pcli.codec.observe.text_format import printable, short_topic

    parts = [
        f"{kind} {printable(subject[kind])}" for kind in ("consumer", "producer", "subscription") if subject.get(kind)
    ]
    return " of ".join(parts) + (" on " if parts else "topic ") + short_topic(subject["topic"])


def report_json(report: BrokerReport, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the value of the key ``admin``. A note refers to its finding by the index in ``findings``."""
    places = {one.identity: index for index, one in enumerate(findings)}
    return {
        "url": report.url,
        "error": report.error or None,
        "topics_omitted": report.omitted,
        "notes": [
            {
                "verdict": one.verdict,
                "rule": one.finding.rule if one.finding is not None else None,
                "finding": places.get(one.finding.identity) if one.finding is not None else None,
                "subject": one.subject,
                "text": one.text,
                "figures": one.figures,
            }
            for one in report.notes
        ],
    }
