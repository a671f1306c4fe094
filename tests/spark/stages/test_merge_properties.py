"""--incremental: for random conversations, cuts and orders of files, the rows equal those of one run.

The mini-broker plays conversations with acknowledgements of all kinds, redeliveries, seeks, new subscriptions,
reconnects and unloads. Captures may lack one direction of the connections, or some packets. Runs are killed.
"""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pcli.codec.proto import pb
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
            self.consumer.ack(one.message_id, consumer_id=one.consumer_id, kind=kind)
        self.acked = len(self.consumer.messages)

    def ack(self):
        one = self.message()
        self.consumer.ack(one.message_id, consumer_id=one.consumer_id)

    def ack_with_response(self):
        one = self.message()
        self.consumer.ack(one.message_id, consumer_id=one.consumer_id, request_id=500 + self.sequence)

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

    def unload(self):
        self.recording.scene.unload()
        self.recording.client.producer()
        for name in self.names:
            self.subscribe(name)

    def ask_for_last(self):
        self.consumer(pb.CommandGetLastMessageId(consumer_id=1))

    USUAL = ("publish", "ack_new", "rotate")
    OTHER = ("publish_batch", "ack", "ack_with_response", "ack_cumulatively", "redeliver", "seek", "join", "leave",
             "reconnect", "produce_again", "unload", "ask_for_last")  # fmt: skip
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


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
@given(data=st.data())
def test_rows_of_random_conversations_equal_those_of_one_run(tmp_path_factory, data):
    recording = Recording(tmp_path_factory.mktemp("play"))
    play = Play(recording, data)
    for _ in range(data.draw(st.integers(20, 60), label="steps")):
        play.step()
    files = [(number, some) for number, some in enumerate(without(recording.files(), data)) if some]
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
