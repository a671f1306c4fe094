"""What findings have in common: how things are called, how long it was, and how sure one may be.

Rules of this file
1. Names come from the wire, so they pass `printable` before they stand in a sentence; subjects keep them as they are.
2. Doubts are of two kinds. Some only shorten the view (it began earlier, it goes on): what is there is there. With
   the others frames may be missing in the middle: what is absent may have been said.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from pcli.codec.observe.rules.finding import Moment
from pcli.codec.observe.text_format import latency_text, printable, short_topic
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.counters import Tally
from pcli.codec.observe.tracking.records.missing_evidence import DOUBTS
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

__all__ = [
    "EDGES",
    "HOLES",
    "about_consumer",
    "about_subscription",
    "at",
    "certainty",
    "consumer_subject",
    "count_of",
    "first_of",
    "frames_text",
    "said",
    "span",
    "subscription_subject",
    "times",
    "when",
    "why_unsure",
]

EDGES: Final = frozenset(("start", "end"))
"""Doubts with which the view is only shorter: what lies in it is all there."""

HOLES: Final = frozenset(("gap", "cut", "one_way", "weak_sync", "evicted"))
"""Doubts with which frames may be missing in the middle."""

_JAVA: Final = re.compile(r"\b(?:[a-z]\w*\.)+[A-Z][\w$]*: ")
"""The name of a Java class in front of what an exception says."""

_SAID: Final = 240
"""Characters of it that are told: dissect shows all."""


_AT_ONCE_NS: Final = 1_000_000
"""Who reads "0.02 ms before the end" learns nothing by it."""


def certainty(doubts: Collection[str], best: str = "certain") -> str:
    """How sure one may be that something was NOT there: ``best``, or less for these doubts of the record."""
    if HOLES.intersection(doubts):
        return "possible"
    return "likely" if doubts and best == "certain" else best


def why_unsure(doubts: Iterable[str]) -> str:
    """The doubts in words, to end a sentence about the opposite; empty without any."""
    words = [DOUBTS[one] for one in sorted(doubts)]
    return f" Mind that {'; '.join(words)}." if words else ""


def span(nanoseconds: int) -> str:
    """A duration: ``4.1 s``, ``320 ms``, ``2 min 5 s``."""
    if nanoseconds < 1_000_000_000:
        return latency_text(nanoseconds)
    tenths = round(nanoseconds / 1e8)
    if tenths < 1200:
        return f"{tenths / 10:.1f} s"
    minutes, seconds = divmod(tenths // 10, 60)
    return f"{minutes} min {seconds} s"


def count_of(count: int, one: str, more: str = "") -> str:
    """``1 message``, ``50 messages``; ``more`` is the plural when it is not by s."""
    return f"{count} {one}" if count == 1 else f"{count} {more or one + 's'}"


def times(count: int) -> str:
    """``once``, ``twice``, ``8 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def at(frame: int) -> str:
    """``frame 312``; a frame that is not known says so."""
    return f"frame {frame}" if frame else "a frame that is not in the capture"


def when(moment: Moment, time_ns: int) -> str:
    """``4.1 s before the end``, ``at the end``: how long ago it was, seen from the last frame."""
    ago, last = moment.now_ns - time_ns, "the end" if moment.over else "the last frame"
    return f"{span(ago)} before {last}" if ago >= _AT_ONCE_NS else f"at {last}"


def frames_text(frames: Collection[int]) -> str:
    """``frame 3``, ``frames 3, 4, 9``, each once; ``frames not kept`` without any."""
    numbers = dict.fromkeys(frames)
    if not numbers:
        return "frames not kept"
    return f"frame{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def first_of(seen: Tally) -> str:
    """``, first 7:12``: the first of what was counted; empty when that is not known."""
    return f", first {printable(seen.sample)}" if seen.sample else ""


def said(text: str) -> str:
    """What a broker says with an error: one line, without the names of Java classes and what caused the cause."""
    words = " ".join(_JAVA.sub("", text).partition(" caused by ")[0].split())
    return printable(words if len(words) <= _SAID else words[: _SAID - 1] + "…")


def about_consumer(consumer: ConsumerRecord) -> str:
    """``lazy (subscription work on orders)``."""
    if not consumer.subscription_name:
        where = f" on {short_topic(consumer.topic)}" if consumer.topic else ""
        return f"{_numbered(consumer)}{where} (its SUBSCRIBE is not in the capture)"
    name = printable(consumer.name) if consumer.name else "an unnamed consumer"
    return f"{name} (subscription {printable(consumer.subscription_name)} on {short_topic(consumer.topic)})"


def about_subscription(subscription: SubscriptionRecord) -> str:
    """``subscription work on orders``."""
    return f"subscription {printable(subscription.name)} on {short_topic(subscription.topic.name)}"


def consumer_subject(consumer: ConsumerRecord) -> dict[str, Any]:
    """What a finding about a consumer is about."""
    return {
        "topic": consumer.topic,
        "subscription": consumer.subscription_name,
        "consumer": consumer.name if consumer.subscription_name and consumer.name else _numbered(consumer),
    }


def subscription_subject(subscription: SubscriptionRecord) -> dict[str, Any]:
    """What a finding about a subscription is about."""
    return {"topic": subscription.topic.name, "subscription": subscription.name}


def _numbered(consumer: ConsumerRecord) -> str:
    session = consumer.session
    return "a consumer" if session is None else f"consumer #{session.id} of stream {session.stream}"
