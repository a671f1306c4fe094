"""Captures without the receipts of some SENDs, or without the responses to some ACKs: one direction, or lost frames.

The tables equal the lifecycles of the tracker and the pairs of the Observer for every division into splits.
"""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.capture.frames import START, CapturedFrame, Stream, StreamEnd
from pcli.codec.observe import Observer
from pcli.codec.observe.tracking.tracker import Tracker, process_events
from pcli.codec.proto import pb
from pcli.codec.wire import push_frame
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.hot import push_send_receipt

TOPIC = "persistent://a/b/c"
NAME = "my producer"


class Conversation:
    """Frames of several connections, one per millisecond; some of them are not captured."""

    def __init__(self, captured):
        self.items, self.captured, self.time_ns = [], captured, 0
        self.streams = {}

    def frame(self, number, client, data, *, always=False):
        self.time_ns += 1_000_000
        if not (always or self.captured(client)):
            return
        stream = self.streams.setdefault(
            number, Stream(number, ("10.0.0.1", 40_000 + number), ("10.0.0.2", 6650), midstream=False)
        )
        place = len(self.items) + 1, len(self.items) + 1, self.time_ns, stream, client, 0, START
        self.items.append(CapturedFrame(data, Frame.of(data).type, *place))

    def open(self, number, owner=1, epoch=0):
        """A producer on a connection; the handshake is captured."""
        command = pb.CommandProducer(topic=TOPIC, producer_id=owner, request_id=1, producer_name=NAME, epoch=epoch)
        for client, body in (
            (True, pb.CommandConnect(client_version="x")),
            (False, pb.CommandConnected(server_version="y")),
            (True, command),
            (False, pb.CommandProducerSuccess(request_id=1, producer_name=NAME)),
        ):
            self.frame(number, client, push_frame(body), always=True)

    def send(self, number, sequence, *, owner=1, publish_ms=None, highest=None):
        metadata = pb.MessageMetadata(producer_name=NAME, sequence_id=sequence, publish_time=publish_ms or sequence + 5)
        command = pb.CommandSend(producer_id=owner, sequence_id=sequence, num_messages=1)
        if highest is not None:
            command.highest_sequence_id = metadata.highest_sequence_id = highest
            command.num_messages = metadata.num_messages_in_batch = highest - sequence + 1
        self.frame(number, True, push_frame(command, push_entry(metadata, b"hello", checksum=True)))

    def receipt(self, number, sequence, entry, *, owner=1):
        self.frame(number, False, push_send_receipt(owner, sequence, 5, entry, 0))

    def refuse(self, number, sequence, *, owner=1):
        body = pb.CommandSendError(producer_id=owner, sequence_id=sequence, error=pb.PersistenceError, message="no")
        self.frame(number, False, push_frame(body))

    def close(self, number, *, owner=1, always=True):
        self.frame(number, True, push_frame(pb.CommandCloseProducer(producer_id=owner, request_id=9)), always=always)
        self.frame(number, False, push_frame(pb.CommandSuccess(request_id=9)), always=always)

    def end(self, number):
        stream = self.streams[number]
        self.items.append(StreamEnd(stream, len(self.items), self.time_ns, True, False, False, False))


def facts_of(rows):
    found = []
    for row in rows:
        producer = row["producer"]
        names = ("connection", "name", "sequence_id", "sent_ns", "receipt_ns", "resends", "messages", "size", "error")
        found.append((row["topic"], row["ledger"], row["entry"], *(producer[name] for name in names), row["state"]))
    return sorted(found, key=repr)


def facts_of_lives(lives):
    found = []
    for one in lives:
        at = (one.ledger, one.entry) if one.ledger >= 0 else (None, None)
        receipt = one.receipt_ns if one.receipt_ns >= 0 else None
        producer = (one.stream, one.producer_name, one.sequence_id, one.sent_ns, receipt, len(one.resent), one.messages)
        found.append((one.topic.name, *at, *producer, one.size, one.error or None, one.state))
    return sorted(found, key=repr)


@pytest.fixture(scope="module")
def compared(bulk, recorded):
    """Compare the rows of a conversation with the tracker's lifecycles; return the rows."""

    def compare(conversation, seeds):
        found = {}
        process_events(conversation.items, Tracker(on_lifecycle=lambda life: found.update({id(life): life})))
        lives = found.values()  # a message that is resent after it was lost is complete twice
        recording = recorded(conversation.items)
        for seed in seeds:
            rows = bulk(recording, None if seed is None else random.Random(seed)).messages()
            assert facts_of(rows) == facts_of_lives(lives), seed
        return rows

    return compare


BOTH, CLIENT, BROKER = (lambda _: True), (lambda client: client), (lambda client: not client)


def test_a_send_without_its_receipt_is_lost_if_its_connection_ends(compared):
    talk = Conversation(CLIENT)
    for number in (0, 1):
        talk.open(number, epoch=number)
        for sequence in range(8):
            talk.send(number, 8 * number + sequence)
        if not number:
            talk.end(0)
    rows = compared(talk, (None, 1, 2, 3))
    assert [row["state"] for row in sorted(rows, key=lambda row: row["first_ns"])] == ["lost"] * 8 + ["in_flight"] * 8
    assert {row["evidence"] for row in rows if row["state"] == "lost"} == {"complete"}


def test_receipts_without_their_sends_have_no_rows(compared):
    talk = Conversation(BROKER)
    talk.open(0)
    for sequence in range(8):
        talk.receipt(0, sequence, sequence)
    assert compared(talk, (None, 1, 2)) == []


def test_a_receipt_after_the_end_of_the_session_belongs_to_no_send(compared):
    talk = Conversation(BOTH)
    talk.open(0)
    talk.send(0, 1)
    talk.close(0)
    talk.open(0, epoch=1)
    talk.receipt(0, 1, 1)
    (row,) = compared(talk, (None, *range(8)))
    assert row["state"] == "lost"


def test_an_error_with_the_highest_id_of_a_batch_refuses_it(compared):
    talk = Conversation(BOTH)
    talk.open(0)
    talk.send(0, 1, highest=4)
    talk.send(0, 5, highest=9)
    talk.refuse(0, 4)
    talk.receipt(0, 5, 5)
    rows = compared(talk, (None, *range(8)))
    assert sorted(row["state"] for row in rows) == ["refused", "stored"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 12)),
        st.tuples(st.just("receipt"), st.integers(1, 12)),
        st.tuples(st.sampled_from(["refuse", "reconnect", "reopen", "close"]), st.just(1)),
    ),
    max_size=24,
)
"""How many SENDs or receipts follow, or what happens to the producer."""


def talk_of(steps, captured):
    """A producer that resends its open SENDs when it is opened again, on the same connection or on a new one."""
    talk, number, epoch, sequence, entry, open_ = Conversation(captured), 0, 0, 0, 0, []
    talk.open(0)
    for step, count in steps:
        if step == "send":
            for _ in range(count):
                talk.send(number, sequence)
                open_.append(sequence)
                sequence += 1
        elif step == "receipt":
            for _ in range(min(count, len(open_))):
                talk.receipt(number, open_.pop(0), entry)
                entry += 1
        elif step == "refuse" and open_:
            talk.refuse(number, open_.pop(0))
        elif step in ("reconnect", "reopen", "close"):
            if step == "reconnect":
                talk.end(number)
                number += 1
            elif step == "close":
                talk.close(number)
            epoch += 1
            talk.open(number, epoch=epoch)
            for one in open_:
                talk.send(number, one)
    return talk


@given(STEPS, st.sampled_from(["both", "client", "broker", "mixed", "lossy"]), st.integers(0, 1 << 30))
def test_any_part_of_a_conversation_equals_the_tracker(compared, steps, kind, seed):
    dice = random.Random(seed)
    ways = {"both": BOTH, "client": CLIENT, "broker": BROKER, "lossy": lambda _: dice.random() < 0.8}
    cut = dice.randrange(1, 60)
    count = iter(range(1 << 20))
    ways["mixed"] = lambda client: client if next(count) < cut else True
    compared(talk_of(steps, ways[kind]), (None, seed, seed + 1))


def acks_of(recording):
    observer, found = Observer(), {}
    for frame in recording.items:
        if isinstance(frame, CapturedFrame):
            facts = observer.see(frame)
            if facts.request is not None:
                found.setdefault(facts.request.number, frame.number)
    return found | {one.number: None for one in observer.unanswered()}


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 6), st.sampled_from(["ask", "answer", "error"])), max_size=40),
    st.integers(0, 1 << 30),
)
def test_acks_and_responses_in_any_order_are_the_pairs_of_the_observer(bulk, recorded, steps, seed):
    talk = Conversation(BOTH)
    for number, request, step in steps:
        if step == "ask":
            body = pb.CommandAck(consumer_id=3, ack_type=0, request_id=request)
            body.message_id.add(ledgerId=5, entryId=request)
        else:
            body = pb.CommandAckResponse(consumer_id=3, request_id=request)
            if step == "error":
                body.error = pb.PersistenceError
        talk.frame(number, step == "ask", push_frame(body))
    recording = recorded(talk.items)
    expected = acks_of(recording)
    for dice in (None, random.Random(seed), random.Random(seed + 1)):
        rows = bulk(recording, dice).exchanges()
        assert {row["asked_frame"]: row["answered_frame"] for row in rows} == expected


@pytest.mark.slow
@pytest.mark.parametrize("client", [True, False])
def test_one_direction_of_a_capture_has_the_same_rows_for_any_splits(few, bulk, recorded, client):
    dice = random.Random(11)
    states = set()
    for name in few:
        items = few.recording(name).items
        mine = [one for one in items if not isinstance(one, CapturedFrame) or one.from_client == client]
        recording = recorded(list(renumbered(mine)))
        whole = as_text(bulk(recording))
        assert as_text(bulk(recording, dice)) == whole, name
        assert as_text(bulk(recording, dice, told_apart=True)) == whole, name
        states.update(row["state"] for row in bulk(recording).messages())
    assert states & ({"lost", "in_flight"} if client else {"acked", "unacked"})


def renumbered(items):
    frames = 0
    for item in items:
        if isinstance(item, CapturedFrame):
            frames += 1
            place = frames, item.packet, item.time_ns, item.stream, item.from_client, item.offset, item.sync
            yield CapturedFrame(item.data, item.type, *place, item.capture_problems)
        else:
            yield item


def as_text(bulk):
    return [sorted(json.dumps(row, sort_keys=True) for row in rows) for rows in (bulk.messages(), bulk.exchanges())]
