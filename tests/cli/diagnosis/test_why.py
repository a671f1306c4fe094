"""`pcli why`: histories of real captures compared with what the applications did."""

import json

import pytest

from pcli.cli.diagnosis.history_output import MOST_EVENTS


@pytest.fixture
def why(pcli, small_captures):
    """Return the history as an object, by default of a committed capture."""

    def run(name, path, *arguments, folder=small_captures):
        result = pcli("why", name, "-r", folder / path, "-T", "json", *arguments)
        assert result.code == 0, result.err
        found = json.loads(result.out)
        assert len(found["history"]) <= MOST_EVENTS
        times = [event["since"] for event in found["history"]]
        assert times == sorted(times)
        return found

    return run


def texts(found, kind):
    return [event["text"] for event in found["history"] if event["kind"] == kind]


def rules(found):
    return {one["rule"] for one in found["findings"]}


def test_a_consumer_blocked_at_its_limit(why, captures):
    found = why("lazy", "python/24-stuck-unacked.pcap", folder=captures)
    [blocked] = texts(found, "blocked")
    assert blocked.startswith("Blocked for 7.8 s, until frame 684: it held 50 unacknowledged messages")
    assert found["state"]["received"] == 50
    assert found["state"]["acked"] == 0
    assert rules(found) >= {"stuck-unacked-limit", "never-acked"}


def test_a_moment_within_the_block(why, captures):
    found = why("lazy", "python/24-stuck-unacked.pcap", "--at", "2026-11-20T18:31:02.5Z", folder=captures)
    [blocked] = texts(found, "blocked")
    assert blocked.startswith("Blocked since then, for 5.3 s")
    assert not texts(found, "closed")
    assert found["state"]["attached"]
    assert found["state"]["blockedConsumerOnUnackedMsgs"] is True
    assert "It waits for acknowledgements" in found["state"]["text"]
    # The same figures as `stats consumers --at`
    assert (found["state"]["unackedMessages"], found["state"]["msgOutCounter"]) == (50, 50)


def test_a_subscription_contains_the_events_of_its_consumers(why, captures):
    found = why("desk", "python/24-stuck-unacked.pcap", folder=captures)
    [blocked] = texts(found, "blocked")
    assert blocked.startswith("Consumer lazy: blocked for 7.8 s")
    assert ("its consumer", "stuck-unacked-limit") in {(one["relation"], one["rule"]) for one in found["findings"]}


def test_a_consumer_without_permits(why):
    found = why("never-asks", "python/25-no-flow.pcapng")
    [text] = texts(found, "no permits")
    assert text == (
        "Granted no permits after it subscribed, for 2.1 s, until frame 100: without permits the broker sends nothing."
    )
    assert rules(found) == {"stuck-no-permits"}


def test_redeliveries_have_a_cause(why):
    found = why("worker-2", "python/10-shared-redelivery.pcap")
    assert any("acknowledgement timeout expired" in text for text in texts(found, "redelivery"))
    assert texts(found, "redelivery request")
    assert found["state"]["redelivered"] == 4


def test_a_producer_that_another_producer_fenced(why, captures):
    found = why("waiting", "java/access-modes.pcap", folder=captures)
    assert any("producer fencing fenced it" in text for text in texts(found, "waiting"))
    assert any("producer fencing fenced it" in text for text in texts(found, "lost"))


def test_a_producer_with_an_open_send(pcli, captures):
    result = pcli("why", "single", "-r", captures / "python/36b-ends-mid-record.pcap", "-T", "json")
    state = json.loads(result.out)["state"]
    assert state["open_sends"] == 1
    assert state["text"].endswith("received 45 receipts for 46 SENDs, 1 of them is open since frame 283.")


def test_a_time_without_a_consumer_has_a_backlog(why):
    [text] = texts(why("s", "flex/04-reconnect.pcapng", "--kind", "subscription"), "no consumer")
    assert text == "No consumer was attached for 1.3 s, until frame 107, with a backlog of 3 entries."


def test_a_refused_producer_with_the_name_of_an_open_producer(why):
    found = why("taken", "java/refusals.pcap", "--kind", "producer")
    assert [event["kind"] for event in found["history"]] == ["opened", "first message", "refused", "closed"]
    assert "ProducerBusy" in texts(found, "refused")[0]
    assert found["state"]["sent"] == 3


def test_a_topic(why):
    found = why("jobs", "python/10-shared-redelivery.pcap")
    assert found["kind"] == "topic"
    assert any(
        text.startswith("Consumer workers/worker-1: received 4 redelivered") for text in texts(found, "redelivery")
    )
    assert found["state"]["msgInCounter"] == 60


def test_a_topic_of_refused_requests_only(why, small_captures):
    found = why("public/nowhere/x", "java/refusals.pcap")
    assert any("PARTITIONED_METADATA" in text and "TopicNotFound" in text for text in texts(found, "request refused"))
    assert rules(found) == {"request-refused"}


@pytest.mark.parametrize("name", ["0", "127.0.0.1:46596"])
def test_a_connection_by_number_and_by_address(why, name):
    found = why(name, "java/refusals.pcap")
    assert (found["kind"], found["name"]) == ("connection", "0")
    assert texts(found, "closed") == ["The client closed the connection."]
    assert found["state"]["producers_opened"] == 1


def test_the_steps_of_a_message_are_those_of_its_lifecycle(why, pcli, small_captures):
    path = small_captures / "go/nack.pcap"
    life = json.loads(pcli("trace", "-r", path, "--message-id", "15:0", "-T", "json").out)[0]
    found = why("15:0", "go/nack.pcap")
    assert [event["frame"] for event in found["history"]] == [step["frame"] for step in life["steps"]]
    assert found["state"]["state"] == life["state"]


def test_a_consumer_whose_subscribe_is_not_in_the_capture(why):
    found = why("0#0", "java/late-capture.pcap", "--kind", "consumer")
    assert [event["text"] for event in found["history"][:2]] == [
        "Its SUBSCRIBE is not in the capture.",
        "Received its first message of the capture, 56:4.",
    ]
    assert found["state"]["received"] == 20


def test_a_consumer_that_removes_the_subscription(why):
    found = why("rust-cumulative-ack/leaving/l", "rust/cumulative-ack.pcap")
    assert texts(found, "closed")[0].startswith("The client removed the subscription; it had 20 unacknowledged")


def test_a_history_with_missing_packets_is_incomplete(why, pcli, small_captures):
    found = why("packer", "python/37-packets-lost.pcap")
    assert "gap" in found["doubts"]
    result = pcli("why", "packer", "-r", small_captures / "python/37-packets-lost.pcap")
    assert "Incomplete: packets of the connection are missing from the capture" in result.out
    assert why("worker-2", "python/10-shared-redelivery.pcap")["doubts"] == []


def test_a_consumer_on_standby(why, captures):
    path = "go/subscription-types.pcap"
    found = why("c-2-1", path, folder=captures)
    assert any(text.startswith("On standby for ") for text in texts(found, "active"))


def test_an_ambiguous_name_lists_the_objects(pcli, small_captures):
    result = pcli("why", "taken", "-r", small_captures / "java/refusals.pcap")
    assert result.code == 2
    assert result.out == ""
    assert result.err == (
        "pcli: taken: 2 objects have this name: subscription refusals/taken, producer refusals/taken; "
        "give a name and --kind\n"
    )


def test_a_partitioned_topic_lists_its_partitions(pcli, captures):
    result = pcli("why", "partitions-total-queue", "-r", captures / "java/partitions-total-queue.pcap")
    assert result.code == 2
    assert "partitions-total-queue-partition-0, topic persistent:" in result.err


def test_an_unknown_name_lists_similar_names(pcli, small_captures):
    result = pcli("why", "never-ask", "-r", small_captures / "python/25-no-flow.pcapng")
    assert (result.code, result.out) == (1, "")
    assert "no object of the capture has this name; did you mean never-asks" in result.err


def test_a_time_before_the_capture_is_an_error(pcli, small_captures):
    result = pcli("why", "never-asks", "-r", small_captures / "python/25-no-flow.pcapng", "--at", "1795000000")
    assert result.code == 2
    assert "the capture begins later" in result.err


def test_packet_numbers(pcli, why, small_captures):
    result = pcli("why", "never-asks", "-r", small_captures / "python/25-no-flow.pcapng", "--packet-numbers")
    found = why("never-asks", "python/25-no-flow.pcapng", "--packet-numbers")
    first = found["history"][0]
    assert f"frame {first['frame']} (packet {first['packet']})" in result.out


def test_a_capture_without_pulsar(pcli, small_captures):
    result = pcli("why", "x", "-r", small_captures / "tls/aes-gcm.pcap")
    assert result.code == 1
    assert "no Pulsar frames" in result.err


def test_decrypted_tls(pcli, small_captures):
    folder = small_captures / "tls"
    arguments = ("-r", folder / "aes-gcm.pcap", "--keylog", folder / "aes-gcm.keylog", "--kind", "connection")
    result = pcli("why", "0", *arguments)
    assert result.code in (0, 1)
    assert "TLS: give the session keys" not in result.err
