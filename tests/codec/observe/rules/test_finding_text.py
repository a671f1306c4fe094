"""Texts of times, numbers, names and doubts in findings."""

import pytest

from pcli.codec.observe.rules import Moment
from pcli.codec.observe.rules.finding import certainty, why_unsure
from pcli.codec.observe.rules.finding_text import (
    about_consumer,
    consumer_subject,
    count_of,
    error_message,
    frames_text,
    span,
    times,
    when,
)
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.observe.tracking.records.missing_evidence import DOUBTS

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (320_000_000, "320.0 ms"),
        (4_100_000_000, "4.1 s"),
        (119_900_000_000, "119.9 s"),
        (120_000_000_000, "2 min 0 s"),
        (125 * SECOND, "2 min 5 s"),
    ],
)
def test_durations(nanoseconds, text):
    assert span(nanoseconds) == text


def test_numbers():
    assert count_of(1, "entry", "entries") == "1 entry"
    assert count_of(0, "entry", "entries") == "0 entries"
    assert count_of(2, "message") == "2 messages"


def test_frames():
    assert frames_text([]) == "frames not kept"
    assert frames_text([3]) == "frame 3"
    assert frames_text([3, 9, 3]) == "frames 3, 9"


@pytest.mark.parametrize(("count", "text"), [(1, "once"), (2, "twice"), (3, "3 times")])
def test_times_as_words(count, text):
    assert times(count) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Topic was already terminated", "Topic was already terminated"),
        (
            "org.apache.pulsar.broker.service.BrokerServiceException$NamingException: taken by 1.2.3: x",
            "taken by 1.2.3: x",
        ),
        ("a.b.CException: no\n  way caused by a.b.CException: no\n  way", "no way"),
        ("\x1b[2J", "\\x1b[2J"),
        ("word " * 100, ("word " * 48)[:239] + "…"),
    ],
)
def test_error_messages_of_brokers(text, told):
    assert error_message(text) == told


@pytest.mark.parametrize(("over", "text"), [(True, "2.0 s before the end"), (False, "2.0 s before the last frame")])
def test_times_before_the_end(over, text):
    moment = Moment(5 * SECOND, over=over, capture=CaptureRecord())
    assert when(moment, 3 * SECOND) == text
    assert when(moment, 5 * SECOND - 20_000) == f"at {text.partition('before ')[2]}"


def test_gaps_reduce_certainty_more_than_edges():
    assert certainty(set()) == "certain"
    assert certainty({"end"}) == "likely"
    assert certainty({"end", "gap"}) == "possible"
    assert certainty(set(), "likely") == "likely"
    assert certainty({"start"}, "likely") == "likely"


@pytest.mark.parametrize("doubt", DOUBTS)
def test_every_doubt_has_a_description(doubt):
    assert DOUBTS[doubt] in why_unsure({doubt})


def test_names_from_the_wire_break_no_line(consumer):
    assert about_consumer(consumer("a\x1b[0m\nb")) == "consumer a\\x1b[0m\\nb (subscription work on orders)"


def test_a_consumer_without_a_name_or_without_its_subscribe(consumer):
    assert about_consumer(consumer("")) == "an unnamed consumer (subscription work on orders)"
    unknown = "consumer #3 of stream 0 on orders (its SUBSCRIBE is not in the capture)"
    assert about_consumer(consumer("1#0", subscription_name="")) == unknown
    nowhere = consumer("1#0", subscription_name="", topic="")
    assert about_consumer(nowhere) == "consumer #3 of stream 0 (its SUBSCRIBE is not in the capture)"
    assert consumer_subject(nowhere)["consumer"] == "consumer #3 of stream 0"
