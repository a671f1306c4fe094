"""Which objects have series of their own, as a scraper sees their counters."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
from hypothesis import given

from pcli.codec.observe.metrics.object_series import OTHER, ObjectSeries
from pcli.codec.observe.metrics.own_series import HALF_LIFE_NS, HOLD_NS
from pcli.codec.observe.metrics.series_values import Histogram
from pcli.codec.steps import run_steps

SECOND = 1_000_000_000
NAME = "pulsar_in_messages_total"


class Scraped:
    """The series with the counter of topics, and a scraper that adds up increases as ``increase`` of PromQL does."""

    def __init__(self, limit: int) -> None:
        self.series = ObjectSeries(("namespace", "topic"), limit, (NAME,))
        self.now = 0
        self.published: Counter[str] = Counter()
        self.increases: Counter[str] = Counter()
        self.seen: dict[str, float] = {}

    def publish(self, **messages: int) -> None:
        """Publish messages to some of the topics."""
        for topic, count in messages.items():
            counters = self.series.values((topic,), count, self.now).counters
            counters[NAME] = counters.get(NAME, 0) + count
            self.published[topic] += count

    def scrape(self, seconds: float = 30, *, preferred: str = "", exist: str = "") -> dict[str, float]:
        """Let time pass, choose, and read the counters. ``exist`` are the topics that exist; all if empty."""
        self.now += round(seconds * SECOND)
        if exist:
            self.series.own.keep({(one,) for one in exist.split()})
        run_steps(self.series.choose(self.now, {(preferred,)}))
        found = {sample.labels[1]: float(sample.value) for _, sample in self.series.samples()}
        for topic, value in found.items():
            before = self.seen.get(topic, 0.0)
            assert value >= before, topic
            self.increases[topic] += int(value - before)
        self.seen = found
        return found


def test_every_object_has_its_series_while_there_is_room():
    scraped = Scraped(2)
    scraped.publish(orders=5, bills=1)
    assert scraped.scrape() == {"orders": 5, "bills": 1}


def test_the_others_share_one_series():
    scraped = Scraped(2)
    scraped.publish(orders=5, bills=1, late=2, later=3)
    assert scraped.scrape(0) == {"orders": 5, "bills": 1, OTHER: 5}


def test_a_busier_object_waits_until_every_scraper_has_read_the_last_value():
    scraped = Scraped(1)
    scraped.publish(quiet=10, busy=100)
    assert scraped.scrape(1) == {"quiet": 10, OTHER: 100}
    scraped.publish(quiet=1, busy=100)
    assert scraped.scrape(HOLD_NS / SECOND - 1) == {"quiet": 10, OTHER: 201}
    scraped.publish(busy=100)
    assert scraped.scrape(1) == {"busy": 0, OTHER: 301}
    scraped.publish(busy=7)
    assert scraped.scrape() == {"busy": 7, OTHER: 301}


def test_an_idle_object_is_replaced_at_once():
    scraped = Scraped(1)
    scraped.publish(idle=1)
    scraped.scrape(HOLD_NS / SECOND)
    scraped.publish(busy=100)
    assert scraped.scrape(1) == {"busy": 0, OTHER: 100}


def test_an_object_that_is_slightly_busier_replaces_no_other():
    scraped = Scraped(1)
    for _ in range(20):
        scraped.publish(first=10, second=19)
        assert set(scraped.scrape()) == {"first", OTHER}


def test_an_object_with_a_finding_precedes_a_busy_object():
    scraped = Scraped(1)
    scraped.publish(busy=1_000, stuck=1)
    scraped.scrape(1, preferred="stuck")
    assert "stuck" in scraped.scrape(HOLD_NS / SECOND, preferred="stuck")


def test_the_series_of_an_object_that_ended_end():
    scraped = Scraped(2)
    scraped.publish(orders=5, bills=1)
    assert scraped.scrape(1, exist="bills") == {"orders": 5, "bills": 1}
    assert scraped.scrape(HOLD_NS / SECOND, exist="bills") == {"bills": 1}


def test_activity_is_forgotten():
    scraped = Scraped(1)
    scraped.publish(before=1_000)
    scraped.now += 10 * HALF_LIFE_NS
    scraped.publish(now=10)
    assert set(scraped.scrape(0)) == {"now", OTHER}


@given(
    limit=st.integers(1, 3),
    steps=st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 50), max_size=6),
            st.integers(1, 60),
            st.sampled_from([*"abcdef", ""]),
            st.sampled_from(["", "a b c", "d e f", "a f"]),
        ),
        max_size=40,
    ),
)
def test_no_message_is_lost_or_counted_twice(limit, steps):
    """Whatever topics come, go and take turns: the increases add up to the messages, and no counter decreases."""
    scraped = Scraped(limit)
    for messages, seconds, preferred, exist in steps:
        scraped.publish(**messages)
        found = scraped.scrape(seconds, preferred=preferred, exist=exist)
        assert len(found) <= limit + 1
        assert scraped.increases.total() == scraped.published.total()
        own = Counter({topic: count for topic, count in scraped.increases.items() if topic != OTHER})
        assert own <= scraped.published


def test_a_histogram_counts_each_duration_in_one_bucket():
    histogram = Histogram()
    for duration in (0, 500_000, 500_001, 300 * SECOND, 301 * SECOND):
        histogram.observe(duration)
    assert histogram.counts[:2] == [2, 1]
    assert histogram.counts[-2:] == [1, 1]
    assert histogram.sum_ns == 1_000_001 + 601 * SECOND
