"""`pcli stats consumers`: the state at a given time, compared with the broker's statistics."""

from __future__ import annotations

import json

import pytest

SHARED = "python/10-shared-redelivery.pcap"
FIGURES = ("msgBacklog", "unackedMessages", "msgOutCounter", "availablePermits", "blockedConsumerOnUnackedMsgs")


def truth(capture):
    return json.loads((capture.parent / f"{capture.name.split('.pcap')[0]}.truth.json").read_text())


@pytest.fixture
def result(pcli):
    """Return the JSON output of the command, and stderr."""

    def ask(capture, *arguments):
        answer = pcli("stats", "consumers", "-r", capture, "-T", "json", *arguments)
        assert answer.code == 0, answer.err
        return json.loads(answer.out), answer.err

    return ask


def same(computed, true):
    return all(computed[name] == true[name] for name in FIGURES if name in computed)


@pytest.mark.parametrize(
    "name", [SHARED, "python/22-batch-index-acks.pcap", "java/txn-commit.pcap", "rust/batching.pcapng"]
)
def test_it_has_the_shape_and_the_figures_of_topics_stats(result, small_captures, name):
    capture = small_captures / name
    found, _ = result(capture, "--at", truth(capture)["capture"]["stats_at"])
    for topic, true in truth(capture)["stats"].items():
        assert found[topic].keys() == {"msgInCounter", "subscriptions"}
        assert found[topic]["msgInCounter"] == true["msgInCounter"]
        assert found[topic]["subscriptions"].keys() == true["subscriptions"].keys()
        for subscription, other in true["subscriptions"].items():
            computed = found[topic]["subscriptions"][subscription]
            assert same(computed, other)
            others = {one["consumerName"]: one for one in other["consumers"]}
            assert {one["consumerName"] for one in computed["consumers"]} == others.keys()
            assert all(same(one, others[one["consumerName"]]) for one in computed["consumers"])


def test_frames_after_the_time_do_not_count(result, pcli, captures, tmp_path):
    """The end of the file may be damaged."""
    capture = captures / "python" / "24-stuck-unacked.pcap"
    (first, *_) = truth(capture)["snapshots"]
    at = f"{first['t']:.6f}"
    whole, _ = result(capture, "--at", at)
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(capture.read_bytes()[:-50])
    assert pcli("stats", "consumers", "-r", damaged).code == 3
    assert result(damaged, "--at", at)[0] == whole
    (subscription,) = whole[first["topic"]]["subscriptions"].values()
    blocked = [one["consumerName"] for one in subscription["consumers"] if one["blockedConsumerOnUnackedMsgs"]]
    assert blocked == ["lazy"]


def test_the_time_is_printed_and_accepted_in_both_forms(result, small_captures):
    capture = small_captures / SHARED
    end, err = result(capture)
    seconds, iso = err.split("state at ")[1].split(",")[0].rstrip(")").split(" (")
    assert float(seconds) == pytest.approx(truth(capture)["capture"]["stats_at"], abs=60)
    assert result(capture, "--at", seconds) == (end, err)
    assert result(capture, "--at", iso)[1].startswith("pcli: state at ")


def test_before_the_capture_there_is_no_state(pcli, small_captures):
    answer = pcli("stats", "consumers", "-r", small_captures / SHARED, "--at", "1000000000")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("pcli: --at 1000000000: the capture begins later, at ")


def test_a_time_after_the_capture_shows_the_final_state(result, small_captures):
    capture = small_captures / SHARED
    found, err = result(capture, "--at", "4000000000")
    assert found == result(capture)[0]
    assert "--at 4000000000: the capture has no later frame; its last state is shown\n" in err


@pytest.mark.parametrize(("name", "code"), [("36-ends-mid-frame", 0), ("36b-ends-mid-record", 3)])
def test_after_a_truncated_capture_all_counts_are_unknown(pcli, captures, name, code):
    capture = captures / "python" / f"{name}.pcap"
    at = truth(capture)["capture"]["stats_at"]
    answer = pcli("stats", "consumers", "-r", capture, "-T", "json", "--at", at)
    assert answer.code == code
    (stats,) = json.loads(answer.out).values()
    for subscription in stats["subscriptions"].values():
        for one in (stats, subscription, *subscription["consumers"]):
            assert all(one[name] is None for name in (*FIGURES, "msgInCounter") if name in one)
            assert set(one["unknown"].values()) == {"the capture is truncated before that time"}


@pytest.mark.parametrize("at", ["yesterday", "-5", "1795198511000", "nan", "0001-01-01", "2026-13-01T00:00:00"])
def test_invalid_times_are_refused(pcli, small_captures, at):
    answer = pcli("stats", "consumers", "-r", small_captures / SHARED, f"--at={at}")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"pcli: --at {at}: ")


def test_text_is_a_tree(pcli, small_captures):
    capture = small_captures / SHARED
    at = truth(capture)["capture"]["stats_at"]
    lines = pcli("stats", "consumers", "-r", capture, "--at", at).lines
    titles = ["type", "msgBacklog", "unackedMessages", "msgOutCounter", "availablePermits", "blocked"]
    assert lines[0].split() == titles
    ((topic, true),) = truth(capture)["stats"].items()
    assert lines[1] == f"{topic}  msgInCounter {true['msgInCounter']}"
    ((name, subscription),) = true["subscriptions"].items()
    count, unacked = subscription["msgOutCounter"], subscription["unackedMessages"]
    assert lines[2].split() == [name, "Shared", str(subscription["msgBacklog"]), str(unacked), str(count), "no"]
    assert {line.split()[0] for line in lines[3:]} == {one["consumerName"] for one in subscription["consumers"]}
    assert all(line.startswith("    ") for line in lines[3:])


def test_reasons_of_unknown_figures_are_below_the_table(pcli, small_captures):
    lines = pcli("stats", "consumers", "-r", small_captures / "python/37-packets-lost.pcap").lines
    assert "msgInCounter ?" in lines[1]
    reasons = [line for line in lines if line.startswith("? ")]
    assert len({line.rsplit(": ")[-1] for line in reasons}) == len(reasons) > 0
    assert any(line.endswith(": packets of the connection are missing from the capture") for line in reasons)


def test_system_shows_topics_of_the_broker(result, small_captures):
    capture = small_captures / SHARED
    own = {topic for topic in result(capture, "--system")[0] if "/__" in topic or "/pulsar/system/" in topic}
    assert own
    assert not own & result(capture)[0].keys()


@pytest.mark.parametrize("command", ["consumers", "permits", "keys"])
def test_an_empty_result_is_explained(pcli, small_captures, command):
    answer = pcli("stats", command, "-r", small_captures / "python/21-tls.pcapng", "-T", "json")
    assert answer.code == 0
    assert json.loads(answer.out) in ({}, [])
    assert answer.err.splitlines()[-1].endswith(" in 0 frames")
    assert pcli("stats", command, "-r", "no-such-file").code == 2


def test_stdin_and_parts_of_one_recording(pcli, captures):
    parts = sorted((captures / "python" / "31-ring").iterdir())
    assert len(parts) > 1
    found = json.loads(pcli("stats", "consumers", "-T", "json", "-r", *parts).out)
    assert found.keys() == json.loads((captures / "python" / "31-ring.truth.json").read_text())["stats"].keys()
    capture = captures / SHARED
    piped = pcli("stats", "consumers", "-r", "-", stdin=capture.read_bytes())
    assert piped.out == pcli("stats", "consumers", "-r", capture).out


def test_a_topic_without_subscription_is_a_line(pcli, captures):
    capture = captures / "java" / "access-modes.pcap"
    ((topic, true),) = truth(capture)["stats"].items()
    answer = pcli("stats", "consumers", "-r", capture, "--at", truth(capture)["capture"]["stats_at"])
    assert answer.code == 0, answer.err
    assert answer.lines[1:] == [f"{topic}  msgInCounter {true['msgInCounter']}"]
