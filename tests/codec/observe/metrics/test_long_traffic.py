"""Hours of traffic in virtual time, in which clients, subscriptions and topics come and go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pcli.codec.capture.frames import StreamEnd
from pcli.codec.observe.metrics.collector import MetricsCollector
from pcli.codec.observe.metrics.object_series import OTHER
from pcli.codec.proto import pb
from pcli.codec.steps import Steps
from pcli.codec.wire.build import push_entry

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
NAME = "pulsar_in_messages_total"


class Traffic:
    """Jobs that produce and consume two messages each, and the metrics of their traffic."""

    def __init__(self, conversation: Any, top: int) -> None:
        self.conversation = conversation
        self.conversation.now = START
        self.collector = MetricsCollector(top)
        self.published: Counter[str] = Counter()
        self.requests = 0
        self.increases: Counter[str] = Counter()
        self.seen: dict[str, float] = {}

    def client(self, body: Any, entry: bytes = b"", on: int = 0) -> None:
        self.collector.see(self.conversation.client(body, entry, on))

    def broker(self, body: Any, entry: bytes = b"", on: int = 0) -> None:
        self.collector.see(self.conversation.broker(body, entry, on))

    def ask(self, body: Any, answer: Any, on: int) -> None:
        self.requests += 1
        body.request_id = answer.request_id = self.requests
        self.client(body, on=on)
        self.broker(answer, on=on)

    def connect(self, on: int) -> None:
        self.client(pb.CommandConnect(client_version="a client", protocol_version=21), on=on)
        self.broker(pb.CommandConnected(server_version="a broker", protocol_version=21), on=on)

    def job(self, number: int, topic: str, subscription: str, *, on: int, durable: bool) -> None:
        """A producer and a consumer with ids and names of their own send and receive two messages and are closed."""
        one = {"request_id": 0}
        full = f"persistent://public/default/{topic}"
        success = pb.CommandProducerSuccess(producer_name=f"p{number}", **one)
        self.ask(pb.CommandProducer(topic=full, producer_id=number, **one), success, on)
        place = {"topic": full, "subscription": subscription, "consumer_id": number, "consumer_name": f"c{number}"}
        self.ask(pb.CommandSubscribe(subType=1, durable=durable, **place, **one), pb.CommandSuccess(**one), on)
        self.client(pb.CommandFlow(consumer_id=number, messagePermits=10), on=on)
        for sequence in range(2):
            at = {"ledgerId": 1 + sum(map(ord, topic)), "entryId": self.published[topic]}
            self.published[topic] += 1
            now_ms = self.conversation.now // 1_000_000
            about = pb.MessageMetadata(producer_name=f"p{number}", sequence_id=sequence, publish_time=now_ms)
            entry = push_entry(about, b"hello")
            self.client(pb.CommandSend(producer_id=number, sequence_id=sequence), entry, on)
            receipt = pb.CommandSendReceipt(producer_id=number, sequence_id=sequence)
            receipt.message_id.CopyFrom(pb.MessageIdData(**at))
            self.broker(receipt, on=on)
            self.broker(pb.CommandMessage(consumer_id=number, message_id=pb.MessageIdData(**at)), entry, on)
            acked = [pb.MessageIdData(**at)]
            self.client(pb.CommandAck(consumer_id=number, ack_type=0, message_id=acked), on=on)
        self.ask(pb.CommandCloseConsumer(consumer_id=number, **one), pb.CommandSuccess(**one), on)
        self.ask(pb.CommandCloseProducer(producer_id=number, **one), pb.CommandSuccess(**one), on)

    def end(self, on: int) -> None:
        stream = self.conversation.streams.pop(on)
        seen = {"from_client": True, "reset": False, "refused": False, "silent": False}
        self.collector.diagnosis.ended(StreamEnd(stream, 0, self.conversation.now, **seen))
        self.conversation.observer.close(on)

    def scrape(self, seconds: int) -> int:
        """Let time pass, and add up the increases of the counters of topics. Return the number of all series."""
        for _ in self.steps(seconds):
            pass
        families = {metric.name: samples for metric, samples in self.collector.read()}
        found = {sample.labels[1]: float(sample.value) for sample in families[NAME]}  # type: ignore[arg-type]
        for topic, value in found.items():
            self.increases[topic] += int(value - self.seen.get(topic, 0))
            assert value >= self.seen.get(topic, 0)
        self.seen = found
        return sum(map(len, families.values()))

    def steps(self, seconds: int) -> Steps[None]:
        """Let time pass and update the metrics. Frames can pass between the steps."""
        self.conversation.now += seconds * SECOND
        now = self.conversation.now
        found = yield from self.collector.diagnosis.poll_steps(now)
        yield from self.collector.update(now, found)

    def sizes(self) -> dict[str, int]:
        """Return the numbers of tracked objects."""
        diagnosis = self.collector.diagnosis
        topics = diagnosis.subscriptions.lifecycles.topics
        subscriptions = [one for topic in topics.values() for one in topic.record.subscriptions.values()]
        records = Counter(group for group, _ in diagnosis._tracker.records())
        sessions = diagnosis.subscriptions._sessions._connections
        return {
            "topics": len(topics),
            "names": len(diagnosis.subscriptions.lifecycles._names),
            "subscriptions": len(subscriptions),
            "consumers": sum(len(one.consumers) for one in subscriptions),
            "attached": sum(map(len, sessions.values())),
            "producers": records["producer"],
            "counted": len(self.collector._counted),
        }


@pytest.fixture
def traffic(conversation: Any) -> Any:
    return lambda top: Traffic(conversation, top)


def test_an_hour_of_clients_that_come_and_go(traffic):
    """After the first ten minutes, the number of tracked objects and of series stays the same."""
    seen = traffic(3)
    seen.connect(0)
    after: list[tuple[dict[str, int], int]] = []
    for number in range(1, 91):
        seen.connect(number)
        seen.job(4 * number, "orders", "work", on=number, durable=True)
        seen.job(4 * number + 1, "orders", f"reader-{number}", on=number, durable=False)
        seen.job(4 * number + 2, f"temporary-{number}", f"reader-{number}", on=number, durable=False)
        seen.end(number)
        seen.job(4 * number + 3, "orders", f"reader-of-a-long-connection-{number}", on=0, durable=False)
        series = seen.scrape(40)
        if number % 15 == 0:
            after.append((seen.sizes(), series))
    assert all(sizes == after[1][0] for sizes, _ in after[1:])
    assert max(series for _, series in after) <= after[0][1] + 3 * 19
    assert seen.increases.total() == seen.published.total() == 90 * 8


@pytest.mark.parametrize("every", [1, 7, 50])
def test_frames_between_the_steps_of_an_update_count_once(traffic, every):
    """Topics appear and end, clients come and go, and TCP connections end while the metrics are updated."""
    seen = traffic(2)
    seen.connect(0)
    numbers = iter(range(1, 121))
    for number in numbers:
        seen.job(number, f"t{number % 20}", "work", on=0, durable=number % 2 == 0)
        if number == 20:
            break
    for at, _ in enumerate(seen.steps(400)):
        number = next(numbers, 0) if at % every == 0 else 0
        if number:
            seen.connect(number)
            seen.job(number, f"t{number % 30}", "work", on=number, durable=number % 2 == 0)
            seen.end(number)
    seen.scrape(1)
    seen.scrape(7_200)
    assert seen.increases.total() == seen.published.total()


def test_many_topics_have_few_series(traffic):
    """Three hundred times the number of topics with series of their own; all of them end, so all are removed."""
    seen = traffic(2)
    seen.connect(0)
    for number in range(1, 601):
        seen.job(number, f"t{number}", "work", on=0, durable=True)
        if number % 100 == 0:
            assert seen.scrape(1) < 400
    assert seen.increases.total() == 1_200
    assert len([one for one in seen.seen if one != OTHER]) == 2
    seen.scrape(4_000)
    assert seen.sizes()["topics"] == 0


def test_a_topic_that_appears_again_counts_on(traffic):
    seen = traffic(5)
    for number in range(1, 4):
        seen.connect(number)
        seen.job(number, "orders", "work", on=number, durable=True)
        seen.end(number)
        seen.scrape(1)
        seen.scrape(7_200)
        assert seen.sizes()["topics"] == 0
    assert seen.increases.total() == 6


def test_a_subscription_without_consumers_stays_for_its_alert(traffic):
    seen = traffic(5)
    seen.connect(1)
    seen.job(1, "orders", "work", on=1, durable=True)
    seen.end(1)
    seen.scrape(1)
    seen.scrape(1_800)
    families = {metric.name: samples for metric, samples in seen.collector.read()}
    counts = families["pulsar_subscription_consumers_count"]
    assert [(one.labels[-1], one.value) for one in counts] == [("work", 0)]
    seen.scrape(7_200)
    assert seen.sizes()["subscriptions"] == 0


def test_a_removed_subscription_loses_its_series_for_good(traffic):
    """Its record stays in memory for minutes after the series have ended."""
    seen = traffic(5)
    seen.connect(0)
    seen.job(1, "orders", "work", on=0, durable=True)
    seen.job(2, "orders", "reader", on=0, durable=False)
    shown = []
    for _ in range(12):
        seen.scrape(40)
        families = {metric.name: samples for metric, samples in seen.collector.read()}
        values = {one.labels[-1]: one.value for one in families["pulsar_out_messages_total"]}
        shown.append(values.get("reader"))
    assert shown == [2, 2, 2, *[None] * 9]


def test_a_clock_that_steps_back_decreases_no_sum(traffic):
    """Each ACK is older than its delivery."""
    seen = traffic(5)
    seen.connect(0)

    def client(body: Any, entry: bytes = b"", on: int = 0) -> None:
        seen.conversation.now -= 10 * SECOND
        Traffic.client(seen, body, entry, on)

    seen.client = client
    seen.job(1, "orders", "work", on=0, durable=True)
    seen.scrape(1)
    families = {metric.name: samples for metric, samples in seen.collector.read()}
    [one] = families["pcli_acknowledge_latency_seconds"]
    assert (sum(one.value.counts), one.value.sum_ns) == (2, 0)


def test_a_finding_counts_again_when_its_severity_rises(traffic):
    """Series of error findings, which have an alert, then increase; and no counter decreases when it falls again."""
    seen = traffic(5)
    seen.connect(0)
    seen.client(pb.CommandLookupTopic(topic="t", request_id=1))
    counts = []
    for _ in range(5):
        seen.scrape(8)
        families = {metric.name: samples for metric, samples in seen.collector.read()}
        counts.append({one.labels[1]: one.value for one in families["pcli_findings_total"] if one.value})
    assert counts == [{}, *[{"warning": 1}] * 2, *[{"warning": 1, "error": 1}] * 2]
