"""What the official clients put on the wire with default settings. docs/clients.md states these figures."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.proto import pb
from pcli.minibroker import MiniBroker
from pcli.replay.proxy import Proxy

IDLE_SECONDS = 95
"""Longer than two PINGs of every client, and than the delay of negative acknowledgements: 80 s in Go."""


@dataclass
class Habits:
    """The frames of a client in the scenario `habits`: 1,200 messages acknowledged, then a batch of ten."""

    commands: list[tuple[float, bool, pb.BaseCommand]] = field(default_factory=list)
    """The time in seconds, whether the client is the sender, and the command."""

    def sent(self, name: str) -> list[tuple[float, object]]:
        """Return the times and bodies of the client's commands of a type."""
        kind = pb.BaseCommand.Type.Value(name)
        body = pb.BaseCommand.DESCRIPTOR.fields_by_number[kind].name
        return [(at, getattr(one, body)) for at, from_client, one in self.commands if from_client and one.type == kind]

    @property
    def batch(self) -> tuple[float, pb.MessageIdData]:
        """The time of the MESSAGE with the batch, which is the last one, and its id."""
        messages = [(at, one.message) for at, _, one in self.commands if one.HasField("message")]
        at, message = [one for one in messages if not one[1].redelivery_count][-1]
        return at, message.message_id


def observe(programs, name, path):
    with MiniBroker() as broker, Proxy(to=broker.service_url, capture=path) as proxy:
        command = {"scenario": "habits", "url": proxy.service_url}
        programs.get(name).play(command, {"idle": lambda: time.sleep(IDLE_SECONDS)})


@pytest.fixture(scope="session")
def observed(programs, tmp_path_factory):
    """The habits of all clients, which run at the same time. A client that is not available is missing."""
    folder = tmp_path_factory.mktemp("habits")
    names = []
    for name in ("python", "java", "go", "node"):
        try:
            programs.get(name)
        except pytest.skip.Exception:
            continue
        names.append(name)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: observe(programs, name, folder / name), names))
    found = {}
    for name in names:
        with (folder / name).open("rb") as file:
            habits = found[name] = Habits()
            for frame in read_capture([(name, file)]):
                if isinstance(frame, CapturedFrame):
                    size = int.from_bytes(frame.data[4:8], "big")
                    command = pb.BaseCommand.FromString(frame.data[8 : 8 + size])
                    habits.commands.append((frame.time_ns / 1e9, frame.from_client, command))
    return found


@pytest.fixture
def habits(observed, client):
    return observed[client]


PYTHON, JAVA, GO, NODE = "python", "java", "go", "node"


@pytest.mark.parametrize(
    ("client", "version", "protocol", "features"),
    [
        (PYTHON, "Pulsar-CPP-v4.2.0", 20, 2),
        (JAVA, "Pulsar-Java-v4.2.4", 21, 5),
        (GO, "Pulsar-Go-v0.19.0", 20, 2),
        (NODE, "Pulsar-Flex Nodejs Client v0.0.0", 17, 0),
    ],
    indirect=["client"],
)
def test_connect(habits, version, protocol, features):
    _, connect = habits.sent("CONNECT")[0]
    assert (connect.client_version, connect.protocol_version) == (version, protocol)
    assert len(connect.feature_flags.ListFields()) == features


@pytest.mark.parametrize(
    ("client", "permits"),
    [(PYTHON, [1000, 500, 500]), (JAVA, [1000, 500, 500]), (GO, [1000, 500, 500]), (NODE, [500, 250, 250, 250, 250])],
    indirect=["client"],
)
def test_flow(habits, permits):
    assert [flow.messagePermits for _, flow in habits.sent("FLOW")] == permits


@pytest.mark.parametrize(
    ("client", "grouped", "with_request", "with_ack_set"),
    [(PYTHON, True, False, False), (JAVA, True, False, True), (GO, True, False, False), (NODE, False, True, False)],
    indirect=["client"],
)
def test_ack(habits, grouped, with_request, with_ack_set):
    """Java acknowledges the four messages of the batch with an ack set; Python and Go do not send these ACKs."""
    acks = [ack for _, ack in habits.sent("ACK")]
    assert {pb.CommandAck.AckType.Name(ack.ack_type) for ack in acks} == {"Individual"}
    assert (len(acks) < 40) == grouped
    assert any(len(ack.message_id) > 1 for ack in acks) == grouped
    assert all(ack.HasField("request_id") == with_request for ack in acks)
    assert any(one.ack_set for ack in acks for one in ack.message_id) == with_ack_set


@pytest.mark.parametrize(
    ("client", "frames", "after", "until"),
    [(PYTHON, 1, 60, 62), (JAVA, 1, 60, 62), (GO, 1, 60, 81), (NODE, 3, 0, 1)],
    indirect=["client"],
)
def test_negative_acknowledgements(habits, frames, after, until):
    """Three messages of one batch: the entry is requested without a batch index, once or for each message."""
    delivered, batch = habits.batch
    requests = habits.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert len(requests) == frames
    for at, request in requests:
        assert [(one.entryId, one.batch_index) for one in request.message_ids] == [(batch.entryId, -1)]
        assert after - 0.1 <= at - delivered <= until


@pytest.mark.parametrize(("client", "period"), [(PYTHON, 30), (JAVA, 30), (GO, 30), (NODE, 60)], indirect=["client"])
def test_ping(habits, period):
    connected = habits.sent("CONNECT")[0][0]
    first = habits.sent("PING")[0][0]
    assert period - 1 <= first - connected <= period + 4


@pytest.mark.parametrize(
    ("client", "closes"),
    [(PYTHON, ["CLOSE_CONSUMER"]), (JAVA, ["CLOSE_CONSUMER", "CLOSE_PRODUCER"]),
     (GO, ["CLOSE_CONSUMER", "CLOSE_PRODUCER"]), (NODE, ["CLOSE_CONSUMER", "CLOSE_PRODUCER"])],
    indirect=["client"],
)  # fmt: skip
def test_close(habits, closes):
    """The last four messages of the batch are not acknowledged; no client requests them before it closes."""
    sent = {pb.BaseCommand.Type.Name(one.type) for _, from_client, one in habits.commands if from_client}
    assert sorted(name for name in sent if name.startswith("CLOSE")) == closes
