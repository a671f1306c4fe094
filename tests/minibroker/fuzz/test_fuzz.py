"""Mutated conversations of several clients at once, with invariants that are checked after every turn of the broker.

Real conversations are the client's side of captures. Generated conversations mostly use ids that exist, so they reach
more states. Steps are dropped, repeated, exchanged and moved to other connections. Bytes and fields of frames are
changed. Time passes between steps, clients stop reading or disconnect, and topics are unloaded and deleted. An
unrelated client must be able to work normally all the time.

The name of each test contains its seed. `make fuzz` runs 10^5 conversations.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.codec.session import read_command
from pcli.codec.wire.build import join_frame, push_entry, push_frame
from pcli.codec.wire.commands import COMMANDS
from pcli.codec.wire.constants import FRAME_OVERHEAD
from pcli.codec.wire.reader import FrameReader
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.broker import Broker
from pcli.minibroker.dispatch.multiple_consumers import PersistentDispatcherMultipleConsumers
from pcli.minibroker.dispatch.single_active import PersistentDispatcherSingleActiveConsumer
from pcli.minibroker.dispatch.sticky_key import PersistentStickyKeyDispatcherMultipleConsumers
from pcli.minibroker.settings import Settings

NAMES = [
    "python/10-shared-redelivery.pcap", "python/22-batch-index-acks.pcap", "python/23-dedup.pcap", "go/nack.pcap",
    "java/key-shared-sticky.pcap", "java/pattern-watcher.pcap", "java/schemas.pcap", "java/txn-commit.pcap",
    "java/refusals.pcap", "rust/cumulative-ack.pcap", "flex/04-reconnect.pcapng", "python/25-no-flow.pcapng",
]  # fmt: skip
GROUPS = 8
"""Number of tests with generated conversations."""
TRIALS = int(os.environ.get("PCLI_FUZZ", "1000"))
"""Total number of conversations, of which a third come from captures."""

START = 1_700_000_000_000
MAX_MESSAGE = 8192
PERSISTENT = "persistent://public/default/"
# -- one connection, as a client observes it -------------------------------------------------------------------------


class Peer:
    """A client that only records its requests and the received commands, identified by their ids."""

    def __init__(self, broker: Broker, number: int, now: int, body_of: Any) -> None:
        self.connection = broker.connect(("10.0.0.1", 40000 + number), now)
        self.said: Counter[Any] = Counter()
        self.heard: Counter[Any] = Counter()
        self.places: list[Any] = []
        """Ids of the received messages."""
        self.released: set[tuple[int, int]] = set()
        """Ids after a greater id in the same ACK. If that id is after the end, only their pending acks are removed."""
        self.stalled = False
        self.closed = False
        self._body_of = body_of
        self._spoken = FrameReader(MAX_MESSAGE + FRAME_OVERHEAD)
        self._written = FrameReader(MAX_MESSAGE + FRAME_OVERHEAD + 1024)

    def say(self, data: bytes) -> None:
        """Record the requests in a write. Bytes that are not a command are ignored."""
        for frame in self._spoken.feed(data):
            found = self._body_of(frame.data)
            if found is not None:
                self.said.update(keys(found[0].type, found[1]))
                if found[0].type == pb.BaseCommand.ACK:
                    ids = [(one.ledgerId, one.entryId) for one in found[1].message_id]
                    self.released.update(one for at, one in enumerate(ids) if one < max(ids[: at + 1]))

    def hear(self, data: bytes) -> bool:
        """Check that each command is complete, allowed and requested; return whether one of them is a PING."""
        asked = False
        assert data == b"" or not self.closed, "something was said after the end"
        for frame in self._written.feed(data):
            command, body = read_command(frame.data[8 : frame.parts.command_end])
            row = COMMANDS[command.type]
            assert row.broker_may_send, row.name
            asked = asked or row.name == "PING"
            if row.name == "MESSAGE":
                self.places.append(body.message_id)
                assert self.said["consumer", body.consumer_id], "a message for nobody"
            elif row.name in ANSWERS:
                self.heard.update(keys(command.type, body))
        assert self._written.error is None
        for key, count in self.heard.items():
            # A waiting producer receives two responses.
            assert count <= self.said[key] * (2 if key[0] == "request" else 1), f"{key}: {count} answers too many"
        return asked


ANSWERS = frozenset(name for row in COMMANDS.values() for name in row.answers)
NOBODY = (1 << 64) - 1
PONG = push_frame(pb.CommandPong())


def keys(number: int, body: Any) -> list[Any]:
    """Return the identity of a request and its response; for SUBSCRIBE, it includes the consumer id."""
    name = COMMANDS[number].name
    if name in ("SEND", "SEND_RECEIPT", "SEND_ERROR"):
        return [("send", body.producer_id)]
    if name in ("PING", "PONG"):
        return [("ping",)]
    if name in ("CONNECT", "CONNECTED"):
        return [("connect",)]
    if name == "ERROR" and body.request_id == NOBODY:
        return []
    if name == "SEEK" or (name == "SUBSCRIBE" and body.start_message_rollback_duration_sec):
        return [("reset",), ("request", body.request_id), ("consumer", body.consumer_id)]
    found: list[Any] = [("consumer", body.consumer_id)] if name == "SUBSCRIBE" else []
    if "request_id" in body.DESCRIPTOR.fields_by_name:
        found.append(("request", body.request_id))
    return found


# -- execution -------------------------------------------------------------------------------------------------------


class Stage:
    """A broker, the clients of a conversation, and an unrelated client."""

    def __init__(self, dice: random.Random, settings: Settings, script: Any) -> None:
        self.dice, self.now, self.script = dice, START, script
        self.broker = Broker(settings, service_url="pulsar://127.0.0.1:6650", now=START)
        self.broker.create_partitioned(TopicName.parse(PERSISTENT + "parts"), 2)
        self.people: dict[int, Peer] = {}
        self.peers: dict[Any, Peer] = {}
        self.bystander = self.arrive()
        self.published = 0
        self.told: list[int] = []
        self.greet()

    def arrive(self) -> Peer:
        peer = Peer(self.broker, len(self.peers), self.now, self.script.body_of)
        self.peers[peer.connection] = peer
        return peer

    def play(self, steps: list[Any]) -> None:
        for step in steps:
            getattr(self, f"on_{step.kind}")(step)
            self.deliver()
            check(self.broker, self.released)
            if self.dice.random() < 0.1:
                self.work()
        self.work()
        self.finish()

    # -- events

    def on_say(self, step: Any) -> None:
        peer = self.people.get(step.who)
        if peer is None or peer.closed:
            peer = self.people[step.who] = self.arrive()
            self.deliver()
        if peer.closed or not peer.connection.reading:
            return
        data = self.adapted(step.data, peer)
        while data:
            size = len(data) if self.dice.random() < 0.9 else self.dice.randrange(1, len(data) + 1)
            peer.say(data[:size])
            self.broker.receive(peer.connection, data[:size], self.now)
            data = data[size:]

    def adapted(self, data: bytes, peer: Peer) -> bytes:
        """Replace most ids in ACKs and similar commands with ids of received messages."""
        found = self.script.body_of(data)
        if found is None or not peer.places:
            return data
        command, body, entry = found
        for name in ("message_id", "message_ids"):
            field = body.DESCRIPTOR.fields_by_name.get(name)
            if field is None or not (field.is_repeated or body.HasField(name)):
                continue
            for place in getattr(body, name) if field.is_repeated else [getattr(body, name)]:
                if self.dice.random() < 0.8:
                    known = self.dice.choice(peer.places[-8:])
                    place.ledgerId, place.entryId = known.ledgerId, known.entryId
        return join_frame(command.SerializePartialToString(), entry)

    def on_wait(self, step: Any) -> None:
        self.pass_time(step.amount)

    def pass_time(self, milliseconds: int) -> None:
        """Advance the time timer by timer, like an event loop."""
        end = self.now + milliseconds
        while (due := self.broker.deadline) is not None and due <= end:
            self.now = max(self.now, due)
            self.broker.advance(self.now)
            self.deliver()
        self.now = end

    def on_jump(self, step: Any) -> None:
        self.jump(step.amount)

    def jump(self, milliseconds: int) -> None:
        """Advance the time in one step, like a long pause of the event loop."""
        self.now += milliseconds
        self.broker.advance(self.now)

    def on_stall(self, step: Any) -> None:
        self.stall(step.who, yes=False)

    def on_resume(self, step: Any) -> None:
        self.stall(step.who, yes=True)

    def stall(self, who: int, *, yes: bool) -> None:
        peer = self.people.get(who)
        if peer is not None and not peer.closed:
            self.broker.set_writable(peer.connection, self.now, yes=yes)

    def on_leave(self, step: Any) -> None:
        peer = self.people.pop(step.who, None)
        if peer is not None:
            self.broker.disconnected(peer.connection, self.now)
            peer.closed = True

    def on_unload(self, step: Any) -> None:
        self.with_topic(self.broker.unload)

    def on_terminate(self, step: Any) -> None:
        self.with_topic(lambda topic: topic.persistent and self.broker.terminate(topic))

    def on_delete(self, step: Any) -> None:
        self.with_topic(lambda topic: self.broker.delete_topic(topic.name, force=True))

    def with_topic(self, action: Any) -> None:
        self.broker.begin_turn(self.now)
        topics = [topic for name, topic in self.broker.topics.items() if not name.endswith("/mine")]
        if topics:
            action(self.dice.choice(topics))
        self.broker.finish_turn()

    def deliver(self) -> None:
        while pieces := self.broker.drain():
            for connection, data in pieces:
                peer = self.peers[connection]
                asked = peer.hear(data)
                peer.closed = peer.closed or connection.closing
                if asked and (peer is self.bystander or self.dice.random() < 0.5):
                    peer.say(PONG)
                    self.broker.receive(connection, PONG, self.now)
            self.broker.finish_turn()
        self.broker.take_reading_changes()

    # -- the unrelated client

    def bystand(self, *bodies: Any, entry: bytes = b"") -> None:
        data = b"".join(push_frame(body, entry) for body in bodies)
        self.bystander.say(data)
        self.broker.receive(self.bystander.connection, data, self.now)
        self.deliver()

    def greet(self) -> None:
        topic = PERSISTENT + "mine"
        self.bystand(pb.CommandConnect(client_version="b", protocol_version=21))
        self.bystand(pb.CommandLookupTopic(topic=topic, request_id=1))
        self.bystand(pb.CommandProducer(topic=topic, producer_id=1, request_id=2))
        self.bystand(pb.CommandSubscribe(topic=topic, subscription="s", subType=1, consumer_id=1, request_id=3))
        self.bystand(pb.CommandFlow(consumer_id=1, messagePermits=10_000))

    def work(self) -> None:
        """Send one message, receive it at once, acknowledge it, and receive a PONG."""
        before, pongs = len(self.bystander.places), self.bystander.heard["ping",]
        metadata = pb.MessageMetadata(producer_name="me", sequence_id=self.published, publish_time=START)
        self.bystand(pb.CommandPing())
        assert self.bystander.connection.reading, "the bystander is not read"
        self.bystand(pb.CommandSend(producer_id=1, sequence_id=self.published), entry=push_entry(metadata, b"mine"))
        self.published += 1
        if self.broker.settings.dispatchThrottlingRatePerSubscriptionInMsg > 0:
            self.pass_time(1000)
        assert not self.bystander.closed
        assert len(self.bystander.places) == before + 1, "the bystander misses a message"
        assert self.bystander.heard["ping",] == pongs + 1
        assert self.bystander.heard["send", 1] == self.published
        self.bystand(pb.CommandAck(consumer_id=1, ack_type=0, message_id=self.bystander.places[-1:]))

    # -- the end

    @property
    def released(self) -> set[tuple[int, int]]:
        """Return the ids of entries whose pending acks may have been removed by ACKs without effect."""
        return set().union(*(peer.released for peer in self.peers.values()))

    @property
    def sought(self) -> bool:
        """Return whether a cursor may have been reset."""
        return any(peer.said["reset",] for peer in self.peers.values())

    def finish(self) -> None:
        """Check that no state of clients is left when all have disconnected and the last timer has run."""
        for peer in self.peers.values():
            self.broker.disconnected(peer.connection, self.now)
        self.deliver()
        check(self.broker, self.released)
        broker = self.broker
        self.jump(3_600_000)
        self.deliver()
        broker.transactions.close(list(broker.transactions.stores))
        assert not broker.connections
        assert not broker.watchers._by_namespace
        assert not broker._scheduled
        throttled = broker.settings.maxPublishRatePerTopicInMessages > 0
        periodic = len(Broker(broker.settings)._timers)
        assert len(broker._timers) == periodic or throttled, "a timer beside those of the periodic checks"
        for topic in broker.topics.values():
            assert not topic.producers
            assert not topic.consumers
            # On a terminated topic, a refused claim remains, and producers that wait for it wait forever.
            assert topic.terminated or not topic.producer_access.waiting
            # A non-durable subscription remains after a SEEK, which closes its consumers, because they reconnect.
            assert all(one.durable for one in topic.subscriptions.values()) or self.sought
        broker.rates.measure()
        assert not broker.rates._rates


# -- invariants after every turn -------------------------------------------------------------------------------------


def check(broker: Broker, released: Collection[tuple[int, int]] = ()) -> None:
    for failure in broker.failures:
        raise failure
    assert not broker._scheduled
    assert not broker._lost
    assert not broker.dirty
    attached = set()
    for topic in broker.topics.values():
        for name, producer in topic.producers.items():
            assert name == producer.name
            assert producer.ready
            assert producer.connection in broker.connections
            assert producer.connection.producers[producer.id] is producer
        for subscription in topic.subscriptions.values():
            attached |= set(subscription.consumers)
            if subscription.cursor is not None:
                check_cursor(subscription)
            check_dispatcher(subscription, released)
    for connection in broker.connections:
        for consumer in connection.consumers.values():
            assert consumer in attached
        assert connection.queued == 0
        assert not connection.input_paused or connection.congested
    assert attached == {one for connection in broker.connections for one in connection.consumers.values()}


def check_cursor(subscription: Any) -> None:
    cursor, ledger = subscription.cursor, subscription.topic.ledger
    assert ledger.first - 1 <= cursor.mark_delete or cursor.backlog >= 0
    assert cursor.mark_delete < ledger.next
    assert cursor.mark_delete < cursor.read_position <= ledger.next
    unacked = [offset for offset in range(cursor.mark_delete + 1, ledger.next) if not cursor.is_deleted(offset)]
    assert cursor.backlog == len(unacked)
    assert not cursor.is_deleted(cursor.mark_delete + 1) or cursor.mark_delete + 1 == ledger.next
    for offset, bits in cursor.ack_sets.items():
        assert bits
        assert not cursor.is_deleted(offset)
    listed = [offset for first, last in cursor.deleted_ranges() for offset in range(first, last + 1)]
    assert listed == [one for one in range(cursor.mark_delete + 1, ledger.next) if cursor.is_deleted(one)]


def check_dispatcher(subscription: Any, released: Collection[tuple[int, int]]) -> None:
    dispatcher = subscription.dispatcher
    for consumer in subscription.consumers:
        assert not consumer.closed
        assert consumer.subscription is subscription
        # Acknowledged messages of batches can be subtracted twice or never (as on 4.2.4).
        assert subscription.individual or consumer.unacked == 0
        assert consumer.permits_while_blocked == 0 or consumer.blocked
    if isinstance(dispatcher, PersistentDispatcherMultipleConsumers):
        check_accounts(dispatcher)
        check_whereabouts(dispatcher, released)
        if isinstance(dispatcher, PersistentStickyKeyDispatcherMultipleConsumers):
            check_slots(dispatcher)
        else:
            check_nothing_rests(dispatcher)
    elif isinstance(dispatcher, PersistentDispatcherSingleActiveConsumer):
        active = dispatcher.active
        # After a SEEK of the active consumer, nothing is dispatched until a consumer joins or leaves (as on 4.2.4).
        assert active is None or active in dispatcher.consumers or (active.closed and not dispatcher._activated)
        if active is not None and dispatcher._activated and active.permits > 0 and active.connection.writable:
            assert subscription.limits or not has_more(dispatcher)


def has_more(dispatcher: Any) -> bool:
    """Return whether a read would return an entry. Entries after the start of an open transaction are not readable."""
    buffer, cursor = dispatcher.topic.transaction_buffer, dispatcher.cursor
    return cursor.has_more and (buffer is None or cursor.next_unacked(cursor.read_position) < buffer.read_end)


def check_accounts(dispatcher: Any) -> None:
    """The sums over the consumers equal those of the subscription."""
    consumers, most = dispatcher.consumers, dispatcher.subscription.max_unacked
    assert dispatcher.total_unacked == sum(one.unacked for one in consumers)
    assert dispatcher.total_permits == sum(one.permits for one in consumers)
    if dispatcher.blocked:
        assert dispatcher.total_unacked >= most // 2
    else:
        assert most <= 0 or dispatcher.total_unacked < most
    for one in consumers:
        assert not one.blocked or one.unacked > one.max_unacked // 2


def check_whereabouts(dispatcher: Any, released: Collection[tuple[int, int]]) -> None:
    """Every unacknowledged entry that was read is in one state: held by one consumer, waiting, or not due yet.

    A ``released`` entry may be in none of them, until all consumers have left (as on 4.2.4).
    """
    cursor = dispatcher.cursor
    held = Counter(offset for one in dispatcher.consumers for offset in one.pending)
    waiting = set(dispatcher.replay.waiting)
    delayed = set()
    if dispatcher.delayed_tracker is not None:
        delayed = {offset for group in dispatcher.delayed_tracker._groups.values() for offset in group}
    if not dispatcher.consumers:
        assert not held
        assert not waiting
        return
    assert all(count == 1 for count in held.values())
    assert not any(cursor.is_deleted(offset) for offset in held)
    assert not held.keys() & waiting
    assert not held.keys() & delayed
    assert all(offset < cursor.read_position for offset in waiting | held.keys())
    read = range(cursor.mark_delete + 1, cursor.read_position)
    handle = dispatcher.subscription.pending_ack_handle
    if handle is not None and handle.initialized_ms:
        return  # an acknowledgement in a transaction releases the entry, even if it is a conflict (as on 4.2.4)
    lost = {offset for offset in read if not cursor.is_deleted(offset)} - held.keys() - waiting - delayed
    lost = {one for one in lost if one not in cursor.ack_sets and dispatcher.ledger.position(one) not in released}
    assert not lost, f"nobody has {lost}"


def check_slots(dispatcher: Any) -> None:
    """Stored keys belong to pending entries only."""
    for one in dispatcher.consumers:
        assert one.hashes.keys() <= one.pending.keys()
    for slot, draining in dispatcher.draining._slots.items():
        assert draining.consumer in dispatcher.consumers
        assert draining.entries <= sum(one == slot for one in draining.consumer.hashes.values())
        assert draining.entries > 0


def check_nothing_rests(dispatcher: Any) -> None:
    """On Shared, no entry waits if a consumer could receive it. Chunks may wait for the consumer of the first chunk."""
    if dispatcher.round_robin.any_available() is None or dispatcher.subscription.limits:
        return
    if any(one.priority < 0 for one in dispatcher.consumers):
        # The next consumer is searched for from level 0 on (as on 4.2.4).
        return
    ready = [dispatcher.ledger.entry(offset) for offset in dispatcher.replay.waiting]
    if any(entry is not None and entry.parsed and entry.chunked for entry in ready):
        return
    assert not [entry for entry in ready if entry is not None and not dispatcher.cursor.is_deleted(entry.offset)]
    assert dispatcher.blocked or dispatcher._is_lookahead_exhausted() or not has_more(dispatcher)


# -- the tests -------------------------------------------------------------------------------------------------------


def trial(seed: str, script: Any, steps_of: Any) -> None:
    dice = random.Random(seed)
    try:
        Stage(dice, script.settings_of(dice), script).play(script.mutated(steps_of(dice), dice))
    except BaseException as fault:
        fault.add_note(f"the trial: {seed}")
        raise


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_captured_commands_in_random_order(script, small_captures, name):
    for number in range(TRIALS // 3 // len(NAMES)):
        trial(f"{name} {number}", script, lambda dice: script.real(small_captures / name, dice))


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_generated_commands(script, group):
    for number in range(TRIALS * 2 // 3 // GROUPS):
        trial(f"{group} {number}", script, script.invented)


def test_the_checks_detect_violations(script):
    """A wrong counter, and an entry in no state, are detected."""
    dice = random.Random("blind?")
    stage = Stage(dice, Settings(maxMessageSize=MAX_MESSAGE), script)
    stage.work()
    check(stage.broker)
    dispatcher = stage.broker.topics[PERSISTENT + "mine"].subscriptions["s"].dispatcher
    dispatcher.total_permits += 1
    with pytest.raises(AssertionError):
        check(stage.broker)
    dispatcher.total_permits -= 1
    metadata = pb.MessageMetadata(producer_name="me", sequence_id=1, publish_time=START)
    stage.bystand(pb.CommandSend(producer_id=1, sequence_id=1), entry=push_entry(metadata, b""))
    check(stage.broker)
    [consumer] = dispatcher.consumers
    consumer.pending.clear()
    consumer.unacked = dispatcher.total_unacked = 0
    with pytest.raises(AssertionError, match="nobody has"):
        check(stage.broker)


def test_damaged_bytes_are_as_described(script):
    """Most mutated frames are still valid, so that deeper code is reached; some are invalid."""
    dice = random.Random("damage")
    frame = push_frame(pb.CommandSubscribe(topic="t", subscription="s", subType=1, consumer_id=1, request_id=1))
    sound = sum(script.body_of(script.damaged_fields(frame, dice)) is not None for _ in range(300))
    assert 150 < sound <= 300
