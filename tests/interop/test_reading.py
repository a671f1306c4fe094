"""Seek, readers, table views, delayed messages, dead letters, and the end of a topic."""

import pytest

FULL_CLIENTS = pytest.mark.parametrize("client", ["python", "java", "go"], indirect=True)


def messages(*numbers):
    return [f"message-{n}" for n in numbers]


@FULL_CLIENTS
def test_seek_by_id_and_by_time(play, pulsar_broker):
    result = play("seek")
    assert result == {"by_id": messages(*range(5, 10)), "by_time": messages(7, 8, 9), "earliest": messages(*range(10))}
    seeks = [frame.command for frame in pulsar_broker.frames("pulsar.type == 'SEEK'")]
    assert len(seeks) == 3
    assert 4 in [seek.message_id.entryId for seek in seeks]
    assert pulsar_broker.topic("orders").messages[7].publish_time in [seek.message_publish_time for seek in seeks]


@FULL_CLIENTS
def test_readers(play, client, pulsar_broker):
    result = play("reader")
    assert result == {
        "available in nothing": False,
        # The Go client requested the last message id once, when the topic was empty, and keeps that result.
        "latest": [] if client == "go" else messages(*range(5)),
        "earliest": messages(*range(5)),
        "available at the end": False,
        "sought": messages(3, 4),
        "after an id": messages(3, 4),
        "from an id": messages(2, 3, 4),
    }
    assert pulsar_broker.frames("pulsar.type == 'GET_LAST_MESSAGE_ID'")
    assert not any(frame.command.durable for frame in pulsar_broker.frames("pulsar.type == 'SUBSCRIBE'"))
    assert pulsar_broker.wait_until(lambda b: b.topic("orders").subscriptions == {})


@FULL_CLIENTS
def test_a_table_view_has_the_last_message_of_each_key(play):
    assert play("table_view")["rows"] == {f"k{n}": f"message-{n + 10}" for n in range(10)} | {"k0": "changed"}


@FULL_CLIENTS
@pytest.mark.pulsar_broker(clock="manual")
def test_a_delayed_message_is_delivered_after_an_hour(play, pulsar_broker):
    def advance():
        pulsar_broker.clock.advance(3601)

    assert play("delayed", advance=advance) == {"received": ["at once", "later"]}
    later, at_once = pulsar_broker.topic("orders").messages
    assert later.deliver_at - later.publish_time == pytest.approx(3_600_000, abs=1000)
    assert at_once.deliver_at == 0


@FULL_CLIENTS
def test_dead_letters(play, pulsar_broker):
    result = play("dead_letter")
    assert [one for one in result["deliveries"] if one != "good 0"] == ["poison 0", "poison 1", "poison 2"]
    assert result["dead"]["data"] == "poison"
    assert result["dead"]["properties"]["REAL_TOPIC"] == "persistent://public/default/orders"
    assert pulsar_broker.topic("dead").payloads == [b"poison"]
    assert list(pulsar_broker.topic("dead").subscriptions) == ["undertaker"]
    pulsar_broker.wait_until(lambda b: b.topic("orders").backlog == 0)


@pytest.mark.parametrize("client", ["java", "go"], indirect=True)
def test_retry_letters(play, pulsar_broker):
    assert play("retry_letter") == {"deliveries": ["0", "1", "2"], "dead": "poison"}
    assert pulsar_broker.topic("again").payloads == [b"poison", b"poison"]
    assert pulsar_broker.topic("dead").payloads == [b"poison"]


@pytest.mark.parametrize("client", ["java"], indirect=True)
def test_the_end_of_a_topic(play, pulsar_broker, rest):
    result = play("end_of_topic", terminate=lambda: rest("POST", "persistent/public/default/orders/terminate"))
    assert result == {"received": messages(0, 1), "ended": True, "refused": "TopicTerminatedException"}
    assert pulsar_broker.topic("orders").terminated
