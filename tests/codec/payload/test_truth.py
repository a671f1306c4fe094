"""Messages that applications sent and received according to their truth files, compared with the frames.

For every capture with a truth file: each ``produced`` event has a SEND, with the message id of the receipt. Each
``received`` event has a MESSAGE with its id. Payload hash and key are equal after decryption, joining of chunks,
decompression and splitting. Each SEND with a receipt on an application's connection has an event. Events and frames
are counted: two events need two frames.

The tables below list all exceptions, each with its reason.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.observe.system_topics import is_system_topic
from pcli.codec.payload import CHUNK, OPEN, SEALED, ChunkJoiner, Entry, Message, PrivateKeys, SchemaBook, open_entry
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

SMALL = Path(__file__).parents[2] / "captures"
SHARED = Path(__file__).parents[4] / "shared" / "captures"
CORPUS = SHARED if SHARED.is_dir() else SMALL
NAMES = sorted(str(path.relative_to(CORPUS))[: -len(".truth.json")] for path in CORPUS.glob("*/*.truth.json"))

UNREADABLE = {
    "python/21-tls": "TLS: the frames are under it",
    "python/30-snaplen-96": "packets are cut at 96 bytes: the payloads are not in the file",
    "java/cut-packets": "packets are cut at 120 bytes: the payloads are not in the file",
}
"""Captures without payloads."""

DAMAGED = {
    "python/36-ends-mid-frame": "the file ends early",
    "python/36b-ends-mid-record": "the file ends early",
    "python/37-packets-lost": "packets were deleted from the file",
}
"""Captures in which events may lack frames; every captured SEND with a receipt must still have its event."""

MIDSTREAM = {
    "python/32-midstream": "the capture starts when the connections exist",
    "java/late-capture": "the capture begins after the clients have connected",
}
"""Captures without the frames of earlier messages; the topics of all connections are unknown."""

NO_KEY_IN_PRODUCED = {
    "java/old-client-2.4.2": "this program writes down no key of what it produces",
    "java/scalable-namespace": "this program writes down no key of what it produces",
    "java/scalable-topic": "this program writes down no key of what it produces",
    "java/scalable-transaction": "this program writes down no key of what it produces",
}

NO_PRODUCED_EVENT = {
    ("go/reader", "3:3"): "the message in the middle, to which the program seeks; its sending was not written down",
}
"""Entries without an event."""

SENT_BY_CLIENTS = {
    "python/15-dead-letter-retry": ("-DLQ",),
    "python/28-busy-system": ("-DLQ",),
    "java/dead-letter": ("dead-letter-dead",),
    "java/retry-letter": ("retry-letter-retry", "retry-letter-dead"),
    "go/dead-letter": ("go-dead-letter-retry", "go-dead-letter-dead"),
    "rust/dead-letter": ("rust-dead-letter-dead",),
}
"""Suffixes of dead letter and retry letter topics: the consumer itself publishes there, without an event."""

TAKES_CIPHERTEXT = {("python/08-encrypted", "blind"), ("java/encryption", "takes")}
"""Subscriptions that receive undecryptable payloads unchanged."""

NO_PRIVATE_KEY = {"java/encryption": "its key was of that run only and is not in the corpus"}
"""Captures with payloads whose hash cannot be computed; their size must be the size of the ciphertext less the tag."""


class Held(NamedTuple):
    """A message, identified by its id if known, by hash, size and key."""

    id: str
    sha1: str
    size: int
    key: str | None
    key_is_base64: bool


class Sent:
    """A SEND."""

    def __init__(self, topic: str, entry: Entry, midstream: bool) -> None:
        self.topic = topic
        self.entry = entry
        self.midstream = midstream
        self.receipt: pb.MessageIdData | None = None


class Wire:
    """The contents of the frames of a capture."""

    def __init__(self, name: str, truth: dict[str, Any]) -> None:
        self.name = name
        self.sent: list[Sent] = []
        self.received: list[tuple[pb.MessageIdData, Entry]] = []
        self.problems: list[Problem] = []
        self.first_time = 0.0
        self.decoded: list[tuple[str, bytes, object]] = []
        pem = CORPUS / f"{name}.test-private-key.pem"
        self._keys = PrivateKeys([pem.read_bytes()]) if pem.exists() else None
        self._chunks = ChunkJoiner()
        self._book = SchemaBook()
        self._asked: dict[tuple[int, int], tuple[int, str]] = {}
        self._topics: dict[tuple[int, int], str] = {}
        self._consumers: dict[tuple[int, int], tuple[str, str]] = {}
        self._waiting: dict[tuple[int, int, int], list[Sent]] = defaultdict(list)
        # Receipts may precede their SENDs: python/38 contains reordered packets.
        self._early: dict[tuple[int, int, int], list[pb.MessageIdData]] = defaultdict(list)
        for frame in frames_of(name, truth):
            self.first_time = self.first_time or frame.time_ns / 1e9
            self._take(frame)

    def _take(self, frame: CapturedFrame) -> None:
        command, stream = frame.command, frame.stream.number
        self._book.see(stream, command)
        match command.type:
            case pb.BaseCommand.PRODUCER:
                self._topics[stream, command.producer.producer_id] = command.producer.topic
            case pb.BaseCommand.SUBSCRIBE:
                body = command.subscribe
                self._consumers[stream, body.consumer_id] = (body.topic, body.subscription)
            case pb.BaseCommand.SEND_RECEIPT:
                receipt = command.send_receipt
                number = (stream, receipt.producer_id, receipt.sequence_id)
                if self._waiting[number]:
                    self._waiting[number].pop(0).receipt = receipt.message_id
                else:
                    self._early[number].append(receipt.message_id)
            case pb.BaseCommand.SEND if frame.metadata is not None:
                self._take_send(frame, stream, command.send)
            case pb.BaseCommand.MESSAGE if frame.metadata is not None:
                self._take_message(frame, stream, command.message)

    def _open(self, frame: CapturedFrame, scope: tuple[str, int, int], keys: PrivateKeys | None) -> Entry:
        assert frame.metadata is not None
        payload, missing = frame.payload or b"", frame.missing
        entry = open_entry(frame.metadata, payload, missing=missing, keys=keys, chunks=self._chunks, scope=scope)
        self.problems += entry.problems
        return entry

    def _take_send(self, frame: CapturedFrame, stream: int, send: pb.CommandSend) -> None:
        topic = self._topics.get((stream, send.producer_id), "")
        sent = Sent(topic, self._open(frame, ("p", stream, send.producer_id), self._keys), frame.stream.midstream)
        self.sent.append(sent)
        number = (stream, send.producer_id, send.sequence_id)
        if self._early[number]:
            sent.receipt = self._early[number].pop(0)
        else:
            self._waiting[number].append(sent)

    def _take_message(self, frame: CapturedFrame, stream: int, message: pb.CommandMessage) -> None:
        topic, subscription = self._consumers.get((stream, message.consumer_id), ("", ""))
        keys = None if (self.name, subscription) in TAKES_CIPHERTEXT else self._keys
        entry = self._open(frame, ("c", stream, message.consumer_id), keys)
        self.received.append((message.message_id, entry))
        if entry.state == OPEN and topic:
            for one in entry.messages:
                version = one.metadata.schema_version
                decoder = self._book.find(topic, version) if version else None
                if decoder is not None:
                    self.decoded.append((self.id(message.message_id, one), version, decoder.message(one)))

    def id(self, message_id: pb.MessageIdData, message: Message) -> str:
        """Return ``ledger:entry:batch`` in the notation of this capture's client."""
        ledger, entry = (
            value - 2**64 if value >= 2**63 else value for value in (message_id.ledgerId, message_id.entryId)
        )
        return self.spoken(f"{ledger}:{entry}:{message.index}")

    def spoken(self, text: str) -> str:
        """Return an id in the form in which events and frames are compared."""
        place, _, index = text.rpartition(":")
        if self.name.startswith("flex/"):
            return place  # this client omits batch indexes
        if self.name.startswith("go/") and index == "-1":
            return f"{place}:0"  # in this client a message outside batches has index 0
        return text

    def held(self, message_id: pb.MessageIdData | None, message: Message) -> Held:
        sha1 = hashlib.sha1(message.payload).hexdigest()[:12]
        where = "" if message_id is None else self.id(message_id, message)
        return Held(where, sha1, message.size, message.key, message.key_is_bytes)

    def event(self, event: dict[str, Any]) -> Held:
        """Return the contents of an event in the same form."""
        text = event.get("message_id") or ""
        if text.startswith("MessageIdV5"):  # notation of the v5 client: segment, id, positions
            found = re.search(r"\bid=([^,]+),", text)
            assert found is not None
            text = found[1]
        if text:
            ledger, entry, _, index, *_ = [*text.split(":"), "-1"]
            text = self.spoken(f"{ledger}:{entry}:{index}")
        return Held(text, event["sha1"], event["size"], event.get("key"), bool(event.get("key_is_base64")))


def frames_of(name: str, truth: dict[str, Any]) -> Iterator[CapturedFrame]:
    """Yield the frames of a capture, or of a folder with the parts of a capture in order."""
    path = CORPUS / name
    if path.is_dir():
        paths = [path / Path(part["file"]).name for part in truth["capture"]["files"]]
    else:
        paths = list(path.parent.glob(f"{path.name}.pcap*"))
    with ExitStack() as stack:
        files = [(one.name, stack.enter_context(one.open("rb"))) for one in paths]
        yield from (item for item in read_capture(files) if isinstance(item, CapturedFrame))


def place(text: str) -> str:
    """Return ``ledger:entry`` of an id, without the batch index."""
    return ":".join(text.split(":")[:2])


def sent_events(truth: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in truth["events"] if event["type"] in ("produced", "produced_in_txn")]


def without_keys(held: Counter[Held]) -> Counter[Held]:
    return Counter(one._replace(key=None, key_is_base64=False) for one in held.elements())


def without_ids(held: Counter[Held]) -> Counter[Held]:
    return Counter(one._replace(id="") for one in held.elements())


def before_the_capture(truth: dict[str, Any], wire: Wire) -> set[str]:
    """Return the entries produced before the first frame; none if the capture began before the traffic."""
    if wire.name not in MIDSTREAM:
        return set()
    return {place(event["message_id"]) for event in sent_events(truth) if event["t"] < wire.first_time}


def sealed_sizes(wire: Wire) -> dict[str, int]:
    """Return the entries for which no key exists, with the sizes of their ciphertexts."""
    if wire.name not in NO_PRIVATE_KEY:
        return {}
    sealed = [sent for sent in wire.sent if sent.entry.state == SEALED and sent.receipt is not None]
    return {
        f"{one.receipt.ledgerId}:{one.receipt.entryId}": one.entry.messages[0].size for one in sealed if one.receipt
    }


def fits_sealed(event: Held, size: int) -> bool:
    """Whether a ciphertext can have this plain size: a single message with its tag, or one in a batch."""
    return event.size + 16 == size if event.id.endswith(":-1") else event.size + 16 < size


def set_apart(sent: Sent, wire: Wire) -> bool:
    """Whether a SEND does not belong to the application."""
    if not sent.topic:
        # The broker's own client connected before the capture. If all clients did, no SEND is excluded.
        return sent.midstream and wire.name not in MIDSTREAM
    return is_system_topic(sent.topic) or sent.topic.endswith(SENT_BY_CLIENTS.get(wire.name, ()))


@pytest.fixture(scope="module", params=NAMES)
def story(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Wire]:
    name = request.param
    if name in UNREADABLE:
        pytest.skip(UNREADABLE[name])
    truth = json.loads((CORPUS / f"{name}.truth.json").read_text())
    return truth, Wire(name, truth)


def test_all_captures_are_present(captures: Path) -> None:
    assert captures.resolve() == CORPUS.resolve()
    assert len(NAMES) > 100


def test_every_entry_can_be_opened(story: tuple[dict[str, Any], Wire]) -> None:
    _, wire = story
    if wire.name in DAMAGED:
        pytest.skip(DAMAGED[wire.name])
    assert wire.problems == []
    states = {sent.entry.state for sent in wire.sent} | {entry.state for _, entry in wire.received}
    sealed = {SEALED} if wire.name in {name for name, _ in TAKES_CIPHERTEXT} else set()
    assert states <= {OPEN, CHUNK} | sealed


def test_every_produced_event_has_a_send(story: tuple[dict[str, Any], Wire]) -> None:
    truth, wire = story
    if wire.name in DAMAGED:
        pytest.skip(DAMAGED[wire.name])
    receipted = Counter(
        wire.held(sent.receipt, one) for sent in wire.sent if sent.receipt for one in sent.entry.messages
    )
    sends = Counter(wire.held(None, one) for sent in wire.sent for one in sent.entry.messages)
    if wire.name in NO_KEY_IN_PRODUCED:
        receipted, sends = without_keys(receipted), without_keys(sends)
    early, sealed = before_the_capture(truth, wire), sealed_sizes(wire)
    events: Counter[Held] = Counter()
    for event in sent_events(truth):
        said = wire.event(event) if "sha1" in event else None
        if said is None or place(said.id) in early:
            continue
        if place(said.id) in sealed:
            assert fits_sealed(said, sealed[place(said.id)])
        else:
            events[said] += 1
    assert without_ids(events) - sends == Counter()
    assert Counter({one: count for one, count in events.items() if one.id}) - receipted == Counter()


def test_every_send_with_a_receipt_has_an_event(story: tuple[dict[str, Any], Wire]) -> None:
    truth, wire = story
    expected_events = sent_events(truth)
    # Some programs record only the ids of messages sent in a transaction.
    ids_alone = {place(wire.spoken(event["message_id"])) for event in expected_events if "sha1" not in event}
    events = Counter(wire.event(event) for event in expected_events if "sha1" in event)
    sealed = sealed_sizes(wire)
    sends: Counter[Held] = Counter()
    for sent in wire.sent:
        if sent.receipt is None or set_apart(sent, wire):
            continue
        for one in sent.entry.messages:
            held = wire.held(sent.receipt, one)
            if place(held.id) in sealed:
                assert place(held.id) in {place(event.id) for event in events}
            elif place(held.id) not in ids_alone and (wire.name, place(held.id)) not in NO_PRODUCED_EVENT:
                sends[held] += 1
    if wire.name in NO_KEY_IN_PRODUCED:
        sends = without_keys(sends)
    if wire.name.startswith("flex/"):
        sends = without_ids(sends)  # this client does not expose the ids of sent messages
    assert sends - events == Counter()


def test_every_received_event_has_a_message(story: tuple[dict[str, Any], Wire]) -> None:
    truth, wire = story
    if wire.name in DAMAGED:
        pytest.skip(DAMAGED[wire.name])
    frames = Counter(wire.held(where, one) for where, entry in wire.received for one in entry.messages)
    early, sealed = before_the_capture(truth, wire), sealed_sizes(wire)
    events: Counter[Held] = Counter()
    for event in truth["events"]:
        said = wire.event(event) if event["type"] == "received" and "sha1" in event else None
        if said is None or place(said.id) in early:
            continue
        if place(said.id) in sealed and (wire.name, event["subscription"]) not in TAKES_CIPHERTEXT:
            assert fits_sealed(said, sealed[place(said.id)])
        else:
            events[said] += 1
    assert events - frames == Counter()


def test_values_decode_with_the_schemas_of_the_capture(story: tuple[dict[str, Any], Wire]) -> None:
    truth, wire = story
    for where, _, value in wire.decoded:
        assert not isinstance(value, Problem), where
        json.dumps(value, allow_nan=False)
    by_id = {where: (version, value) for where, version, value in wire.decoded}
    for event in truth["events"]:
        if event["type"] == "decoded":
            ledger, entry, _, index = event["message_id"].split(":")
            version, value = by_id[f"{ledger}:{entry}:{index}"]
            assert version.hex() == event["schema_version"]
            assert isinstance(value, dict)
            assert sorted(value) == event["fields"]


@pytest.mark.parametrize(
    ("name", "count"),
    [("java/schemas", 16), ("java/schema-key-value", 8), ("java/schema-auto", 6), ("python/09-schemas", 40)],
)
def test_schemas_are_found(name: str, count: int) -> None:
    if name not in NAMES:
        pytest.skip("not in the small part of the corpus")
    wire = Wire(name, json.loads((CORPUS / f"{name}.truth.json").read_text()))
    assert len(wire.decoded) == count
