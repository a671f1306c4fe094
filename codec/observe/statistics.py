"""Statistics of observed frames: rates, connections, command types, latencies, topics.

Rules of this file
1. Each class computes one table. `add` processes the facts of a frame. `rows` receives the requests without a response,
   and returns plain dicts with the columns in order. Times are in seconds, and sizes are in bytes. Unknown values are
   None.
2. Memory depends on the number of distinct values (types, connections, topics), not on the number of frames.
   Percentiles are computed from histograms with logarithmic buckets, with an error of at most one per cent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from pcli.codec.observe.observer_state import Consumer, Facts, Producer, Request
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.scalable.segment_name import name_without_segment, scalable_topic
from pcli.codec.wire.commands import BY_NAME, COMMANDS, PAYLOAD_TYPES, name_of

Row = dict[str, Any]

_BILLION: Final = 1_000_000_000
_SEND: Final = BY_NAME["SEND"].number
_MESSAGE: Final = BY_NAME["MESSAGE"].number
_ERRORS: Final = frozenset({BY_NAME["ERROR"].number, BY_NAME["SEND_ERROR"].number})


def _messages(facts: Facts) -> int:
    """Return the number of messages in an entry. A chunked message is counted at its last chunk."""
    metadata = facts.frame.metadata
    if metadata is None:
        return 1
    if metadata.HasField("chunk_id"):
        return int(metadata.chunk_id + 1 == metadata.num_chunks_from_msg)
    return max(1, metadata.num_messages_in_batch)


class Histogram:
    """A histogram of durations in nanoseconds, with buckets of one per cent."""

    __slots__ = ("_buckets", "count", "highest", "lowest")

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0
        self.lowest = self.highest = 0

    def add(self, nanoseconds: int) -> None:
        """Count a duration. The buckets count a negative duration (from interfaces with different clocks) as zero."""
        self.lowest = min(self.lowest, nanoseconds) if self.count else nanoseconds
        self.highest = max(self.highest, nanoseconds) if self.count else nanoseconds
        self.count += 1
        self._buckets[round(math.log(nanoseconds) * 100) if nanoseconds > 0 else -1] += 1

    def percentile(self, share: float) -> int | None:
        """Return the percentile for a share (0 to 1), or None if there are no durations."""
        if not self.count:
            return None
        wanted = max(1, math.ceil(share * self.count))
        reached = 0
        for bucket in sorted(self._buckets):
            reached += self._buckets[bucket]
            if reached >= wanted:
                middle = round(math.exp(bucket / 100)) if bucket >= 0 else 0
                return min(max(middle, self.lowest), self.highest)
        return self.highest


class Rates:
    """Frames, messages and bytes over time, in intervals given in seconds."""

    __slots__ = ("_first", "_interval", "_rows")

    def __init__(self, interval: float) -> None:
        self._interval = max(1, round(interval * _BILLION))
        self._first: int | None = None
        self._rows: dict[int, list[int]] = {}

    def add(self, facts: Facts) -> None:
        """Count one frame."""
        frame = facts.frame
        if self._first is None:
            self._first = frame.time_ns
        row = self._rows.setdefault((frame.time_ns - self._first) // self._interval, [0] * 6)
        row[0 if frame.from_client else 1] += 1
        row[2 if frame.from_client else 3] += frame.length
        if frame.type in PAYLOAD_TYPES:
            row[4 if frame.type == _SEND else 5] += _messages(facts)

    def rows(self, _unanswered: Sequence[Request] = ()) -> list[Row]:
        """Return a row for each interval with frames."""
        names = ("client_frames", "broker_frames", "client_bytes", "broker_bytes", "published", "delivered")
        length = self._interval / _BILLION
        return [
            {"from": round(place * length, 9), "to": round((place + 1) * length, 9), **dict(zip(names, row))}
            for place, row in sorted(self._rows.items())
        ]


class Connections:
    """A row for each TCP connection: addresses, duration, client version, traffic."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}

    def add(self, facts: Facts) -> None:
        """Count one frame."""
        frame = facts.frame
        row = self._rows.get(frame.stream.number)
        if row is None:
            row = self._rows[frame.stream.number] = {
                "stream": frame.stream.number,
                "client": "{}:{}".format(*frame.stream.client),
                "server": "{}:{}".format(*frame.stream.server),
                "version": None,
                "start_ns": frame.time_ns,
                "duration": 0.0,
                "client_frames": 0,
                "broker_frames": 0,
                "client_bytes": 0,
                "broker_bytes": 0,
                "published": 0,
                "delivered": 0,
            }
        row["duration"] = (frame.time_ns - row["start_ns"]) / _BILLION
        side = "client" if frame.from_client else "broker"
        row[f"{side}_frames"] += 1
        row[f"{side}_bytes"] += frame.length
        if frame.type in PAYLOAD_TYPES:
            row["published" if frame.type == _SEND else "delivered"] += _messages(facts)
        elif frame.type == BY_NAME["CONNECT"].number:
            row["version"] = str(frame.command.connect.client_version)

    def rows(self, _unanswered: Sequence[Request] = ()) -> list[Row]:
        """Return the connections in the order of their first frames."""
        return list(self._rows.values())


class Types:
    """Frames and bytes by sender and command type."""

    __slots__ = ("_bytes", "_counts")

    def __init__(self) -> None:
        self._counts: Counter[tuple[bool, int]] = Counter()
        self._bytes: Counter[tuple[bool, int]] = Counter()

    def add(self, facts: Facts) -> None:
        """Count one frame."""
        key = (facts.frame.from_client, facts.frame.type)
        self._counts[key] += 1
        self._bytes[key] += facts.frame.length

    def rows(self, _unanswered: Sequence[Request] = ()) -> list[Row]:
        """Return the client's types, then the broker's, by descending frequency, with shares per side."""
        sides = {side: sum(count for key, count in self._counts.items() if key[0] is side) for side in (True, False)}
        ordered = sorted(self._counts.items(), key=lambda item: (not item[0][0], -item[1], item[0][1]))
        return [
            {
                "from": "client" if side else "broker",
                "type": name_of(number),
                "frames": count,
                "share": round(count / sides[side], 4),
                "bytes": self._bytes[side, number],
            }
            for (side, number), count in ordered
        ]


class Latencies:
    """Latencies by type of request. Requests that name one scalable topic have rows of their own, by topic.

    If ``segments`` is set, these rows are by segment.
    """

    __slots__ = ("_errors", "_histograms", "_segments")

    def __init__(self, *, segments: bool = False) -> None:
        self._segments = segments
        self._histograms: dict[tuple[int, str], Histogram] = {}
        self._errors: Counter[tuple[int, str]] = Counter()

    def add(self, facts: Facts) -> None:
        """Count a frame if it is a response."""
        request, peer = facts.request, facts.peer
        if facts.latency_ns < 0 and not facts.request_number:
            return
        if request is not None:
            key = self._key(request)
        else:
            key = _SEND, self._topic("" if peer is None else peer.topic)
        self._histograms.setdefault(key, Histogram()).add(facts.latency_ns)
        if facts.frame.type in _ERRORS or _failed(facts):
            self._errors[key] += 1

    def _key(self, request: Request) -> tuple[int, str]:
        topic = request.topic or ("" if request.peer is None else request.peer.topic)
        return request.type, self._topic(topic if isinstance(topic, str) else topic[0] if len(topic) == 1 else "")

    def _topic(self, name: str) -> str:
        """Return the name of the row: a scalable topic or a segment; empty for all other topics."""
        topic = scalable_topic(name)
        return name if topic and self._segments else topic

    def rows(self, unanswered: Sequence[Request] = ()) -> list[Row]:
        """Return a row for each type of request and scalable topic, with or without responses, in this order."""
        open_ = Counter(map(self._key, unanswered))
        rows = []
        for key in sorted(self._histograms.keys() | open_.keys()):
            histogram = self._histograms.get(key, Histogram())
            row: Row = {
                "type": name_of(key[0]),
                "topic": key[1] or None,
                "answered": histogram.count,
                "errors": self._errors[key],
                "unanswered": open_[key],
            }
            row["min"] = _seconds(histogram.lowest) if histogram.count else None
            for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
                row[name] = _seconds(histogram.percentile(share))
            row["max"] = _seconds(histogram.highest) if histogram.count else None
            rows.append(row)
        return rows


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / _BILLION


def _failed(facts: Facts) -> bool:
    """Whether a response type with an error field contains an error."""
    row = COMMANDS.get(facts.frame.type)
    if row is None or "error" not in row.ids:
        return False
    return bool(facts.frame.body.HasField(row.ids["error"]))


class Topics:
    """A row for each topic: producers, subscriptions, messages in and out, acks, and redeliveries.

    A Tracker identifies producers and consumers, and determines what is a redelivery. It processes all frames, also
    those that are not counted. The segments of a scalable topic are one row, unless ``segments`` is set; producers and
    consumers of one name on several segments count once.
    """

    __slots__ = ("_again", "_peers", "_redelivered", "_rows", "_segments", "tracker")

    def __init__(self, *, segments: bool = False) -> None:
        self._segments = segments
        self.tracker = Tracker()
        """Receives the notes and ends of the capture."""
        self._rows: dict[str, Row] = {}
        self._peers: dict[str, dict[str, set[Any]]] = {}
        self._redelivered: dict[int, int] = {}
        """Redelivered messages up to the last MESSAGE, by the identity of the subscription."""
        self._again = 0
        """Redelivered messages in the last MESSAGE."""

    def see(self, facts: Facts) -> None:
        """Process a frame, whether or not `add` counts it afterwards."""
        self.tracker.see(facts)
        if facts.frame.type == _MESSAGE and isinstance(facts.peer, Consumer) and facts.peer.record is not None:
            record = facts.peer.record.subscription.record
            total = record.messages.redelivered
            self._again = total - self._redelivered.get(id(record), 0)
            self._redelivered[id(record)] = total

    def add(self, facts: Facts) -> None:
        """Count one frame of a producer or consumer whose topic is known."""
        peer = facts.peer
        if not isinstance(peer, Producer | Consumer) or not peer.topic:
            return
        topic = peer.topic if self._segments else scalable_topic(peer.topic) or peer.topic
        row = self._rows.get(topic)
        if row is None:
            row = self._rows[topic] = dict.fromkeys(_COUNTS, 0)
            self._peers[topic] = {"producers": set(), "subscriptions": set(), "consumers": set()}
        peers = self._peers[topic]
        state = peer.record  # None until the response to PRODUCER: the broker may choose the name
        if isinstance(peer, Consumer) and state is not None:
            peers["subscriptions"].add(peer.subscription)
            peers["consumers"].add((peer.subscription, self._identity(state.record)))
        elif state is not None:
            peers["producers"].add(self._identity(state.record))
        self._count(facts, row)

    def _identity(self, record: ProducerRecord | ConsumerRecord) -> str | int:
        """Return the name that a V5 client has extended by a segment; the identity of the record otherwise."""
        name = name_without_segment(record.name, record.topic)
        return id(record) if self._segments or name == record.name else name

    def _count(self, facts: Facts, row: Row) -> None:
        frame = facts.frame
        if frame.type == _SEND:
            row["published"] += _messages(facts)
            row["published_bytes"] += frame.length
        elif frame.type == _MESSAGE:
            row["delivered"] += _messages(facts)
            row["delivered_bytes"] += frame.length
            row["redelivered"] += self._again
        elif frame.type == BY_NAME["ACK"].number:
            row["acks"] += 1
        elif frame.type == BY_NAME["FLOW"].number:
            row["permits"] += frame.command.flow.messagePermits

    def rows(self, _unanswered: Sequence[Request] = ()) -> list[Row]:
        """Return the topics by name. Units: frames for ``acks``, otherwise messages."""
        return [
            {"topic": topic, **{kind: len(names) for kind, names in self._peers[topic].items()}, **row}
            for topic, row in sorted(self._rows.items())
        ]


_COUNTS: Final = ("published", "published_bytes", "delivered", "delivered_bytes", "redelivered", "acks", "permits")
