"""`pcli stats keys`: Key_Shared subscriptions as people read them."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def told(pcli_here, captures):
    return lambda name, *words: pcli_here("stats", "keys", "-r", captures / name, *words)


def test_ranges_that_were_asked_for(told):
    lines = told("java/key-shared-sticky.pcap").lines
    assert lines[0] == "persistent://public/default/key-shared-sticky  sticky  Key_Shared STICKY"
    assert lines[1].split() == ["consumer", "attached", "slots", "slots", "seen", "keys", "seen"]
    assert lines[2].split()[:4] == ["low", "no", "0-9999,", "10000-32767"]
    assert lines[3].split()[:3] == ["high", "no", "32768-65535"]


def test_keys_that_moved_and_who_waited_for_whom(told):
    answer = told("python/12-key-shared.pcap")
    (row,) = json.loads(told("python/12-key-shared.pcap", "-T", "json").out)
    moved = [key for key in row["keys"] if key["moved"]]
    assert moved
    for key in moved:
        (line,) = [line for line in answer.lines if line.startswith(f"{key['key']} ")]
        assert line.split()[1] == str(key["slot"])
        assert " → ".join(key["owners"]) in line
    assert not any(
        line.startswith(f"{key['key']} ") for key in row["keys"] for line in answer.lines if not key["moved"]
    )
    assert f"{len(row['keys'])} keys seen, {len(moved)} moved to another consumer" in answer.lines
    assert answer.lines[-1].startswith(f"longest {row['waits']['longest_seconds']:.3f} s: {row['waits']['holder']}")


def test_order_that_is_broken_as_was_allowed(told):
    out = told("java/key-shared-out-of-order.pcap").out
    assert "Key_Shared AUTO_SPLIT, out of order allowed\n" in out
    assert "\norder broken 6 times, first in frames " in out


def test_one_subscription(told):
    assert told("go/subscription-types.pcap", "--subscription", "sub-3").out
    answer = told("go/subscription-types.pcap", "--subscription", "sub-1")
    assert (answer.code, answer.out) == (0, "")
    assert "--subscription sub-1: no Key_Shared subscription of that name is seen, in " in answer.err


def test_more_keys_than_anybody_reads(told, monkeypatch):
    monkeypatch.setattr("pcli.cli.stats.keys._MOST_KEYS", 2)
    answer = told("python/12-key-shared.pcap")
    assert answer.out.count(" → ") == 2
    assert "2 of 6 keys that moved or came out of order are shown: -T json has all\n" in answer.err
