"""Collection of the metrics of live traffic from a diagnosis.

Rules of this file
1. `see` receives every frame. `update` receives the time and the new findings, at least every few seconds; it brings
   counters and gauges up to date. Latencies are counted frame by frame.
2. The traffic of the broker's internal client is omitted, as in `pcli top`.
3. A gauge that the capture does not show has no sample. The shared series of a gauge is the sum of the known values.
4. The segments of a scalable topic are one topic, unless `segments` is set.
5. A finding counts once, and again with its new severity if that has risen, so that the counter of errors increases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import sub
from typing import Any, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.metrics.gauges import Gauges
from pcli.codec.observe.metrics.metric_table import CONSUMER, METRICS, SUBSCRIPTION, TOPIC, Metric
from pcli.codec.observe.metrics.object_series import ObjectSeries
from pcli.codec.observe.metrics.own_series import Key
from pcli.codec.observe.metrics.series_values import Exemplar, Histogram, Sample
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.rules import RULES, Finding
from pcli.codec.observe.rules.finding import SEVERITIES
from pcli.codec.observe.system_topics import is_system_subscription
from pcli.codec.observe.telemetry.lifecycle_spans import frames_of, message_trace_id
from pcli.codec.observe.telemetry.message_contexts import MessageContexts
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.records.topic_records import TopicRecord
from pcli.codec.observe.tracking.subscriptions.topic_state import TopicState
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.scalable.segment_name import name_without_segment, scalable_topic
from pcli.codec.steps import Steps

Families = list[tuple[Metric, list[Sample]]]
"""All metrics with their samples."""

_MAX_IDENTITIES: Final = 50_000
"""Maximum number of findings that are recognized when they are reported again."""

_MAX_CONCERNED: Final = 1_000

_CONCERNED_NS: Final = 600_000_000_000
"""Time for which an object with a finding precedes the others."""

_MAX_CONTEXTS: Final = 10_000
"""Maximum number of frames whose trace headers are kept for exemplars."""

_EXEMPLAR_NS: Final = 1_000_000_000
"""Minimum age of the exemplar of a bucket before another one replaces it."""

_FORGET_NS: Final = 5_000_000_000
"""Minimum time between two removals of what has ended."""

_KEPT_NS: Final = 300_000_000_000
"""Time for which the records of what has ended are kept, so that a client that reconnects has the same record."""

_UNATTENDED_NS: Final = 3_600_000_000_000
"""Time for which a durable subscription without consumers is kept."""

_MAX_TOPICS: Final = 5_000
"""Number of topics above which the records of what has ended are not kept."""

_LATENCY: Final = {kind: f"pcli_{kind}_latency_seconds" for kind in ("publish", "dispatch", "acknowledge")}
_TOPIC_COUNTERS: Final = ("pulsar_in_messages_total", "pulsar_in_bytes_total")
_SUBSCRIPTION_COUNTERS: Final = (
    "pulsar_out_messages_total", "pcli_redelivered_messages_total", "pcli_dead_lettered_messages_total",
)  # fmt: skip


class MetricsCollector:
    """The metrics of the traffic that a diagnosis receives."""

    def __init__(self, top: int, *, segments: bool = False, cluster: str = "") -> None:
        """``top`` is the number of topics, of subscriptions and of consumers with series of their own.

        ``cluster`` is the name of the cluster in stable trace ids.
        """
        self.diagnosis = Diagnosis(tracker=partial(Tracker, on_latency=self._latency))
        self._segments, self._cluster = segments, cluster
        self._topics = ObjectSeries(TOPIC, top, _TOPIC_COUNTERS)
        self._subscriptions = ObjectSeries(SUBSCRIPTION, top, _SUBSCRIPTION_COUNTERS)
        self._consumers = ObjectSeries(CONSUMER, top, ())
        self._counted: dict[Key, tuple[int, ...]] = {}
        """The counts of topics, subscriptions and consumers at the last update."""
        self._findings: Counter[tuple[str, str]] = Counter()
        self._severities: BoundedDict[tuple[Any, ...], str] = BoundedDict(_MAX_IDENTITIES)
        """The highest severities with which findings were counted, by identity."""
        self._concerned: BoundedDict[Key, int] = BoundedDict(_MAX_CONCERNED)
        """Time of the last finding about an object."""
        self._contexts = MessageContexts(_MAX_CONTEXTS)
        self._now_ns = self._forgotten_ns = 0
        self._families: Families = []
        """The metrics at the last update. The list is replaced, never changed."""

    def read(self) -> Families:
        """Return the metrics at the last update, in any thread."""
        return self._families

    def see(self, facts: Facts) -> None:
        """Process a frame that an Observer has processed."""
        frame = facts.frame
        self._now_ns = max(self._now_ns, frame.time_ns)
        self._contexts.see(facts)
        self.diagnosis.see(facts)

    def update(self, now_ns: int, findings: Iterable[Finding] = (), *, up: bool = True) -> Steps[None]:
        """Bring the metrics up to date. ``findings`` may repeat; ``up`` is whether the source is still read.

        Frames can be processed between the steps, but no two updates can be done at the same time.
        """
        self._now_ns = max(self._now_ns, now_ns)
        for one in findings:
            self._count_finding(one)
        topics = self.diagnosis.subscriptions.lifecycles.topics
        shown = {name: one for name, one in topics.items() if name and not one.record.system}
        yield from self._count_all(shown.values())
        yield from self._forget()
        shown = {name: one for name, one in shown.items() if name in topics}
        yield
        concerned = {key for key, time_ns in self._concerned.items() if self._now_ns - time_ns < _CONCERNED_NS}
        for series in (self._topics, self._subscriptions, self._consumers):
            yield from series.choose(self._now_ns, concerned)
        samples: dict[str, list[Sample]] = {name: [] for name in METRICS}
        gauges = Gauges(self._topics, self._subscriptions, self._consumers, self._row)
        yield from gauges.add_all(shown, self._now_ns, sums=not self._segments)
        for name, sample in chain(self._topics.samples(), self._subscriptions.samples(), gauges.samples()):
            samples[name].append(sample)
        for name, labels, value in self._totals(shown, up=up):
            samples[name].append(Sample(labels, value))
        self._families = [(METRICS[name], found) for name, found in samples.items()]

    def fail(self) -> None:
        """Remove all metrics except the one that says that no traffic is read, because of an error."""
        self._families = [(METRICS["pcli_source_up"], [Sample((), 0)])]

    def _forget(self) -> Steps[None]:
        """Remove what has ended, after it was counted. If there are many topics, all that ended are removed at once."""
        if self._now_ns - self._forgotten_ns < _FORGET_NS:
            return
        self._forgotten_ns = self._now_ns
        topics = self.diagnosis.subscriptions.lifecycles.topics
        few = len(topics) <= _MAX_TOPICS
        yield from self.diagnosis.forget_ended(
            self._now_ns - (_KEPT_NS if few else 0), self._now_ns - (_UNATTENDED_NS if few else 0)
        )
        # A topic or subscription that appears again has a new record, which counts from 0.
        for key in list(self._counted):
            yield
            if not (key[0] in topics and (len(key) == 1 or key[1] in topics[key[0]].record.subscriptions)):
                del self._counted[key]

    def _totals(self, shown: Mapping[str, TopicState], *, up: bool) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Yield the metrics of the whole source: name, label values, value."""
        capture = self.diagnosis.capture
        for rule in RULES:
            for severity in SEVERITIES:
                yield "pcli_findings_total", (rule, severity), self._findings[rule, severity]
        for kind, count in capture.evicted.items():
            yield "pcli_evicted_records_total", (kind,), count
        subscriptions = [one for state in shown.values() for one in state.subscriptions.values()]
        yield "pcli_topics", (), len(shown)
        yield "pcli_subscriptions", (), len(subscriptions)
        yield "pcli_consumers", (), sum(len(one.attached) for one in subscriptions)
        yield "pcli_open_connections", (), self.diagnosis.connections.open_count
        yield "pcli_frames_total", (), capture.frames
        yield "pcli_capture_gaps_total", (), capture.gaps.count
        yield "pcli_last_frame_timestamp_seconds", (), capture.last_ns / 1e9
        yield "pcli_source_up", (), int(up)

    # -- counters

    def _count_finding(self, found: Finding) -> None:
        if not found.is_more_severe(self._severities.get(found.identity)):
            return
        self._severities[found.identity] = found.severity
        self._findings[found.rule, found.severity] += 1
        subject = found.subject
        names = [str(subject[part]) for part in ("topic", "subscription", "consumer") if subject.get(part)]
        for length in range(1, len(names) + 1):
            self._concerned[(self._row(names[0]), *names[1:length])] = self._now_ns

    def _row(self, topic: str) -> str:
        """Return the name under which a topic is shown."""
        return topic if self._segments else scalable_topic(topic) or topic

    def _count_all(self, topics: Iterable[TopicState]) -> Steps[None]:
        """Add what all topics have counted since the last update."""
        counted, self._counted = self._counted, {}
        existing: tuple[set[Key], set[Key], set[Key]] = (set(), set(), set())
        for state in topics:
            yield
            topic = state.record
            row = self._row(topic.name)
            existing[0].add((row,))
            self._topics.own.add((row,), self._now_ns)
            counts = (topic.messages_in, topic.bytes_in)
            self._increase(self._topics, (topic.name,), (row,), _TOPIC_COUNTERS, counts, counted)
            for record in topic.subscriptions.values():
                if is_system_subscription(record.name):
                    continue
                key = (row, record.name)
                again = sum(one.count for one in record.again.values())
                new = (record.delivered, again, record.dead_lettered.count)
                place = (topic.name, record.name)
                if not record.gone:
                    existing[1].add(key)
                    self._subscriptions.own.add(key, self._now_ns)
                self._increase(self._subscriptions, place, key, _SUBSCRIPTION_COUNTERS, new, counted)
            for name, one in state.subscriptions.items():
                for consumer in () if is_system_subscription(name) else one.attached:
                    own_name = consumer.record.name
                    shown = (row, name, own_name if self._segments else name_without_segment(own_name, topic.name))
                    at = (topic.name, name, str(consumer.stream), str(consumer.id))
                    existing[2].add(shown)
                    self._consumers.own.add(shown, self._now_ns)
                    self._increase(self._consumers, at, shown, (), (consumer.record.received,), counted)
        for series, keys in zip((self._topics, self._subscriptions, self._consumers), existing):
            yield
            series.own.keep(keys)

    def _increase(
        self,
        series: ObjectSeries,
        place: Key,
        shown: Key,
        names: Sequence[str],
        counts: tuple[int, ...],
        counted: Mapping[Key, tuple[int, ...]],
    ) -> None:
        """Add what a record has counted since the last update. The first of its counts are messages."""
        before = counted.get(place)
        # Records can be corrected, which decreases a count. Counters of series cannot decrease.
        self._counted[place] = after = counts if before is None else tuple(map(max, before, counts))
        if after == before:
            return
        new = after if before is None else tuple(map(sub, after, before))
        values = series.values(shown, new[0], self._now_ns)
        for name, count in zip(names, new):
            values.counters[name] = values.counters.get(name, 0) + count

    # -- latencies

    def _latency(
        self, kind: str, lifecycle: Lifecycle | None, topic: TopicRecord, subscription: str, duration_ns: int
    ) -> None:
        if not topic.name or topic.system or is_system_subscription(subscription):
            return
        now_ns, row = self._now_ns, self._row(topic.name)
        values = (
            self._subscriptions.values((row, subscription), 0, now_ns)
            if subscription
            else self._topics.values((row,), 0, now_ns)
        )
        histogram = values.histograms.setdefault(_LATENCY[kind], Histogram())
        bucket = histogram.observe(duration_ns)
        last = histogram.exemplars.get(bucket)
        if lifecycle is not None and (last is None or now_ns - last.time_ns >= _EXEMPLAR_NS):
            histogram.exemplars[bucket] = Exemplar(self._trace(lifecycle), duration_ns, now_ns)

    def _trace(self, lifecycle: Lifecycle) -> int:
        """Return the trace id of a message: that of its headers, or else its stable id."""
        for _, context in self._contexts.peek(frames_of(lifecycle)):
            return context.trace_id
        return message_trace_id(lifecycle, self._cluster)
