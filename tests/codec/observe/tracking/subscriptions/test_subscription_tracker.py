"""Lifecycles contain every event of the truth files of the whole corpus."""

from __future__ import annotations

import io
from collections import defaultdict
from typing import Any

from pcli.codec.capture import CapturedFrame, Note, ReadOptions, read_capture
from pcli.codec.capture.frames import StreamEnd
from pcli.codec.observe import Observer
from pcli.codec.observe.tracking.records.lifecycle import Delivery, Lifecycle
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.proto import pb

INCOMPLETE = (
    "java/cut-packets", "java/late-capture", "python/21-tls", "python/30-snaplen-96", "python/32-midstream",
    "python/36-ends-mid-frame", "python/36b-ends-mid-record", "python/37-packets-lost",
)  # fmt: skip
"""Captures that lack the frames of the events."""

Place = tuple[int, int]


class CaptureContents:
    """Return the lifecycles of a capture, and the contents of its ACK frames parsed with protobuf alone."""

    def __init__(self, data: bytes) -> None:
        self.lives: list[Lifecycle] = []
        self.by_id: dict[Place, list[Lifecycle]] = defaultdict(list)
        self.singles: set[tuple[str, Place]] = set()
        self.marks: dict[str, list[Place]] = defaultdict(list)
        observer, tracker = Observer(), Tracker(on_lifecycle=self.lives.append)
        for item in read_capture([("", io.BytesIO(data))], ReadOptions(ends=True)):
            if isinstance(item, CapturedFrame):
                facts = observer.see(item)
                tracker.see(facts)
                if item.type == pb.BaseCommand.ACK:
                    self.note(getattr(facts.peer, "subscription", ""), item.body)
            elif isinstance(item, StreamEnd):
                tracker.ended(item)
            elif isinstance(item, Note):
                tracker.note(item)
        tracker.finish()
        for life in self.lives:
            for at in [(one[2], one[3]) for one in life.chunks] or [(life.ledger, life.entry)]:
                self.by_id[at].append(life)

    def note(self, subscription: str, ack: Any) -> None:
        for one in ack.message_id:
            at = (one.ledgerId, one.entryId)
            if ack.ack_type == pb.CommandAck.Cumulative:
                self.marks[subscription].append(at)
            else:
                self.singles.add((subscription, at))

    def on_the_wire(self, subscription: str, at: Place) -> bool:
        """Whether an ACK covers it: clients group acks, keep those of partial batches, and may stop before sending."""
        return (subscription, at) in self.singles or any(mark >= at for mark in self.marks[subscription])

    def deliveries(self, event: dict[str, Any], at: Place) -> list[Delivery]:
        """Return the deliveries to the subscription of an event. The name of a reader's is not in the event."""
        name = event.get("subscription")
        return [
            one
            for life in self.by_id[at]
            for subscription, found in life.deliveries.items()
            for one in found
            if subscription == name or not name
        ]


def place(event: dict[str, Any]) -> Place | None:
    """Return the ledger and entry of an event, or None for other forms of ids (non-persistent, scalable)."""
    words = str(event.get("message_id", "")).split(":")
    return None if len(words) < 2 or event["topic"].startswith("non-persistent") else (int(words[0]), int(words[1]))


def test_every_event_of_an_application_is_in_a_lifecycle(corpus: Any) -> None:
    counted: dict[str, int] = defaultdict(int)
    for name in corpus.names():
        if name in INCOMPLETE or "scalable" in name:
            continue
        contents = CaptureContents(corpus.data(name))
        for event in corpus.truth(name)["events"]:
            kind = event["type"]
            at = place(event) if kind in ("produced", "received", "acked", "ack_cumulative", "nacked") else None
            if at is None:
                continue
            counted[kind] += 1
            if kind == "produced":
                assert any(life.sent_frame and life.receipt_frame for life in contents.by_id[at]), (name, event)
                continue
            deliveries = contents.deliveries(event, at)
            assert deliveries, (name, event)
            if kind == "nacked":
                assert any(one.again[0] for one in deliveries), (name, event)
            elif kind != "received" and event.get("subscription") and contents.on_the_wire(event["subscription"], at):
                assert any(one.acks for one in deliveries), (name, event)
    assert counted["produced"] > 10_000
    assert counted["received"] > 14_000
    assert counted["acked"] > 11_000
    assert counted["nacked"] > 100


def test_each_non_persistent_message_has_a_lifecycle(corpus: Any) -> None:
    for name in ("java/non-persistent", "python/19-non-persistent"):
        contents = CaptureContents(corpus.data(name))
        events = corpus.truth(name)["events"]
        mine = [life for life in contents.lives if life.topic is not None and not life.topic.persistent]
        assert len(mine) == sum(event["type"] == "produced" for event in events)
        assert {life.state for life in mine} == {"non_persistent"}
        received = sum(event["type"] == "received" for event in events)
        assert sum(len(found) for life in mine for found in life.deliveries.values()) >= received


def test_a_chunked_message_has_one_lifecycle(corpus: Any) -> None:
    contents = CaptureContents(corpus.data("python/07-chunked"))
    chunked = [life for life in contents.lives if life.num_chunks]
    assert len({life.uuid for life in chunked}) == len(chunked) > 0
    for life in chunked:
        assert [one[0] for one in life.chunks] == list(range(life.num_chunks))
        assert [one.chunk for one in life.deliveries["sink"]] == list(range(life.num_chunks))
        assert life.state == "acked"
