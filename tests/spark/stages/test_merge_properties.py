"""--incremental: for random conversations, cuts and orders of files, the rows equal those of one run.

The mini-broker plays conversations with acknowledgements of all kinds, transactions, chunks, redeliveries, seeks, new
subscriptions, reconnects and unloads. Captures begin at any packet. They may lack one direction of the connections, or
some packets. Runs are killed.
"""

from itertools import chain, pairwise

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pcli.codec.proto import pb
from tests.codec.observe.conftest import TOPIC
from tests.spark.stages.test_incremental_properties import STEPS, run_killed
from tests.spark.stages.test_merge_incrementally import Recording, publish

KINDS = {"s": "Shared", "e": "Exclusive", "k": "Key_Shared", "f": "Failover"}
"""Types of the subscriptions by name."""


class Play:
    """A conversation of one producer and several consumers, with one random action after the other."""

    def __init__(self, recording, data):
        self.recording, self.data = recording, data
        self.names = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2, unique=True))
        self.consumer = recording.scene.actor()
        self.responses = data.draw(st.booleans(), label="acks with responses")
        self.requests = 1000
        self.sequence = self.acked = 0
        for name in self.names:
            self.subscribe(name)

    def subscribe(self, name):
        number = sorted(KINDS).index(name) + 1
        self.consumer.subscribe(consumer_id=number, kind=KINDS[name], subscription=name)
        self.consumer.flow(1000, consumer_id=number)

    def message(self):
        return self.data.draw(st.sampled_from(self.consumer.messages))

    def publish(self):
        for _ in range(4):
            self.sequence += 1
            publish(self.recording.client, self.sequence)

    def publish_batch(self):
        self.recording.client.publish(self.sequence + 1, batch=2)
        self.sequence += 2

    def ack_new(self):
        """Acknowledge all new messages."""
        for one in self.consumer.messages[self.acked :]:
            kind = "Cumulative" if one.consumer_id == 1 else "Individual"
            more = {"request_id": self.request()} if self.responses else {}
            self.consumer.ack(one.message_id, consumer_id=one.consumer_id, kind=kind, **more)
        self.acked = len(self.consumer.messages)

    def request(self):
        self.requests += 1
        return self.requests

    def ack(self):
        one = self.message()
        self.consumer.ack(one.message_id, consumer_id=one.consumer_id)

    def ack_with_response(self):
        one = self.message()
        self.consumer.ack(one.message_id, consumer_id=one.consumer_id, request_id=500 + self.sequence)

    def publish_chunks(self):
        self.sequence += 1
        for number in range(2):
            about = {"uuid": f"p-{self.sequence}", "num_chunks_from_msg": 2, "chunk_id": number}
            self.recording.client.publish(self.sequence, total_chunk_msg_size=20, **about)

    def publish_in_transaction(self):
        """Publish and acknowledge in a transaction, and end it."""
        client = self.recording.client
        made = client(pb.CommandNewTxn(request_id=self.request(), txn_ttl_millis=60_000, tc_id=0))
        new = [one for one in made if isinstance(one, pb.CommandNewTxnResponse)]
        if not new:
            return
        txn = {"txnid_most_bits": new[0].txnid_most_bits, "txnid_least_bits": new[0].txnid_least_bits}
        client(pb.CommandAddPartitionToTxn(request_id=self.request(), partitions=[TOPIC], **txn))
        self.sequence += 1
        client.publish(self.sequence, **txn)
        if self.consumer.messages and not self.consumer.closed:
            one = self.message()
            self.consumer.ack(one.message_id, consumer_id=one.consumer_id, request_id=self.request(), **txn)
        if self.data.draw(st.booleans()):
            self.recording.rotate()
        client(pb.CommandEndTxn(request_id=self.request(), txn_action=self.data.draw(st.integers(0, 1)), **txn))

    def ack_cumulatively(self):
        one = self.message()
        self.consumer.ack(one.message_id, consumer_id=one.consumer_id, kind="Cumulative")

    def redeliver(self):
        one = self.message()
        self.consumer.redeliver(one.message_id, consumer_id=one.consumer_id)

    def seek(self):
        one = self.message()
        name = sorted(KINDS)[one.consumer_id - 1]
        self.consumer(pb.CommandSeek(consumer_id=one.consumer_id, message_id=one.message_id))
        self.subscribe(name)

    def join(self):
        """Subscribe with a new subscription from the first message, or again."""
        name = self.data.draw(st.sampled_from(sorted(KINDS)))
        number = sorted(KINDS).index(name) + 1
        self.consumer.subscribe(consumer_id=number, kind=KINDS[name], subscription=name, initialPosition=1)
        self.consumer.flow(1000, consumer_id=number)

    def leave(self):
        self.consumer(pb.CommandUnsubscribe(consumer_id=self.message().consumer_id))

    def reconnect(self):
        self.consumer.cut()
        self.consumer, self.acked = self.recording.scene.actor(), 0
        for name in self.names:
            self.subscribe(name)

    def produce_again(self):
        self.recording.client.cut()
        self.recording.client = self.recording.scene.actor()
        self.recording.client.producer()
        if self.sequence:
            publish(self.recording.client, self.sequence)

    def resend(self):
        """Send a message again on the same connection."""
        if self.sequence:
            publish(self.recording.client, self.data.draw(st.integers(max(1, self.sequence - 5), self.sequence)))

    def delay(self):
        """Delay the responses of the broker to the next SENDs or ACKs."""
        name = self.data.draw(st.sampled_from(("SEND_RECEIPT", "ACK_RESPONSE", "SUCCESS")))
        self.recording.scene.fault(f"delay ms=3500 times=2 on pulsar.type == '{name}'")

    def drop(self):
        name = self.data.draw(st.sampled_from(("SEND_RECEIPT", "ACK_RESPONSE", "SEND", "ACK", "MESSAGE")))
        self.recording.scene.fault(f"drop times=1 on pulsar.type == '{name}'")

    def unload(self):
        self.recording.scene.unload()
        self.recording.client.producer()
        for name in self.names:
            self.subscribe(name)

    def ask_for_last(self):
        self.consumer(pb.CommandGetLastMessageId(consumer_id=1))

    USUAL = ("publish", "ack_new", "rotate")
    OTHER = ("publish_batch", "ack", "ack_with_response", "ack_cumulatively", "redeliver", "seek", "join", "leave",
             "reconnect", "produce_again", "unload", "ask_for_last", "publish_chunks", "publish_in_transaction",
             "resend", "delay", "drop")  # fmt: skip
    OF_MESSAGES = ("ack", "ack_with_response", "ack_cumulatively", "redeliver", "seek", "leave")

    def step(self):
        action = self.data.draw(st.sampled_from(self.USUAL * 10 + self.OTHER))
        if action == "rotate":
            self.recording.rotate()
        elif self.consumer.messages or action not in self.OF_MESSAGES:
            getattr(self, action)()
        if self.recording.client.closed:
            self.recording.client = self.recording.scene.actor()
            self.recording.client.producer()
        if self.consumer.closed:
            self.reconnect()


def without(files, data):
    """Return the packets of files without one direction, or without some packets."""
    missing = data.draw(st.sampled_from(("nothing", "nothing", "from client", "from broker", "packets", "start")))
    port = (6650).to_bytes(2, "big")
    if missing == "from client":
        return [[one for one in some if one.data[36:38] != port] for some in files]
    if missing == "from broker":
        return [[one for one in some if one.data[34:36] != port] for some in files]
    if missing == "packets":
        lost = data.draw(st.sets(st.integers(0, sum(map(len, files))), max_size=6))
        return [[one for one in some if one.number not in lost] for some in files]
    return [files[0][len(files[0]) // 2 :], *files[1:]] if missing == "start" else files


def cut_anywhere(packets, data):
    """Return the packets in files that begin at any packet."""
    cuts = data.draw(st.lists(st.integers(0, len(packets)), max_size=8), label="cuts")
    return [packets[since:until] for since, until in pairwise([0, *sorted(cuts), len(packets)])]


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
@given(data=st.data())
def test_rows_of_random_conversations_equal_those_of_one_run(tmp_path_factory, data):
    recording = Recording(tmp_path_factory.mktemp("play"), transactionCoordinatorEnabled=True)
    play = Play(recording, data)
    for _ in range(data.draw(st.integers(20, 60), label="steps")):
        play.step()
    files = recording.files()
    if data.draw(st.booleans(), label="cut at any packet"):
        files = cut_anywhere(list(chain.from_iterable(files)), data)
    files = [(number, some) for number, some in enumerate(without(files, data)) if some]
    order = files if data.draw(st.integers(0, 3), label="in order") else data.draw(st.permutations(files))
    while order:
        size = data.draw(st.integers(1, 2), label="batch")
        for number, packets in order[:size]:
            recording.write(number, packets)
        order = order[size:]
        step = data.draw(st.sampled_from((None, None, *STEPS)), label="killed at")
        if step is not None:
            run_killed(lambda: recording.run("out"), step, data.draw(st.integers(1, 5), label="call"))
        recording.run("out")
    recording.check()
