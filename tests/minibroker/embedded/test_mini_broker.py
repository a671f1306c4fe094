"""A broker in a test: its attributes, waiting, and its actions."""

import asyncio
import threading
import time

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.payload import compress, join_batch
from pcli.codec.proto import pb
from pcli.minibroker import MiniBroker
from pcli.minibroker.settings import Settings

ORDERS = "persistent://public/default/orders"


# -- start and stop


def test_ports_are_free_and_urls_are_available(broker, connect):
    assert broker.service_url.startswith("pulsar://127.0.0.1:")
    assert broker.http_url.startswith("http://127.0.0.1:")
    assert connect(broker).session.connected.server_version == "Pulsar Server4.2.4"
    assert repr(broker) == f"<MiniBroker {broker.service_url}>"


def test_two_brokers_are_independent(broker):
    with MiniBroker(topics=["mine"]) as other:
        assert other.service_url != broker.service_url
        assert broker.topics == []


def test_in_a_coroutine():
    async def use():
        async with MiniBroker(topics=["orders"]) as broker:
            assert broker.topics == [ORDERS]
            reader, writer = await asyncio.open_connection("127.0.0.1", int(broker.service_url.rpartition(":")[2]))
            await broker.await_until(lambda b: len(b.connections) == 1)
            writer.close()
            with pytest.raises(TimeoutError, match=r"not reached in 0\.05 s"):
                await broker.await_until(lambda b: len(b.connections) == 7, timeout=0.05)
            await reader.read()

    asyncio.run(use())


def test_a_port_in_use_is_a_one_line_error(broker):
    port = int(broker.service_url.rpartition(":")[2])
    with pytest.raises(LocalError, match=rf"port {port} of 127.0.0.1: address already in use"):
        MiniBroker(port=port).start()


def test_settings_by_keyword_by_dictionary_and_by_conf(connect):
    conf = Settings.from_pairs(["maxMessageSize=1000", "clusterName=first"])
    with MiniBroker(conf=conf, set={"clusterName": "mine"}, brokerDeduplicationEnabled=True) as broker:
        peer = connect(broker)
        assert peer.session.connected.max_message_size == 1000
        peer.ask(pb.CommandLookupTopicResponse, pb.CommandLookupTopic(topic="t"))
        named = peer.ask(pb.CommandProducerSuccess, pb.CommandProducer(topic="t", producer_id=1))
        assert named.producer_name.startswith("mine-")
        assert peer.publish(sequence_id=5).message_id.entryId == 0
        assert peer.publish(sequence_id=5).message_id.entryId == 2**64 - 1
    assert conf.clusterName == "first"


def test_a_version_of_pulsar_also_after_a_restart(connect):
    with MiniBroker(version="5.0.1", clusterName="mine") as broker:
        for _ in range(2):
            assert connect(broker).session.connected.server_version == "Pulsar Server5.0.1"
            broker.restart()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"maxUnackedMessagePerConsumer": 5}, "near: maxUnackedMessagesPerConsumer"),
        ({"maxMessageSize": "big"}, "maxMessageSize=big: must be an integer"),
        ({"clock": "slow"}, "real or manual"),
        ({"version": "5"}, "version '5': must be 4.2.4 or 5.0.1"),
        ({"version": "5.0.1", "conf": Settings()}, "version: cannot be combined with conf"),
        ({"latency": "3"}, "latency 3: must be a time"),
        ({"topics": ["a/b"]}, "write topic or tenant/namespace/topic"),
    ],
)
def test_invalid_arguments_are_reported_before_the_start(arguments, said):
    with pytest.raises(LocalError) as caught:
        MiniBroker(**arguments)
    assert said in str(caught.value)


def test_invalid_topics_prevent_the_start():
    with pytest.raises(LocalError, match="Namespace not found"):
        MiniBroker(topics=["nobody/nowhere/t"]).start()


def test_start_runs_once_and_stop_any_number_of_times():
    broker = MiniBroker()
    with pytest.raises(LocalError, match="not started"):
        _ = broker.service_url
    broker.start()
    with pytest.raises(LocalError, match="started only once"):
        broker.start()
    broker.stop()
    broker.stop()
    assert not any(thread.name == "pcli-minibroker" for thread in threading.enumerate())


def test_state_is_available_after_the_stop(connect):
    with MiniBroker() as broker:
        peer = connect(broker)
        peer.produce()
        peer.publish(b"the last one")
    assert broker.topic("orders").payloads == [b"the last one"]
    assert [frame.type for frame in broker.frames("pulsar.type == 'SEND'")] == ["SEND"]
    with pytest.raises(LocalError, match="has stopped"):
        broker.create_topic("more")


def test_clients_are_notified_at_the_stop(connect):
    with MiniBroker() as broker:
        peer = connect(broker)
        peer.produce()
    assert peer.hear(pb.CommandCloseProducer).producer_id == 1
    peer.end()


# -- attributes


def test_messages_are_the_applications(broker, connect):
    peer = connect(broker)
    peer.produce()
    pairs = [pb.KeyValue(key="colour", value="red")]
    peer.publish(b"one", partition_key="k", properties=pairs, event_time=77, ordering_key=b"o")
    batch = join_batch(
        [(pb.SingleMessageMetadata(payload_size=3), b"two"), (pb.SingleMessageMetadata(payload_size=5), b"three")]
    )
    packed = compress(pb.LZ4, batch)
    peer.publish(packed, 1, num_messages_in_batch=2, compression=pb.LZ4, uncompressed_size=len(batch))
    topic = broker.topic("orders")
    assert topic.payloads == [b"one", b"two", b"three"]
    first, second, third = topic.messages
    assert (first.key, first.properties, first.event_time, first.ordering_key) == ("k", {"colour": "red"}, 77, b"o")
    assert (first.producer_name, first.sequence_id, first.id) == ("p1", 0, "0:0")
    assert (second.id, third.id, third.batch_index) == ("0:1:-1:0", "0:1:-1:1", 1)
    assert [(one.name, one.messages_in, one.client) for one in topic.producers] == [("p1", 2, peer.address)]


def test_chunks_are_one_message(broker, connect):
    peer = connect(broker)
    peer.produce()
    for number, piece in enumerate((b"large ", b"message")):
        chunk = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 13, "chunk_id": number}
        peer.publish(piece, 0, **chunk)
    assert broker.topic("orders").payloads == [b"large message"]


def test_subscriptions_permits_and_acks(broker, connect):
    peer = connect(broker)
    peer.produce()
    peer.subscribe()
    peer.flow(10)
    for number in range(4):
        peer.publish(b"%d" % number, number)
    messages = [peer.hear(pb.CommandMessage) for _ in range(4)]
    work = broker.wait_until(lambda b: b.topic("orders").subscriptions["work"])
    [consumer] = work.consumers
    assert (work.type, work.backlog, work.unacked, work.permits, work.durable) == ("Shared", 4, 4, 6, True)
    assert (consumer.name, consumer.permits, consumer.unacked, consumer.active) == ("c1", 6, 4, True)
    peer.ack(messages[0])
    peer.ack(messages[2])
    topic = broker.wait_until(lambda b: (t := b.topic("orders")).subscriptions["work"].backlog == 2 and t)
    work = topic.subscriptions["work"]
    assert [work.acked(message) for message in topic.messages] == [True, False, True, False]
    assert work.mark_delete == "0:0"
    assert work.consumers[0].acked == 2


def test_messages_of_a_batch_are_acknowledged_individually(broker, connect):
    peer = connect(broker)
    peer.produce()
    peer.subscribe()
    peer.flow()
    pieces = [(pb.SingleMessageMetadata(payload_size=1), bytes((65 + number,))) for number in range(3)]
    peer.publish(join_batch(pieces), num_messages_in_batch=3)
    place = peer.hear(pb.CommandMessage).message_id
    place.ack_set.append(0b101)
    peer.say(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[place]))
    topic = broker.wait_until(lambda b: (t := b.topic("orders")).subscriptions["work"].unacked == 2 and t)
    work = topic.subscriptions["work"]
    assert [work.acked(message) for message in topic.messages] == [False, True, False]


def test_a_snapshot_stays_as_it_was(broker, connect):
    peer = connect(broker)
    peer.produce()
    peer.publish(b"one")
    before = broker.topic("orders")
    peer.publish(b"two", 1)
    assert before.payloads == [b"one"]
    assert broker.topic("orders").payloads == [b"one", b"two"]


def test_a_partitioned_topic_has_one_snapshot(connect):
    with MiniBroker(topics=["jobs:2", "fast_path"]) as broker:
        peer = connect(broker)
        peer.produce("jobs-partition-1")
        peer.publish(b"x")
        peer.subscribe("jobs-partition-0")
        jobs = broker.topic("jobs")
        assert [part.name[-1] for part in jobs.partitions] == ["0", "1"]
        assert (jobs.payloads, [one.name for one in jobs.producers]) == ([b"x"], ["p1"])
        assert jobs.messages[0].id.count(":") == 2
        assert set(jobs.partitions[0].subscriptions) == {"work"}
        assert broker.topic("jobs-partition-1").payloads == [b"x"]


def test_an_unknown_topic_error_suggests_similar_names(broker):
    broker.create_topic("orders")
    with pytest.raises(LocalError, match=r"there is no topic persistent://public/default/order; near: orders"):
        broker.topic("order")


def test_non_persistent_topics_store_nothing(broker, connect):
    peer = connect(broker)
    peer.produce("non-persistent://public/default/news")
    peer.publish(b"gone")
    news = broker.topic("non-persistent://public/default/news")
    assert (news.payloads, [one.name for one in news.producers]) == ([], ["p1"])


# -- waiting


def test_a_predicate_is_called_after_each_turn(broker, connect):
    seen = []

    def predicate(b):
        seen.append(len(b.topics))
        return "done" if len(b.topics) == 2 else None

    threading.Timer(0.05, lambda: [broker.create_topic(name) for name in ("a", "b")]).start()
    assert broker.wait_until(predicate) == "done"
    assert seen == sorted(seen) == [0, 1, 2]


def test_a_time_out_error_contains_the_state(broker, connect):
    peer = connect(broker)
    peer.produce()
    peer.subscribe()
    with pytest.raises(TimeoutError) as caught:
        broker.wait_until(lambda b: b.topic("orders").subscriptions["work"].backlog == 1, timeout=0.05)
    told = str(caught.value)
    assert told.startswith("not reached in 0.05 s: the predicate returned False")
    assert f"{ORDERS}: 1 producers, 1 subscriptions, 0 entries published" in told
    assert "work Shared backlog 0 [c1 permits 0 unacked 0]" in told
    assert "SUBSCRIBE" in told


def test_a_missing_topic_counts_as_false(broker):
    with pytest.raises(TimeoutError, match="LocalError: there is no topic persistent://public/default/later"):
        broker.wait_until(lambda b: b.topic("later"), timeout=0.05)


def test_a_predicate_that_fails_fails_the_wait(broker):
    with pytest.raises(ZeroDivisionError):
        broker.wait_until(lambda b: 1 / 0)
    with pytest.raises(RuntimeError, match="a predicate cannot wait"):
        broker.wait_until(lambda b: b.wait_until(lambda _: True) if b.topics == [] else True, timeout=0.1)


# -- frames


def test_frames_are_selected_by_filter(broker, connect):
    peer = connect(broker)
    peer.subscribe()
    peer.flow(77)
    broker.wait_until(lambda b: b.frames("pulsar.type == 'FLOW'"))
    [flow] = broker.frames("pulsar.type == 'FLOW' and pulsar.consumer_name == 'c1'")
    assert (flow.type, flow.number, flow.from_client, flow.connection) == ("FLOW", 7, True, 0)
    assert flow.command.messagePermits == 77
    assert flow.client == peer.address
    assert flow.text.endswith("→ FLOW                 orders/work (c1)  77 permits")
    assert [frame.type for frame in broker.frames][:2] == ["CONNECT", "CONNECTED"]
    assert len(broker.frames) == broker.frames.count == 7
    assert broker.frames.text.count("\n") == 7
    with pytest.raises(LocalError, match=r"pulsar\.typ"):
        broker.frames("pulsar.typ == 1")
    broker.frames.clear()
    peer.flow(1)
    [flow] = broker.wait_until(lambda b: b.frames())
    assert (flow.number, flow.text.endswith("orders/work (c1)  1 permits")) == (8, True)


def test_frames_decode_their_messages(broker, connect):
    peer = connect(broker)
    peer.produce()
    peer.publish(b"hello")
    [send] = broker.frames("pulsar.type == 'SEND'")
    assert [message.payload for message in send.messages] == [b"hello"]
    assert broker.frames("pulsar.type == 'SEND_RECEIPT'")[0].messages == []


def test_the_log_keeps_the_latest(connect):
    with MiniBroker(max_log=20_000) as broker:
        peer = connect(broker)
        peer.produce()
        for number in range(100):
            peer.publish(b"x" * 300, number)
        kept = broker.frames()
        assert broker.frames.count == 206
        assert 10 < len(kept) < 60
        assert kept[-1].type == "SEND_RECEIPT"
        assert all("p1 → orders" in frame.text for frame in kept)


def test_without_a_log(connect):
    with MiniBroker(max_log=0) as broker:
        connect(broker).produce()
        assert broker.topics == [ORDERS]
        with pytest.raises(LocalError, match="no frames are kept"):
            _ = broker.frames
        with pytest.raises(LocalError, match="given at the start"):
            broker.faults.add()
        with pytest.raises(TimeoutError, match="1 clients are connected"):
            broker.wait_until(lambda b: False, timeout=0.01)


# -- time


def test_a_manual_clock_runs_timers_in_order(connect):
    with MiniBroker(clock="manual", keepAliveIntervalSeconds=30) as broker:
        peer = connect(broker)
        before = broker.clock.now
        broker.clock.advance(31)
        assert broker.clock.now == pytest.approx(before + 31)
        peer.hear(pb.CommandPing)


def test_a_delayed_message_is_delivered_after_advance(connect):
    with MiniBroker(clock="manual") as broker:
        peer = connect(broker)
        peer.produce()
        peer.subscribe()
        peer.flow()
        peer.publish(b"later", deliver_at_time=int(broker.clock.now * 1000) + 3_600_000)
        broker.clock.advance(3_500)
        peer.ask(pb.CommandPong, pb.CommandPing())
        assert broker.frames("pulsar.type == 'MESSAGE'") == []
        broker.clock.advance(101)
        peer.hear(pb.CommandMessage)


def test_a_real_clock_is_not_advanced(broker):
    assert broker.clock.now == pytest.approx(time.time(), abs=60)
    with pytest.raises(LocalError, match="the clock is real"):
        broker.clock.advance(1)


def test_time_does_not_run_backwards():
    with MiniBroker(clock="manual") as broker, pytest.raises(LocalError, match="must not be negative"):
        broker.clock.advance(-1)


# -- actions


def test_restart_keeps_ports_and_data_and_rolls_ledgers(broker, connect):
    peer = connect(broker)
    peer.produce()
    assert peer.publish(b"before").message_id.ledgerId == 0
    peer.subscribe(durable=True, initialPosition=pb.CommandSubscribe.Earliest)
    news = "non-persistent://public/default/news"
    broker.create_topic(news)
    url, http = broker.service_url, broker.http_url
    broker.restart()
    peer.end()
    assert (broker.service_url, broker.http_url) == (url, http)
    assert broker.topic("orders").payloads == [b"before"]
    assert news not in broker.topics
    again = connect(broker)
    again.produce()
    assert again.publish(b"after").message_id.ledgerId > 0
    assert set(broker.topic("orders").subscriptions) == {"work"}
    assert broker.topic("orders").payloads == [b"before", b"after"]


def test_after_a_restart_topics_are_looked_up_again(broker, connect):
    connect(broker).produce()
    broker.restart()
    peer = connect(broker)
    refused = peer.ask(pb.CommandError, pb.CommandProducer(topic="orders", producer_id=1))
    assert refused.error == pb.ServiceNotReady


def test_a_restart_closes_the_coordinators_and_keeps_their_transactions(connect):
    assign = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
    with MiniBroker(transactionCoordinatorEnabled=True) as broker:
        for number in range(2):
            peer = connect(broker)
            assert peer.ask(pb.CommandNewTxnResponse, pb.CommandNewTxn()).error == pb.TransactionCoordinatorNotFound
            peer.ask(pb.CommandLookupTopicResponse, pb.CommandLookupTopic(topic=assign))
            peer.ask(pb.CommandTcClientConnectResponse, pb.CommandTcClientConnectRequest(tc_id=0))
            txn = peer.ask(pb.CommandNewTxnResponse, pb.CommandNewTxn(txn_ttl_millis=60_000))
            assert txn.txnid_least_bits == number
            broker.restart()


def test_disconnect_a_client(broker, connect):
    peers = [connect(broker) for _ in range(3)]
    assert broker.connections == [peer.address for peer in peers]
    assert broker.disconnect(client=peers[1].address) == 1
    peers[1].end()
    assert broker.disconnect(client=0) == 1
    peers[0].end()
    assert broker.disconnect() == 1
    assert broker.disconnect() == 0
    with pytest.raises(LocalError, match=r"there is no client 127\.0\.0\.1:1"):
        broker.disconnect(client="127.0.0.1:1")


def test_disconnect_a_producer_or_consumer(broker, connect):
    peer = connect(broker)
    peer.produce()
    peer.subscribe()
    broker.disconnect(producer="p1")
    assert peer.hear(pb.CommandCloseProducer).producer_id == 1
    broker.disconnect(consumer="c1")
    assert peer.hear(pb.CommandCloseConsumer).consumer_id == 1
    with pytest.raises(LocalError, match="there is no consumer c1"):
        broker.disconnect(consumer="c1")
    with pytest.raises(LocalError, match="one of client, producer, consumer"):
        broker.disconnect(producer="p1", consumer="c1")


def test_unload_closes_the_clients_of_a_topic(broker, connect):
    peer = connect(broker)
    peer.produce()
    peer.publish()
    broker.unload("orders")
    peer.hear(pb.CommandCloseProducer)
    peer.produce()
    assert peer.publish(sequence_id=1).message_id.ledgerId == 1
    with pytest.raises(LocalError, match="there is no topic"):
        broker.unload("nothing")


def test_create_topics(broker):
    broker.create_topic("orders")
    broker.create_topic("orders")
    broker.create_topic("jobs", partitions=2)
    assert broker.topics == [
        f"persistent://public/default/{name}" for name in ("jobs-partition-0", "jobs-partition-1", "orders")
    ]
    assert broker.topic("jobs").payloads == []
    with pytest.raises(LocalError, match="its number of partitions is not 3"):
        broker.create_topic("orders", partitions=3)


def test_a_full_backlog_refuses_entries(connect):
    with MiniBroker(max_backlog="10K") as broker:
        peer = connect(broker)
        peer.produce()
        for number in range(20):
            peer.send(b"x" * 1000, number)
        assert peer.hear(pb.CommandSendError).error == pb.PersistenceError


def test_several_threads_may_call(broker, connect):
    peer = connect(broker)
    peer.produce()
    found = []

    def ask():
        found.extend(len(broker.topic("orders").messages) for _ in range(50))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(50):
        peer.publish(sequence_id=number)
    for thread in threads:
        thread.join()
    assert len(found) == 200
    assert max(found) <= 50


@pytest.mark.parametrize("action", ["restart", "stop"])
def test_a_predicate_cannot_wait_in_the_brokers_thread(action):
    with MiniBroker() as broker, pytest.raises(RuntimeError, match=f"a predicate cannot {action}"):
        broker.wait_until(lambda it: getattr(it, action)(), timeout=2)


def test_a_single_topic_needs_no_list():
    with MiniBroker(topics="orders") as broker:
        assert broker.topics == ["persistent://public/default/orders"]


@pytest.mark.parametrize(
    "wrong", [{"port": 70000}, {"max_backlog": "much"}, {"max_log": -1}, {"topics": ["jobs:0"]}, {"bind": "a:1"}]
)
def test_invalid_values_are_reported_before_the_start(wrong):
    with pytest.raises(LocalError):
        MiniBroker(**wrong)
