"""Incidents: groups of findings with one reason.

Rules of this file
1. Each rule declares the rules that can be its reason (`Rule.because_of`), the closest first. A finding is attached to
   a finding of the first of these rules that concerns the same objects, does not begin after its own evidence, and did
   not end more than AFTERMATH_NS before it.
2. A finding has at most one reason. A finding without a reason is the root of an incident, which also contains all
   findings that are attached to it directly or indirectly.
3. Two findings concern the same objects if the names in both subjects are equal, or if both name a transaction. A
   finding about a client and a server concerns everything on connections to that server; a finding about a connection,
   everything on it.
4. The connection between two findings is inferred. An incident with several findings is therefore at most likely.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.observe.rules import RULES, Finding
from pcli.codec.observe.rules.finding import CERTAINTIES, SEVERITIES

AFTERMATH_NS: Final = 60_000_000_000
"""Maximum time in ns from the end of a problem to its effects: clients reconnect and topics are loaded."""

_OWN: Final = frozenset(("topic", "transaction"))
"""Names in the subject of a finding by which its reason is found, besides its connections and servers."""

_NAMES: Final = frozenset(("topic", "subscription", "consumer", "producer", "key", "transaction"))


@dataclass(frozen=True, slots=True)
class Place:
    """The connections of the objects that a finding concerns."""

    streams: frozenset[int] = frozenset()
    servers: frozenset[str] = frozenset()
    """Address and port of the servers of these connections, as in subjects."""


@dataclass(slots=True)
class Incident:
    """A finding and the findings that follow from it."""

    root: Finding
    effects: list[Finding] = field(default_factory=list)
    """All other findings, in the order of their severity."""

    @property
    def severity(self) -> str:
        """The highest severity of its findings."""
        return min((one.severity for one in self.findings), key=SEVERITIES.index)

    @property
    def certainty(self) -> str:
        """The certainty of the root, or ``likely`` if that is lower and there are effects."""
        return max(self.root.certainty, "likely" if self.effects else "certain", key=CERTAINTIES.index)

    @property
    def findings(self) -> list[Finding]:
        """The root and the effects."""
        return [self.root, *self.effects]

    def summary(self) -> str:
        """Return what happened, and its counted effects: ``… As a result, 27 acknowledgements were lost.``."""
        counts: Counter[tuple[str, str]] = Counter()
        for one in self.effects:
            effect = RULES[one.rule].effect
            if effect is not None and one.count:
                counts[effect] += one.count
        words = [f"{count} {effect[count != 1]}" for effect, count in counts.items()]
        if not words:
            return self.root.what
        listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
        return f"{self.root.what} As a result, {listed}."


def incidents_of(findings: Sequence[Finding], places: Mapping[int, Place]) -> list[Incident]:
    """Return the incidents, the most severe first.

    ``findings`` are in the order of their severity. ``places`` contains the places by ``id`` of the finding.
    """
    reasons = _reasons(findings, places)
    incidents = {id(one): Incident(one) for one in findings if id(one) not in reasons}
    for one in findings:
        root = one
        while id(root) in reasons:
            root = reasons[id(root)]
        if root is not one:
            incidents[id(root)].effects.append(one)
    return sorted(incidents.values(), key=lambda one: SEVERITIES.index(one.severity))


def _reasons(findings: Sequence[Finding], places: Mapping[int, Place]) -> dict[int, Finding]:
    """Return the reasons by ``id`` of the finding.

    The findings are indexed by rule and object, because there may be thousands.
    """
    index: dict[tuple[str, str, Any], list[Finding]] = defaultdict(list)
    for one in findings:
        for where in _extents(one):
            index[one.rule, *where].append(one)
    found = {}
    for one in findings:
        place = places.get(id(one), Place())
        objects: list[tuple[str, Any]] = [(kind, one.subject[kind]) for kind in _OWN & one.subject.keys()]
        objects += [*(("stream", stream) for stream in place.streams), *(("server", name) for name in place.servers)]
        for rule in RULES[one.rule].because_of:
            candidates = [
                other
                for where in objects
                for other in index.get((rule, *where), ())
                if other is not one and _agrees(other, one) and _precedes(other, one)
            ]
            if candidates:
                found[id(one)] = max(candidates, key=lambda other: other.since_ns)
                break
    return found


def _extents(finding: Finding) -> Iterator[tuple[str, Any]]:
    """Yield the kinds and names of the objects that the finding concerns as a whole."""
    subject = finding.subject
    if "transaction" in subject and "topic" not in subject:
        yield "transaction", subject["transaction"]
    kind = next((name for name in ("stream", "topic", "server") if name in subject), "server")
    yield kind, subject.get(kind)


def _agrees(reason: Finding, effect: Finding) -> bool:
    """Return whether no name differs between two findings about a topic."""
    subject, other = reason.subject, effect.subject
    return "topic" not in subject or all(
        subject[name] == other[name] for name in _NAMES & subject.keys() & other.keys()
    )


def _precedes(reason: Finding, effect: Finding) -> bool:
    """Return whether the reason begins before the last evidence of the effect, and ended at most shortly before it.

    Two findings of the same rule are ordered by their start, so that they do not become the reason of each other.
    """
    if reason.rule == effect.rule:
        return (reason.since_ns, reason.identity) < (effect.since_ns, effect.identity)
    if 0 < reason.until_ns < effect.since_ns - AFTERMATH_NS:
        return False
    return not reason.frames or not effect.frames or min(reason.frames) <= max(effect.frames)
