"""`pcli produce` and `pcli consume` with scalable topics, and with a real broker 5.0.1."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import Any

import pytest

from pcli.minibroker import MiniBroker

TOPIC = "topic://public/default/orders"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "use -s NAME for a subscription, or --type checkpoint"),
        (("--reader",), "--reader cannot be used with a scalable topic"),
        (("--last", 3), "--last cannot be used"),
        (("-s", "s", "--subscription-type", "Shared"), "--subscription-type cannot be used"),
        (("-s", "s", "--key-range", "0-1"), "--key-range cannot be used"),
        (("-s", "s", "--from", "earliest", "--move-cursor"), "--move-cursor cannot be used"),
        (("-s", "s", "--nack-every", 2), "--nack-every requires --type queue"),
        (("-s", "s", "--type", "queue", "--nack-every", 2, "--no-ack"), "cannot be combined"),
        (("--type", "checkpoint", "--no-ack"), "--no-ack requires"),
        (("-s", "s", "--from", "-10m"), "begins at earliest or latest"),
    ],
)
def test_options_that_do_not_fit_are_one_line(pcli: Any, options: tuple[Any, ...], text: str) -> None:
    ran = pcli("consume", TOPIC, *options)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert text in ran.err


def test_the_type_requires_a_scalable_topic(pcli: Any) -> None:
    ran = pcli("consume", "orders", "-s", "s", "--type", "queue")
    assert (ran.code, ran.err) == (2, "pcli: --type queue requires a scalable topic (topic://)\n")


@pytest.mark.parametrize("command", [("produce", TOPIC, "-m", "a"), ("consume", TOPIC, "-s", "s")])
def test_a_broker_without_scalable_topics_is_one_line(pcli: Any, broker: MiniBroker, command: tuple[str, ...]) -> None:
    ran = pcli(*command, "-u", broker.service_url)
    assert (ran.code != 0, ran.out, ran.err.count("\n")) == (True, "", 1)
    assert "scalable topics (topic://) require a broker of Pulsar 5" in ran.err


@pytest.mark.slow
def test_the_commands_send_and_receive(pulsar_5: Any, pcli: Any, tmp_path: Path) -> None:
    topic, url = "topic://public/default/commands", pulsar_5.service_url
    lines = tmp_path / "lines"
    lines.write_text("".join(f"k{number % 9}:{number}\n" for number in range(500)))
    assert pcli("produce", topic, "-u", url, "--file", lines, "-K", ":").code == 0
    for options in (
        ("-s", "a"), ("-s", "b", "--type", "queue"), ("--type", "checkpoint"), ("--type", "checkpoint", "-s", "c"),
        ("--type", "checkpoint", "--from", "-10m"),
    ):  # fmt: skip
        start = () if "--from" in options else ("--from", "earliest")
        ran = pcli("consume", topic, "-u", url, *start, *options, "--exit-at-end")
        assert (ran.code, sorted(map(int, ran.out.split()))) == (0, list(range(500))), options
    assert pcli("consume", topic, "-u", url, "-s", "a", "--exit-at-end").out == ""


@pytest.mark.slow
def test_a_refused_topic_is_one_line(pulsar_5: Any, pcli: Any) -> None:
    url = f"{pulsar_5.http_url}/admin/v2/namespaces/public/closed"
    for method, path, body in (("PUT", "", None), ("POST", "/autoTopicCreation", b'{"allowAutoTopicCreation":false}')):
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url + path, body, headers, method=method)
        urllib.request.urlopen(request, timeout=30).close()
    ran = pcli("produce", "topic://public/closed/t", "-u", pulsar_5.service_url, "-m", "a")
    assert (ran.code != 0, ran.out, ran.err.count("\n")) == (True, "", 1)
    assert "Scalable topic not found: topic://public/closed/t" in ran.err
