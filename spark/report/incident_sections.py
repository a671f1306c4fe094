"""The answer: incidents in words and on a timeline, and unhealthy topics and subscriptions; findings as groups.

Rules of this file
1. Incidents and findings of one rule are one line. Behind it, those of one subject are one line.
2. At most MAX_SUBJECTS subjects of a rule and MAX_FINDINGS findings of a subject are shown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, TypeVar

from pcli.codec.observe.incidents import Incident
from pcli.codec.observe.rules import RULES
from pcli.codec.observe.rules.finding import SEVERITIES
from pcli.codec.observe.rules.finding_text import cause_text
from pcli.spark.report.incident_rows import Findings, Found
from pcli.spark.report.number_format import name_text, named, number, short_topic
from pcli.spark.report.page_elements import Cell, Chart, Finding, FindingGroup, Section, TableText, count_cell
from pcli.spark.report.report_data import Clock, Key, ReportData
from pcli.spark.report.vega_charts import SEVERITY_COLORS, Bar, Mark, bar_chart

MAX_SUBJECTS: Final = 20
MAX_FINDINGS: Final = 5
_MAX_ROWS: Final = 20
"""Maximum number of rules in the timeline."""
_MAX_BARS: Final = 60
"""Maximum number of incidents of a rule in the timeline."""
_MAX_MARKS: Final = 40
"""Maximum number of findings that are marked in a chart."""
_STATE: Final = ("cluster", "topic", "subscription", "msg_backlog", "unacked_messages")
_MAX_UNHEALTHY: Final = 50

_SUBJECT: Final = ("cluster", "topic", "subscription", "consumer", "producer", "client", "server", "request", "key")

_T = TypeVar("_T")


def incidents(found: Findings, clock: Clock) -> Section:
    """Return the section on incidents, the most severe first."""
    section = Section("Incidents", "incidents")
    if not found.known:
        section.texts.append("The run did not evaluate the rules: it wrote no table of findings.")
        return section
    if not found.all:
        section.texts.append("No problems were found.")
        return section
    counts = Counter(one.severity for _, one in found.incidents)
    words = ", ".join(
        f"{number(counts[word])} {word}{'s' if counts[word] > 1 else ''}" for word in SEVERITIES if counts[word]
    )
    section.texts.append(
        f"{_counted(len(found.incidents), 'incident')} ({words}) with {_counted(len(found.all), 'finding')}. "
        "An incident is a finding with the findings that follow from it; incidents of one rule are one line."
    )
    section.charts.append(_timeline(found, clock))
    shows = {id(one.finding): one for one in found.all}
    rules = _grouped(found.incidents, lambda one: (one[1].severity, one[1].root.rule))
    section.groups = [_rule_group(some, shows, clock) for some in rules]
    return section


def _timeline(found: Findings, clock: Clock) -> Chart:
    rules = _grouped(found.incidents, lambda one: one[1].root.rule)
    bars = []
    for some in rules[:_MAX_ROWS]:
        row = f"{some[0][1].root.rule} ({len(some)})" if len(some) > 1 else some[0][1].root.rule
        for _, one in reversed(some[:_MAX_BARS]):  # the most severe incidents are drawn above the others
            begin, end = _range(one)
            bars.append(Bar(row, clock.place(begin), clock.place(end or clock.last_ns), one.severity, one.summary()))
    caption = (
        "Each bar is an incident, from its start to its end, or to the end of the recording if it continues or if its "
        "end is unknown."
    )
    caption = f"{caption} {_first_of(_MAX_ROWS, len(rules), 'rules')}"
    alt = f"Bars over time for {_counted(len(bars), 'incident')}; the list below contains the same incidents."
    return bar_chart(
        "incidents-timeline", "Timeline of the incidents", bars, SEVERITY_COLORS, clock, "", caption=caption, alt=alt
    )


def _range(incident: Incident) -> tuple[int, int]:
    """Return the start and the end of an incident in ns; the end is 0 if it continues or is unknown."""
    begins = [one.since_ns for one in incident.findings if one.since_ns > 0]
    ends = [one.until_ns for one in incident.findings]
    return min(begins, default=0), 0 if 0 in ends else max(ends)


def _rule_group(some: Sequence[tuple[str, Incident]], shows: dict[int, Found], clock: Clock) -> FindingGroup:
    """Return the incidents of one rule as a line."""
    first = some[0][1]
    subjects = _grouped(some, lambda one: _subject(shows[id(one[1].root)]))
    groups = [_subject_group(same, shows, clock) for same in subjects[:MAX_SUBJECTS]]
    more = _first_of(MAX_SUBJECTS, len(subjects), "subjects")
    begins, ends = zip(*(_range(one) for _, one in some))
    times = _times(min(filter(None, begins), default=0), 0 if 0 in ends else max(ends), clock)
    title = RULES[first.root.rule].title
    what = first.summary() if len(some) == 1 else f"{title[:1].upper()}{title[1:]}. First: {first.summary()}"
    if len(groups) == 1:  # the line of the rule and the line of the subject would be the same
        groups, findings, more = list(groups[0].groups), groups[0].findings, groups[0].more
    else:
        findings = ()
    return FindingGroup(first.severity, f"{first.root.rule}{times}", what, len(some), groups, findings, more)


def _subject_group(same: Sequence[tuple[str, Incident]], shows: dict[int, Found], clock: Clock) -> FindingGroup:
    """Return the incidents of one rule and one subject as a line."""
    first = same[0][1]
    found = [shows[id(one)] for _, incident in same for one in incident.findings]
    groups, more = finding_groups(found, clock)
    findings: Sequence[Finding] = ()
    if len(groups) == 1:
        groups, findings, more = [], groups[0].findings, groups[0].more
    head = f"{_subject_text(shows[id(first.root)]) or first.root.rule}{_times(*_range(first), clock)}"
    return FindingGroup(first.severity, head, first.summary(), len(same), groups, findings, more)


def finding_groups(found: Sequence[Found], clock: Clock) -> tuple[list[FindingGroup], str]:
    """Return findings in a group for each rule and subject, and a note on groups that are left out."""
    groups = []
    every = _grouped(found, lambda one: (one.finding.rule, _subject(one)))
    for same in every[:MAX_SUBJECTS]:
        first = same[0].finding
        shown = [_finding(one, clock) for one in same[:MAX_FINDINGS]]
        head = f"{first.rule}{_times(first.since_ns, first.until_ns, clock)}"
        more = _first_of(MAX_FINDINGS, len(same), "findings")
        groups.append(FindingGroup(first.severity, head, first.what, len(same), (), shown, more))
    return groups, _first_of(MAX_SUBJECTS, len(every), "rules and subjects")


def _first_of(shown: int, count: int, what: str) -> str:
    return f"The first {shown} of {number(count)} {what}." if count > shown else ""


def marks_of(found: Sequence[Found]) -> list[Mark]:
    """Return the marks of findings whose start is known, for charts."""
    some = [one.finding for one in found if one.finding.since_ns > 0][:_MAX_MARKS]
    return [Mark(one.since_ns, one.until_ns, one.severity, f"{one.rule}: {one.what}") for one in some]


def unhealthy(found: Findings, data: ReportData, href: Callable[[str, Key], str]) -> Section:
    """Return the section on the topics and subscriptions with errors or warnings. ``href`` links to an object."""
    section = Section("Unhealthy topics and subscriptions", "unhealthy")
    state = {
        (row["cluster"], row["topic"], row["subscription"]): row for row in data.objects("subscriptions", _STATE)
    }  # fmt: skip
    rows = []
    for (kind, key), some in found.of.items():
        worst = [one for one in some if one.finding.severity != "note"]
        if kind not in ("topics", "subscriptions") or not worst:
            continue
        if kind == "topics" and all("subscription" in one.finding.subject for one in worst):
            continue  # the rows of its subscriptions contain these findings
        errors = sum(one.finding.severity == "error" for one in worst)
        rules = Counter(one.finding.rule for one in worst)
        row = state.get(key, {})
        rows.append((
            -errors, Cell("error" if errors else "warning", float(not errors)),
            Cell(named(*key), None, href(kind, key)),
            ", ".join(f"{rule} ×{count}" if count > 1 else rule for rule, count in rules.most_common()),
            count_cell(len(worst)), count_cell(row.get("msg_backlog")), count_cell(row.get("unacked_messages")),
        ))  # fmt: skip
    if not rows:
        section.texts.append("No topic and no subscription has errors or warnings.")
        return section
    rows.sort(key=lambda row: (row[0], -(row[4].sort or 0)))
    head = ("state", "topic / subscription", "findings", "count", "backlog at the end", "unacked at the end")
    more = _first_of(_MAX_UNHEALTHY, len(rows), "topics and subscriptions")
    section.tables.append(
        TableText(
            "Errors first; a dash marks an unknown value",
            head,
            [row[1:] for row in rows[:_MAX_UNHEALTHY]],
            frozenset((3, 4, 5)),
            more,
        )
    )
    return section


def _finding(one: Found, clock: Clock) -> Finding:
    finding = one.finding
    frames = f"frames {', '.join(map(str, finding.frames))}" if finding.frames else ""
    cause = f"cause: {cause_text(finding.culprit, finding.cause_certainty, finding.cause.alternatives)}"
    where = "; ".join(
        filter(None, [cause, _subject_text(one), frames, f"more: `pcli diagnose --explain {finding.rule}`"])
    )
    head = f"{finding.rule}{_times(finding.since_ns, finding.until_ns, clock)} (fact: {finding.certainty})"
    return Finding(
        finding.severity,
        head,
        finding.what,
        finding.advice,
        finding.opposite,
        where,
        name_text(one.show) if one.show else "",
    )


def _times(begin_ns: int, end_ns: int, clock: Clock) -> str:
    """Return ``, 12:00:01.000 UTC (4.2 s) to …`` in both units of the axis of the charts."""
    if begin_ns <= 0:
        return ""
    begin = _time(begin_ns, clock)
    end = _time(end_ns, clock) if end_ns else ""
    if end == begin:
        return f", at {begin}"
    return f", {begin} to {end}" if end else f", since {begin}"


def _time(time_ns: int, clock: Clock) -> str:
    return f"{clock.text(time_ns)} UTC ({(time_ns - clock.first_ns) / 1e9:,.3f} s)"


def _subject(one: Found) -> Hashable:
    """Return the names in the subject. Connections, ports of clients and variants do not distinguish groups."""
    subject = {name: str(one.finding.subject[name]) for name in _SUBJECT if name in one.finding.subject}
    if "stream" in one.finding.subject and "client" in subject:
        subject["client"] = subject["client"].rpartition(":")[0]
    return one.cluster, tuple(subject.items())


def _subject_text(one: Found) -> str:
    subject = one.finding.subject
    words = [f"cluster {name_text(one.cluster)}"] if named(one.cluster) else []
    words += [
        f"{name} {short_topic(subject[name]) if name == 'topic' else name_text(str(subject[name]))}"
        for name in _SUBJECT
        if subject.get(name)
    ]
    words += [f"connection {subject['stream']}"] if "stream" in subject else []
    return ", ".join(words)


def _grouped(items: Iterable[_T], key: Callable[[_T], Hashable]) -> list[list[_T]]:
    """Return the items with equal keys as lists, in the order of the first items."""
    groups: dict[Hashable, list[_T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return list(groups.values())


def _counted(count: int, word: str) -> str:
    return f"{number(count)} {word}{'' if count == 1 else 's'}"
