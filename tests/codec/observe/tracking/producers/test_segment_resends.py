"""Messages that a V5 client sends again on the children of a sealed segment."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.capture import ReadOptions, StreamEnd, read_capture
from pcli.codec.observe.tracking.statistics.message_balance import balances
from pcli.codec.observe.tracking.statistics.scalable_sums import sum_balances
from pcli.codec.observe.tracking.tracker import Tracker, process_events
from pcli.codec.payload import join_batch
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from tests.codec.observe.conftest import Conversation

PARENT = "segment://public/default/orders/0000-ffff-0"
CHILD = "segment://public/default/orders/0000-7fff-1"


class Producing:
    """A connection with a producer for each segment."""

    def __init__(self, conversation):
        self.conversation = conversation
        self.lifecycles = []
        self.tracker = Tracker(on_lifecycle=self.lifecycles.append)
        self.sequence = itertools.count()

    def client(self, body, entry=b"", stream=0):
        self.tracker.see(self.conversation.client(body, entry, stream))

    def broker(self, body, stream=0):
        self.tracker.see(self.conversation.broker(body, b"", stream))

    def open(self, topic, producer_id, stream=0, name=""):
        self.client(pb.CommandProducer(topic=topic, producer_id=producer_id, request_id=producer_id), stream=stream)
        success = pb.CommandProducerSuccess(
            request_id=producer_id, producer_name=name or f"p{producer_id}", last_sequence_id=-1
        )
        self.broker(success, stream)

    def send(self, producer_id, *messages, stream=0):
        """Send messages, pairs of key and payload, in one entry. Return its sequence id."""
        sequence = next(self.sequence)
        metadata = pb.MessageMetadata(producer_name=f"p{producer_id}", sequence_id=sequence, publish_time=1)
        if len(messages) == 1:
            [(metadata.partition_key, payload)] = messages
        else:
            metadata.num_messages_in_batch = len(messages)
            payload = join_batch(
                [(pb.SingleMessageMetadata(partition_key=key, payload_size=len(one)), one) for key, one in messages]
            )
        body = pb.CommandSend(producer_id=producer_id, sequence_id=sequence, num_messages=len(messages))
        self.client(body, push_entry(metadata, payload), stream)
        return sequence

    def receipt(self, producer_id, sequence, ledger=1):
        place = pb.MessageIdData(ledgerId=ledger, entryId=sequence)
        self.broker(pb.CommandSendReceipt(producer_id=producer_id, sequence_id=sequence, message_id=place))

    def seal(self, producer_id=0):
        self.broker(pb.CommandCloseProducer(producer_id=producer_id, request_id=2**64 - 1))

    def refuse(self, producer_id, sequence):
        error = {"error": pb.TopicTerminatedError, "message": "Managed ledger was terminated"}
        self.broker(pb.CommandSendError(producer_id=producer_id, sequence_id=sequence, **error))

    def totals(self):
        """Return the values of the scalable topic that are not 0."""
        topics = self.tracker.subscriptions.lifecycles.topics
        found = sum_balances(balances(self.tracker.subscriptions, 10**19), lambda one: topics[one].record)
        return {name: value for name, value in found[0].values.items() if value}

    def ended(self):
        """Return the lifecycles at the end of the capture by segment and sequence id."""
        self.tracker.finish()
        return {(one.topic.name[-1], one.sequence_id): one for one in self.lifecycles}

    @property
    def parent(self):
        [found] = [one for group, one in self.tracker.records() if group == "producer" and one.topic == PARENT]
        return found


@pytest.fixture
def producing(conversation):
    found = Producing(conversation)
    found.open(PARENT, 0)
    return found


def test_refused_and_unanswered_messages_in_a_batch_of_the_child(producing):
    producing.receipt(0, producing.send(0, ("a", b"stored")))
    refused = producing.send(0, ("a", b"1"))
    producing.send(0, ("b", b"2"))
    producing.seal()
    producing.refuse(0, refused)
    producing.open(CHILD, 1)
    producing.send(1, ("a", b"1"), ("b", b"2"), ("c", b"new"))
    assert (producing.parent.sent_on_child.count, producing.parent.stored_on_child.count) == (2, 0)
    assert producing.parent.sent_on_child.frames == [5, 11, 6, 11]
    assert producing.totals() == {"sent": 4, "stored": 1, "unknown": 3}  # the batch has no receipt


def test_a_message_that_the_broker_does_not_see_any_more(producing):
    producing.seal()
    producing.send(0, ("a", b"1"))
    producing.open(CHILD, 1)
    producing.send(1, ("a", b"1"))
    assert producing.parent.sent_on_child.count == 1


def test_equal_messages_are_counted_as_often_as_they_failed(producing):
    producing.send(0, ("a", b"tick"), ("a", b"tick"))
    producing.seal()
    producing.open(CHILD, 1)
    for _ in range(3):
        producing.send(1, ("a", b"tick"))
    assert producing.parent.sent_on_child.count == 2


def test_messages_that_are_sent_again_to_the_same_segment_after_an_unload(producing):
    sequence = producing.send(0, ("a", b"1"))
    producing.seal()
    producing.receipt(0, sequence)
    producing.open(PARENT, 0)
    producing.send(0, ("a", b"1"))
    assert (producing.parent.sent_on_child.count, producing.parent.stored_on_child.count) == (0, 0)


def test_a_message_that_was_stored_after_all_is_stored_twice(producing):
    sequence = producing.send(0, ("a", b"1"))
    producing.seal()
    producing.receipt(0, sequence)
    producing.open(CHILD, 1)
    producing.receipt(1, producing.send(1, ("a", b"1")), ledger=2)
    assert (producing.parent.sent_on_child.count, producing.parent.stored_on_child.count) == (0, 1)
    assert producing.totals() == {"sent": 1, "stored": 2, "stored_twice": 1}


@pytest.mark.parametrize(
    ("names", "seconds", "count"),
    [(("", ""), 1, 1), (("a-seg-0", "a-seg-1"), 1, 1), (("a-seg-0", "b-seg-1"), 1, 0), (("", ""), 70, 0)],
)
def test_a_message_that_is_sent_again_on_the_next_connection(conversation, names, seconds, count):
    """A V5 client closes its connection when its PRODUCER for the sealed segment is refused."""
    producing = Producing(conversation)
    producing.open(PARENT, 0, name=names[0])
    producing.send(0, ("a", b"1"))
    producing.seal()
    of_client = {"from_client": True, "reset": False, "refused": False, "silent": False}
    producing.tracker.ended(StreamEnd(conversation.streams[0], 4, conversation.now, **of_client))
    conversation.now += seconds * 10**9
    producing.open(CHILD, 1, stream=1, name=names[1])
    producing.send(1, ("a", b"1"), stream=1)
    assert producing.parent.sent_on_child.count == count


@pytest.mark.parametrize("other", ["key", "payload", "connection", "topic"])
def test_other_messages_are_not_sent_again(producing, other):
    producing.send(0, ("a", b"1"))
    producing.seal()
    stream = 1 if other == "connection" else 0
    producing.open(CHILD if other != "topic" else CHILD.replace("orders", "bills"), 1, stream)
    producing.send(1, ("b" if other == "key" else "a", b"2" if other == "payload" else b"1"), stream=stream)
    assert producing.parent.sent_on_child.count == 0


def test_every_refused_message_of_a_split_under_load(captures_5):
    tracker, path = Tracker(), captures_5 / "split-merge-under-load.pcap"
    with path.open("rb") as file:
        process_events(read_capture([(path.name, file)], ReadOptions(ends=True)), tracker)
    found = {one.topic[-1]: one for group, one in tracker.records() if group == "producer" and "sp2" in one.topic}
    # segment 0: four SEND_ERRORs and a SEND without a response; segment 2: a batch of two messages
    assert {number: one.sent_on_child.count for number, one in found.items()} == {"0": 5, "1": 2, "2": 2, "3": 0}
    assert [one.lost.count for one in found.values()] == [1, 0, 0, 0]


def test_the_lifecycle_of_a_batch_has_the_attempts_of_its_messages(producing):
    refused = producing.send(0, ("a", b"1"), ("b", b"2"))
    unanswered = producing.send(0, ("c", b"3"))
    producing.seal()
    producing.refuse(0, refused)
    producing.open(CHILD, 1)
    first = producing.send(1, ("a", b"1"), ("c", b"3"), ("d", b"new"))
    found = producing.ended()
    assert [one.sequence_id for one in found["1", first].earlier] == [refused, unanswered]
    # One message of the refused batch was never sent again.
    assert [(found["0", one].moved, found["0", one].continued) for one in (refused, unanswered)] == [
        (1, False), (1, True),
    ]  # fmt: skip


def test_a_batch_of_many_attempts_lists_them_all(producing):
    messages = [(f"k{number % 7}", str(number).encode()) for number in range(200)]
    attempts = [producing.send(0, one) for one in messages]
    producing.seal()
    producing.open(CHILD, 1)
    batch = producing.send(1, *messages)
    found = producing.ended()
    assert [one.sequence_id for one in found["1", batch].earlier] == attempts
    assert all(found["0", one].continued for one in attempts)


def test_attempts_on_three_generations_of_segments(producing):
    attempts = [producing.send(0, ("a", b"1"))]
    for number, segment in enumerate((CHILD, CHILD.replace("7fff-1", "3fff-2")), 1):
        producing.seal(number - 1)
        producing.open(segment, number)
        attempts.append(producing.send(number, ("a", b"1")))
    found = producing.ended()
    assert [one.sequence_id for one in found["2", attempts[2]].earlier] == attempts[:2]
    assert [one.continued for one in found.values()].count(True) == 2


def test_a_stored_attempt_remains_a_message(producing):
    sequence = producing.send(0, ("a", b"1"))
    producing.seal()
    producing.open(CHILD, 1)
    producing.send(1, ("a", b"1"))
    producing.receipt(0, sequence)  # after the message was sent again
    found = producing.ended()
    assert (found["0", sequence].moved, found["0", sequence].continued) == (1, False)


def test_a_message_after_an_unload_has_no_other_segment(producing):
    producing.send(0, ("a", b"1"))
    producing.seal()
    producing.open(PARENT, 0)
    producing.send(0, ("a", b"1"))
    assert not any(one.earlier or one.moved for one in producing.ended().values())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["stored", "refused", "unanswered"])), min_size=1, max_size=12
    ),
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 2)), min_size=1, max_size=20),
)
def test_each_message_is_in_one_lifecycle_with_its_attempts(entries, batches):
    """Entries of the parent (size and outcome), and batches of the children (size and child) that repeat the others."""
    producing = Producing(Conversation())
    producing.open(PARENT, 0)
    numbers, left, refused = itertools.count(), [], []
    for size, outcome in entries:
        messages = [(f"k{next(numbers) % 3}", str(next(numbers)).encode()) for _ in range(size)]
        sequence = producing.send(0, *messages)
        if outcome == "stored":
            producing.receipt(0, sequence)
        else:
            left += [(sequence, message) for message in messages]
        if outcome == "refused":
            refused.append(sequence)
    producing.seal()
    for sequence in refused:
        producing.refuse(0, sequence)
    total, expected = sum(size for size, _ in entries), {}
    for child in (1, 2):
        producing.open(CHILD.replace("7fff-1", f"{child * 2:04x}-{child}"), child)
    for size, child in itertools.chain(batches, itertools.repeat((5, 1), len(left))):
        part, left = left[:size], left[size:]
        if part:
            sequence = producing.send(child, *(message for _, message in part))
            producing.receipt(child, sequence, ledger=child + 1)
            expected[sequence] = list(dict.fromkeys(attempt for attempt, _ in part))
    found = producing.ended()
    shown = [one for one in producing.lifecycles if not one.continued]
    assert sum(one.messages for one in shown) == total
    assert {one.state for one in shown} == {"stored"}
    attempts = {sequence: [one.sequence_id for one in life.earlier] for (_, sequence), life in found.items()}
    assert {sequence: some for sequence, some in attempts.items() if some} == expected
