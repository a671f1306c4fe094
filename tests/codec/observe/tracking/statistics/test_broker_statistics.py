"""`stats consumers` compared with the broker's own statistics in every capture, at the time of their request."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pcli.codec.capture import CapturedFrame, Note, ReadOptions, read_capture
from pcli.codec.capture.frames import StreamEnd
from pcli.codec.observe import Observer
from pcli.codec.observe.tracking.statistics.broker_statistics import figures
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.proto import pb

TOPIC = "persistent://public/default/t"

TOPIC_FIGURES = ("msgInCounter",)
SUBSCRIPTION_FIGURES = (
    "msgBacklog", "unackedMessages", "msgOutCounter", "type", "blockedSubscriptionOnUnackedMsgs",
)  # fmt: skip
CONSUMER_FIGURES = (
    "availablePermits", "unackedMessages", "msgOutCounter", "bytesOutCounter", "blockedConsumerOnUnackedMsgs",
)  # fmt: skip

UNSEEN = {
    "java/cut-packets": "SUBSCRIBE and PRODUCER are cut",
    "java/late-capture": "one of its topics was opened before the capture",
    "python/21-tls": "encrypted",
    "python/30-snaplen-96": "SUBSCRIBE and PRODUCER are cut",
    "python/32-midstream": "opened before the capture",
}
"""Captures that lack the names of some topics."""

SHORT = ("python/36-ends-mid-frame", "python/36b-ends-mid-record")
"""Captures that end before the statistics were taken."""

EARLIER = "persistent://public/40-broker-entry-metadata/flow"
"""A topic that was no longer in use when its statistics were requested, before the capture continued with another."""

QUIET_NS = 50_000_000
"""If the statistics arrived sooner after the last frame, the broker may have counted before that frame."""

KNOWN = 2600
"""Number of known, correct values in all captures together. A lower number means that more values became None."""

UNKNOWN = 30
"""Number of values that are None with a reason, mostly of the capture with lost packets."""


def names(corpus: Any) -> list[str]:
    """Yield all captures, including those in several files."""
    found = corpus.folder.glob("*/*.truth.json")
    return sorted(f"{path.parent.name}/{path.name.removesuffix('.truth.json')}" for path in found)


def tracked(corpus: Any, name: str, until_ns: int) -> tuple[Tracker, bool]:
    """Return the tracker's statistics at a time, and whether the capture continues after it."""
    observer, tracker = Observer(), Tracker()
    folder = corpus.folder / name
    files = [(path.name, path.read_bytes()) for path in sorted(folder.iterdir())] if folder.is_dir() else []
    files = files or [(name, corpus.data(name))]
    for item in read_capture([(name, io.BytesIO(data)) for name, data in files], ReadOptions(ends=True)):
        if getattr(item, "time_ns", 0) > until_ns:
            return tracker, True
        if isinstance(item, CapturedFrame):
            tracker.see(observer.see(item))
        elif isinstance(item, StreamEnd):
            tracker.ended(item)
        elif isinstance(item, Note):
            tracker.note(item)
    return tracker, False


def of_the_broker(stats: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the topics in a response of the admin API, with partitions separately."""
    for name, found in stats.items():
        if "subscriptions" in found:
            yield from found.get("partitions", {}).items() or [(name, found)]


class Comparison:
    """Compare the values of both."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self.wrong: list[str] = []

    def one(self, place: str, names: tuple[str, ...], mine: dict[str, Any], true: dict[str, Any]) -> None:
        for name in names:
            if mine[name] is None:
                assert mine["unknown"][name], (place, name)
                self.count["unknown"] += 1
            elif mine[name] == true[name]:
                self.count["equal"] += 1
            else:
                self.wrong.append(f"{place} {name}: {mine[name]}, the broker says {true[name]}")

    def topic(self, place: str, mine: dict[str, Any], true: dict[str, Any]) -> None:
        self.one(place, TOPIC_FIGURES, mine, true)
        assert mine["subscriptions"].keys() == true["subscriptions"].keys(), place
        for name, subscription in true["subscriptions"].items():
            own = mine["subscriptions"][name]
            self.one(f"{place} {name}", SUBSCRIPTION_FIGURES, own, subscription)
            for consumer, other in zip(by_name(own), by_name(subscription), strict=True):
                assert consumer["consumerName"] == other["consumerName"], place
                self.one(f"{place} {name} {other['consumerName']}", CONSUMER_FIGURES, consumer, other)


def by_name(subscription: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(subscription["consumers"], key=lambda one: str(one["consumerName"]))


def test_every_value_equals_the_brokers_or_has_a_reason(corpus: Any) -> None:
    whole = Comparison()
    for name in names(corpus):
        truth = corpus.truth(name)
        at = int(truth["capture"]["stats_at"] * 1e9)
        tracker, goes_on = tracked(corpus, name, at)
        mine = figures(tracker.subscriptions, at)
        if name in SHORT:
            assert not goes_on
            continue
        for topic, true in of_the_broker(truth["stats"]):
            assert topic in mine or name in UNSEEN, topic
            if topic in mine and topic != EARLIER:
                whole.topic(f"{name} {topic}", mine[topic], true)
    assert not whole.wrong
    assert whole.count["equal"] >= KNOWN
    assert whole.count["unknown"] <= UNKNOWN


def test_values_at_other_times_equal_the_brokers_or_have_a_reason(corpus: Any) -> None:
    whole = Comparison()
    for name in names(corpus):
        for snapshot in corpus.truth(name).get("snapshots", ()):
            if name in UNSEEN or name in SHORT:
                continue
            at = int(snapshot["t"] * 1e9)
            tracker, _ = tracked(corpus, name, at)
            if at - tracker.capture.last_ns < QUIET_NS:
                continue
            found = figures(tracker.subscriptions, at)
            for topic, true in of_the_broker({snapshot["topic"]: snapshot["stats"]}):
                whole.topic(f"{name} {snapshot['when']}", found[topic], true)
    assert not whole.wrong
    assert whole.count["equal"] >= 280


def test_an_unload_counts_once_for_all_closes(make_scene: Any) -> None:
    """Each subscription has several consumers, which the broker closes at the same moment in any order."""
    play = make_scene()
    client = play.actor()
    client.producer()
    for number, kind in enumerate(("Failover", "Failover", "Key_Shared", "Key_Shared")):
        client.subscribe(consumer_id=number, subscription=kind, kind=kind)
        client.flow(10, consumer_id=number)
    client.publish(0)
    play.unload()
    client.producer()
    client.publish(1)
    client.publish(2)
    [found] = figures(play.tracker.subscriptions, play.now * 1_000_000).values()
    assert found["msgInCounter"] == 2
    [topic] = [record for group, record in play.tracker.records() if group == "topic"]
    assert topic.unloads.count == 1
    types = {name: one["type"] for name, one in found["subscriptions"].items()}
    assert types == dict.fromkeys(types, "None")  # no consumer has returned
    client.subscribe(consumer_id=8, subscription="Failover", kind="Failover")
    [found] = figures(play.tracker.subscriptions, play.now * 1_000_000).values()
    assert found["subscriptions"]["Failover"]["type"] == "Failover"


def test_the_restart_of_a_killed_broker_restarts_the_counters(make_scene: Any) -> None:
    play = make_scene()
    clients = play.actor(), play.actor()
    clients[0].producer()
    clients[1].subscribe()
    clients[1].flow(10)
    clients[0].publish(0)
    clients[0].publish(1)
    for client in clients:
        play.end(client, from_client=False, reset=True)
    play.unload()
    again = play.actor()
    again.subscribe()
    again.flow(10)  # both messages are delivered again
    [found] = figures(play.tracker.subscriptions, play.now * 1_000_000).values()
    assert found["msgInCounter"] is None
    assert "restarted" in found["unknown"]["msgInCounter"]
    again.producer()
    again.publish(2)
    [found] = figures(play.tracker.subscriptions, play.now * 1_000_000).values()
    assert found["msgInCounter"] == 1
    assert found["subscriptions"]["s"]["msgOutCounter"] == 3


def test_the_same_ledger_shows_that_the_broker_did_not_restart(make_scene: Any) -> None:
    play = make_scene()
    client = play.actor()
    client.producer()
    client.publish(0)
    play.end(client, from_client=False)
    client = play.actor()
    client.producer()
    client.publish(1)
    [found] = figures(play.tracker.subscriptions, play.now * 1_000_000).values()
    assert found["msgInCounter"] == 2


def test_an_unidentified_consumer_makes_a_subscription_unknown(producing: Any) -> None:
    """Connections that began before the capture: their ledgers identify the topic but not the subscription."""
    producing.opens()
    for name, kind in (("shared", pb.CommandSubscribe.Shared), ("alone", pb.CommandSubscribe.Exclusive)):
        body = pb.CommandSubscribe(topic=TOPIC, subscription=name, subType=kind, consumer_id=kind, request_id=9)
        producing.client(body)
        producing.broker(pb.CommandSuccess(request_id=9))
    producing.sends(0)
    producing.receipt(0)
    message = pb.CommandMessage(consumer_id=5)
    message.message_id.ledgerId, message.message_id.entryId = 7, 0
    producing.broker(message, stream=1)
    found = figures(producing.tracker.subscriptions, producing.conversation.now)[TOPIC]["subscriptions"]
    for figure in ("msgOutCounter", "unackedMessages", "msgBacklog"):
        assert found["shared"][figure] is None
        assert "SUBSCRIBE" in found["shared"]["unknown"][figure]
    assert found["alone"]["msgOutCounter"] == 0


@pytest.mark.parametrize("delivered", [True, False])
def test_a_consumer_that_began_before_the_capture_subscribes_again(producing: Any, delivered: bool) -> None:
    """For example after a seek."""
    producing.opens()
    producing.sends(0)
    producing.receipt(0)
    message = pb.CommandMessage(consumer_id=5)
    message.message_id.ledgerId, message.message_id.entryId = 7, 0
    if delivered:
        producing.broker(message, stream=1)
    else:
        producing.client(pb.CommandSeek(consumer_id=5, request_id=1), stream=1)
    kind = pb.CommandSubscribe.Exclusive
    producing.client(
        pb.CommandSubscribe(topic=TOPIC, subscription="alone", subType=kind, consumer_id=5, request_id=9), stream=1
    )
    producing.broker(pb.CommandSuccess(request_id=9), stream=1)
    found = figures(producing.tracker.subscriptions, producing.conversation.now)[TOPIC]["subscriptions"]
    assert found["alone"]["msgOutCounter"] is None
    assert found["alone"]["unknown"]["msgOutCounter"]


def test_one_direction_of_a_producer_makes_the_counters_unknown(producing: Any) -> None:
    producing.opens()
    producing.sends(0)
    producing.record().doubts.add("one_way")
    [found] = figures(producing.tracker.subscriptions, producing.conversation.now).values()
    assert found["msgInCounter"] is None
    assert "only one direction" in found["unknown"]["msgInCounter"]
