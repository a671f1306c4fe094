"""Rule request-refused: errors of requests other than PRODUCER and SUBSCRIBE."""

import pytest

from pcli.codec.observe.tracking.records.connection_records import ExchangeRecord

ORDERS = "persistent://public/default/orders"


@pytest.fixture
def refused(counted):
    def make(*keys, type_="LOOKUP", **fields):
        seen = {key: counted(1, 10 + 2 * place, 11 + 2 * place, sample="no") for place, key in enumerate(keys)}
        return ExchangeRecord(1, type_, ("10.0.0.1", 40000), ("10.0.0.2", 6650), 9, 9, refused=seen, **fields)

    return make


@pytest.mark.parametrize(
    ("error", "severity", "culprit"),
    [("TopicNotFound", "error", "application"), ("ServiceNotReady", "warning", "broker")],
)
def test_the_culprit_of_an_error(evaluate, refused, error, severity, culprit):
    [found] = evaluate("request-refused", refused((error, ORDERS)))
    assert (found.severity, found.culprit, found.certainty) == (severity, culprit, "certain")
    assert found.what == f"1 LOOKUP request on connection 1 about orders was refused with {error}: no"
    assert found.frames == [10, 11]


def test_an_error_of_unsubscribe_is_that_of_the_application(evaluate, refused):
    [found] = evaluate("request-refused", refused(("MetadataError", ORDERS), type_="UNSUBSCRIBE"))
    assert (found.severity, found.culprit) == ("error", "application")


def test_topics_of_one_error_are_one_finding(evaluate, refused):
    topics = [("TopicNotFound", f"persistent://public/default/t-{number}") for number in range(5)]
    [found] = evaluate("request-refused", refused(*topics))
    assert "5 LOOKUP requests on connection 1 about t-0, t-1, t-2 and 2 more were refused" in found.what


def test_a_topic_with_a_later_success_is_a_note(evaluate, refused):
    one = refused(("TopicNotFound", ORDERS), ("TopicNotFound", "other"), accepted_later={ORDERS})
    assert [(found.severity, found.variant) for found in evaluate("request-refused", one)] == [
        ("note", "TopicNotFound-resolved"),
        ("error", "TopicNotFound"),
    ]


def test_no_error(evaluate, refused):
    assert evaluate("request-refused", refused()) == []
