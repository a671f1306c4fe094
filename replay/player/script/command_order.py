"""Lines that were under way at the same time, in the order in which the captured broker took them.

Rules of this file
1. A capture has the order of the packets at one place. What two connections said within a few milliseconds the broker
   may have taken the other way round; its answers tell. Only lines of different connections change places, and none
   moves before what it may depend on.
2. SENDs to one topic were stored in the order of their receipts' ids.
3. What was stored one after the other by two connections waits for each other: a live broker has other moments. The
   receipt of the first stands before the SEND of the second, so the player waits for it.
4. A subscription that begins at the latest message, and got an entry whose SEND was under way when it was made, was
   made before that entry was stored; its SUCCESS stands before the SEND.
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
    """The lines, some of them moved."""
    ordered = list(lines)
    for earlier, later, answer in [*_crossed_sends(lines), *_crossed_subscribes(lines)]:
        _move(ordered, earlier, later, answer)
    places = {line: place for place, line in enumerate(ordered)}
    for answer, line in [*_receipts_first(lines), *_successes_first(lines)]:
        if places[answer] > places[line]:  # most have come before: nothing is looked for
            _put_before(ordered, answer, line)
    return ordered


def _put_before(lines: list[Line], answer: Line, line: Line) -> None:
    """Put an answer before a line, behind the answers of its kind and connection that came earlier."""
    start, end = lines.index(line), lines.index(answer) + 1
    block = [one for one in lines[start:end] if one.part == answer.part and one.name == answer.name]
    if start < end - 1:
        lines[start:end] = [*block, *(one for one in lines[start:end] if one not in block)]


def _move(lines: list[Line], earlier: Line, later: Line, answer: Line) -> None:
    """Exchange two lines of two connections.

    The later goes forward unless its connection heard or said something between; else the earlier goes back, unless
    its connection said something between, or it was answered.
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
    """SENDs of two connections that were stored one after the other on a topic, each with its receipt."""
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
    """Pairs of SENDs to one topic of which the later was stored first, and the receipt of the earlier."""
    for first, _, second, answer in _neighbours(lines):
        if first.time_ms > second.time_ms:
            yield second, first, answer


def _receipts_first(lines: list[Line]) -> Iterator[tuple[Line, Line]]:
    """Receipts, and the SENDs of other connections that were stored next."""
    for _, receipt, second, _ in _neighbours(lines):
        yield receipt, second


def _successes_first(lines: list[Line]) -> Iterator[tuple[Line, Line]]:
    """Answers to the SUBSCRIBEs of rule 4, and the SENDs."""
    answers = {line.request.number: line for line in lines if line.request is not None}
    for send, subscribe, _ in _crossed_subscribes(lines):
        answer = answers.get(subscribe.frame.number) if subscribe.frame is not None else None
        if answer is not None:
            yield answer, send


def _crossed_subscribes(lines: list[Line]) -> Iterator[tuple[Line, Line, Line]]:
    """SENDs that were under way at a SUBSCRIBE that got them, and that SUBSCRIBE."""
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
