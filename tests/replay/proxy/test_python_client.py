"""The unmodified Python client with the proxy: each fault has the effect that its name states."""

import contextlib
import re
from pathlib import Path

import pytest

from pcli.codec.capture.tls import KeyLog
from pcli.codec.faults import Fault
from pcli.replay.proxy import ByteFault
from pcli.replay.service_url import Security

pulsar = pytest.importorskip("pulsar", exc_type=ImportError)

WAIT = 10_000


@pytest.fixture
def connect():
    with contextlib.ExitStack() as stack:

        def client(proxy):
            quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
            found = pulsar.Client(proxy.service_url, logger=quiet, operation_timeout_seconds=10)
            stack.callback(found.close)
            return found

        yield client


def take(consumer, count):
    found = []
    for _ in range(count):
        message = consumer.receive(WAIT)
        consumer.acknowledge(message)
        found.append(message.data())
    return found


def payloads(count):
    return [b"%d" % number for number in range(count)]


def play(client, count=20, **options):
    """Send this number of messages one by one, and receive them."""
    consumer = client.subscribe("orders", "work", **options)
    producer = client.create_producer("orders", send_timeout_millis=WAIT)
    for data in payloads(count):
        producer.send(data)
    return take(consumer, count)


def test_all_clients_work_through_the_proxy(start, broker, connect):
    assert play(connect(start())) == payloads(20)
    assert len(broker.connections) == 1


def test_clients_work_with_http_lookups(start, broker):
    proxy = start(http_listen=0, http_to=broker.http_url)
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(proxy.http_url, logger=quiet)
    assert play(client) == payloads(20)
    assert proxy.notes == []
    client.close()


def test_clients_work_with_tls(start, certificate):
    cert, key = map(str, certificate)
    proxy = start(listen_cert=cert, listen_key=key)
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(proxy.service_url, logger=quiet, tls_trust_certs_file_path=cert)
    assert play(client) == payloads(20)
    client.close()


def test_the_key_log_decrypts_both_sides(start, certificate, tmp_path):
    """Two proxies in a row: the outer proxy uses TLS on both sides."""
    cert, key = map(str, certificate)
    logs = [tmp_path / "inner.keylog", tmp_path / "outer.keylog"]
    inner = start(listen_cert=cert, listen_key=key, key_log=str(logs[0]))
    security = Security(trust=cert)
    outer = start(to=inner.service_url, security=security, listen_cert=cert, listen_key=key, key_log=str(logs[1]))
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(outer.service_url, logger=quiet, tls_trust_certs_file_path=cert)
    assert play(client) == payloads(20)
    client.close()
    inner_keys, outer_keys = (KeyLog(log.read_bytes()) for log in logs)
    assert len(outer_keys) == 2 * len(inner_keys) > 0


def test_a_dropped_receipt_is_a_timeout_and_the_broker_has_the_message(start, broker, connect):
    fault = Fault("pulsar.type == 'SEND_RECEIPT'", "drop", after=1, times=1)
    producer = connect(start(faults=[fault])).create_producer("orders", send_timeout_millis=500)
    producer.send(b"first")
    with pytest.raises(pulsar.Timeout):
        producer.send(b"lost")
    assert fault.fired == 1
    assert broker.topic("orders").payloads == [b"first", b"lost"]


def test_a_dropped_send_never_reaches_the_broker(start, broker, connect):
    fault = Fault("pulsar.type == 'SEND'", "drop", times=1)
    producer = connect(start(faults=[fault])).create_producer("orders", send_timeout_millis=500)
    with pytest.raises(pulsar.Timeout):
        producer.send(b"lost")
    assert (fault.seen, fault.fired) == (1, 1)
    assert broker.topic("orders").payloads == []


def test_a_dropped_flow_leaves_the_consumer_without_messages(start, broker, connect):
    fault = Fault("pulsar.type == 'FLOW'", "drop", times=1)
    client = connect(start(faults=[fault]))
    consumer = client.subscribe("orders", "work")
    client.create_producer("orders").send(b"unheard")
    with pytest.raises(pulsar.Timeout):
        consumer.receive(300)
    assert broker.topic("orders").subscriptions["work"].permits == 0
    assert fault.fired == 1


def test_a_duplicated_message_is_received_twice(start, connect):
    fault = Fault("pulsar.type == 'MESSAGE'", "duplicate", times=1)
    client = connect(start(faults=[fault]))
    consumer = client.subscribe("orders", "work", consumer_type=pulsar.ConsumerType.Shared)
    client.create_producer("orders").send(b"again")
    assert [consumer.receive(WAIT).data() for _ in range(2)] == [b"again", b"again"]
    assert fault.fired == 1


def test_a_corrupt_message_is_discarded_with_a_validation_error(start, broker, connect):
    """The client acknowledges the message with a validation error (checksum) and receives the next one."""
    fault = Fault("pulsar.type == 'MESSAGE'", "corrupt", times=1)
    client = connect(start(faults=[fault]))
    consumer = client.subscribe("orders", "work")
    producer = client.create_producer("orders")
    producer.send(b"damaged")
    producer.send(b"sound")
    assert consumer.receive(WAIT).data() == b"sound"
    [ack] = broker.wait_until(lambda b: b.frames("pulsar.type == 'ACK'"))
    assert ack.command.HasField("validation_error")


def test_a_corrupt_send_is_refused(start, broker, connect):
    """This client interprets it as corrupt memory and reports it to its caller."""
    fault = Fault("pulsar.type == 'SEND'", "corrupt", times=1)
    producer = connect(start(faults=[fault])).create_producer("orders")
    with pytest.raises(pulsar.ChecksumError):
        producer.send(b"damaged")
    producer.send(b"sound")
    assert broker.topic("orders").payloads == [b"sound"]
    assert fault.fired == 1


def test_a_refused_producer_receives_the_error(start, connect):
    fault = Fault("pulsar.type == 'PRODUCER'", "error", error="TopicTerminatedError: over", times=1)
    client = connect(start(faults=[fault]))
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer("orders")
    client.create_producer("orders").send(b"now")


def test_the_client_reconnects_after_a_cut(start, broker, connect):
    fault = Fault("pulsar.type == 'SEND'", "close", after=5, times=1)
    assert play(connect(start(faults=[fault]))) == payloads(20)
    assert fault.fired == 1
    assert broker.topic("orders").payloads == payloads(20)
    assert len({frame.connection for frame in broker.frames("pulsar.type == 'SEND'")}) == 2


def test_a_late_receipt_delays_all_later_ones(start, broker, connect):
    fault = Fault("pulsar.type == 'SEND_RECEIPT'", "delay", ms=150, times=1)
    producer = connect(start(faults=[fault])).create_producer("orders")
    came = []
    for data in payloads(5):
        producer.send_async(data, lambda result, message_id, data=data: came.append(data))
    producer.flush()
    assert came == payloads(5)
    assert fault.fired == 1


def test_dropped_acks_cause_redeliveries(start, broker, connect):
    fault = Fault("pulsar.type == 'ACK'", "drop")
    client = connect(start(faults=[fault]))
    producer = client.create_producer("orders")
    consumer = client.subscribe("orders", "work")
    for data in payloads(3):
        producer.send(data)
    assert take(consumer, 3) == payloads(3)
    consumer.close()
    assert fault.fired >= 1
    assert broker.topic("orders").subscriptions["work"].backlog == 3
    assert take(client.subscribe("orders", "work"), 3) == payloads(3)


@pytest.mark.parametrize(
    "words",
    ["latency=3ms jitter=3ms", "slice=7 gap=0ms", "bandwidth=100K", "latency=1ms from=broker probability=0.5"],
)
def test_byte_faults_lose_nothing(start, connect, words):
    fault = ByteFault(words)
    assert play(connect(start(byte_faults=[fault], seed=1))) == payloads(20)
    assert fault.seen == 1


def test_repeated_resets_lose_nothing(start, broker, connect):
    """Each connection is closed after 3000 bytes to the broker; unacknowledged messages are redelivered."""
    fault = ByteFault("reset=3000 from=client")
    proxy = start(byte_faults=[fault])
    client = connect(proxy)
    producer = client.create_producer("orders", send_timeout_millis=WAIT)
    for data in payloads(100):
        producer.send(data)
    stored = broker.topic("orders").payloads
    assert list(dict.fromkeys(stored)) == payloads(100)
    assert fault.seen == fault.fired > 1


def test_the_example_in_the_docs_runs():
    page = (Path(__file__).parents[3] / "docs" / "proxy.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(example, "proxy.md", "exec"), {})
