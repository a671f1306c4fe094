"""The time at which spans of live traffic leave, with the frames of captures and a clock that the test sets."""

from __future__ import annotations

import pytest

from pcli.cli.common.capture_reading import CaptureReading
from pcli.cli.export.live_spans import LiveSpans
from pcli.codec.observe.telemetry.message_spans import MessageSpans
from pcli.codec.observe.telemetry.sampling import Sampler
from pcli.codec.observe.telemetry.spans import Span

SECOND = 1_000_000_000


class Sender:
    """A sender that keeps everything."""

    def __init__(self):
        self.items = []

    def put(self, items):
        self.items += items

    def close(self):
        return 0

    @property
    def spans(self):
        return [one for one in self.items if isinstance(one, Span)]


@pytest.fixture
def play(small_captures):
    """Pass the frames of a capture, and poll after each second. Return the spans' sender and the time of the end."""

    def go(name, messages=None, horizon_s=1000.0):
        sender = Sender()
        live = LiveSpans(messages or MessageSpans(), sender, horizon_s)
        reading = CaptureReading([str(small_captures / name)], system=True)
        reading.on_note, reading.on_end = live.diagnosis.note, live.diagnosis.ended
        reading.connections = live.diagnosis.connections
        now = 0
        for facts in reading.facts():
            now = now or facts.frame.time_ns
            while facts.frame.time_ns - now >= SECOND:
                now += SECOND
                live.poll(now)
            with live.lock:
                live.see(facts)
        reading.finish()
        return live, sender, facts.frame.time_ns

    return go


def test_spans_leave_within_five_seconds_after_the_ack(play):
    live, sender, end = play("python/01-exclusive-unbatched.pcapng")
    live.poll(end + 5 * SECOND)
    left = len(sender.spans)
    live.finish()
    assert left > 50
    assert {one.attributes["messaging.pulsar.state"] for one in sender.spans[:left]} == {"acked"}
    assert {one.attributes["messaging.pulsar.state"] for one in sender.spans[left:]} == {"unacked"}


def test_an_incomplete_lifecycle_leaves_after_the_horizon_once(play):
    live, sender, end = play("python/25-no-flow.pcapng")
    before = len(sender.spans)
    live.poll(end + 2000 * SECOND)
    after = [one.span_id for one in sender.spans]
    assert len(after) > before
    live.finish()
    assert [one.span_id for one in sender.spans] == after


def test_messages_with_findings_leave_although_they_are_not_sampled(play):
    live, sender, end = play("python/10-shared-redelivery.pcap", MessageSpans(sampler=Sampler(0)))
    live.poll(end + 10 * SECOND)
    live.finish()
    assert sender.spans
    traces = {one.trace_id for one in sender.items if not isinstance(one, Span)}
    assert traces & {one.trace_id for one in sender.spans}


def test_the_spans_are_those_of_the_capture(play):
    """The same message has the same spans, however it was read."""
    live, sender, _ = play("python/10-shared-redelivery.pcap")
    live.finish()
    assert len({one.span_id for one in sender.spans}) == len(sender.spans) == 136


def test_lifecycles_that_leave_the_tracker_are_not_exported_again(play, monkeypatch):
    monkeypatch.setattr("pcli.codec.observe.tracking.subscriptions.open_lifecycles.MAX_COMPLETE", 2)
    live, sender, end = play("python/10-shared-redelivery.pcap")
    live.poll(end + 10 * SECOND)
    live.finish()
    assert len({one.span_id for one in sender.spans}) == len(sender.spans) == 136
