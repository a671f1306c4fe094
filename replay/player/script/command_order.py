"""Reorder concurrent lines into the order in which the captured broker processed them.

Rules of this file
1. A capture has the packet order of one observation point. The broker may have processed commands of two connections
   in the opposite order if they were sent within a few milliseconds; its responses show the real order. Only lines of
   different connections are exchanged, and no line moves before one that it may depend on.
2. SENDs to one topic were stored in the order of the message ids in their receipts.
3. If two connections stored consecutive entries, the receipt of the first is placed before the SEND of the second. The
   player then waits for it, because the timing of a live broker differs.
4. If a subscription starts at the latest message and received an entry whose SEND was in flight during the SUBSCRIBE,
   it was created before the entry was stored. Its SUCCESS is placed before the SEND.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.replay.player.id_translation import Place, place_of
from pcli.replay.player.script.recorded_sends import stored

if TYPE_CHECKING:
    from pcli.replay.player.script.script import Line

__all__ = ["in_order_of_effects"]


def in_order_of_effects(lines: list[Line]) -> list[Line]:
    """Return the lines in processing order."""
    ordered = list(lines)
    for earlier, later, answer in [*_crossed_sends(lines), *_crossed_subscribes(lines)]:
        _move(ordered, earlier, later, answer)
    places = {line: place for place, line in enumerate(ordered)}
    for answer, line in [*_receipts_first(lines), *_successes_first(lines)]:
        if places[answer] > places[line]:  # most are in order already; the check saves a linear search
            _put_before(ordered, answer, line)
    return ordered


def _put_before(lines: list[Line], answer: Line, line: Line) -> None:
    """Move a response before a line, after the earlier responses of its type and connection."""
    start, end = lines.index(line), lines.index(answer) + 1
    block = [one for one in lines[start:end] if one.part == answer.part and one.name == answer.name]
    if start < end - 1:
        lines[start:end] = [*block, *(one for one in lines[start:end] if one not in block)]


def _move(lines: list[Line], earlier: Line, later: Line, answer: Line) -> None:
    """Exchange two lines of two connections.

    The later line moves forward unless its connection has a line in between. Otherwise the earlier line moves back,
    unless its client sent a command in between or its response is in between.
    """
    start, end = lines.index(earlier), lines.index(later)
    if start >= end:
        return
    between = lines[start + 1 : end]
    if all(line.part != later.part for line in between):
        lines.insert(start, lines.pop(end))
    elif all(line.part != earlier.part or not line.from_client for line in between) and answer not in between:
        lines.insert(end, lines.pop(start))


def _neighbours(lines: list[Line]) -> Iterator[tuple[Line, Line, Line, Line]]:
    """Yield SENDs of two connections that were stored consecutively on a topic, each with its receipt."""
    topics: dict[str, list[tuple[Place, Line, Line]]] = {}
    for send, receipt, place in stored(lines):
        if place[0] >= 0:
            topics.setdefault(send.topic, []).append((place, send, receipt))
    for found in topics.values():
        found.sort(key=lambda one: one[0])
        for (_, first, one), (_, second, other) in pairwise(found):
            if first.part != second.part:
                yield first, one, second, other


def _crossed_sends(lines: list[Line]) -> Iterator[tuple[Line, Line, Line]]:
    """Yield pairs of SENDs to one topic of which the later was stored first, and the receipt of the earlier."""
    for first, _, second, answer in _neighbours(lines):
        if first.time_ms > second.time_ms:
            yield second, first, answer


def _receipts_first(lines: list[Line]) -> Iterator[tuple[Line, Line]]:
    """Yield receipts, and the SENDs of other connections that were stored next."""
    for _, receipt, second, _ in _neighbours(lines):
        yield receipt, second


def _successes_first(lines: list[Line]) -> Iterator[tuple[Line, Line]]:
    """Yield the responses to the SUBSCRIBEs of rule 4, and the SENDs."""
    answers = {line.request.number: line for line in lines if line.request is not None}
    for send, subscribe, _ in _crossed_subscribes(lines):
        answer = answers.get(subscribe.frame.number) if subscribe.frame is not None else None
        if answer is not None:
            yield answer, send


def _crossed_subscribes(lines: list[Line]) -> Iterator[tuple[Line, Line, Line]]:
    """Yield SENDs that were in flight during a SUBSCRIBE that received their entry, the SUBSCRIBE, and the receipt."""
    got = {
        (line.topic, line.peer.subscription, place_of(line.frame.command.message.message_id))
        for line in lines
        if line.name == "MESSAGE" and line.frame is not None and isinstance(line.peer, Consumer)
    }
    sends = list(stored(lines))
    for line in lines:
        if line.name != "SUBSCRIBE" or line.frame is None or not isinstance(line.peer, Consumer):
            continue
        if line.frame.command.subscribe.initialPosition == pb.CommandSubscribe.Latest:
            for send, receipt, place in sends:
                under_way = send.time_ms < line.time_ms < receipt.time_ms and send.part != line.part
                if under_way and send.topic == line.topic and (line.topic, line.peer.subscription, place) in got:
                    yield send, line, receipt
