"""The histories of scalable topics and of consumers that are registered with their controllers."""

from __future__ import annotations

import pytest

from pcli.codec.capture import CapturedFrame, ReadOptions, read_capture
from pcli.codec.capture.frames import StreamEnd
from pcli.codec.observe import Observer
from pcli.codec.observe.history.collector import HistoryCollector, known_names
from pcli.codec.observe.history.object_names import NameMatcher
from pcli.codec.observe.tracking.tracker import Tracker


@pytest.fixture
def history_of(captures_5):
    """Return the title, the texts of all events and the state of the only object with a name in a capture."""

    def of(capture, name, kind=""):
        tracker, collector = Tracker(), HistoryCollector(NameMatcher(name, kind))
        collector.follow(tracker)
        path = captures_5 / f"{capture}.pcap" if isinstance(capture, str) else capture
        observe = Observer().see
        with path.open("rb") as file:
            for item in read_capture([(path.name, file)], ReadOptions(ends=True)):
                if isinstance(item, CapturedFrame):
                    facts = observe(item)
                    tracker.see(facts)
                    collector.see(facts)
                elif isinstance(item, StreamEnd):
                    tracker.ended(item)
                    collector.settle(item.time_ns)
        (history,) = collector.found()
        state = history.finish(tracker.capture.last_ns)
        events = history.events(100, tracker.capture.first_ns)
        return history.title(), [one.text for one in events], state.text, set(known_names(tracker))

    return of


def test_a_topic_that_was_split_and_merged(history_of):
    title, events, state, names = history_of("split-merge-under-load", "sp2")
    assert title == "scalable topic sp2"
    assert events == [
        "The layout changed: create 0 (epoch 0).",
        "Consumer st/s1 was registered: segment 0.",
        "The layout changed: split 0 → 1, 2 (epoch 1).",
        "The layout changed: merge 1, 2 → 3 (epoch 2).",
        "Consumer st/s1 left with segment 3: the client closed the producer or consumer.",
    ]
    assert state.startswith("Epoch 2: 1 active segment, 3 sealed; controller pulsar://127.0.0.1:6650; 0 registered")
    assert {"topic://public/default/sp2", "s1", "topic://public/default/sp2/st/s1"} <= names


def test_a_segment_that_was_split_and_drained(history_of, small_captures):
    name = "segment://public/default/orders/0000-7fff-0"
    _, events, _, _ = history_of(small_captures / "java5" / "split.pcap", name)
    split = events.index("The segment was sealed: split 0 → 2, 3.")
    assert events[split + 1 : split + 3] == [
        "Subscription audit had acknowledged all messages of the sealed segment.",
        "Subscription work had acknowledged all messages of the sealed segment.",
    ]


def test_a_segment_with_a_backlog(history_of):
    name = "segment://public/default/reb/8000-bfff-2"
    _, events, state, _ = history_of("consumers-join-leave-crash", name)
    assert "Segment 2 had no consumer of subscription st from then on: s3 was lost." in events
    assert any(one.startswith("The controller assigned segment 2 of subscription st from s1 to s3") for one in events)
    assert not any("had acknowledged all messages" in one for one in events)
    assert "Backlog of subscription st: 126 entries" in state


def test_a_consumer_that_was_lost(history_of):
    title, events, state, _ = history_of("consumers-join-leave-crash", "s3")
    assert title == "consumer s3 (subscription st on scalable topic reb)"
    assert events[0] == "Registered with the controller (STREAM): segment 2."
    assert "The controller assigned segments 1, 3 (epoch 0)." in events
    assert "Segment 5 had no consumer of subscription st from then on: s3 was lost." in events
    assert state == "Not registered: the client closed the connection."


@pytest.mark.parametrize("name", ["reb/st/s2", "st/s2", "public/default/reb/st/s2"])
def test_longer_names_of_a_registered_consumer(history_of, name):
    title, events, _, _ = history_of("consumers-join-leave-crash", name, kind="consumer")
    assert title == "consumer s2 (subscription st on scalable topic reb)"
    assert "which had it after 201.2 ms (frame 395, refused once with ConsumerBusy)." in " ".join(events)


def test_a_refused_registration(history_of):
    _, events, _, _ = history_of("migrate", "persistent://public/default/old1/st/s1")
    assert events[0].startswith(
        "The controller refused the registration: UnknownError: Failed to initialize controller"
    )
