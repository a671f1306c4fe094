"""Rule producer-reconnect-loop: a producer that is created repeatedly."""

from pcli.codec.observe.tracking.records.client_records import ProducerRecord


def test_its_connection_breaks(evaluate, counted):
    producer = ProducerRecord("t", "p", None, sessions=5, ends={"reset_broker": counted(4, 5, last=50)})
    [found] = evaluate("producer-reconnect-loop", producer)
    assert (found.severity, found.culprit, found.variant) == ("warning", "network", "reset_broker")
    assert found.subject == {"topic": "t", "producer": "p"}
    assert "4 times within 48.0 s" in found.what


def test_twice_or_slowly(evaluate, counted):
    for ends in (counted(2, last=3), counted(4, last=500)):
        assert evaluate("producer-reconnect-loop", ProducerRecord("t", "p", None, ends={"broker": ends})) == []


def test_an_unload(diagnosed):
    assert diagnosed("java/unload", "producer-reconnect-loop") == []
