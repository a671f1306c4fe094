"""Interruptions of the broker: no message is lost, and the stored order is the order of the producer."""

import pytest

ALL = [f"message-{n}" for n in range(20)]


@pytest.fixture(autouse=True)
def audit(pulsar_broker, rest):
    """Create a subscription that retains every message; otherwise the broker deletes acknowledged ledgers."""
    pulsar_broker.create_topic("orders")
    rest("PUT", "persistent/public/default/orders/subscription/audit")


def check(result, broker):
    # Unacknowledged messages are redelivered, as by a real broker. New messages keep their order.
    assert list(dict.fromkeys(result["received"])) == ALL
    assert [payload.decode() for payload in broker.topic("orders").payloads] == ALL
    broker.wait_until(lambda b: b.topic("orders").subscriptions["work"].backlog == 0)


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_after_a_restart(play, pulsar_broker, kind):
    result = play("reconnect", type=kind, interrupt=pulsar_broker.restart)
    check(result, pulsar_broker)
    assert len({frame.connection for frame in pulsar_broker.frames("pulsar.type == 'SEND'")}) == 2


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_after_an_unload(play, client, pulsar_broker, kind):
    result = play("reconnect", type=kind, interrupt=lambda: pulsar_broker.unload("orders"))
    check(result, pulsar_broker)
    assert len(pulsar_broker.frames("pulsar.type == 'CLOSE_PRODUCER' and pulsar.from == 'broker'")) == 1
    ledgers = {message.id.split(":")[0] for message in pulsar_broker.topic("orders").messages}
    assert len(ledgers) == 2


@pytest.mark.parametrize("kind", ["Failover", "Key_Shared"])
def test_after_a_cut(play, pulsar_broker, kind):
    check(play("reconnect", type=kind, interrupt=pulsar_broker.disconnect), pulsar_broker)
