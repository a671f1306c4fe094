"""Filters on the index, and frames that are related to a frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pcli.cli.browse.related_frames import (
    acks_of,
    cause_of_redelivery,
    counterpart,
    message_frames,
    message_of,
    peer_frames,
)
from pcli.cli.browse.row_filter import matching_rows, visible_rows
from pcli.cli.common.capture_reading import CaptureReading
from pcli.codec.observe import compile_filter, follow
from pcli.codec.wire import MessageId
from pcli.codec.wire.commands import BY_NAME

SMALL = Path(__file__).parents[2] / "captures"
MESSAGE = BY_NAME["MESSAGE"].number
NACK = SMALL / "go" / "nack.pcap"

FILTERS = [
    'pulsar.type == "MESSAGE"',
    'pulsar.type == "MESSAGE" and pulsar.message.redelivery_count > 0',
    'not pulsar.type == "FLOW"',
    "tcp.stream == 0 and pulsar.number < 20",
    "frame.number >= 15",
    'pulsar.topic contains "nack" or pulsar.number == 1',
    "pulsar.latency > 0.001",
    "pulsar.number == 7 xor pulsar.number == 8",
    'pulsar.from == "broker"',
    "pulsar.number == 999999",
]


@pytest.mark.parametrize("text", FILTERS)
def test_a_filter_selects_the_frames_that_dissect_selects(indexed, text):
    frames = indexed(NACK)
    expected = [facts.frame.number for facts in CaptureReading(files=[str(NACK)], filter=text).facts()]
    rows = visible_rows(frames.index, 0, frames.index.count, system=False)
    found = [part for _, part in matching_rows(frames, compile_filter(text), rows)]
    assert np.concatenate(found).tolist() == expected


def test_a_filter_for_a_connection_decodes_only_its_frames(indexed, monkeypatch):
    frames = indexed(SMALL / "flex" / "04-reconnect.pcapng")
    decoded = []
    rebuilt = frames.rebuilt
    monkeypatch.setattr(frames, "rebuilt", lambda number, row: decoded.append(row.stream) or rebuilt(number, row))
    rows = visible_rows(frames.index, 0, frames.index.count, system=True)
    for _ in matching_rows(frames, compile_filter('tcp.stream == 1 and pulsar.topic contains "a"'), rows):
        pass
    assert set(decoded) == {1}


def types(frames, numbers):
    from pcli.codec.wire import name_of

    return [name_of(frames.facts(int(number)).frame.type) for number in numbers]


def first(frames, text):
    matches = compile_filter(text).match
    return next(frames.facts(n) for n in range(1, frames.index.count + 1) if matches(frames.facts(n)))


def test_a_request_and_its_response(indexed):
    frames = indexed(NACK)
    subscribe = first(frames, 'pulsar.type == "SUBSCRIBE"')
    success = frames.facts(counterpart(subscribe))
    assert types(frames, [success.frame.number]) == ["SUCCESS"]
    assert counterpart(success) == subscribe.frame.number


def test_the_frames_of_a_message_are_those_of_follow(indexed):
    frames = indexed(NACK)
    message = message_of(frames, first(frames, 'pulsar.type == "MESSAGE" and pulsar.message.redelivery_count > 0'))
    expected = follow.about_message(CaptureReading(files=[str(NACK)]).facts(), message)
    assert message_frames(frames, message).tolist() == sorted(expected)
    assert message_of(frames, first(frames, 'pulsar.type == "SEND"')) == MessageId(message.ledger, 0)


def test_a_message_and_its_acknowledgements(indexed):
    frames = indexed(NACK)
    ack = first(frames, 'pulsar.type == "ACK"')
    deliveries = acks_of(frames, ack)
    assert set(types(frames, deliveries)) == {"MESSAGE"}
    assert ack.frame.number in acks_of(frames, frames.facts(deliveries[-1]))


def test_the_cause_of_a_redelivery_is_the_negative_acknowledgement(indexed):
    frames = indexed(NACK)
    again = first(frames, 'pulsar.type == "MESSAGE" and pulsar.message.redelivery_count > 0')
    number, _ = cause_of_redelivery(frames, again)
    assert types(frames, [number]) == ["REDELIVER_UNACKNOWLEDGED_MESSAGES"]
    assert number < again.frame.number
    assert cause_of_redelivery(frames, first(frames, 'pulsar.type == "SEND"'))[0] == 0


CAUSES = [
    ("java/seek.pcap", "SEEK"),
    ("go/transaction.pcap", "END_TXN"),
    ("java/unload.pcap", "CLOSE_CONSUMER"),
    ("flex/03-nack-redelivery.pcap", "REDELIVER_UNACKNOWLEDGED_MESSAGES"),
    ("java/killed-consumer.pcap", "MESSAGE"),
]


@pytest.mark.parametrize(("name", "cause"), CAUSES)
def test_the_cause_of_a_redelivery(indexed, captures, name, cause):
    frames = indexed(captures / name)
    deliveries = np.flatnonzero(frames.index.columns["type"] == MESSAGE) + 1
    found = [cause_of_redelivery(frames, frames.facts(int(one))) for one in deliveries]
    assert {types(frames, [number])[0] for number, _ in found if number} == {cause}


def test_the_frames_of_a_consumer_are_those_of_follow(indexed):
    frames = indexed(NACK)
    facts = first(frames, 'pulsar.type == "MESSAGE"')
    expected = [
        one.frame.number
        for one in CaptureReading(files=[str(NACK)]).facts()
        if follow.of_consumer(facts.peer.name)(one)
    ]
    assert peer_frames(frames, facts).tolist() == expected
