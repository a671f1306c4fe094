"""Exactly-once processing with the Java client: each message is consumed, transformed and produced in a transaction."""

import json
import urllib.request

import pytest

from pcli.minibroker import MiniBroker

COUNT = 4
RESULTS = [f"{half} half of message-{n}" for n in range(COUNT) for half in ("first", "second")]
SHARED_TYPES = pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])


@pytest.fixture
def broker():
    """A broker whose transactions time out when the test advances the clock."""
    with MiniBroker(clock="manual", transactionCoordinatorEnabled=True) as broker:
        yield broker
        assert broker.failures == []


@pytest.fixture
def order(programs, broker):
    """Send an order to the Java program: ``publish``, ``transform`` or ``read``. Functions are actions of the test."""

    def send(scenario, **details):
        actions = {name: value for name, value in details.items() if callable(value)}
        values = {name: value for name, value in details.items() if name not in actions}
        command = {"scenario": scenario, "url": broker.service_url, **values}
        return programs.java("Transforming").run_command(command, actions)["saw"]

    return send


@pytest.fixture
def transform(order):
    """Publish messages. Return a function that processes one message for each step, which is commit, abort or die.

    Any other step is an action of the test between the two results of a message.
    """
    order("publish", count=COUNT)
    return lambda *steps, kind="Shared", **actions: order("transform", steps=steps, type=kind, **actions)


@SHARED_TYPES
def test_an_abort_redelivers_the_message(transform, order, broker, kind):
    assert transform("commit", "abort", "commit", "commit", "abort", "commit", kind=kind) == COUNT
    assert sorted(order("read")) == sorted(RESULTS)
    broker.wait_until(lambda b: b.topic("orders").subscriptions["work"].backlog == 0)


@SHARED_TYPES
def test_the_transaction_of_a_killed_client_is_aborted_at_its_timeout(programs, transform, order, broker, kind):
    with pytest.raises(Exception, match="exited with code 1"):
        transform("commit", "die", kind=kind)
    programs.stop_program("Transforming")
    broker.wait_until(lambda b: not b.topic("orders").subscriptions["work"].consumers)
    broker.clock.advance(60)
    assert transform(*["commit"] * (COUNT - 1), kind=kind) == COUNT - 1
    assert order("read") == RESULTS
    broker.wait_until(lambda b: b.topic("orders").subscriptions["work"].backlog == 0)


@pytest.mark.parametrize("interruption", ["restart", "unload"])
def test_open_transactions_survive(transform, order, broker, interruption):
    actions = {"restart": broker.restart, "unload": lambda: [broker.unload(topic) for topic in ("orders", "results")]}
    action = {interruption: actions[interruption]}
    assert transform("commit", interruption, "commit", "commit", **action) == COUNT
    assert order("read") == RESULTS
    broker.wait_until(lambda b: b.topic("orders").subscriptions["work"].backlog == 0)


def test_two_coordinators(transform, order, broker):
    scale = f"{broker.http_url}/admin/v3/transactions/transactionCoordinator/replicas"
    with urllib.request.urlopen(
        urllib.request.Request(scale, json.dumps(2).encode(), {"Content-Type": "application/json"})
    ):
        transform(*["commit"] * COUNT)
    assert order("read") == RESULTS
    opened = broker.frames("pulsar.type == 'NEW_TXN' and pulsar.from == 'client'")
    assert {frame.command.tc_id for frame in opened} == {0, 1}
