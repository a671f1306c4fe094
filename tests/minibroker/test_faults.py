"""Faults in a running broker, as observed by its clients."""

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.faults import Fault
from pcli.codec.proto import pb
from pcli.minibroker import MiniBroker

FLOW_OF_C1 = "pulsar.type == 'FLOW' and pulsar.consumer_name == 'c1'"


def test_a_lost_flow_leaves_a_consumer_without_permits(broker, connect):
    """The fault is added after the consumer: the broker's log contains the consumer's name."""
    peer = connect(broker)
    peer.subscribe()
    peer.flow(3)
    broker.wait_until(lambda b: b.topic("orders").subscriptions["work"].permits == 3)
    fault = broker.faults.add(on=FLOW_OF_C1, do="drop", after=1, times=1)
    for permits in (10, 100, 1000):
        peer.flow(permits)
    broker.wait_until(lambda b: b.topic("orders").subscriptions["work"].permits == 1013)
    assert (fault.seen, fault.fired) == (3, 1)
    assert list(broker.faults) == [fault]


def test_a_dropped_frame_is_in_the_log(broker, connect):
    broker.faults.add("pulsar.type == 'PING'", "drop")
    peer = connect(broker)
    peer.say(pb.CommandPing())
    assert broker.wait_until(lambda b: b.frames("pulsar.type == 'PING'"))
    assert broker.frames("pulsar.type == 'PONG'") == []


def test_a_dropped_receipt_is_not_in_the_log(broker, connect):
    broker.faults.add("pulsar.type == 'SEND_RECEIPT'", "drop", times=1)
    peer = connect(broker)
    peer.produce()
    peer.send(b"one", 0)
    assert peer.publish(b"two", 1).sequence_id == 1
    assert broker.topic("orders").payloads == [b"one", b"two"]
    assert len(broker.frames("pulsar.type == 'SEND_RECEIPT'")) == 1


def test_a_duplicated_message(broker, connect):
    broker.faults.add("pulsar.type == 'MESSAGE'", "duplicate")
    peer = connect(broker)
    peer.produce()
    peer.subscribe()
    peer.flow()
    peer.publish()
    assert peer.hear(pb.CommandMessage) == peer.hear(pb.CommandMessage)


def test_a_corrupt_send_is_refused_for_its_checksum(broker, connect):
    fault = broker.faults.add("pulsar.type == 'SEND'", "corrupt", times=1)
    peer = connect(broker)
    peer.produce()
    peer.send(b"hello")
    assert peer.hear(pb.CommandSendError).error == pb.ChecksumError
    peer.publish(b"again")
    assert broker.topic("orders").payloads == [b"again"]
    assert fault.fired == 1


def test_an_injected_error_does_not_reach_the_broker(broker, connect):
    broker.faults.add("pulsar.type == 'PRODUCER'", "error", error="ProducerBusy: not today", times=1)
    peer = connect(broker)
    peer.ask(pb.CommandLookupTopicResponse, pb.CommandLookupTopic(topic="orders"))
    refused = peer.ask(pb.CommandError, pb.CommandProducer(topic="orders", producer_id=1))
    assert (refused.error, refused.message) == (pb.ProducerBusy, "not today")
    assert broker.topics == []
    peer.produce()


def test_a_close_fault_closes_one_connection(broker, connect):
    peer, other = connect(broker), connect(broker)
    broker.faults.add("pulsar.type == 'PRODUCER'", "close")
    peer.say(pb.CommandProducer(topic="orders", producer_id=1))
    peer.end()
    broker.wait_until(lambda b: b.connections == [other.address])
    other.ask(pb.CommandPong, pb.CommandPing())


def test_a_delayed_response_keeps_the_order(connect):
    with MiniBroker(clock="manual") as broker:
        peer = connect(broker)
        broker.faults.add("pulsar.type == 'SUCCESS'", "delay", ms=2000)
        peer.ask(pb.CommandLookupTopicResponse, pb.CommandLookupTopic(topic="t"))
        peer.say(
            pb.CommandSubscribe(topic="t", subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1),
            pb.CommandPing(),
        )
        broker.wait_until(lambda b: b.topic("t").subscriptions["s"].consumers)
        broker.clock.advance(1.9)
        assert [frame.type for frame in broker.frames("pulsar.from == 'broker'")] == ["CONNECTED", "LOOKUP_RESPONSE"]
        broker.clock.advance(0.1)
        peer.hear(pb.CommandPong)
        broker.faults.clear()
        assert [frame.type for frame in broker.frames("pulsar.from == 'broker'")][2:] == ["SUCCESS", "PONG"]


def test_a_request_can_be_delayed(broker, connect):
    peer = connect(broker)
    fault = broker.faults.add("pulsar.type == 'PING'", "delay", ms=60)
    before = broker.clock.now
    peer.ask(pb.CommandPong, pb.CommandPing())
    assert broker.clock.now - before >= 0.06
    broker.faults.remove(fault)
    assert len(broker.faults) == 0
    peer.ask(pb.CommandPong, pb.CommandPing())


def test_a_connection_closes_after_delayed_frames(connect):
    with MiniBroker(clock="manual") as broker:
        peer = connect(broker)
        broker.faults.add("pulsar.type == 'PONG'", "delay", ms=1000)
        peer.say(pb.CommandPing())
        broker.wait_until(lambda b: b.frames("pulsar.type == 'PING'"))
        broker.disconnect()
        broker.clock.advance(1)
        peer.hear(pb.CommandPong)
        peer.end()


def test_faults_from_the_start(connect):
    fault = Fault("pulsar.type == 'LOOKUP'", "error", error="TopicNotFound")
    with MiniBroker(faults=[fault], max_log=0) as broker:
        peer = connect(broker)
        answer = peer.ask(pb.CommandLookupTopicResponse, pb.CommandLookupTopic(topic="t"))
        assert (answer.response, answer.error) == (pb.CommandLookupTopicResponse.Failed, pb.TopicNotFound)
        more = broker.faults.add("pulsar.type == 'PING'", "error")
        peer.ask(pb.CommandPong, pb.CommandPing())
        assert (fault.fired, more.fired) == (1, 0)


def test_an_invalid_fault_is_refused_at_once(broker):
    with pytest.raises(LocalError, match=r"pulsar\.typ"):
        broker.faults.add("pulsar.typ == 'FLOW'")
    with pytest.raises(LocalError, match="write drop, delay"):
        broker.faults.add(do="explode")


def test_many_frames_in_one_write(broker, connect):
    """SENDs in one write, of which every third is dropped: the others keep their order."""
    peer = connect(broker)
    peer.produce()
    broker.faults.add("pulsar.type == 'SEND' and pulsar.sequence_id in {2, 5, 8}", "drop")
    for number in range(10):
        peer.send(b"%d" % number, number)
    broker.wait_until(lambda b: len(b.topic("orders").messages) == 7)
    assert b"".join(broker.topic("orders").payloads) == b"0134679"
