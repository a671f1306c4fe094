"""Requests and their answers on a connection: how many, how long, which are missing, twice, or out of turn.

Rules of this file
1. The Observer pairs; here it is counted. What asks, and what answers, is read from COMMANDS.
2. Open SENDs are those that the Observer keeps in its producers: nothing is kept twice for most of the traffic.
3. An answer that stands before its request in the capture (packets in another order than on the wire) is remembered,
   and answers it when it comes.
4. The first answer to a PRODUCER that has to wait for its turn is the answer; the second one is news, and not late.
5. Answers may overtake each other; but what opens a producer or consumer is answered before anything else about it.
   An answer that never comes is missing, and has overtaken nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.connections.connection_state import ConnectionState
from pcli.codec.observe.tracking.records.connection_records import ExchangeRecord
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.frame import SEND
from pcli.codec.wire.message_id import signed

__all__ = ["ANSWERS", "MAX_OPEN", "answer", "ask", "error_of", "receipt", "recount", "slow_bound"]

MAX_OPEN: Final = 10_000
"""Open requests, and producers, remembered per connection."""

_MAX_DONE: Final = 256
"""Answered request ids, and answers without request, remembered per connection."""

_SLOW_NS: Final = 1_000_000_000
_SLOW_LOADING_NS: Final = 5_000_000_000
_LOADING: Final = frozenset(
    BY_NAME[name].number
    for name in (
        "CONNECT",
        "LOOKUP",
        "PARTITIONED_METADATA",
        "PRODUCER",
        "SCALABLE_TOPIC_SUBSCRIBE",
        "SUBSCRIBE",
        "TC_CLIENT_CONNECT_REQUEST",
    )
)
"""With these a broker may have to load a topic or a coordinator, or itself to come up."""

_OPENINGS: Final = frozenset(BY_NAME[name].number for name in ("PRODUCER", "SUBSCRIBE"))
_PRODUCER_SUCCESS: Final = BY_NAME["PRODUCER_SUCCESS"].number
_HANDSHAKE: Final = BY_NAME["CONNECT"].answers
_HOT: Final = frozenset((SEND, BY_NAME["SEND_RECEIPT"].number, BY_NAME["SEND_ERROR"].number))

_ASKS: Final = {
    number: f"pulsar.{row.field}.request_id" if row.paired_by == "request_id" else ""
    for number, row in COMMANDS.items()
    if row.answers and number not in _HOT
}
"""What wants an answer, with the field of its request id."""

ANSWERS: Final = {
    BY_NAME[name].number: f"pulsar.{BY_NAME[name].field}.request_id"
    for row in COMMANDS.values()
    for name in row.answers
    if BY_NAME[name].number not in _HOT
}
"""What answers, with the field of the request id."""

_ERROR_FIELDS: Final = {
    number: (f"pulsar.{row.field}.{row.ids['error']}", f"pulsar.{row.field}.message")
    for number, row in COMMANDS.items()
    if "error" in row.ids
}


def slow_bound(number: int) -> int:
    """From how many nanoseconds on an answer to this request type is slow."""
    return _SLOW_LOADING_NS if number in _LOADING else _SLOW_NS


def ask(link: ConnectionState, facts: Facts) -> None:
    """A frame that is no SEND: remember it when it is a request."""
    frame = facts.frame
    field = _ASKS.get(frame.type)
    if field is None:
        return
    row = COMMANDS[frame.type]
    if field:
        if row.sender == "both" and not frame.from_client:
            return  # nobody answers a broker that closes something itself
        request_id = _id(facts.command.get(field))
        if request_id < 0:
            return
        link.done.pop(request_id, None)
        if (-1, request_id) in link.early:
            link.exchange(link.early.pop((-1, request_id))).unasked.count -= 1
            link.exchange(frame.type).asked += 1
            return
    elif row.answers == _HANDSHAKE and link.connected:
        return
    link.exchange(frame.type).asked += 1
    link.open[frame.number] = (frame.type, frame.time_ns, facts.peer)
    if len(link.open) > MAX_OPEN:
        oldest = next(iter(link.open))
        del link.open[oldest]
        link.overtaken.pop(oldest, None)
        link.record.doubts.add("evicted")


def answer(link: ConnectionState, facts: Facts) -> None:
    """A frame of a type in ANSWERS."""
    frame, request = facts.frame, facts.request
    request_id = _id(facts.command.get(ANSWERS[frame.type]))
    if request is None:
        _unasked(link, facts, request_id)
        return
    opened = link.open.pop(request.number, None)
    if request.number in link.waiting:
        link.waiting.discard(request.number)
        return
    record = link.exchange(request.type)
    record.last_answered_frame = max(record.last_answered_frame, request.number)
    _count(record, facts, slow_bound(request.type))
    if frame.type == _PRODUCER_SUCCESS and facts.command.get("pulsar.producer_success.producer_ready") is False:
        link.waiting.add(request.number)
    if request_id >= 0:
        _remember(link.done, request_id, request.type)
    if request.number in link.overtaken:
        later = link.overtaken.pop(request.number)
        link.record.out_of_order.add(frame.time_ns, request.number, *later, frame.number)
    if opened is not None and opened[2] is not None and link.open:
        _judge_order(link, facts, request.number, opened[2])


def _count(record: ExchangeRecord, facts: Facts, bound: int) -> None:
    latency = facts.latency_ns
    record.answered += 1
    if latency > record.slowest_ns:
        record.slowest_ns = latency
        record.slowest = (facts.request_number, facts.frame.number)
    if latency > bound:
        slow = record.slow
        slow.add(facts.frame.time_ns, facts.request_number, facts.frame.number)
        slow.sample = f"{record.slowest_ns / 1e6:.0f}"


def receipt(link: ConnectionState, facts: Facts) -> None:
    """A SEND_RECEIPT or SEND_ERROR."""
    record = link.sends or link.exchange(SEND)
    if facts.request_number:
        latency = facts.latency_ns
        if latency > record.slowest_ns or latency > _SLOW_NS:
            _count(record, facts, _SLOW_NS)
        else:
            record.answered += 1
        if facts.request_number > record.last_answered_frame:
            record.last_answered_frame = facts.request_number
        return
    if facts.peer is not None and facts.hot is not None:
        _remember(link.early, (facts.peer.id, facts.hot[1]), SEND)


def _unasked(link: ConnectionState, facts: Facts, request_id: int) -> None:
    """An answer without an open request. Those with no id that anybody could have asked with answer nobody."""
    frame = facts.frame
    if request_id < 0:
        return
    kind = link.done.get(request_id)
    if kind is not None and COMMANDS[frame.type].name in COMMANDS[kind].answers:
        link.exchange(kind).answered_twice.add(frame.time_ns, frame.number)
        return
    link.exchange(frame.type).unasked.add(frame.time_ns, frame.number)
    _remember(link.early, (-1, request_id), frame.type)


def _judge_order(link: ConnectionState, facts: Facts, number: int, peer: Any) -> None:
    for earlier, (kind, _, about) in link.open.items():
        if earlier >= number:
            return
        if about is peer and kind in _OPENINGS:
            link.overtaken.setdefault(earlier, (number, facts.frame.number))
            return


def error_of(facts: Facts) -> tuple[str, str]:
    """The ServerError in an answer, as its name, and what is said with it; empty: it carries none."""
    fields = _ERROR_FIELDS.get(facts.frame.type)
    if fields is None:
        return "", ""
    values = facts.command
    error = values.get(fields[0])
    return ("", "") if error is None else (str(error), str(values.get(fields[1], "")))


def recount(link: ConnectionState, now_ns: int) -> None:
    """Count anew what has no answer at this moment."""
    for record in link.exchanges.values():
        record.unanswered, record.waited_ns, record.overtaken = Occurrences(), 0, 0
    for number, (kind, time_ns, _) in link.open.items():
        _missing(link.exchange(kind), number, time_ns, now_ns)
    for number, time_ns in _open_sends(link):
        _missing(link.exchange(SEND), number, time_ns, now_ns)


def _missing(record: ExchangeRecord, number: int, time_ns: int, now_ns: int) -> None:
    record.unanswered.add(time_ns, number)
    record.waited_ns = max(record.waited_ns, now_ns - time_ns)
    record.overtaken += number < record.last_answered_frame


def _open_sends(link: ConnectionState) -> Iterator[tuple[int, int]]:
    for producer in link.producers:
        if producer.system:
            continue
        for sequence_id, sent in producer.sends.items():
            if (producer.id, sequence_id) not in link.early:
                yield sent
        for queue in (producer.again or {}).values():
            yield from queue


def _id(value: Any) -> int:
    """A request id; -1 for none, and for the -1 of who has no request to answer."""
    return -1 if value is None else signed(value)


def _remember(book: dict[Any, int], key: Any, value: int) -> None:
    book[key] = value
    if len(book) > _MAX_DONE:
        del book[next(iter(book))]
