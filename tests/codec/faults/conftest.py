"""A link between a client and a broker with fault injection."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from google.protobuf.message import Message

from pcli.codec.faults import Fault, Faults, Injector, Step
from pcli.codec.observe.live_frames import LiveFrames
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame

MILLISECOND = 1_000_000


class Line:
    """Sends bytes as `client` or `broker`, and stores what arrives at each end with its time."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = Faults(faults)
        self.injector = Injector(self.faults, LiveFrames())
        self.injector.open(0, ("10.0.0.1", 40000), ("10.0.0.2", 6650))
        self.now = 1_000 * MILLISECOND
        self.steps: list[Step] = []

    def client(self, body: Message | bytes, entry: bytes = b"") -> list[Step]:
        return self._say(body, entry, from_client=True)

    def broker(self, body: Message | bytes, entry: bytes = b"") -> list[Step]:
        return self._say(body, entry, from_client=False)

    def _say(self, body: Message | bytes, entry: bytes, *, from_client: bool) -> list[Step]:
        data = body if isinstance(body, bytes) else push_frame(body, entry)
        steps = self.injector.feed(0, data, self.now, from_client=from_client)
        self.steps += steps
        return steps

    @property
    def at_broker(self) -> bytes:
        return b"".join(bytes(step.data) for step in self.steps if step.to_broker)

    @property
    def at_client(self) -> bytes:
        return b"".join(bytes(step.data) for step in self.steps if not step.to_broker)


@pytest.fixture
def line() -> Callable[..., Line]:
    """Create a link with these faults."""
    return Line


@pytest.fixture
def subscribe() -> pb.CommandSubscribe:
    """SUBSCRIBE of the consumer c1 with id 3."""
    return pb.CommandSubscribe(
        topic="persistent://public/default/orders",
        subscription="work",
        subType=pb.CommandSubscribe.Shared,
        consumer_id=3,
        request_id=7,
        consumer_name="c1",
    )


@pytest.fixture
def flow() -> bytes:
    """FLOW of this consumer."""
    return push_frame(pb.CommandFlow(consumer_id=3, messagePermits=10))


@pytest.fixture
def send() -> bytes:
    """A SEND with a payload."""
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=4, publish_time=1)
    return push_frame(pb.CommandSend(producer_id=1, sequence_id=4), push_entry(metadata, b"hello"))
