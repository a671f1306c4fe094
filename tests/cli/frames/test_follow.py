"""`pcli follow`: one conversation."""

import json

import pytest

NACK = "go/nack.pcap"


def rows(pcli, capture, *arguments):
    result = pcli("dissect", "-r", capture, "-T", "ndjson", *arguments)
    return [json.loads(line) for line in result.lines]


def numbers(result):
    return [int(line.split()[1]) for line in result.lines]


def test_a_stream(pcli, small_captures):
    capture = small_captures / NACK
    wanted = [row["pulsar.number"] for row in rows(pcli, capture, "-Y", "tcp.stream == 1")]
    assert wanted
    assert numbers(pcli("follow", "-r", capture, "--stream", "1")) == wanted


def test_a_consumer_with_the_answers_to_its_requests(pcli, small_captures):
    capture = small_captures / "python/10-shared-redelivery.pcap"
    result = pcli("follow", "-r", capture, "--consumer", "worker-1")
    types = [line.split()[5] for line in result.lines]
    assert types[0] == "SUBSCRIBE"
    assert types[1] == "SUCCESS"
    assert "(worker-0)" not in result.out
    assert set(types) >= {"FLOW", "MESSAGE", "ACK", "REDELIVER_UNACKNOWLEDGED_MESSAGES", "CLOSE_CONSUMER"}


def test_a_producer(pcli, small_captures):
    result = pcli("follow", "-r", small_captures / "python/10-shared-redelivery.pcap", "--producer", "planner")
    types = [line.split()[5] for line in result.lines]
    assert types[:2] == ["PRODUCER", "PRODUCER_SUCCESS"]
    assert types.count("SEND") == types.count("SEND_RECEIPT") == 60


def test_a_message_from_its_sending_on(pcli, small_captures):
    capture = small_captures / NACK
    truth = json.loads((capture.parent / "nack.truth.json").read_text())
    again = next(event for event in truth["events"] if event["type"] == "received" and event.get("redelivery_count"))
    ledger, entry = again["message_id"].split(":")[:2]
    result = pcli("follow", "-r", capture, "--message-id", f"{ledger}:{entry}")
    types = [line.split()[5] for line in result.lines]
    deliveries = sum(
        event["type"] == "received" and event["message_id"].startswith(f"{ledger}:{entry}:")
        for event in truth["events"]
    )
    assert types[:2] == ["SEND", "SEND_RECEIPT"]
    assert types.count("MESSAGE") == deliveries > 1


def test_a_request_and_its_answer(pcli, small_captures):
    capture = small_captures / NACK
    request = rows(pcli, capture, "-Y", "pulsar.type == SUBSCRIBE")[0]
    asked = ("follow", "-r", capture, "--request", str(request["pulsar.request_id"]))
    result = pcli(*asked, "--stream", str(request["tcp.stream"]))
    assert [line.split()[5] for line in result.lines] == ["SUBSCRIBE", "SUCCESS"]


def test_one_thing_at_a_time(pcli, small_captures):
    result = pcli("follow", "-r", small_captures / NACK, "--consumer", "a", "--producer", "b")
    assert (result.code, result.out) == (2, "")


def test_request_ids_of_several_clients(pcli, small_captures):
    capture = small_captures / "python/10-shared-redelivery.pcap"
    result = pcli("follow", "-r", capture, "--request", "2")
    assert "clients used this id, on streams" in result.err


def test_a_sequence_diagram(pcli, small_captures):
    result = pcli("follow", "-r", small_captures / NACK, "--stream", "1", "-T", "mermaid")
    assert result.lines[0] == "sequenceDiagram"
    assert "    participant c1 as 127.0.0.1:" in result.out
    arrows = [line for line in result.lines if "->>" in line]
    assert len(arrows) == len(pcli("follow", "-r", small_captures / NACK, "--stream", "1").lines)
    assert all(line.startswith(("    c1->>broker: ", "    broker->>c1: ")) for line in arrows)
    assert not any(
        sign in line.split(": ", 1)[1].replace("#35;", "").replace("#59;", "") for line in arrows for sign in ";#"
    )


def test_nothing_found_is_exit_code_1(pcli, small_captures):
    result = pcli("follow", "-r", small_captures / NACK, "--consumer", "nobody")
    assert (result.code, result.out) == (1, "")
    assert "the capture contains no such frame" in result.err


def test_a_wrong_message_id(pcli, small_captures):
    result = pcli("follow", "-r", small_captures / NACK, "--message-id", "seven")
    assert (result.code, result.out) == (2, "")
    assert "is not a message id" in result.err


def test_a_cumulative_acknowledgement_that_covers_the_message(pcli, captures):
    capture = captures / "java" / "cumulative-ack.pcap"
    acks = rows(pcli, capture, "-Y", "pulsar.ack.ack_type == Cumulative")
    reached = [row for row in acks if row["pulsar.message_id"] > ["27:2"]]
    types = [line.split()[5] for line in pcli("follow", "-r", capture, "--message-id", "27:2").lines]
    assert types == ["SEND", "SEND_RECEIPT", "MESSAGE", "ACK"]
    assert numbers(pcli("follow", "-r", capture, "--message-id", "27:2"))[-1] == reached[0]["pulsar.number"]


def types_of(result):
    return [line.split()[5] for line in result.lines]


@pytest.mark.parametrize("name", ["sp2", "topic://public/default/sp2", "sp2/0000-7fff-1"])
def test_the_history_of_a_scalable_topic(pcli, captures_5, name):
    result = pcli("follow", "-r", captures_5 / "split-merge-under-load.pcap", "--topic", name)
    types = types_of(result)
    # 14 updates contain three layouts
    assert [number for number, kind in zip(numbers(result), types) if kind == "SCALABLE_TOPIC_UPDATE"] == [
        84,
        1356,
        4801,
    ]
    assert types.count("SUBSCRIBE") == types.count("CLOSE_CONSUMER") == 8
    assert types.count("PRODUCER") == types.count("PRODUCER_SUCCESS") == types.count("CLOSE_PRODUCER") == 4
    assert types.count("REACHED_END_OF_TOPIC") == 6
    assert not {"SEND", "MESSAGE", "ACK", "FLOW", "LOOKUP"}.intersection(types)


def test_other_topics_have_no_part_in_the_history(pcli, captures_5):
    assert pcli("follow", "-r", captures_5 / "split-merge-under-load.pcap", "--topic", "sp").code == 1
    found = pcli("follow", "-r", captures_5 / "namespace-consumers.pcap", "--topic", "public/nsw/one")
    assert "SCALABLE_TOPIC_SUBSCRIBE" in types_of(found)
    assert "public/nsw/three" not in found.out


def test_a_hand_over(pcli, captures_5):
    result = pcli("follow", "-r", captures_5 / "consumers-join-leave-crash.pcap", "--topic", "reb")
    busy = [line for line in result.lines if "ConsumerBusy" in line]
    assert len(busy) == 6
    assert all(" to SUBSCRIBE " in line for line in busy)


def test_a_stream_consumer_with_its_segments(pcli, captures_5):
    capture = captures_5 / "consumers-join-leave-crash.pcap"
    found = pcli("follow", "-r", capture, "--consumer", "s2")
    assert types_of(found)[:4] == ["SCALABLE_TOPIC_SUBSCRIBE", "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE", *["SUBSCRIBE"] * 2]
    assert {"(s1)", "(s3)", "(s1-seg-0)"}.isdisjoint(found.out.split())
    one = numbers(pcli("follow", "-r", capture, "--consumer", "s2-seg-1"))
    assert set(one) < set(numbers(found))
