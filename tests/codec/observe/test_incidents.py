"""Incidents: which findings follow from which."""

import pytest

from pcli.codec.observe.incidents import Place, incidents_of
from pcli.codec.observe.rules import RULES
from pcli.codec.observe.rules.finding import Cause, Finding

SECOND = 1_000_000_000
SERVER = "10.0.0.1:6650"
OUTAGE = {"client": "10.0.0.9", "server": SERVER}


@pytest.fixture
def finding():
    def make(rule, severity="warning", frames=(5,), since=1, count=0, **subject):
        text = f"{rule} happened."
        return Finding(severity, "certain", Cause("broker"), subject, text, since, list(frames), count=count, rule=rule)

    return make


def test_findings_on_connections_to_a_lost_broker(finding):
    outage = finding("broker-unavailable", **OUTAGE)
    lost = [finding("ack-lost", count=count, frames=[9], topic="t", consumer=f"c{count}") for count in (15, 12)]
    resent = finding("resend-stored", "note", count=1, frames=[8], topic="t", producer="p")
    findings = [*lost, outage, resent]
    [incident] = incidents_of(findings, {id(one): Place(servers=frozenset([SERVER])) for one in findings})
    assert (incident.root, incident.effects) == (outage, [*lost, resent])
    assert (incident.severity, incident.certainty) == ("warning", "likely")
    assert incident.summary() == (
        "Broker-unavailable happened. As a result, 27 acknowledgements were lost and 1 message was resent."
    )


@pytest.mark.parametrize(("servers", "frames"), [(["10.0.0.2:6650"], [9]), ([SERVER], [3])])
def test_another_broker_or_an_earlier_event_is_no_effect(finding, servers, frames):
    findings = [finding("broker-unavailable", **OUTAGE), finding("ack-lost", frames=frames, topic="t")]
    incidents = incidents_of(findings, {id(findings[1]): Place(servers=frozenset(servers))})
    assert [(one.root.rule, one.effects, one.certainty) for one in incidents] == [
        ("broker-unavailable", [], "certain"), ("ack-lost", [], "certain"),
    ]  # fmt: skip


@pytest.mark.parametrize(("until", "effects"), [(0, 1), (1000, 1), (400, 0)])
def test_an_effect_follows_shortly_after_the_end_of_the_problem(finding, until, effects):
    outage = finding("broker-unavailable", **OUTAGE)
    outage.until_ns = until * SECOND
    slow = finding("slow-answers", frames=[9], since=1050 * SECOND, stream=3)
    incidents = incidents_of([outage, slow], {id(slow): Place(servers=frozenset([SERVER]))})
    assert len(incidents[0].effects) == effects


def test_a_consumer_waits_for_a_transaction_of_another_client(finding):
    transaction = finding("transaction-open", transaction="0:3", stream=1)
    waiting = finding("stuck-open-transaction", "note", topic="t", consumer="c", transaction="0:3")
    other = finding("stuck-open-transaction", "note", topic="t", consumer="d", transaction="0:4")
    incidents = incidents_of([transaction, waiting, other], {})
    assert [one.findings for one in incidents] == [[transaction, waiting], [other]]


def test_a_finding_about_a_connection(finding):
    damage = finding("wrong-crc", stream=3, server=SERVER)
    permits = finding("permits-leaked", topic="t", consumer="c", subscription="s")
    other = finding("permits-leaked", topic="t", consumer="d", subscription="s")
    places = {id(permits): Place(frozenset([3])), id(other): Place(frozenset([4]))}
    incidents = incidents_of([damage, permits, other], places)
    assert [one.findings for one in incidents] == [[damage, permits], [other]]


def test_a_chain_has_one_root_and_the_highest_severity_of_its_findings(finding):
    about = {"topic": "t", "subscription": "s", "consumer": "c"}
    paused = finding("paused-client", "note", **about)
    held = finding("never-acked", count=20, **about)
    stuck = finding("stuck-unacked-limit", "error", count=20, **about)
    other = finding("never-acked", topic="t", subscription="s", consumer="d")
    incidents = incidents_of([stuck, held, other, paused], {})
    assert [(one.severity, one.findings) for one in incidents] == [
        ("error", [paused, stuck, held]), ("warning", [other]),
    ]  # fmt: skip


def test_clients_that_lose_the_same_broker_are_one_incident(finding):
    first, second = (finding("broker-unavailable", client=f"10.0.0.{n}", server=SERVER, since=n) for n in (9, 8))
    place = Place(servers=frozenset([SERVER]))
    [incident] = incidents_of([first, second], {id(first): place, id(second): place})
    assert (incident.root, incident.effects) == (second, [first])


def test_reasons_are_rules_without_cycles():
    def above(rule, path):
        assert rule not in path, path
        for reason in RULES[rule].because_of:
            if reason != rule:
                above(reason, [*path, rule])

    for rule in RULES:
        above(rule, [])


def test_thousands_of_findings_are_indexed(finding):
    """Each finding is compared with those about the same topic only."""
    subjects = [{"topic": f"t{number}", "subscription": "s", "consumer": "c"} for number in range(4000)]
    findings = [finding(rule, **about) for about in subjects for rule in ("stuck-unacked-limit", "never-acked")]
    incidents = incidents_of(findings, {})
    assert [len(one.findings) for one in incidents] == [2] * 4000
