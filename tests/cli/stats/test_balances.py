"""`pcli stats balances`: the balance of each topic and subscription as text and JSON."""

import json

CAPTURE = "python/10-shared-redelivery.pcap"


def test_json_has_topics_with_their_subscriptions(pcli, small_captures):
    answer = pcli("stats", "balances", "-r", small_captures / CAPTURE, "-T", "json")
    assert answer.code == 0
    [(topic, found)] = json.loads(answer.out).items()
    assert topic.startswith("persistent://")
    assert (found["sent"], found["stored"], found["unknown"]) == (60, 60, 0)
    [values] = found["subscriptions"].values()
    assert values["stored"] == values["acknowledged"] + values["remaining"]
    lines = pcli("stats", "balances", "-r", small_captures / CAPTURE, "-T", "ndjson").out.splitlines()
    assert [json.loads(line)["topic"] for line in lines] == [topic]


def test_text_shows_a_row_per_subscription(pcli, small_captures):
    answer = pcli("stats", "balances", "-r", small_captures / CAPTURE)
    titles, topic, row = answer.out.splitlines()
    assert titles.split()[:3] == ["stored", "delivered", "redelivered"]
    assert topic.endswith("sent 60, stored 60")
    assert len(row.split()) == 10


def test_a_reason_replaces_values_that_are_not_known(pcli, small_captures):
    answer = pcli("stats", "balances", "-r", small_captures / "python/37-packets-lost.pcap")
    assert answer.code == 0
    assert "sent ?, stored ?" in answer.out
    assert "? all values of" in answer.out
    assert "packets of the connection are missing" in answer.out


def test_the_state_at_a_time(pcli, small_captures):
    whole = json.loads(pcli("stats", "balances", "-r", small_captures / CAPTURE, "-T", "json").out)
    truth = json.loads((small_captures / CAPTURE).with_name("10-shared-redelivery.truth.json").read_text())
    at = truth["capture"]["started_at"] + 1
    part = json.loads(pcli("stats", "balances", "-r", small_captures / CAPTURE, "--at", at, "-T", "json").out)
    assert sum(one["sent"] for one in part.values()) < sum(one["sent"] for one in whole.values())


def test_a_capture_that_is_truncated_before_the_time(pcli, small_captures, tmp_path):
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes((small_captures / CAPTURE).read_bytes()[:-50])
    found = json.loads(pcli("stats", "balances", "-r", damaged, "--at", 2_000_000_000, "-T", "json").out)
    assert all(one["sent"] is None and "truncated" in one["reasons"]["sent"] for one in found.values())
