"""Redelivery rules built from tables of causes, and their thresholds."""

import pytest

from pcli.codec.observe.rules import RULES
from pcli.codec.observe.tracking.records.topic_records import AGAIN

CAUSES = {
    "nack": ("redelivered-after-nack", "application", "likely", "note"),
    "ack_timeout": ("redelivered-after-ack-timeout", "application", "likely", "note"),
    "requested": ("redelivered-after-ack-timeout", "application", "possible", "note"),
    "rewind": ("rewound", "application", "certain", "note"),
    "takeover": ("redelivered-after-reconnect", "broker", "certain", "note"),
    "left": ("redelivered-after-reconnect", "application", "certain", "note"),
    "lost": ("redelivered-after-reconnect", "application", "likely", "note"),
    "unload": ("redelivered-after-reconnect", "broker", "certain", "note"),
    "seek": ("after-seek", "application", "certain", "note"),
    "reset": ("after-seek", "broker", "likely", "note"),
    "reopened": ("redelivered-after-reconnect", "application", "certain", "note"),
    "aborted": ("redelivered-after-abort", "application", "certain", "note"),
    "expired": ("redelivered-after-abort", "application", "likely", "note"),
    "twice": ("redelivered-without-cause", "broker", "likely", "warning"),
}


@pytest.fixture
def findings_of(evaluate):
    """Return the findings of all these rules about a subscription."""
    return lambda came: [
        found for rule in sorted({row[0] for row in CAUSES.values()}) for found in evaluate(rule, came)
    ]


@pytest.mark.parametrize("cause", AGAIN)
def test_each_cause_belongs_to_one_rule(findings_of, subscription, counted, cause):
    rule, culprit, sure, severity = CAUSES[cause]
    [found] = findings_of(subscription(again={cause: counted(2, 40, 30, sample="7:3")}, delivered=50))
    assert (found.rule, found.variant) == (rule, cause)
    assert (found.culprit, found.cause_certainty, found.severity) == (culprit, sure, severity)
    assert found.frames == [40, 30]
    assert found.what.startswith("Subscription work on orders had 2 redeliveries ")
    assert "first 7:3 (frames 40, 30)" in found.what


@pytest.mark.parametrize("cause", AGAIN)
def test_a_gap_may_hide_another_cause(findings_of, subscription, counted, cause):
    [found] = findings_of(subscription(again={cause: counted(2, 40, 30)}, doubts={"gap"}))
    assert found.cause_certainty == "possible"
    assert "packets of the connection are missing" in found.opposite


@pytest.mark.parametrize(("again", "out", "severity"), [(19, 20, "note"), (20, 40, "warning"), (20, 41, "note")])
def test_a_warning_if_most_deliveries_are_redeliveries(findings_of, subscription, counted, again, out, severity):
    deliveries = {"again": {"nack": counted(40 * again, 3)}, "again_entries": {"nack": again}, "entries_out": out}
    [found] = findings_of(subscription(**deliveries))
    assert found.severity == severity


def test_a_batch_is_one_redelivery(findings_of, subscription, counted):
    batch = {"again": {"requested": counted(40, 3)}, "again_entries": {"requested": 1}, "entries_out": 2}
    [found] = findings_of(subscription(**batch))
    assert (found.severity, found.count) == ("note", 40)
    assert "had 1 redelivery of 40 messages because" in found.what


@pytest.mark.parametrize(("ages", "text"), [
    ([60.0, 60.4], "was 60.0 s to 60.4 s old: 60 s is the default delay of negative acknowledgements."),
    ([11.04, 11.1], "was 11.0 s old."), ([2.2, 11.1], "was 2.2 s to 11.1 s old."), ([], "(frame 3)."),
])  # fmt: skip
def test_the_age_at_requests_for_all_messages(findings_of, subscription, consumer, counted, ns, ages, text):
    of = subscription(again={"rewind": counted(2, 3)})
    consumer("c", of, asked_all_ages=[ns(age) for age in ages])
    [found] = findings_of(of)
    assert found.what.endswith(text)


def test_each_cause_is_a_separate_finding(findings_of, subscription, counted):
    first, second = findings_of(subscription(again={"lost": counted(1, 3), "unload": counted(2, 4)}, delivered=50))
    assert (first.variant, second.variant) == ("lost", "unload")
    assert first.identity != second.identity


@pytest.mark.parametrize(("end", "culprit"), [
    ("fin_client", "application"), ("reset_client", "application"), ("keep_alive", "network"), ("fin_broker", "broker"),
])  # fmt: skip
def test_the_side_that_broke_the_connection_is_the_culprit(findings_of, subscription, consumer, counted, end, culprit):
    came = subscription(again={"lost": counted(1, 3)})
    consumer("victim", came, ends={end: counted()})
    consumer("other", came, ends={"closed": counted()})
    [found] = findings_of(came)
    assert (found.culprit, found.cause_certainty) == (culprit, "likely")


def test_each_frame_is_listed_once(findings_of, subscription, counted):
    [found] = findings_of(subscription(again={"nack": counted(2, 42, 41, 43, 41)}))
    assert "(frames 42, 41, 43)" in found.what


def test_samples_from_the_wire_are_escaped(findings_of, subscription, counted):
    [found] = findings_of(subscription(again={"rewind": counted(1, 3, sample="\x1b[31m")}))
    assert "\x1b" not in found.what


def test_the_causes_of_the_test_name_rules():
    assert {row[0] for row in CAUSES.values()} <= set(RULES)
