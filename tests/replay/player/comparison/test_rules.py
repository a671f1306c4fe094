"""Rules: a capture needs each of them, and none explains a similar fault of the broker."""

from types import SimpleNamespace

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame, push_frame
from pcli.codec.wire.frame import Frame
from pcli.minibroker.dispatch.multiple_consumers import PersistentDispatcherMultipleConsumers
from pcli.minibroker.topics.subscription import Subscription
from pcli.replay.player.comparison.compare_responses import EXTRA, Difference, Outcome
from pcli.replay.player.comparison.delivery_rules import crossed
from pcli.replay.player.comparison.layout_rules import earlier_segments
from pcli.replay.player.comparison.rules import RULES
from pcli.replay.player.comparison.scalable_updates import ScalableUpdates
from pcli.replay.player.response_matching import Pair, ResponseMatcher
from pcli.replay.player.script.script import Script, Step
from pcli.replay.player.segment_translation import LIVE_ONLY


def set_to(name, value):
    return lambda body: setattr(body, name, value)


def error_response(code, text="no"):
    return lambda body: push_frame(pb.CommandError(request_id=body.request_id, error=code, message=text))


def a_close(body):
    """Return a CLOSE_CONSUMER to send instead of a message."""
    return push_frame(pb.CommandCloseConsumer(consumer_id=body.consumer_id, request_id=2**64 - 1))


def add_a_segment(body):
    body.dag.segments.add().CopyFrom(body.dag.segments[0])
    body.dag.segments[-1].segment_id = 9


def is_split(body):
    return body.dag.epoch == 1


to_nowhere = set_to("broker_service_url", "nowhere")


def remove_played(body):
    del body.topics[:]


FAULTS = [
    (
        "address",
        "flex/01-produce-consume.pcap",
        ("change", "LOOKUP_RESPONSE", set_to("authoritative", False)),
        ("LOOKUP_RESPONSE", "authoritative"),
    ),
    (
        "address",
        "java/scalable-transaction.pcap",
        ("change", "WATCH_TC_ASSIGNMENTS_UPDATE", lambda body: to_nowhere(body.snapshot.assignments[0])),
        ("WATCH_TC_ASSIGNMENTS_UPDATE", "snapshot.assignments.0.broker_service_url"),
    ),
    (
        "version",
        None,
        ("change", "CONNECTED", set_to("max_message_size", 7_000_000)),
        ("CONNECTED", "max_message_size"),
    ),
    (
        "clock",
        "java/broker-entry-metadata.pcap",
        ("change", "MESSAGE", set_to("redelivery_count", 1)),
        ("MESSAGE", "redelivery_count"),
    ),
    (
        "clock",
        "java5/split.pcap",
        ("change", "SCALABLE_TOPIC_UPDATE", lambda body: body.dag.segments[0].ClearField("sealed_at_ms"), 1, is_split),
        ("SCALABLE_TOPIC_UPDATE", "dag.segments.0.sealed_at_ms"),
    ),
    (
        "wording",
        "java/key-shared-sticky.pcap",
        ("change", "ERROR", set_to("error", pb.UnknownError)),
        ("ERROR", "error"),
    ),
    (
        "wording",
        "java/key-shared-sticky.pcap",
        ("change", "ERROR", set_to("message", "Subscription is gone")),
        ("ERROR", "message"),
    ),
    ("choice of Shared", "python/10-shared-redelivery.pcap", ("drop", "MESSAGE", 3), ("MESSAGE", "missing")),
    (
        "choice of Shared",
        "python/10-shared-redelivery.pcap",
        ("change", "MESSAGE", set_to("redelivery_count", 5), 3),
        ("MESSAGE", "redelivery_count"),
    ),
    ("left over", "java/unload.pcap", ("twice", "MESSAGE", 2), ("MESSAGE", "extra")),
    ("left over", "java/mixed-clients.pcap", ("drop", "MESSAGE", 5), ("MESSAGE", "missing")),
    ("overshoot", "java/permits.pcap", ("drop", "MESSAGE", 5), ("MESSAGE", "missing")),
    (
        "told again",
        "python/11-failover.pcap",
        ("drop", "ACTIVE_CONSUMER_CHANGE", 1, lambda body: body.is_active),
        ("ACTIVE_CONSUMER_CHANGE", "missing"),
    ),
    ("told again", "java5/split.pcap", ("drop", "REACHED_END_OF_TOPIC"), ("REACHED_END_OF_TOPIC", "missing")),
    (
        "number of layouts",
        "java5/split.pcap",
        ("change", "SCALABLE_TOPIC_UPDATE", add_a_segment, 3),
        ("SCALABLE_TOPIC_UPDATE", "extra"),
    ),
    (
        "number of layouts",
        "java/scalable-topic.pcap",
        ("drop", "SCALABLE_TOPIC_ASSIGNMENT_UPDATE", 1, lambda body: body.assignment.layout_epoch == 1),
        ("SCALABLE_TOPIC_ASSIGNMENT_UPDATE", "missing"),
    ),
    (
        "number of layouts",
        "java/scalable-topic.pcap",
        ("change", "SCALABLE_TOPIC_ASSIGNMENT_UPDATE", lambda body: set_to("layout_epoch", 7)(body.assignment)),
        ("SCALABLE_TOPIC_ASSIGNMENT_UPDATE", "extra"),
    ),
    (
        "controller",
        None,
        ("change", "SCALABLE_TOPIC_UPDATE", lambda body: set_to("controller_broker_url", "nowhere")(body.dag), 3),
        ("SCALABLE_TOPIC_UPDATE", "dag.controller_broker_url"),
    ),
    (
        "earlier segments",
        None,
        ("change", "SCALABLE_TOPIC_UPDATE", add_a_segment),
        ("SCALABLE_TOPIC_UPDATE", "missing"),
    ),
    ("crossed", "python/26a-broker-restart.pcap", ("instead", "MESSAGE", a_close, 5), ("CLOSE_CONSUMER", "extra")),
    ("unanswered", "python/36b-ends-mid-record.pcap", ("twice", "SEND_RECEIPT", 3), ("SEND_RECEIPT", "extra")),
    ("end of capture", "python/36b-ends-mid-record.pcap", ("twice", "MESSAGE", 3), ("MESSAGE", "extra")),
    (
        "other topics",
        "rust/partitions.pcap",
        ("change", "GET_TOPICS_OF_NAMESPACE_RESPONSE", remove_played),
        ("GET_TOPICS_OF_NAMESPACE_RESPONSE", "topics"),
    ),
    ("no administrator", None, ("drop", "CLOSE_CONSUMER"), ("CLOSE_CONSUMER", "missing")),
    (
        "no authentication",
        "python/20-token-authentication.pcap",
        ("change", "CONNECTED", set_to("max_message_size", 5)),
        ("CONNECTED", "max_message_size"),
    ),
    ("no compaction", "python/17-reader-table-view.pcap", ("drop", "MESSAGE", 2), ("MESSAGE", "missing")),
    (
        "no quotas",
        "python/26b-terminate-unload-quota.pcapng",
        ("instead", "PRODUCER_SUCCESS", error_response(pb.ProducerBusy)),
        ("PRODUCER_SUCCESS", "type"),
    ),
    ("no transactions", "java/txn-commit.pcap", ("drop", "MESSAGE", 2), ("MESSAGE", "missing")),
    (
        "no transactions",
        "java/scalable-transaction.pcap",
        ("change", "WATCH_TC_ASSIGNMENTS_UPDATE", set_to("message", "no")),
        ("WATCH_TC_ASSIGNMENTS_UPDATE", "error"),
    ),
]
"""For each rule: its name; a capture that needs it, or None; a fault of the broker; the command and field of the
difference that must stay unexplained. A fault is a method of `Faults` in `../conftest.py`, a command and further
arguments."""
OTHERWISE = {
    "version": "flex/01-produce-consume.pcap",
    "no administrator": "go/reader.pcapng",
    "controller": "java5/split.pcap",
    "earlier segments": "java5/split.pcap",
}
"""Rules that no capture of the corpus needs against a mini-broker, with a capture for their faults."""


EXCUSED_ONCE = [
    (
        "java5/split.pcap",
        ("change", "SCALABLE_TOPIC_UPDATE", lambda body: set_to("hash_end", 9)(body.dag.segments[0])),
        ("SCALABLE_TOPIC_UPDATE", "dag.segments.0.hash_end"),
    ),
    (
        "java5/split.pcap",
        ("change", "SCALABLE_TOPIC_UPDATE", lambda body: set_to("broker_url", "nowhere")(body.dag.segment_brokers[0])),
        ("SCALABLE_TOPIC_UPDATE", "dag.segment_brokers.0.broker_url"),
    ),
    ("flex/04-reconnect.pcapng", ("twice", "MESSAGE", 5), ("MESSAGE", "extra")),
    ("flex/04-reconnect.pcapng", ("twice", "CLOSE_CONSUMER"), ("CLOSE_CONSUMER", "extra")),
    ("go/batch-index.pcap", ("drop", "MESSAGE", 4), ("MESSAGE", "missing")),
    ("go/key-based-batcher.pcap", ("twice", "MESSAGE", 17), ("MESSAGE", "extra")),
    ("java/table-view.pcap", ("twice", "MESSAGE", 3), ("MESSAGE", "extra")),
    ("java/table-view.pcap", ("drop", "MESSAGE", 11), ("MESSAGE", "missing")),
    ("python/11-failover.pcap", ("twice", "SUCCESS", 2), ("SUCCESS", "extra")),
    ("java/terminate.pcap", ("twice", "REACHED_END_OF_TOPIC", 2), ("REACHED_END_OF_TOPIC", "extra")),
    ("java/size-limits.pcap", ("twice", "SEND_ERROR"), ("SEND_ERROR", "extra")),
    (
        "go/transaction.pcap",
        ("change", "ACK_RESPONSE", set_to("error", pb.MetadataError), 2),
        ("ACK_RESPONSE", "error"),
    ),
    ("go/transaction.pcap", ("change", "SEND_ERROR", set_to("message", "no")), ("SEND_RECEIPT", "type")),
    (
        "java/pattern-watcher.pcap",
        ("change", "GET_TOPICS_OF_NAMESPACE_RESPONSE", set_to("topics_hash", "0")),
        ("GET_TOPICS_OF_NAMESPACE_RESPONSE", "topics_hash"),
    ),
    (
        "go/compressions.pcapng",
        ("change", "PRODUCER_SUCCESS", set_to("producer_name", "other")),
        ("PRODUCER_SUCCESS", "producer_name"),
    ),
    (
        "flex/03-nack-redelivery.pcap",
        ("change", "PRODUCER_SUCCESS", set_to("schema_version", b"1")),
        ("PRODUCER_SUCCESS", "schema_version"),
    ),
    (
        "python/35-veth.pcap",
        ("change", "LOOKUP_RESPONSE", set_to("brokerServiceUrl", "nowhere")),
        ("LOOKUP_RESPONSE", "brokerServiceUrl"),
    ),
    (
        "java/batching.pcap",
        ("change", "SEND_RECEIPT", set_to("highest_sequence_id", 0), 3),
        ("SEND_RECEIPT", "highest_sequence_id"),
    ),
]
"""Faults that earlier versions of the rules or of the id mapping explained."""


def unexplained(report):
    return {(one["command"], one["field"]) for one in report.differences if not one["rule"]}


def test_every_rule_has_a_fault_that_it_does_not_explain():
    rules, tested = {rule.name for rule in RULES}, {name for name, *_ in FAULTS}
    assert rules - tested == set(), "rules without a row in FAULTS of this file"
    assert tested - rules == set(), "rows in FAULTS without a rule in replay/player/comparison/rules.py"


WITHOUT_TRANSACTIONS = {"transactionCoordinatorEnabled": "false"}


@pytest.mark.parametrize(("rule", "capture", "fault", "found"), FAULTS)
def test_a_fault_is_not_explained(rule, capture, fault, found, capture_of, play, faults):
    intervention, *words = fault
    administered = rule != "no administrator"
    path = capture_of(capture or OTHERWISE[rule])
    settings = WITHOUT_TRANSACTIONS if rule == "no transactions" else None
    sound = play(path, settings, administered=administered)
    assert rule in sound.rules or capture is None
    assert found not in unexplained(sound)
    report = play(path, settings, fault=getattr(faults, intervention)(*words), administered=administered)
    assert found in unexplained(report)
    assert not report.good


@pytest.mark.parametrize(("capture", "fault", "found"), EXCUSED_ONCE)
def test_a_fault_is_not_explained_by_another_rule(capture, fault, found, capture_of, play, faults):
    intervention, *words = fault
    fault = getattr(faults, intervention)(*words)
    assert found in unexplained(play(capture_of(capture), WITHOUT_TRANSACTIONS, fault=fault))


def test_transactions_are_enabled_if_the_captured_broker_had_them(captures, play):
    for capture in ("java/txn-commit.pcap", "go/transaction.pcap"):
        report = play(captures / capture)
        assert unexplained(report) == set()
        assert "no transactions" not in report.rules


def test_acks_that_the_broker_loses_are_unexplained(captures, play, monkeypatch):
    """Acknowledged entries are redelivered after a reconnect."""
    monkeypatch.setattr(Subscription, "acknowledge_cumulative", lambda *_: None)
    report = play(captures / "java" / "cumulative-ack.pcap")
    assert ("MESSAGE", "extra") in unexplained(report)


def test_unrequested_redeliveries_are_unexplained(captures, play, monkeypatch):
    redeliver = PersistentDispatcherMultipleConsumers.redeliver
    monkeypatch.setattr(
        PersistentDispatcherMultipleConsumers,
        "redeliver",
        lambda self, consumer, _offsets, epoch: redeliver(self, consumer, None, epoch),
    )
    report = play(captures / "java" / "dead-letter.pcap")
    assert ("MESSAGE", "extra") in unexplained(report)


def test_receipts_in_the_order_of_the_ledger(small_captures, play):
    """The ids of two receipts are exchanged."""
    held = []

    def exchange(frame):
        if not frame.command.HasField("send_receipt") or len(held) == 2:
            return [frame.data]
        held.append(frame.command)
        if len(held) == 1:
            return []
        first, second = (one.send_receipt.message_id.entryId for one in held)
        held[0].send_receipt.message_id.entryId, held[1].send_receipt.message_id.entryId = second, first
        return [join_frame(one.SerializeToString()) for one in held]

    report = play(small_captures / "rust" / "batching.pcapng", fault=exchange)
    assert ("SEND_RECEIPT", "message_id") in unexplained(report)


def test_an_unload_that_is_not_repeated_is_explained(small_captures, play):
    report = play(small_captures / "flex" / "04-reconnect.pcapng", administered=False)
    assert report.rules["no administrator"] == 2


def test_another_version_is_explained(small_captures, play, faults):
    fault = faults.change("CONNECTED", set_to("server_version", "Pulsar Server3.0.0"))
    report = play(small_captures / "flex" / "01-produce-consume.pcap", fault=fault)
    assert report.good
    assert report.rules["version"] == 1


def test_deliveries_to_an_exclusive_consumer_are_ordered(small_captures, play, faults):
    """Two messages are exchanged: the first is delayed until the second has passed."""
    held = []

    def exchange(frame):
        if not frame.command.HasField("message") or len(held) > 1:
            return [frame.data]
        held.append(frame.data)
        return [] if len(held) == 1 else held[::-1]

    report = play(small_captures / "python" / "01-exclusive-unbatched.pcapng", fault=exchange)
    assert unexplained(report) == {("MESSAGE", "order")}


def test_an_active_segment_is_not_explained_as_an_earlier_one():
    """Its name was not captured: the live broker created it during the replay."""
    explained = [
        earlier_segments(Difference(f"dag.segments.{LIVE_ONLY}", None, pb.SegmentInfoProto(state=state)), None, None)
        for state in (pb.SEALED, pb.ACTIVE)
    ]
    assert explained == [True, False]


def test_layouts_that_lack_the_controller_are_unexplained(small_captures, play):
    """The live broker sends the first layout of session 1, but no layout with a controller."""

    def without_controller(frame):
        update = frame.command.scalableTopicUpdate
        return [] if update.session_id == 1 and update.dag.HasField("controller_broker_url") else [frame.data]

    report = play(small_captures / "java5" / "split.pcap", fault=without_controller)
    missing = [one["rule"] for one in report.differences if one["field"] == "missing"]
    assert missing[:2] == ["", ""]


@pytest.mark.parametrize(
    ("closed", "close_ms", "effect_ms", "explained"),
    [
        (1, 400, 0, True),
        (1, 60_000, 0, False),
        (1, 60_000, 59_900, True),
        (2, 400, 0, False),
        (None, 400, 0, True),
        (None, 60_000, 0, False),
    ],
)
def test_only_a_close_of_the_same_consumer_at_the_same_time_is_crossed(closed, close_ms, effect_ms, explained):
    """The client closes a consumer, or the connection ends (None), after a command and an effect of an operation."""
    close = push_frame(pb.CommandCloseConsumer(consumer_id=1, request_id=0))
    bodies = [
        (True, 0, push_frame(pb.CommandFlow(consumer_id=1, messagePermits=1))),
        (False, effect_ms, push_frame(pb.CommandReachedEndOfTopic(consumer_id=1))),
    ]
    steps = [Step(0, 0, time_ms, from_client, Frame.of(data)) for from_client, time_ms, data in bodies]
    end = Frame.of(push_frame(pb.CommandCloseConsumer(consumer_id=closed, request_id=0))) if closed else None
    script = Script([*steps, Step(0, 0, close_ms, closed is not None, end)])
    evidence = SimpleNamespace(script=script, is_repeated=lambda _: False)
    outcome = Outcome(Pair(None, 0, Frame.of(close), 0, 0, None), [], {})
    assert crossed(Difference(EXTRA, None, "CLOSE_CONSUMER"), outcome, evidence) is explained


def test_a_layout_without_a_body_is_tolerated():
    command = pb.BaseCommand(type=pb.BaseCommand.SCALABLE_TOPIC_UPDATE)
    step = Step(0, 0, 0, False, Frame.of(join_frame(command.SerializeToString())))
    assert ScalableUpdates(Script([step]), ResponseMatcher([step])).segments == set()


def test_every_rule_has_a_reason():
    for rule in RULES:
        assert rule.kind in ("timing", "policy", "capture")
        assert rule.text.endswith((".", ":")), rule.name
    assert len({rule.name for rule in RULES}) == len(RULES) <= 20
