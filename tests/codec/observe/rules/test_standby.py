"""Rule standby: a Failover consumer while another one is active."""

import pytest


@pytest.fixture
def told(consumer, subscription, ns):
    def make(**fields):
        fields = {"active": False, "active_frame": 8, "active_ns": ns(2), **fields}
        return consumer("b", subscription(type="Failover"), **fields)

    return make


def test_a_standby_consumer(evaluate, told):
    [found] = evaluate("standby", told())
    assert (found.severity, found.sure, found.frames) == ("note", "certain", [8])


def test_a_standby_that_was_active_before(evaluate, told, ns):
    assert evaluate("standby", told(last_message_ns=ns(1.5))) != []


def test_a_standby_that_receives_messages(evaluate, told, ns):
    assert evaluate("standby", told(last_message_ns=ns(3))) == []


def test_active_or_unknown(evaluate, told):
    assert evaluate("standby", told(active=True)) == []
    assert evaluate("standby", told(active=None)) == []


def test_a_consumer_closed_at_once(evaluate, told):
    assert evaluate("standby", told(ended=2.5)) == []
