"""Recordings of the mini-broker in virtual time, whose captures are rotated."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from pcli.codec.capture import Packet, PcapngWriter, read_packets
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables
from tests.codec.observe.conftest import START, Scene

TABLES = ("messages", "exchanges", "permits")


class Recording:
    """A scene whose capture is rotated, and the tables of its files."""

    def __init__(self, folder, **settings):
        self.scene = Scene(**settings)
        self.folder, self.cuts, self.tables = folder, [], TABLES
        self.captures = folder / "captures"
        self.captures.mkdir()
        self.client = self.scene.actor()
        self.client.producer()

    def rotate(self):
        """Begin a new file."""
        self.scene.wait(1000)
        self.cuts.append(self.scene.now * 1_000_000)
        self.scene.wait(1000)

    def files(self):
        """Return the packets of each file."""
        with self.scene.write(self.folder / "whole.pcapng").open("rb") as file:
            packets = [item for item in read_packets([("", file)]) if isinstance(item, Packet)]
        edges = [0, *self.cuts, 1 << 62]
        return [[one for one in packets if since <= one.time_ns < until] for since, until in pairwise(edges)]

    def write(self, number, packets):
        with (self.captures / f"part_{number:03}.pcapng").open("wb") as file:
            writer = PcapngWriter(file)
            for packet in packets:
                writer.packet(packet)

    def run(self, out, *, incremental=True, horizon_s=86_400):
        request = Request((str(self.captures),), str(self.folder / out), only=self.tables)
        return analyze(replace(request, incremental=incremental, horizon_s=horizon_s), InProcess())

    def batches(self, **more):
        """Run a batch for each file; return the summaries."""
        summaries = []
        for number, packets in enumerate(self.files()):
            self.write(number, packets)
            summaries.append(self.run("out", **more))
        return summaries

    def rows(self, out, name="messages"):
        rows = StoredTables(str(self.folder / out)).read(name).to_pylist()
        return sorted(rows, key=lambda row: json.dumps(row, default=repr))

    def check(self):
        """Assert that the rows equal those of one run."""
        self.run("whole", incremental=False)
        for name in self.tables:
            assert self.rows("out", name) == self.rows("whole", name)


@pytest.fixture
def recording(tmp_path):
    return Recording(tmp_path)


def publish(client, number):
    send = pb.CommandSend(producer_id=1, sequence_id=number, num_messages=1)
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=START + number)
    client(send, entry=push_entry(metadata, b"message"))


def publish_and_ack(client, numbers):
    """Publish messages, which the client receives and acknowledges."""
    for number in numbers:
        before = len(client.messages)
        publish(client, number)
        for message in client.messages[before:]:
            client.ack(message.message_id, consumer_id=message.consumer_id)
