"""Random applications in a scene: after every turn of the broker the tracker's state equals the broker's.

A turn is one frame of a client and all resulting frames of the broker. During a turn the broker's state is ahead of the
frames. Decisions of the broker that no frame shows are excluded from the comparison, with the reason in a comment.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.wire.bits import words_of

TOPIC = "persistent://public/default/t"
NON_PERSISTENT = "non-persistent://public/default/t"
CLASSIC = {
    "subscriptionSharedUseClassicPersistentImplementation": True,
    "subscriptionKeySharedUseClassicPersistentImplementation": True,
}
LIMITS = {"maxUnackedMessagesPerConsumer": 6, "maxUnackedMessagesPerSubscription": 10}
STICKY = [(0, 30_000), (30_001, 65_535)]


def key_shared(mode: int = pb.AUTO_SPLIT, *, out_of_order: bool = False) -> dict[str, Any]:
    return {"keySharedMeta": pb.KeySharedMeta(keySharedMode=mode, allowOutOfOrderDelivery=out_of_order)}


KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "Exclusive": ("Exclusive", {}, {}),
    "Failover": ("Failover", {"activeConsumerFailoverDelayTimeMillis": 0}, {}),
    "Failover, late": ("Failover", {"activeConsumerFailoverDelayTimeMillis": 500}, {}),
    "Shared": ("Shared", {}, {}),
    "Shared, limited": ("Shared", LIMITS, {}),
    "Shared, classic": ("Shared", CLASSIC, {}),
    "Shared, deduplicated": ("Shared", {"brokerDeduplicationEnabled": True}, {}),
    "Key_Shared": ("Key_Shared", {}, key_shared()),
    "Key_Shared, limited": ("Key_Shared", LIMITS, key_shared()),
    "Key_Shared, split": ("Key_Shared", {"subscriptionKeySharedUseConsistentHashing": False}, key_shared()),
    "Key_Shared, classic": (
        "Key_Shared",
        {"subscriptionKeySharedUseClassicPersistentImplementation": True},
        key_shared(),
    ),
    "Key_Shared, out of order": ("Key_Shared", {}, key_shared(out_of_order=True)),
    "Key_Shared, sticky": ("Key_Shared", {}, key_shared(pb.STICKY)),
    "Exclusive, non-persistent": ("Exclusive", {}, {}),
    "Shared, non-persistent": ("Shared", {}, {}),
}
"""Type, broker settings, fields of SUBSCRIBE."""

ROLLING = {"managedLedgerMaxEntriesPerLedger": 4, "managedLedgerMinLedgerRolloverTimeMinutes": 0}

VERBS = (
    ["publish"] * 5 + ["publish_batch"] * 4 + ["publish_chunks", "publish_late", "publish_again"]
    + ["flow"] * 5 + ["ack"] * 5 + ["ack_part"] * 3 + ["ack_several"] * 2 + ["ack_up_to"] * 2 + ["ack_in_transaction"]
    + ["nack", "nack", "redeliver_all", "subscribe", "subscribe", "close", "cut", "seek", "unsubscribe", "unload"]
    + ["wait"]
)  # fmt: skip
FAULTS = [
    "drop after=1 times=2 on pulsar.type == 'FLOW'",
    "duplicate on pulsar.type == 'ACK'",
    "drop after=1 times=3 on pulsar.type == 'MESSAGE'",
    "delay after=2 times=4 ms=300 on pulsar.type == 'ACK' || pulsar.type == 'FLOW'",
    "corrupt times=2 on pulsar.type == 'SEND'",
    "duplicate after=3 times=2 on pulsar.type == 'SEND'",
    "drop times=1 on pulsar.type == 'SUCCESS'",
    "error times=2 on pulsar.type == 'SUBSCRIBE'",
    "close after=4 times=1 on pulsar.type == 'MESSAGE'",
    "close after=2 times=1 on pulsar.type == 'SEND'",
]
STEPS = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 3), st.integers(0, 5)), min_size=5, max_size=40)
MANY = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Application:
    """Two clients with two consumers each, and a publisher. ``who`` selects a consumer, ``what`` a variant."""

    def __init__(self, scene: Any, topic: str, kind: str, fields: dict[str, Any]) -> None:
        self.scene = scene
        self.topic = topic
        self.kind = kind
        self.fields = fields
        self.sequence = 0
        self.source = self.publisher()
        self.clients = [scene.actor(), scene.actor()]
        self.subscribe(0, 0)
        self.subscribe(2, 0)
        self.flow(0, 2)

    def publisher(self) -> Any:
        actor = self.scene.actor("10.0.0.9")
        actor.producer(self.topic)
        return actor

    def client(self, who: int) -> Any:
        """Return the client with that consumer, reconnected if its connection has ended."""
        if self.clients[who // 2].closed:
            self.clients[who // 2] = self.scene.actor()
        return self.clients[who // 2]

    def got(self, who: int) -> list[Any]:
        """Return the ids of the last messages to that consumer on its current connection."""
        return [one.message_id for one in self.client(who).messages if one.consumer_id == who][-6:]

    def one(self, who: int, what: int) -> list[Any]:
        """Return one of them, or None if there is none."""
        got = self.got(who)
        return got[-1 - what % len(got) :][:1] if got else []

    # -- actions

    def publish(self, who: int, what: int, batch: int = 0, **metadata: Any) -> None:
        if self.source.closed:
            self.source = self.publisher()
        if self.source.connection.producers == {}:  # the topic was unloaded
            self.source.producer(self.topic)
        self.source.publish(self.sequence, batch, partition_key="abcd"[what % 4], **metadata)
        self.sequence += max(1, batch)

    def publish_batch(self, who: int, what: int) -> None:
        self.publish(who, what, batch=2 + what)

    def publish_chunks(self, who: int, what: int) -> None:
        first = self.sequence
        for number in range(2):
            self.sequence = first
            self.publish(who, what, uuid=f"u{first}", chunk_id=number, num_chunks_from_msg=2, total_chunk_msg_size=9)

    def publish_late(self, who: int, what: int) -> None:
        """Publish a delayed message."""
        self.publish(who, what, deliver_at_time=self.scene.now + 100 * what)

    def publish_again(self, who: int, what: int) -> None:
        """Publish a message that may be a resend, and the next message after it."""
        self.sequence = max(0, self.sequence - 1)
        self.publish(who, what)

    def subscribe(self, who: int, what: int) -> None:
        fields = {"initialPosition": pb.CommandSubscribe.Earliest} | self.fields
        meta = fields.get("keySharedMeta")
        if meta is not None and meta.keySharedMode == pb.STICKY:
            start, end = STICKY[who % 2]
            meta = pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=start, end=end)])
            fields["keySharedMeta"] = meta
        self.client(who).subscribe(self.topic, consumer_id=who, kind=self.kind, **fields)

    def flow(self, who: int, what: int) -> None:
        self.client(who).flow((1, 2, 3, 5, 10, 1000)[what], consumer_id=who)

    def ack(self, who: int, what: int) -> None:
        if places := self.one(who, what):
            self.client(who).ack(*places, consumer_id=who)

    def ack_several(self, who: int, what: int) -> None:
        client = self.client(who)
        client.ack(*self.got(who)[:2], consumer_id=who, request_id=client.session.next_request_id())

    def ack_part(self, who: int, what: int) -> None:
        """Acknowledge part of a batch, selected by ``what``."""
        client = self.client(who)
        for message in [one for one in client.messages if one.consumer_id == who][-1 - what :][:1]:
            batch = self.messages_of(message.message_id)
            if batch > 1:
                left = (1 << batch) - 1 & ~(1 << what % batch)
                place = pb.MessageIdData(ack_set=words_of(left), batch_size=batch)
                place.MergeFrom(message.message_id)
                client.ack(place, consumer_id=who)

    def messages_of(self, place: Any) -> int:
        """Return the number of messages in the entry from the broker's state."""
        topic = self.scene.broker.topics.get(self.topic)
        ledger = None if topic is None else topic.ledger
        offset = None if ledger is None else ledger.offset_of(place.ledgerId, place.entryId)
        entry = None if ledger is None or offset is None else ledger.entry(offset)
        if entry is None:
            return 1
        entry.parse()
        return int(entry.messages)

    def ack_up_to(self, who: int, what: int) -> None:
        """Send a cumulative ACK, which the broker ignores on Shared and Key_Shared."""
        if places := self.one(who, what):
            self.client(who).ack(*places, consumer_id=who, kind="Cumulative")

    def ack_in_transaction(self, who: int, what: int) -> None:
        """Send an ACK in a transaction. The mini-broker refuses it, and nothing is acknowledged."""
        if places := self.one(who, what):
            client = self.client(who)
            ids = {"txnid_most_bits": 0, "txnid_least_bits": 7, "request_id": client.session.next_request_id()}
            client.ack(*places, consumer_id=who, **ids)

    def nack(self, who: int, what: int) -> None:
        if places := self.one(who, what):
            self.client(who).redeliver(*places, consumer_id=who)

    def redeliver_all(self, who: int, what: int) -> None:
        self.client(who).redeliver(consumer_id=who)

    def close(self, who: int, what: int) -> None:
        self.client(who)(pb.CommandCloseConsumer(consumer_id=who))

    def cut(self, who: int, what: int) -> None:
        self.client(who).cut(reset=what % 2 == 1)

    def seek(self, who: int, what: int) -> None:
        places = self.one(who, what) or [pb.MessageIdData(ledgerId=(1 << 64) - 1, entryId=(1 << 64) - 1)]
        self.client(who)(pb.CommandSeek(consumer_id=who, message_id=places[0]))

    def unsubscribe(self, who: int, what: int) -> None:
        self.client(who)(pb.CommandUnsubscribe(consumer_id=who, force=what % 2 == 1))

    def unload(self, who: int, what: int) -> None:
        """Unload a topic with producers and consumers; closes of only one kind may have another cause."""
        topic = self.scene.broker.topics.get(self.topic)
        if topic is None or not (topic.producers and topic.consumers):
            return
        self.scene.unload(self.topic)

    def wait(self, who: int, what: int) -> None:
        self.scene.wait((1, 100, 600, 1_000, 5_000, 31_000)[what])


# -- comparison --------------------------------------------------------------------------------------------------------


def of_the_broker(topic: Any) -> dict[str, Any]:
    """Return the broker's state of the subscription."""
    subscription = topic.subscriptions.get("s")
    return (
        {}
        if subscription is None
        else {"backlog": subscription.backlog}
        | {
            "consumers": {one.name: figures_of(one) for one in subscription.consumers},
            "acked": acked(subscription),
            "parts": parts(subscription),
        }
    )


def figures_of(consumer: Any) -> dict[str, Any]:
    """Permits parked while the consumer is blocked count, because no frame shows when it unblocks."""
    place = consumer.subscription.topic.ledger.position if consumer.pending else None
    held = {place(offset): left for offset, left in consumer.pending.items() if left}
    return {"permits": consumer.permits + consumer.permits_while_blocked, "unacked": consumer.unacked, "held": held}


def acked(subscription: Any) -> set[tuple[int, int]]:
    cursor, ledger = subscription.cursor, subscription.topic.ledger
    if cursor is None:
        return set()
    return {ledger.position(offset) for offset in range(ledger.first, ledger.next) if cursor.is_deleted(offset)}


def parts(subscription: Any) -> dict[tuple[int, int], int]:
    """Return the unacknowledged messages of partly acknowledged batches."""
    cursor = subscription.cursor
    return (
        {}
        if cursor is None
        else {subscription.topic.ledger.position(one): bits for one, bits in cursor.ack_sets.items()}
    )


def of_the_tracker(tracker: Any, topic: str, entries: list[tuple[int, int]], now_ns: int) -> dict[str, Any]:
    """Return the tracker's state of the same entries."""
    book = tracker.subscriptions.topics_at(now_ns)[topic].subscriptions.get("s")
    if book is None or not (book.attached or book.topic.record.persistent):
        # A non-persistent topic drops a subscription with its last consumer, and no frame shows it.
        return {}
    held: dict[str, dict[tuple[int, int], int]] = {}
    for place, delivery in book.pending_acks.items():
        if delivery.held and book.individual:  # the broker does not track the others
            held.setdefault(delivery.consumer.name, {})[place] = delivery.held
    figures = {}
    for member in book.attached:
        ledger, record = member.record.permits, member.record
        permits = ledger.balance
        figures[record.name] = {"permits": permits, "unacked": record.unacked, "held": held.get(record.name, {})}
    known = {place for place in entries if book.is_acked(place)}
    return {"backlog": book.record.backlog, "consumers": figures, "acked": known, "parts": dict(book.ack_sets)}


def knows_backlog(tracker: Any, topic: str, entries: list[tuple[int, int]], told: dict[str, Any]) -> bool:
    """Whether frames show the backlog.

    Before a delivery no frame shows the cursor of a subscription that may already exist. No frame shows that unneeded
    ledgers were trimmed.
    """
    book = tracker.subscriptions.lifecycles.topics[topic].subscriptions.get("s")
    if book is None or not told:
        return True
    if told["backlog"] is None:
        assert book.mark_delete is None
        return False
    return not (entries and entries[0] > (0, 0) and book.mark_delete < entries[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@MANY
@given(steps=STEPS, rolling=st.booleans())
def test_the_trackers_state_equals_the_brokers(
    make_scene: Any, kind: str, steps: list[tuple[str, int, int]], rolling: bool
) -> None:
    compare_books(make_scene(**KINDS[kind][1], **(ROLLING if rolling else {})), kind, steps)


def compare_books(play: Any, kind: str, steps: list[tuple[str, int, int]]) -> None:
    """Execute these steps. After every turn both states must be equal."""
    type_, _, fields = KINDS[kind]
    topic = NON_PERSISTENT if "non-persistent" in kind else TOPIC

    def compare() -> None:
        mine = play.broker.topics.get(topic)
        if mine is not None:
            ledger = mine.ledger
            entries = [] if ledger is None else [ledger.position(one) for one in range(ledger.first, ledger.next)]
            told, true = of_the_tracker(play.tracker, topic, entries, play.now * 1_000_000), of_the_broker(mine)
            if true and not knows_backlog(play.tracker, topic, entries, told):
                told["backlog"] = true["backlog"]
            assert told == true

    application = Application(play, topic, type_, fields)
    play.after = compare
    for verb, who, what in steps:
        getattr(application, verb)(who, what)


REFUSED = "corrupt times=2 on pulsar.type == 'SEND'"


@pytest.mark.parametrize(
    ("kind", "fault", "steps"),
    [
        # A chunk whose first chunk was refused is delivered to no consumer; later entries are delivered.
        ("Shared", REFUSED, [("publish", 0, 1), ("publish_chunks", 2, 1), ("publish_batch", 2, 3)]),
        # Missing deliveries show neither the entries stored meanwhile nor the active consumer.
        ("Failover, late", "", [("seek", 0, 4), ("wait", 1, 4), ("publish", 1, 4)]),
        ("Failover, late", "", [("seek", 0, 1), ("publish_batch", 0, 5), ("wait", 2, 4), ("cut", 1, 0)]),
        # A refused consumer requests a SEEK.
        ("Exclusive", "", [("publish_batch", 3, 0), ("seek", 2, 5), ("ack_part", 0, 2), ("unload", 0, 2)]),
        # A new subscription starts at the first entry, even if that is for unassigned slots.
        (
            "Key_Shared, sticky",
            "",
            [
                ("publish_batch", 0, 4),
                ("unsubscribe", 0, 1),
                ("publish_batch", 0, 5),
                ("subscribe", 3, 5),
                ("flow", 3, 3),
            ],
        ),
    ],
)
def test_regressions(make_scene: Any, kind: str, fault: str, steps: list[tuple[str, int, int]]) -> None:
    play = make_scene(tap="broker", **KINDS[kind][1])
    if fault:
        play.fault(fault)
    compare_books(play, kind, steps)


def book_of(play: Any) -> Any:
    """Return the subscription as a request for statistics shows it."""
    return play.tracker.subscriptions.topics_at(play.now * 1_000_000)[TOPIC].subscriptions["s"]


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("Key_Shared, sticky", [("publish", 0, 0), ("publish", 1, 2), ("subscribe", 2, 4)]),
        ("Shared", [("publish_chunks", 0, 5), ("nack", 0, 2)]),
        (
            "Shared",
            [("publish", 3, 5), ("flow", 0, 2), ("ack", 2, 5), ("flow", 2, 0), ("publish_chunks", 0, 3)],
        ),
    ],
)
def test_a_consumer_that_cannot_receive_the_entry_is_not_blocked(
    make_scene: Any, kind: str, steps: list[tuple[str, int, int]]
) -> None:
    """Slots of other consumers, and chunks whose first chunk another consumer has, are no unacked limit."""
    type_, conditions, fields = KINDS[kind]
    play = make_scene(**conditions)
    application = Application(play, TOPIC, type_, fields)
    for verb, who, what in steps:
        getattr(application, verb)(who, what)
        play.wait(6_000)
        for member in book_of(play).attached:
            assert not member.record.blocked.count


def test_a_passed_over_consumer_unblocks_at_half_of_its_limit(make_scene: Any) -> None:
    """Another consumer receives all entries, therefore no MESSAGE shows it."""
    play = make_scene(maxUnackedMessagesPerConsumer=6)
    source, sink = play.actor(), play.actor()
    source.producer()
    for number in (1, 2):
        sink.subscribe(consumer_id=number, kind="Shared")
        sink.flow(1000, consumer_id=number)
    for number in range(100):
        source.publish(number)
        last = sink.messages[-1]
        if last.consumer_id == 2:
            sink.ack(last.message_id, consumer_id=2)
    record = book_of(play).record.consumers["c1"]
    mine = [one.message_id for one in sink.messages if one.consumer_id == 1]
    assert (record.unacked, len(mine)) == (6, 6)
    for number, blocked in ((1, True), (2, True), (3, False), (3, False)):
        sink.ack(*mine[:number])
        assert (book_of(play).record.consumers["c1"].blocked.since_ns >= 0) is blocked


@pytest.mark.parametrize("others", [1, 3])
def test_a_consumer_blocked_without_permits_is_found_by_its_later_flows(make_scene: Any, others: int) -> None:
    """The limit is a multiple of the receiver queue: all permits are used when the block begins."""
    play = make_scene(maxUnackedMessagesPerConsumer=6)
    source, sink = play.actor(), play.actor()
    source.producer()
    for number in range(1, 2 + others):
        sink.subscribe(consumer_id=number, kind="Shared")
        sink.flow(3 if number == 1 else 20, consumer_id=number)

    def publish(count: int) -> None:
        for _ in range(count):
            source.publish(0)
            last = sink.messages[-1]
            if last.consumer_id != 1:
                sink.ack(last.message_id, consumer_id=last.consumer_id)
                sink.flow(1, consumer_id=last.consumer_id)

    publish(20)
    sink.flow(3, consumer_id=1)
    publish(20)
    subscription = play.broker.topics[TOPIC].subscriptions["s"]
    [held] = [one for one in subscription.consumers if one.id == 1]
    assert (held.blocked, held.permits) == (True, 0)
    publish(100)
    assert book_of(play).record.consumers["c1"].blocked.since_ns < 0, "without permits, the limit is not visible"
    sink.flow(3, consumer_id=1)
    publish(20 * others + 20 * (others + 1))
    record = book_of(play).record.consumers["c1"]
    assert (record.blocked.since_ns >= 0, record.blocked_at) == (True, 6)
    assert (held.permits, held.permits_while_blocked) == (0, 3)


def test_a_consumer_is_blocked_at_its_limit(make_scene: Any) -> None:
    """No frame reports it: deliveries stop despite permits and messages, and resume when half is acknowledged."""
    play = make_scene(maxUnackedMessagesPerConsumer=6)
    source, sink = play.actor(), play.actor()
    source.producer()
    sink.subscribe(kind="Shared", initialPosition=pb.CommandSubscribe.Earliest)
    sink.flow(100)
    for number in range(10):
        source.publish(number)
    [held] = play.broker.topics[TOPIC].subscriptions["s"].consumers

    record = play.tracker.subscriptions.lifecycles.topics[TOPIC].subscriptions["s"].record.consumers["c1"]

    def blocked() -> bool:
        return bool(book_of(play).record.consumers["c1"].blocked.since_ns >= 0)

    assert held.blocked
    play.wait(10_000)
    assert blocked()
    assert (record.unacked, book_of(play).record.consumers["c1"].blocked_at) == (6, 6)
    sink.flow(5)
    assert (held.permits, held.permits_while_blocked, record.permits.balance) == (94, 5, 99)
    sink.ack(*[one.message_id for one in sink.messages[:2]])
    assert blocked()
    assert held.blocked
    sink.ack(sink.messages[2].message_id)
    assert not blocked()
    assert (held.unacked, held.permits, record.permits.balance) == (6, 96, 96)
