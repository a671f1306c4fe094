"""Rule standby: a Failover consumer while another one is active."""

import pytest


@pytest.fixture
def standby_consumer(consumer, subscription, ns):
    def make(**fields):
        fields = {"active": False, "active_frame": 8, "active_ns": ns(2), **fields}
        return consumer("b", subscription(type="Failover"), **fields)

    return make


def test_a_standby_consumer(evaluate, standby_consumer):
    [found] = evaluate("standby", standby_consumer())
    assert (found.severity, found.certainty, found.frames) == ("note", "certain", [8])


def test_a_standby_that_was_active_before(evaluate, standby_consumer, ns):
    assert evaluate("standby", standby_consumer(last_message_ns=ns(1.5))) != []


def test_a_standby_that_receives_messages(evaluate, standby_consumer, ns):
    assert evaluate("standby", standby_consumer(last_message_ns=ns(3))) == []


def test_active_or_unknown(evaluate, standby_consumer):
    assert evaluate("standby", standby_consumer(active=True)) == []
    assert evaluate("standby", standby_consumer(active=None)) == []


def test_a_consumer_closed_at_once(evaluate, standby_consumer):
    assert evaluate("standby", standby_consumer(ended=2.5)) == []
