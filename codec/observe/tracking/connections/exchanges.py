"""Counts of requests and responses on a connection: latency, and missing, repeated or reordered responses.

Rules of this file
1. The Observer pairs requests with responses; this module counts them. COMMANDS defines which commands are requests and
   responses.
2. The Observer stores open SENDs in its producers. This module does not store them a second time.
3. A response captured before its request (packets out of order) is stored, and is paired when the request follows.
4. The first PRODUCER_SUCCESS is the response even if the producer must wait. The second PRODUCER_SUCCESS is not a late
   response.
5. Responses may be reordered, but the broker must answer PRODUCER and SUBSCRIBE before any later request about the same
   producer or consumer. A missing response does not count as reordered.
6. PARTITIONED_METADATA without auto-creation checks whether a topic exists, for example a retry topic with the name
   that older clients used. TopicNotFound is a regular response.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pcli.codec.observe.command_ids import id_of
from pcli.codec.observe.observer_state import Facts, ObservedFrame, Request
from pcli.codec.observe.tracking.connections.connection_state import ConnectionState
from pcli.codec.observe.tracking.records.connection_records import ExchangeRecord
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.frame import SEND
from pcli.codec.wire.message_id import signed

MAX_OPEN: Final = 10_000
"""Maximum number of open requests, and of producers, per connection."""

_MAX_DONE: Final = 256
"""Maximum number of answered request ids, and of responses without a request, per connection."""

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
"""Requests for which a broker may first have to load a topic or a coordinator, or finish its startup."""

_OPENINGS: Final = frozenset(BY_NAME[name].number for name in ("PRODUCER", "SUBSCRIBE"))
_PRODUCER_SUCCESS: Final = BY_NAME["PRODUCER_SUCCESS"].number
_METADATA: Final = BY_NAME["PARTITIONED_METADATA"].number
_HANDSHAKE: Final = BY_NAME["CONNECT"].answers
_HOT: Final = frozenset((SEND, BY_NAME["SEND_RECEIPT"].number, BY_NAME["SEND_ERROR"].number))

_REQUESTS: Final = frozenset(number for number, row in COMMANDS.items() if row.answers) - _HOT
"""Requests that need a response."""

RESPONSES: Final = frozenset(BY_NAME[name].number for row in COMMANDS.values() for name in row.answers) - _HOT
"""Responses."""

_REPORTED_ELSEWHERE: Final = frozenset(
    BY_NAME[name].number for name in ("ACK", "AUTH_CHALLENGE", "CONNECT", "PRODUCER", "SUBSCRIBE")
)
"""Requests whose errors are in the records of producers, consumers and connections."""

_OTHER_ERRORS: Final = frozenset({"AuthenticationError", "AuthorizationError", "IncompatibleSchema"})
"""Errors that other records count for all requests."""

_MAX_REFUSED: Final = 64
"""Maximum number of errors and topics per type of request."""


def slow_bound(number: int) -> int:
    """Return the latency in ns above which a response to this request type is slow."""
    return _SLOW_LOADING_NS if number in _LOADING else _SLOW_NS


def count_request(connection: ConnectionState, facts: Facts) -> None:
    """Count and store a frame other than SEND if it is a request."""
    frame = facts.frame
    if frame.type not in _REQUESTS:
        return
    row = COMMANDS[frame.type]
    if row.paired_by == "request_id":
        if row.sender == "both" and not frame.from_client:
            return  # a close that the broker sends has no response
        request_id = _request_id(frame)
        if request_id < 0:
            return
        connection.answered_requests.pop(request_id, None)
        if (-1, request_id) in connection.early_responses:
            connection.exchange(connection.early_responses.pop((-1, request_id))).unasked.count -= 1
            connection.exchange(frame.type).asked += 1
            return
    elif row.answers == _HANDSHAKE and connection.connected:
        return
    connection.exchange(frame.type).asked += 1
    connection.open_requests[frame.number] = (frame.type, frame.time_ns, facts.peer)
    if frame.type == _METADATA and not frame.command.partitionMetadata.metadata_auto_creation_enabled:
        connection.existence_checks.add(frame.number)
    if len(connection.open_requests) > MAX_OPEN:
        oldest = next(iter(connection.open_requests))
        del connection.open_requests[oldest]
        connection.overtaken.pop(oldest, None)
        connection.existence_checks.discard(oldest)
        connection.record.doubts.add("evicted")


def count_response(connection: ConnectionState, facts: Facts, *, with_error: bool = True) -> None:
    """Pair a frame whose type is in RESPONSES with its request. ``with_error`` states whether to count its error."""
    frame, request = facts.frame, facts.request
    request_id = _request_id(frame)
    if request is None:
        _count_unrequested(connection, facts, request_id)
        return
    opened = connection.open_requests.pop(request.number, None)
    if request.number in connection.waiting_producers:
        connection.waiting_producers.discard(request.number)
        return
    record = connection.exchange(request.type)
    record.last_answered_frame = max(record.last_answered_frame, request.number)
    _count_response(record, facts, slow_bound(request.type))
    if with_error:
        _count_error(connection, record, facts, request)
    connection.existence_checks.discard(request.number)
    if frame.type == _PRODUCER_SUCCESS and not frame.command.producer_success.producer_ready:
        connection.waiting_producers.add(request.number)
    if request_id >= 0:
        _remember(connection.answered_requests, request_id, request.type)
    if request.number in connection.overtaken:
        later = connection.overtaken.pop(request.number)
        connection.record.out_of_order.add(frame.time_ns, request.number, *later, frame.number)
    if opened is not None and opened[2] is not None and connection.open_requests and not facts.error[0]:
        _check_order(connection, facts, request.number, opened[2])


def _count_response(record: ExchangeRecord, facts: Facts, bound: int) -> None:
    latency = facts.latency_ns
    record.answered += 1
    if latency > record.slowest_ns:
        record.slowest_ns = latency
        record.slowest = (facts.request_number, facts.frame.number)
        record.slowest_by_client = facts.frame.from_client
    if latency > bound:
        slow = record.slow
        slow.add(facts.frame.time_ns, facts.request_number, facts.frame.number)
        slow.sample = f"{record.slowest_ns / 1e6:.0f}"


def _count_error(connection: ConnectionState, record: ExchangeRecord, facts: Facts, request: Request) -> None:
    """Count the error of a response, or a success after an earlier error about the same topic."""
    topic = request.topic if isinstance(request.topic, str) else ""
    if request.type in _REPORTED_ELSEWHERE and topic not in connection.refused_topics:
        return
    error, message = facts.error
    if not error:
        for number in connection.refused_topics.pop(topic, ()):
            connection.exchange(number).accepted_later.add(topic)
        return
    check = request.number in connection.existence_checks and error == "TopicNotFound"
    if check or request.type in _REPORTED_ELSEWHERE or error in _OTHER_ERRORS:
        return
    if (error, topic) in record.refused or len(record.refused) < _MAX_REFUSED:
        seen = record.refused.setdefault((error, topic), Occurrences())
        seen.add(facts.frame.time_ns, request.number, facts.frame.number, sample=message)
        record.accepted_later.discard(topic)
        if topic:
            connection.refused_topics.setdefault(topic, set()).add(request.type)


def count_receipt(connection: ConnectionState, facts: Facts) -> None:
    """Count a SEND_RECEIPT or SEND_ERROR."""
    record = connection.sends or connection.exchange(SEND)
    if facts.request_number:
        latency = facts.latency_ns
        if latency > record.slowest_ns or latency > _SLOW_NS:
            _count_response(record, facts, _SLOW_NS)
        else:
            record.answered += 1
        if facts.request_number > record.last_answered_frame:
            record.last_answered_frame = facts.request_number
        return
    if facts.peer is not None:
        _remember(connection.early_responses, (facts.peer.id, facts.frame.body.sequence_id), SEND)


def _count_unrequested(connection: ConnectionState, facts: Facts, request_id: int) -> None:
    """Count a response without an open request. A response with a negative request id is ignored."""
    frame = facts.frame
    if request_id < 0:
        return
    kind = connection.answered_requests.get(request_id)
    if kind is not None and COMMANDS[frame.type].name in COMMANDS[kind].answers:
        connection.exchange(kind).answered_twice.add(frame.time_ns, frame.number)
        return
    connection.exchange(frame.type).unasked.add(frame.time_ns, frame.number)
    _remember(connection.early_responses, (-1, request_id), frame.type)


def _check_order(connection: ConnectionState, facts: Facts, number: int, peer: Any) -> None:
    for earlier, (kind, _, about) in connection.open_requests.items():
        if earlier >= number:
            return
        if about is peer and kind in _OPENINGS:
            connection.overtaken.setdefault(earlier, (number, facts.frame.number))
            return


def count_unanswered(connection: ConnectionState, exchanges: Mapping[int, ExchangeRecord], now_ns: int) -> None:
    """Count the requests without a response at a time in the exchanges of a connection, or in copies of them."""
    for record in exchanges.values():
        record.unanswered, record.waited_ns, record.overtaken = Occurrences(), 0, 0
    for number, (kind, time_ns, _) in connection.open_requests.items():
        _count_unanswered(exchanges[kind], number, time_ns, now_ns)
    for number, time_ns in _open_sends(connection):
        _count_unanswered(exchanges[SEND], number, time_ns, now_ns)


def _count_unanswered(record: ExchangeRecord, number: int, time_ns: int, now_ns: int) -> None:
    record.unanswered.add(time_ns, number)
    record.waited_ns = max(record.waited_ns, now_ns - time_ns)
    record.overtaken += number < record.last_answered_frame


def _open_sends(connection: ConnectionState) -> Iterator[tuple[int, int]]:
    for producer in connection.producers:
        if producer.system:
            continue
        for sequence_id, sent in producer.sends.items():
            if (producer.id, sequence_id) not in connection.early_responses:
                yield sent
        for queue in (producer.again or {}).values():
            yield from queue


def _request_id(frame: ObservedFrame) -> int:
    """Return a request id, or -1 if the frame has none or does not respond to a request."""
    value = id_of(frame, "request_id")
    return -1 if value is None else signed(value)


def _remember(book: dict[Any, int], key: Any, value: int) -> None:
    book[key] = value
    if len(book) > _MAX_DONE:
        del book[next(iter(book))]
