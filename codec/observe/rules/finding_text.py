"""Phrases that findings share: names, durations and frame numbers.

Names come from the wire. In sentences they are passed through `printable`; subjects contain them unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Final

from pcli.codec.observe.rules.finding import Moment
from pcli.codec.observe.text_format import latency_text, printable, short_topic
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

_JAVA: Final = re.compile(r"\b(?:[a-z]\w*\.)+[A-Z][\w$]*: ")
"""The name of a Java class before the message of an exception."""

_MAX_ERROR_MESSAGE: Final = 240
"""Maximum number of characters shown of an error message; dissect shows the whole message."""


_AT_ONCE_NS: Final = 1_000_000
"""Shorter times are treated as zero, because "0.02 ms before the end" is not useful."""


def span(nanoseconds: int) -> str:
    """Return a duration: ``4.1 s``, ``320 ms``, ``2 min 5 s``."""
    if nanoseconds < 1_000_000_000:
        return latency_text(nanoseconds)
    tenths = round(nanoseconds / 1e8)
    if tenths < 1200:
        return f"{tenths / 10:.1f} s"
    minutes, seconds = divmod(tenths // 10, 60)
    return f"{minutes} min {seconds} s"


def count_of(count: int, one: str, more: str = "") -> str:
    """Return ``1 message`` or ``50 messages``; ``more`` is an irregular plural."""
    return f"{count} {one}" if count == 1 else f"{count} {more or one + 's'}"


def times(count: int) -> str:
    """Return ``once``, ``twice``, ``8 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def at(frame: int) -> str:
    """Return a phrase such as ``frame 312``, or a phrase for an unknown frame if the number is 0."""
    return f"frame {frame}" if frame else "a frame that is not in the capture"


def when(moment: Moment, time_ns: int) -> str:
    """Return the time before the last frame: ``4.1 s before the end``, ``at the end``."""
    ago, last = moment.now_ns - time_ns, "the end" if moment.over else "the last frame"
    return f"{span(ago)} before {last}" if ago >= _AT_ONCE_NS else f"at {last}"


def frames_text(frames: Collection[int]) -> str:
    """Return ``frame 3`` or ``frames 3, 4, 9`` without duplicates; ``frames not kept`` if there are none."""
    numbers = dict.fromkeys(frames)
    if not numbers:
        return "frames not kept"
    return f"frame{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def first_of(seen: Occurrences) -> str:
    """Return the first counted item as ``, first 7:12``; empty if unknown."""
    return f", first {printable(seen.sample)}" if seen.sample else ""


def error_message(text: str) -> str:
    """Return a broker's error message as one line, without names of Java classes and nested causes."""
    words = " ".join(_JAVA.sub("", text).partition(" caused by ")[0].split())
    return printable(words if len(words) <= _MAX_ERROR_MESSAGE else words[: _MAX_ERROR_MESSAGE - 1] + "…")


def cause_text(culprit: str, certainty: str, alternatives: Sequence[str]) -> str:
    """Return ``the application, likely; or a client library that did not send the acknowledgements``."""
    name = "client library" if culprit == "client" else culprit
    return f"the {name}, {certainty}{''.join(f'; or {one}' for one in alternatives)}"


def about_consumer(consumer: ConsumerRecord) -> str:
    """Return ``consumer lazy (subscription work on orders)``."""
    if not consumer.subscription_name:
        where = f" on {short_topic(consumer.topic)}" if consumer.topic else ""
        return f"{_numbered(consumer)}{where} (its SUBSCRIBE is not in the capture)"
    name = f"consumer {printable(consumer.name)}" if consumer.name else "an unnamed consumer"
    return f"{name} (subscription {printable(consumer.subscription_name)} on {short_topic(consumer.topic)})"


def about_subscription(subscription: SubscriptionRecord) -> str:
    """Return ``subscription work on orders``."""
    return f"subscription {printable(subscription.name)} on {short_topic(subscription.topic.name)}"


def consumer_subject(consumer: ConsumerRecord) -> dict[str, Any]:
    """Return the subject of a finding about a consumer."""
    return {
        "topic": consumer.topic,
        "subscription": consumer.subscription_name,
        "consumer": consumer.name if consumer.subscription_name and consumer.name else _numbered(consumer),
    }


def subscription_subject(subscription: SubscriptionRecord) -> dict[str, Any]:
    """Return the subject of a finding about a subscription."""
    return {"topic": subscription.topic.name, "subscription": subscription.name}


def _numbered(consumer: ConsumerRecord) -> str:
    session = consumer.session
    return "a consumer" if session is None else f"consumer #{session.id} of stream {session.stream}"
