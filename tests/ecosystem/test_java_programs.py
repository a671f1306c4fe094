"""Spring Boot, Quarkus, Camel and Flink: small applications, their results, and the diagnosis of their traffic."""

from __future__ import annotations

import pytest
from ecosystem.running import Traffic, run

pulsar = pytest.importorskip("pulsar", exc_type=ImportError)

INVOICES = [f"invoice of order-{n}" for n in range(20)]


def messages(traffic: Traffic, topic: str, count: int) -> list[str]:
    """Return the next messages of a topic from its beginning, at most ``count``, until none arrives for 2 s."""
    client = pulsar.Client(traffic.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found = []
    try:
        while len(found) < count:
            found.append(reader.read_next(2000).data().decode())
    except pulsar.Timeout:
        pass
    client.close()
    return found


def test_camel(traffic, namespace):
    output = run(traffic.java("camel", "Program", traffic.service_url, namespace, "20"))
    assert output.splitlines() == INVOICES
    assert traffic.findings() == {}


def test_quarkus(traffic):
    output = run(traffic.quarkus("quarkus", f"-Dpulsar.client.serviceUrl={traffic.service_url}"))
    assert output.splitlines() == INVOICES
    assert traffic.findings() == {}


def test_spring_boot(traffic, namespace):
    """One order is rejected three times and moved to the dead letter topic; one of two transactions is aborted."""
    tenant, name = namespace.split("/")
    settings = {
        "client.service-url": traffic.service_url,
        "admin.service-url": traffic.http_url,
        "defaults.topic.tenant": tenant,
        "defaults.topic.namespace": name,
        "transaction.enabled": "true",
    }
    arguments = [f"--spring.pulsar.{key}={value}" for key, value in settings.items()]
    quiet = ("--logging.level.root=OFF", "--spring.main.banner-mode=off")
    output = run(traffic.java("spring", "eco.Program", *quiet, *arguments))
    orders = [f"order order-{n} {3 if n == 3 else 1}" for n in range(10)]
    payments = [f"payment payment-{n} 1" for n in range(3)]
    assert sorted(output.splitlines()) == sorted(["aborted 1", "letter order-3 1", *orders, *payments])
    assert traffic.findings() == {}


FLINK_FLAGS = ["--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED"]


@pytest.fixture
def flink(traffic, namespace):
    """Run the job with 100 orders, and return the invoices that a reader receives."""
    client = pulsar.Client(traffic.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(f"persistent://{namespace}/orders", batching_enabled=False)
    for n in range(100):
        producer.send(f"order-{n}".encode())
    client.close()

    def run_job(*arguments: str) -> list[str]:
        urls = traffic.service_url, traffic.http_url
        run(traffic.java("flink", "Program", *urls, namespace, *arguments, flags=FLINK_FLAGS))
        return messages(traffic, f"persistent://{namespace}/invoices", 200)

    return run_job


def test_flink(traffic, flink):
    assert flink() == [f"invoice of order-{n}" for n in range(100)]
    assert traffic.findings() == {}


def test_flink_that_fails_once(traffic, flink):
    """The attempt that failed leaves its transaction open. It hides everything that was committed after it."""
    invoices = flink("fails")
    assert len(invoices) < 100
    assert invoices == [f"invoice of order-{n}" for n in range(len(invoices))]
    assert traffic.findings()["transaction-open"] == "warning"
