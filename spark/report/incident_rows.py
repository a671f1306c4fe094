"""The incidents of the findings in the tables, and the findings of each object.

Rules of this file
1. Incidents are computed per cluster, as `pcli diagnose` computes them for a capture. The connections of an object are
   those of the last sessions of its consumers and producers, because the tables do not contain the earlier ones.
2. A finding belongs to the objects that it names, and to their topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from pcli.codec.observe.diagnosis import by_weight
from pcli.codec.observe.incidents import Incident, Place, incidents_of
from pcli.codec.observe.rules import Finding
from pcli.codec.observe.rules.connection_text import place
from pcli.codec.observe.rules.finding import SEVERITIES
from pcli.spark.columnar.observation.finding_table import findings_of
from pcli.spark.report.report_data import Key, ReportData


@dataclass(frozen=True, slots=True)
class Found:
    """A finding with its cluster and the command that shows its evidence."""

    cluster: str
    finding: Finding
    show: str


@dataclass(slots=True)
class Findings:
    """The selected findings."""

    all: list[Found] = field(default_factory=list)
    """All findings by severity, certainty and start."""
    incidents: list[tuple[str, Incident]] = field(default_factory=list)
    """Incidents with their clusters, the most severe first."""
    of: dict[tuple[str, Key], list[Found]] = field(default_factory=lambda: defaultdict(list))
    """The findings by kind of object (topics, subscriptions, …) and its key."""
    known: bool = True
    """Whether the run wrote the table of findings."""


def read_findings(data: ReportData) -> Findings:
    """Return the findings of a run that are selected by time and topic."""
    result = Findings(known="findings" in data.tables.names)
    if not result.known:
        return result
    table = data.tables.read("findings")
    shows, clusters = table["show"].to_pylist(), table["cluster"].to_pylist()
    every = [Found(cluster, row.finding, show or "") for cluster, row, show in zip(clusters, findings_of(table), shows)]
    chosen = [one for one in every if _is_selected(data, one.finding)]
    result.all = sorted(chosen, key=lambda one: by_weight(one.finding))
    for one in result.all:
        for kind, key in _objects(one):
            result.of[kind, key].append(one)
    result.incidents = _incidents(data, result.all)
    return result


def _is_selected(data: ReportData, finding: Finding) -> bool:
    """Return whether a finding overlaps the range, and concerns a selected topic or no topic."""
    topic = finding.subject.get("topic")
    end = finding.until_ns or None
    return data.selection.overlaps(finding.since_ns, end) and (topic is None or data.selection.names_topic(topic))


def _objects(found: Found) -> Iterable[tuple[str, Key]]:
    subject, cluster = found.finding.subject, found.cluster
    topic, stream = subject.get("topic"), subject.get("stream")
    if stream is not None:
        yield "connections", (cluster, stream)
    if not topic:
        return
    yield "topics", (cluster, topic)
    if subject.get("subscription"):
        yield "subscriptions", (cluster, topic, subject["subscription"])
        if "consumer" in subject:
            yield "consumers", (cluster, topic, subject["subscription"], subject["consumer"])
    if "producer" in subject:
        yield "producers", (cluster, topic, subject["producer"])


def _incidents(data: ReportData, found: list[Found]) -> list[tuple[str, Incident]]:
    streams, servers = _streams(data)
    incidents = []
    for cluster in dict.fromkeys(one.cluster for one in found):
        findings = [one.finding for one in found if one.cluster == cluster]
        places = {id(one): _place(cluster, one, streams, servers) for one in findings}
        incidents += [(cluster, one) for one in incidents_of(findings, places)]
    return sorted(incidents, key=lambda one: SEVERITIES.index(one[1].severity))


def _streams(data: ReportData) -> tuple[dict[Key, set[int]], dict[Key, str]]:
    """Return the connections by the names of objects, and the servers by connection."""
    streams: dict[Key, set[int]] = defaultdict(set)
    names = set(data.tables.names)
    for table, kind, names_of in _CLIENTS:
        if table in names:
            columns = ["cluster", "topic", "connection", *names_of]
            for row in data.tables.read(table, columns).to_pylist():
                key = (row["cluster"], row["topic"])
                streams[*key, kind, *(row[name] for name in names_of)].add(row["connection"])
                streams[*key, kind, *(row[name] for name in names_of[:-1])].add(row["connection"])
    servers = {}
    if "connections" in names:
        columns = ["cluster", "connection", "server", "server_port"]
        for row in data.tables.read("connections", columns).to_pylist():
            servers[row["cluster"], row["connection"]] = place((row["server"], row["server_port"]))
    return streams, servers


_CLIENTS = (("consumers", "c", ("subscription", "consumer")), ("producers", "p", ("producer",)))


def _place(cluster: str, finding: Finding, streams: dict[Key, set[int]], servers: dict[Key, str]) -> Place:
    subject = finding.subject
    found: set[int] = {subject["stream"]} if "stream" in subject else set()
    for _, kind, names in _CLIENTS:
        given = [subject[name] for name in names if name in subject]
        if given:
            found |= streams.get((cluster, subject.get("topic"), kind, *given), set())
    named = {servers[cluster, one] for one in found if (cluster, one) in servers}
    return Place(frozenset(found), frozenset(named | ({subject["server"]} if "server" in subject else set())))
