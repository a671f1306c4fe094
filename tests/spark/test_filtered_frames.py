"""A filter selects the same frames, with the same facts, whether the other frames are objects or columns."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.cli.common.capture_reading import CaptureReading
from pcli.codec.capture import ReadOptions
from pcli.codec.observe.tracking.connections import repeated_connections
from pcli.spark import filtered_frames, worker_server
from tests.conftest import SMALL

CAPTURES = sorted(map(str, SMALL.glob("*/*.pcap*")))

TERMS = (
    "pulsar.type == 'SUBSCRIBE'", "pulsar.type == 'SEND_RECEIPT'", "pulsar.type in {SEND MESSAGE}",
    "pulsar.type == 'ACK'",
    "pulsar.topic contains s", "pulsar.subscription == 'workers'", "pulsar.consumer_name contains 1",
    "pulsar.producer_name contains 0", "pulsar.system", "tcp.stream == 2", "tcp.port == 6650", "ip.addr == 127.0.0.1",
    "pulsar.from == client", "pulsar.message.redelivery_count > 0", "pulsar.message.redelivery_count == 0",
    "pulsar.message.redelivery_count", "pulsar.consumer_id == 1", "pulsar.message.message_id.ledgerId > 20",
    "pulsar.message.message_id.entryId in {1..40}", "pulsar.message.message_id.partition == -1",
    "pulsar.message_id contains 1", "pulsar.message.consumer_epoch", "pulsar.flow.messagePermits > 100",
    "pulsar.ack.ack_type == Cumulative", "pulsar.ack.request_id", "pulsar.send.sequence_id == 2",
    "pulsar.latency > 0.001",
    "pulsar.send_receipt.message_id.entryId != 1", "pulsar.problem", "pulsar.payload_size > 100", "pulsar.key",
)  # fmt: skip

COLUMNS = (
    "pulsar.message.redelivery_count > 0",
    "pulsar.message.message_id.entryId in {1..40}",
    "pulsar.flow.messagePermits > 100",
)


def joined(parts):
    return st.tuples(st.lists(parts, min_size=2, max_size=3), st.sampled_from((" and ", " or ", " xor "))).map(
        lambda drawn: f"({drawn[1].join(drawn[0])})"
    )


FILTERS = st.recursive(st.sampled_from(TERMS), lambda parts: parts.map("not ({})".format) | joined(parts), max_leaves=6)


def selected(path, text, *, system):
    """Return everything that a reading tells about the frames, the requests, the connections and the notes."""
    reading = CaptureReading([path], filter=text, system=system)
    frames = [
        (
            facts.frame.number, facts.frame.packet, facts.frame.time_ns, facts.frame.stream.number, facts.frame.offset,
            facts.frame.from_client, facts.frame.sync, facts.frame.data, facts.frame.capture_problems, facts.system,
            facts.request_number, facts.latency_ns, getattr(facts.peer, "topic", None),
            getattr(facts.peer, "name", None),
            reading.before_ns, reading.repeats,
        )
        for facts in reading.facts()
    ]  # fmt: skip
    unanswered = [request.number for request in reading.unanswered()]
    repeated = [record.stream for record in reading.connections.repeated()]
    totals = reading._totals
    counts = reading.first_ns, reading._frames, totals.packets, totals.files, totals.connections, totals.ports
    return frames, unanswered, repeated, repr(vars(reading._notes)), counts


def assert_equal_selection(path, text, window, *, system):
    """In small captures, most frames are skipped only if connections are new for a short time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeated_connections, "_MAX_FRAMES", 2)
        patch.setattr(filtered_frames, "_WINDOW", window)
        patch.setattr(filtered_frames, "has_long_connections", lambda *_: True)
        objects = selected(path, text, system=system)
        patch.setattr(worker_server, "SMALL_BYTES", 0)
        assert selected(path, text, system=system) == objects


@given(st.sampled_from(CAPTURES), FILTERS, st.sampled_from((1 << 10, 1 << 13, 1 << 20)), st.booleans())
@settings(deadline=None, max_examples=150)
def test_columns_change_no_result_of_a_filter(path, text, window, system):
    assert_equal_selection(path, text, window, system=system)


@pytest.mark.parametrize("text", COLUMNS)
def test_numbers_of_frequent_commands_are_compared_in_columns(text):
    for path in CAPTURES:
        assert_equal_selection(path, text, 1 << 10, system=True)


@pytest.mark.parametrize("cut", [7, 5000])
def test_the_frames_before_damage_are_selected(small_captures, tmp_path, cut):
    whole = (small_captures / "python" / "10-shared-redelivery.pcap").read_bytes()
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(whole[:-cut])
    assert_equal_selection(str(damaged), COLUMNS[0], 1 << 13, system=True)


@pytest.mark.parametrize(
    ("names", "window", "expected"),
    [
        (["python/37-packets-lost.pcap"], 1 << 16, True),
        (["python/10-shared-redelivery.pcap", "python/01-exclusive-unbatched.pcapng"], 1 << 20, False),
    ],
)
def test_connections_are_long_if_few_begin_in_the_second_window(small_captures, monkeypatch, names, window, expected):
    monkeypatch.setattr(filtered_frames, "_WINDOW", window)
    with ExitStack() as stack:
        files = [(name, stack.enter_context((small_captures / name).open("rb"))) for name in names]
        assert filtered_frames.has_long_connections(files, ReadOptions()) == expected
