"""Rule standby: a Failover consumer while another one is active."""

import pytest


@pytest.fixture
def told(consumer, subscription, ns):
    def make(**fields):
        fields = {"active": False, "active_frame": 8, "active_ns": ns(2), **fields}
        return consumer("b", subscription(type="Failover"), **fields)

    return make


def test_it_stands_by(evaluate, told):
    [found] = evaluate("standby", told())
    assert (found.severity, found.sure, found.frames) == ("note", "certain", [8])


def test_it_was_active_before_and_had_messages(evaluate, told, ns):
    assert evaluate("standby", told(last_message_ns=ns(1.5))) != []


def test_it_gets_messages_all_the_same(evaluate, told, ns):
    assert evaluate("standby", told(last_message_ns=ns(3))) == []


def test_it_is_active_or_was_never_told(evaluate, told):
    assert evaluate("standby", told(active=True)) == []
    assert evaluate("standby", told(active=None)) == []


def test_it_was_closed_at_once(evaluate, told):
    assert evaluate("standby", told(ended=2.5)) == []
