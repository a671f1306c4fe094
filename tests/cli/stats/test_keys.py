"""`pcli stats keys`: the text output."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def result(pcli, captures):
    return lambda name, *arguments: pcli("stats", "keys", "-r", captures / name, *arguments)


def test_requested_ranges(result):
    lines = result("java/key-shared-sticky.pcap").lines
    assert lines[0] == "persistent://public/default/key-shared-sticky  sticky  Key_Shared STICKY"
    assert lines[1].split() == ["consumer", "attached", "slots", "slots", "seen", "keys", "seen"]
    assert lines[2].split()[:4] == ["low", "no", "0-9999,", "10000-32767"]
    assert lines[3].split()[:3] == ["high", "no", "32768-65535"]


def test_keys_that_moved_and_waits_for_their_holders(result):
    answer = result("python/12-key-shared.pcap")
    (row,) = json.loads(result("python/12-key-shared.pcap", "-T", "json").out)
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


def test_order_that_is_broken_as_was_allowed(result):
    out = result("java/key-shared-out-of-order.pcap").out
    assert "Key_Shared AUTO_SPLIT, out-of-order delivery allowed\n" in out
    assert "\norder broken for 9 messages, first in frames " in out


def test_packet_numbers_of_the_order(result, pcli, captures):
    arguments = ("java/key-shared-out-of-order.pcap", "--packet-numbers")
    (row,) = json.loads(result(*arguments, "-T", "json").out)
    frames, packets = row["order_broken_frames"], row["order_broken_packets"]
    dissected = pcli("dissect", "-r", captures / arguments[0], "-T", "ndjson").lines
    packet_of = {one["pulsar.number"]: one["frame.number"] for one in map(json.loads, dissected)}
    assert packets == [packet_of[frame] for frame in frames]
    assert row["waits"]["longest_packets"] == [packet_of[frame] for frame in row["waits"]["longest_frames"]]
    assert (
        f"first in frames {', '.join(map(str, frames))} (packets {', '.join(map(str, packets))})"
        in result(*arguments).out
    )


def test_one_subscription(result):
    assert result("go/subscription-types.pcap", "--subscription", "sub-3").out
    answer = result("go/subscription-types.pcap", "--subscription", "sub-1")
    assert (answer.code, answer.out) == (0, "")
    assert "--subscription sub-1: no Key_Shared subscription with this name in " in answer.err


def test_more_keys_than_anybody_reads(result, monkeypatch):
    monkeypatch.setattr("pcli.cli.stats.keys._MOST_KEYS", 2)
    answer = result("python/12-key-shared.pcap")
    assert answer.out.count(" → ") == 2
    assert "the table shows 2 of 6 keys that moved or were out of order; -T json shows all\n" in answer.err


def test_owners_of_key_ranges_at_a_moment(pcli, captures):
    capture = captures / "java" / "key-shared-sticky.pcap"
    frames = pcli("dissect", "-r", capture, "-Y", "pulsar.type == MESSAGE", "-T", "ndjson").lines
    moment = json.loads(frames[2])["frame.time_epoch"]
    answer = pcli("stats", "keys", "-r", capture, "--at", moment)
    assert answer.err.startswith(f"pcli: state at {moment} (")
    place = answer.lines.index("key range    owner  keys seen")
    assert [line.split()[:2] for line in answer.lines[place + 1 : place + 4]] == [
        ["0-9999", "low"],
        ["10000-32767", "low"],
        ["32768-65535", "high"],
    ]
    (row,) = json.loads(pcli("stats", "keys", "-r", capture, "--at", moment, "-T", "json").out)
    assert [(one["first"], one["last"]) for one in row["owners"]] == [(0, 9999), (10000, 32767), (32768, 65535)]
    assert sum(one["keys_seen"] for one in row["owners"]) == len(row["keys"])
    (end,) = json.loads(pcli("stats", "keys", "-r", capture, "-T", "json").out)
    assert end["owners"] == []


def test_owners_of_seen_slots_in_auto_split(pcli, captures):
    capture = captures / "python/12-key-shared.pcap"
    frames = pcli("dissect", "-r", capture, "-Y", "pulsar.type == MESSAGE", "-T", "ndjson").lines
    moment = json.loads(frames[-1])["frame.time_epoch"]
    (row,) = json.loads(pcli("stats", "keys", "-r", capture, "--at", moment, "-T", "json").out)
    owner = {key["slot"]: key["owner"] for key in row["keys"]}
    attached = {one["consumer"] for one in row["consumers"] if one["attached"]}
    assert row["owners"]
    for one in row["owners"]:
        inside = {owner[slot] for slot in owner if one["first"] <= slot <= one["last"]} & attached
        assert inside == {one["consumer"]}


def test_ndjson_is_one_subscription_per_line(result):
    rows = [json.loads(line) for line in result("java/key-shared-sticky.pcap", "-T", "ndjson").lines]
    assert rows == json.loads(result("java/key-shared-sticky.pcap", "-T", "json").out)
