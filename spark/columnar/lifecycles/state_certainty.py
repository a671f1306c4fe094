"""The evidence of a row: whether frames missing from the capture could change its state.

Rules of this file
1. A gap in a connection affects a message at a subscription if the gap may lie between the SEND and the frame that
   acknowledged the message at this subscription. If there is no delivery or acknowledgement, the end of the capture
   replaces that frame.
2. If the SEND of a message was not captured, it may be in any earlier gap in a producer's connection. If no such
   connection has an earlier gap, the message was sent before the capture or on a connection that was not captured.
3. These messages are open at the end of the capture: messages without a receipt or without a delivery, messages held by
   a consumer that is still attached, and messages not delivered to a subscription that existed at the SEND and still
   exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.lifecycles.entry_history import EntryAtSubscription
from pcli.spark.columnar.lifecycles.lifecycle_schemas import EVIDENCE
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts, TopicEvidence
from pcli.spark.columnar.lifecycles.row_operations import group_starts, joint_key, order_of

EVIDENCE_WORDS: Final = [word for word in EVIDENCE if word != "late"]
_COMPLETE, _GAP, _WEAK, _START, _END = range(5)
FAR: Final = np.iinfo(np.int64).max
_OPEN_STATES: Final = ("stored", "never_delivered", "non_persistent")
UNSTORED: Final = ["lost", "in_flight", "refused", "duplicate"]
"""States of messages that were not stored. A receipt of the first two may be missing from the capture."""
_IN_FLIGHT: Final = UNSTORED.index("in_flight")


@dataclass(slots=True)
class EvidenceInputs:
    """Messages by topic, with their deliveries."""

    topic: Longs
    """Index into ``names``; -1 if unknown."""
    names: list[str]
    sent: Longs
    """Frame of each SEND; -1 if it was not captured."""
    sender: Longs
    """Connection of the SEND; -1 if unknown."""
    idle: Bools
    """Whether the message was not delivered."""
    message: Longs
    """The message of each delivery, as an index."""
    sub: Longs
    stream: Longs
    delivered: Longs
    """Frame of the delivery, or of the first delivery if there are two."""
    resolved: Longs
    """Frame of the ACK that completed the acknowledgement of the delivery; FAR if none."""


def evidence_codes(inputs: EvidenceInputs, facts: RecordingFacts) -> Longs:
    """Return indices into EVIDENCE_WORDS."""
    size = len(inputs.topic)
    marks = np.zeros((5, size), np.bool_)
    marks[_START] = inputs.sent < 0
    marks[_END] = inputs.idle
    for stream, gaps_of_connection in facts.connection_gaps.items():
        for since, until in gaps_of_connection.weak:
            marks[_WEAK] |= (inputs.sender == stream) & (inputs.sent >= since) & (inputs.sent <= until)
            inside = (inputs.delivered >= since) & (inputs.delivered <= until)
            inside |= (inputs.resolved >= since) & (inputs.resolved <= until)
            marks[_WEAK, inputs.message[inside & (inputs.stream == stream)]] = True
    order = order_of(joint_key([inputs.topic]))
    by_sub = order_of(joint_key([inputs.sub]))
    subs = inputs.sub.take(by_sub)
    begins = np.flatnonzero(group_starts(inputs.topic.take(order)))
    for low, high in zip(begins.tolist(), [*begins[1:].tolist(), size], strict=True):
        rows = order[low:high]
        place = int(inputs.topic[rows[0]])
        evidence_of_topic = facts.topic_evidence.get(inputs.names[place] if place >= 0 else "")
        if evidence_of_topic is not None:
            _mark_topic(marks, inputs, rows, evidence_of_topic, by_sub, subs)
    found: Longs = np.argmax(np.vstack([marks[1:], np.ones(size, np.bool_)]), axis=0) + 1
    return np.where(found == len(EVIDENCE_WORDS), _COMPLETE, found)


def _mark_topic(
    marks: Any, inputs: EvidenceInputs, rows: Longs, evidence_of_topic: TopicEvidence, by_sub: Longs, subs: Longs
) -> None:
    """Mark the messages of one topic."""
    sent = inputs.sent[rows]
    if evidence_of_topic.gaps:
        first = np.full(len(marks[0]), FAR, np.int64)
        np.minimum.at(first, inputs.message, inputs.delivered)
        earliest = min(since for since, _ in evidence_of_topic.gaps)
        marks[_GAP, rows] |= (sent < 0) & (earliest <= first[rows])
    for reader in evidence_of_topic.subscriptions:
        low, high = np.searchsorted(subs, [reader.sub, reader.sub + 1])
        mine = by_sub[low:high]
        resolved = np.full(len(marks[0]), -1, np.int64)
        resolved[inputs.message[mine]] = inputs.resolved[mine]
        until = resolved[rows]
        given = until >= 0
        if reader.attached_at_end:
            marks[_END, rows] |= np.where(given, until == FAR, (sent > reader.since))
        if reader.gaps:
            until = np.where(given, until, FAR)
            for since, number in reader.gaps:
                marks[_GAP, rows] |= (since <= until) & (number >= sent)


@dataclass(slots=True)
class MessageHistory:
    """A message with the values that `add_evidence` needs."""

    row: dict[str, Any]
    """The row of MESSAGES without ``evidence``."""
    subs: dict[int, EntryAtSubscription]
    sent: int
    """Frame of the SEND; -1 if it was not captured."""


def add_evidence(messages: list[MessageHistory], facts: RecordingFacts) -> list[dict[str, Any]]:
    """Set ``evidence`` in the rows and return them."""
    if not messages:
        return []
    names = sorted({one.row["topic"] for one in messages if one.row["topic"]})
    place = {name: at for at, name in enumerate(names)}
    delivered = [
        (at, number, sub) for at, one in enumerate(messages) for number, sub in one.subs.items() if sub.deliveries
    ]
    idle = [
        one.row["state"] in _OPEN_STATES and not any(sub.deliveries for sub in one.subs.values()) for one in messages
    ]
    senders = [one.row["producer"]["connection"] for one in messages]
    inputs = EvidenceInputs(
        _array(place.get(one.row["topic"], -1) for one in messages), names, _array(one.sent for one in messages),
        _array(-1 if one is None else one for one in senders), np.array(idle, np.bool_),
        _array(at for at, _, _ in delivered), _array(number for _, number, _ in delivered),
        _array(sub.deliveries[0].stream for _, _, sub in delivered),
        _array(sub.deliveries[0].number for _, _, sub in delivered),
        _array(FAR if sub.unacked else sub.acked_number for _, _, sub in delivered),
    )  # fmt: skip
    for one, sender, word in zip(messages, senders, evidence_codes(inputs, facts).tolist(), strict=True):
        state = one.row["state"]
        if state in UNSTORED:
            unstored, stream = UNSTORED.index(state), -1 if sender is None else sender
            word = int(evidence_of_unstored(_array([unstored]), _array([stream]), _array([one.sent]), facts)[0])
        one.row["evidence"] = EVIDENCE_WORDS[word]
    return [one.row for one in messages]


def _array(values: Iterable[int]) -> Longs:
    return np.array(list(values), np.int64)


def evidence_of_unstored(states: Longs, stream: Longs, sent: Longs, facts: RecordingFacts) -> Longs:
    """Return indices into EVIDENCE_WORDS for messages that were not stored.

    ``states`` contains indices into UNSTORED, ``stream`` the connection of each SEND (-1 if unknown), and ``sent`` its
    frame.
    """
    open_ = states < 2
    found = np.where(states == _IN_FLIGHT, _END, _COMPLETE)
    for number in np.unique(stream).tolist():
        gaps = facts.connection_gaps.get(number)
        if gaps is None or not (gaps.gaps or gaps.weak):
            continue
        mine = stream == number
        for since, until in gaps.weak:
            found[mine & (sent >= since) & (sent <= until)] = _WEAK
        last = max((until for _, until in gaps.gaps), default=-1)
        found[mine & open_ & (sent <= last)] = _GAP
    return found
