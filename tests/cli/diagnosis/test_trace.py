"""`pcli trace`: lifecycles compared with the logs of the applications."""

import json

import pytest

STUCK = "python/24-stuck-unacked.pcap"


def lives(pcli, path, *arguments):
    result = pcli("trace", "-r", path, "-T", "json", *arguments)
    assert result.code in (0, 1), result.err
    return json.loads(result.out)


def entries(life):
    """Return all ids of a lifecycle as ledger:entry."""
    return {life["message_id"], *life["other_message_ids"], *(one["message_id"] for one in life["chunks"])}


@pytest.mark.parametrize(
    "name",
    [
        "python/01-exclusive-unbatched.pcapng", "python/02-batched-keys-properties.pcap", "go/chunks.pcap",
        "go/nack.pcap", "go/batch-index.pcap", "java/txn-commit.pcap", "java/schemas.pcap",
        "java/broker-entry-metadata.pcap", "rust/batching.pcapng",
    ],
)  # fmt: skip
def test_every_event_of_the_applications_is_in_a_lifecycle(pcli, small_captures, name):
    path = small_captures / name
    truth = json.loads((path.parent / f"{path.name.partition('.')[0]}.truth.json").read_text())
    known = {}
    for life in lives(pcli, path):
        for entry in entries(life):
            known.setdefault(entry, []).append(life)
    checked = 0
    for event in truth["events"]:
        if event["type"] not in ("produced", "received") or event["message_id"].startswith("-1"):
            continue
        checked += 1
        found = known[":".join(event["message_id"].split(":")[:2])]
        if event["type"] == "produced":
            assert "receipt" in [step["what"] for life in found for step in life["steps"]], event
        else:
            assert event["subscription"] in [one["subscription"] for life in found for one in life["deliveries"]], event
    assert checked


def test_acknowledged_messages_are(pcli, small_captures):
    """Single messages, because a client may delay the ACK of a batch until all its messages are acknowledged."""
    path = small_captures / "python/01-exclusive-unbatched.pcapng"
    truth = json.loads((path.parent / "01-exclusive-unbatched.truth.json").read_text())
    acked = {event["message_id"] for event in truth["events"] if event["type"] == "acked"}
    found = {life["message_id"] for life in lives(pcli, path) if life["state"] == "acked"}
    assert acked
    assert {":".join(one.split(":")[:2]) for one in acked} <= found


def test_the_holders_of_unacknowledged_messages(pcli, captures):
    found = lives(pcli, captures / STUCK, "--unacked")
    assert len(found) == 50
    assert {one["consumer"] for life in found for one in life["deliveries"]} == {"lazy"}
    result = pcli("trace", "-r", captures / STUCK, "--unacked", "-c", 1)
    assert "1 of 1 left: last held by desk/lazy" in result.out


def test_redelivered_messages_say_why(pcli, small_captures):
    found = lives(pcli, small_captures / "go/nack.pcap", "--redelivered")
    assert found
    for life in found:
        again = [one for one in life["deliveries"] if one["redelivery_count"]]
        assert {one["why_again"] for one in again} == {"nack"}
        assert all(one["why_frame"] < one["frame"] for one in again)


def test_by_message_id_sequence_key_payload_and_filter(pcli, small_captures):
    path = small_captures / "python/01-exclusive-unbatched.pcapng"
    one = lives(pcli, path)[3]
    assert lives(pcli, path, "--message-id", one["message_id"]) == [one]
    assert lives(pcli, path, "--sequence", f"{one['producer']}:{one['sequence_id']}") == [one]
    sent = next(step["frame"] for step in one["steps"] if step["what"] == "sent")
    assert lives(pcli, path, "-Y", f"pulsar.number == {sent}") == [one]


def test_keys_and_payloads_inside_batches(pcli, small_captures):
    path = small_captures / "python/02-batched-keys-properties.pcap"
    truth = json.loads((path.parent / "02-batched-keys-properties.truth.json").read_text())
    keyed = [event for event in truth["events"] if event["type"] == "produced" and event.get("key")]
    key = keyed[0]["key"]
    wanted = {":".join(event["message_id"].split(":")[:2]) for event in keyed if event["key"] == key}
    found = lives(pcli, path, "--key", key)
    assert {life["message_id"] for life in found} == wanted
    assert len(found) < len(lives(pcli, path))
    assert pcli("trace", "-r", path, "--payload-contains", "no payload has this").code == 1


@pytest.mark.parametrize("arguments", [(), ("--private-key", "{key}")])
def test_payloads_that_are_encrypted_open_with_their_key(pcli, small_captures, arguments):
    folder = small_captures / "python"
    opened = pcli("dissect", "-r", folder / "08-encrypted.pcapng", "--payload", "--private-key",
                       folder / "08-encrypted.test-private-key.pem", "-Y", "pulsar.type == SEND")  # fmt: skip
    text = next(line for line in opened.lines if line.startswith("        "))[-12:]
    result = pcli(
        "trace", "-r", folder / "08-encrypted.pcapng", "--payload-contains", text,
        *(word.format(key=folder / "08-encrypted.test-private-key.pem") for word in arguments),
    )  # fmt: skip
    assert result.code == (0 if arguments else 1)


def test_the_slowest_first(pcli, small_captures):
    path = small_captures / "go/nack.pcap"
    times = [life["duration_ms"] for life in lives(pcli, path)]
    slowest = [life["duration_ms"] for life in lives(pcli, path, "--slowest", 3)]
    assert slowest == sorted(times, reverse=True)[:3]
    slower = lives(pcli, path, "--slower-than", slowest[1])
    assert [life["duration_ms"] for life in slower] == [slowest[0]]


def test_count_stops(pcli, small_captures):
    path = small_captures / "go/nack.pcap"
    assert lives(pcli, path, "-c", 2) == lives(pcli, path)[:2]


def test_a_diagram(pcli, small_captures):
    result = pcli("trace", "-r", small_captures / "go/nack.pcap", "-c", 1, "-T", "mermaid")
    assert result.lines[0] == "sequenceDiagram"
    assert any("asked again" in line or "acked" in line for line in result.lines)
    many = pcli("trace", "-r", small_captures / "go/chunks.pcap", "-T", "mermaid")
    assert "the diagram shows only the first 10 messages" in many.err
    assert len([line for line in many.lines if "->>broker: sent sequence" in line]) == 10


def test_an_empty_result_reports_what_was_searched(pcli, small_captures):
    result = pcli("trace", "-r", small_captures / "go/nack.pcap", "--key", "nobody")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("pcli: none of ")
    assert "frames" in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sequence", "till"), "write PRODUCER:N"),
        (("--sequence", ":4"), "write PRODUCER:N"),
        (("--message-id", "7"), "is not a message id"),
        (("-Y", "pulsar.nothing == 1"), "pulsar.nothing"),
        (("--private-key", "none.pem"), "none.pem"),
    ],
)
def test_questions_that_are_none(pcli, small_captures, arguments, message):
    result = pcli("trace", "-r", small_captures / "go/nack.pcap", *arguments)
    assert result.code == 2
    assert message in result.err


def test_the_brokers_own_messages_are_not_shown(pcli, small_captures):
    path = small_captures / "java/txn-commit.pcap"
    assert pcli("dissect", "-r", path, "-Y", "pulsar.type == SEND and pulsar.system == true").lines
    assert {life["topic"].rpartition("/")[2] for life in lives(pcli, path)} == {"txn-commit-in", "txn-commit-out"}


def test_messages_over_a_split_and_a_merge_are_those_of_the_application(pcli, captures_5):
    path = captures_5 / "split-merge-under-load.pcap"
    found = lives(pcli, path)
    assert {one["state"] for one in found} == {"acked"}
    [parent] = {one["topic"] for one in found if one["topic"].endswith("-0")}
    moved = [attempt for one in found for attempt in one["earlier_attempts"]]
    assert [attempt["sequence_id"] for attempt in moved if attempt["topic"] == parent] == [310, 311, 312, 314, 313]
    assert sum(one["messages"] for one in found) == 2214  # of the application's log


@pytest.mark.parametrize("arguments", [("--sequence", "standalone-0-69:313"), ("-Y", "pulsar.number == 1342")])
def test_a_message_is_selected_by_its_first_attempt(pcli, captures_5, arguments):
    lines = pcli("trace", "-r", captures_5 / "split-merge-under-load.pcap", *arguments).lines
    assert lines[0] == "sp2/8000-ffff-2  279:0  5 messages  93 B  key k13"
    text = " ".join(" ".join(lines).split())
    assert "sent standalone-0-69 → broker sequence 313, on sp2/0000-ffff-0" in text
    assert "refused broker → standalone-0-69 PersistenceError, on sp2/0000-ffff-0" in text
    assert "sent again standalone-0-71 → broker sequence 4" in text


def test_a_key_is_followed_over_splits(pcli, captures_5):
    path = captures_5 / "split-merge-under-load.pcap"
    found = [one["topic"].rpartition("/")[2] for one in lives(pcli, path, "--key", "k13")]
    assert list(dict.fromkeys(found)) == ["0000-ffff-0", "8000-ffff-2", "0000-ffff-3"]
