"""What a row's state is worth: whether anything that the capture lacks could have said otherwise.

Rules of this file
1. A hole of a connection counts when it may lie between the message's sending and the frame that settled it at that
   subscription; at a subscription that got nothing of it, or has not acknowledged it, up to the end.
2. A message without its SEND has unknown beginnings: any earlier hole of a producer's connection may have hidden that;
   without one it began before the capture, or elsewhere.
3. The end of the capture leaves open: what waits for a receipt, what nobody was given, what a consumer holds who is
   still attached, what a subscription that was there when it was sent and still is has not been given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.lifecycles.entry_history import Sub
from pcli.spark.columnar.lifecycles.lifecycle_schemas import EVIDENCE
from pcli.spark.columnar.lifecycles.recording_facts import Known, Witness
from pcli.spark.columnar.lifecycles.row_operations import edges, joint, order_of

__all__ = ["EVIDENCE_WORDS", "FAR", "Story", "Weighed", "weigh", "weigh_all"]

EVIDENCE_WORDS: Final = list(EVIDENCE)
_COMPLETE, _GAP, _WEAK, _START, _END = range(5)
FAR: Final = np.iinfo(np.int64).max
_OPEN_STATES: Final = ("stored", "never_delivered", "non_persistent")
_UNSTORED: Final = ("lost", "in_flight", "refused", "duplicate")


@dataclass(slots=True)
class Weighed:
    """Messages, by topic, with their deliveries."""

    topic: Longs
    """Place in ``names``; -1: unknown."""
    names: list[str]
    sent: Longs
    """Frame of the SEND; -1: it was not seen."""
    sender: Longs
    """Its connection; -1: none."""
    idle: Bools
    """Whether nobody was given it."""
    message: Longs
    """Of each delivery the message, by place."""
    sub: Longs
    stream: Longs
    delivered: Longs
    """Frame of the (first) delivery."""
    settled: Longs
    """Frame that acknowledged it whole; FAR: none did."""


def weigh_all(weighed: Weighed, known: Known) -> Longs:
    """Places in EVIDENCE_WORDS."""
    size = len(weighed.topic)
    marks = np.zeros((5, size), np.bool_)
    marks[_START] = weighed.sent < 0
    marks[_END] = weighed.idle
    for stream, doubt in known.doubts.items():
        for since, until in doubt.weak:
            marks[_WEAK] |= (weighed.sender == stream) & (weighed.sent >= since) & (weighed.sent <= until)
            told = (weighed.delivered >= since) & (weighed.delivered <= until)
            told |= (weighed.settled >= since) & (weighed.settled <= until)
            marks[_WEAK, weighed.message[told & (weighed.stream == stream)]] = True
    order = order_of(joint([weighed.topic]))
    by_sub = order_of(joint([weighed.sub]))
    subs = weighed.sub.take(by_sub)
    begins = np.flatnonzero(edges(weighed.topic.take(order)))
    for low, high in zip(begins.tolist(), [*begins[1:].tolist(), size], strict=True):
        rows = order[low:high]
        place = int(weighed.topic[rows[0]])
        witness = known.witnesses.get(weighed.names[place] if place >= 0 else "")
        if witness is not None:
            _weigh_topic(marks, weighed, rows, witness, by_sub, subs)
    found: Longs = np.argmax(np.vstack([marks[1:], np.ones(size, np.bool_)]), axis=0) + 1
    return np.where(found == len(EVIDENCE_WORDS), _COMPLETE, found)


def _weigh_topic(marks: Any, weighed: Weighed, rows: Longs, witness: Witness, by_sub: Longs, subs: Longs) -> None:
    """Of the messages of one topic."""
    sent = weighed.sent[rows]
    if witness.holes:
        first = np.full(len(marks[0]), FAR, np.int64)
        np.minimum.at(first, weighed.message, weighed.delivered)
        earliest = min(since for since, _ in witness.holes)
        marks[_GAP, rows] |= (sent < 0) & (earliest <= first[rows])
    for reader in witness.readers:
        low, high = np.searchsorted(subs, [reader.sub, reader.sub + 1])
        mine = by_sub[low:high]
        settled = np.full(len(marks[0]), -1, np.int64)
        settled[weighed.message[mine]] = weighed.settled[mine]
        until = settled[rows]
        given = until >= 0
        if reader.lasts:
            marks[_END, rows] |= np.where(given, until == FAR, (sent > reader.since))
        if reader.holes:
            until = np.where(given, until, FAR)
            for since, number in reader.holes:
                marks[_GAP, rows] |= (since <= until) & (number >= sent)


@dataclass(slots=True)
class Story:
    """What `weigh` needs of one message."""

    row: dict[str, Any]
    """Its row of MESSAGES, but for ``evidence``."""
    subs: dict[int, Sub]
    sent: int
    """Frame of its SEND; -1: not seen."""


def weigh(stories: list[Story], known: Known) -> list[dict[str, Any]]:
    """Write ``evidence`` into the rows, which are given back."""
    if not stories:
        return []
    names = sorted({one.row["topic"] for one in stories if one.row["topic"]})
    place = {name: at for at, name in enumerate(names)}
    handed = [(at, number, sub) for at, one in enumerate(stories) for number, sub in one.subs.items() if sub.handed]
    idle = [one.row["state"] in _OPEN_STATES and not any(sub.handed for sub in one.subs.values()) for one in stories]
    senders = [one.row["producer"]["connection"] for one in stories]
    weighed = Weighed(
        _array(place.get(one.row["topic"], -1) for one in stories), names, _array(one.sent for one in stories),
        _array(-1 if one is None else one for one in senders), np.array(idle, np.bool_),
        _array(at for at, _, _ in handed), _array(number for _, number, _ in handed),
        _array(sub.handed[0].stream for _, _, sub in handed), _array(sub.handed[0].number for _, _, sub in handed),
        _array(FAR if sub.left else sub.closed for _, _, sub in handed),
    )  # fmt: skip
    for one, sender, word in zip(stories, senders, weigh_all(weighed, known).tolist(), strict=True):
        state = one.row["state"]
        one.row["evidence"] = _unstored(state, sender, one.sent, known) if state in _UNSTORED else EVIDENCE_WORDS[word]
    return [one.row for one in stories]


def _array(values: Iterable[int]) -> Longs:
    return np.array(list(values), np.int64)


def _unstored(state: str, stream: int | None, sent: int, known: Known) -> str:
    """Of a message that never got an id."""
    doubt = known.doubts.get(-1 if stream is None else stream)
    if doubt is not None and state in ("lost", "in_flight") and any(number >= sent for _, number in doubt.holes):
        return "gap_affected"
    if doubt is not None and any(since <= sent <= until for since, until in doubt.weak):
        return "weak_sync"
    return "capture_end" if state == "in_flight" else "complete"
