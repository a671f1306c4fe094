"""Pairing of requests with responses, as defined by the table of commands.

Rules of this file
1. COMMANDS defines the pairs, in ``answers`` and ``paired_by``. The two directions are separate, because both sides
   send requests.
2. A response closes its request. A later response with the same id answers no request. The exception is the
   PRODUCER_SUCCESS that follows a PRODUCER_SUCCESS with producer_ready = false: both answer the PRODUCER.
3. A response of a type that the request does not expect is not paired. Two open requests with different responses may
   have the same id: the C++ client numbers its PARTITIONED_METADATA requests separately (BinaryProtoLookupService).
4. An ERROR without a known request answers an open handshake: a broker that refuses a CONNECT has no request id and
   writes 2^64-1.
5. A new login (AUTH_RESPONSE after the handshake) has no response, so it is not an open request.

SENDs and their receipts, which are most of the traffic, are paired by producer in observer.py.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from pcli.codec.observe.command_ids import id_of
from pcli.codec.observe.observer_state import Connection, ObservedFrame, Producer, Request
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.frame import SEND

_ACCEPTS: Final[dict[int, frozenset[str]]] = {
    number: frozenset(row.answers) for number, row in COMMANDS.items() if row.answers
}
"""The responses of each request type."""

_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    answer: tuple(
        dict.fromkeys(
            row.answers[0] for row in COMMANDS.values() if answer in row.answers and row.paired_by == "request_id"
        )
    )
    for answer in BY_NAME
}
"""The first responses of the requests with a request id that each response can close."""

_BY_KEY: Final[dict[str, tuple[int, ...]]] = {
    answer: tuple(
        row.number for row in COMMANDS.values() if answer in row.answers and row.paired_by in ("session_id", "watch_id")
    )
    for answer in BY_NAME
}
"""The lookups and watches that each response can close."""

_BY_ORDER: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    answer: tuple({row.answers for row in COMMANDS.values() if answer in row.answers and row.paired_by == "order"})
    for answer in BY_NAME
}
"""The queues of requests without ids that each response can close."""

_HANDSHAKE: Final = BY_NAME["CONNECT"].answers


def open_request(connection: Connection, from_client: bool, request: Request) -> Request | None:
    """Add a request. Return the older open request with the same id that it replaces, or None."""
    row = COMMANDS[request.type]
    if row.paired_by == "order":
        if row.answers != _HANDSHAKE or not connection.connected:
            connection.ordered.setdefault((from_client, row.answers), deque()).append(request)
        return None
    older: Request | None
    if row.paired_by == "request_id":
        # A close that a broker initiates has the id -1 or an arbitrary id, and no response.
        if request.id == -1 or (row.sender == "both" and not from_client):
            return None
        older = connection.requests.pop((from_client, row.answers[0], request.id), None)
        connection.requests[from_client, row.answers[0], request.id] = request
        return older
    older = connection.keyed.pop((from_client, request.type, request.id), None)
    connection.keyed[from_client, request.type, request.id] = request
    return older


def find_request(connection: Connection, frame: ObservedFrame) -> Request | None:
    """Close and return the request that a frame answers, or None."""
    row = COMMANDS[frame.type]
    asker, request_id = not frame.from_client, id_of(frame, "request_id")
    oldest: Request | None = None
    for group in _GROUPS[row.name] if connection.requests else ():
        found = connection.requests.get((asker, group, request_id))
        if found is not None and row.name in _ACCEPTS[found.type] and (oldest is None or found.number < oldest.number):
            oldest = found
    if oldest is not None:
        del connection.requests[asker, COMMANDS[oldest.type].answers[0], request_id]
        return oldest
    waiting = connection.waiting.get((asker, request_id)) if connection.waiting else None
    if waiting is not None and row.name in _ACCEPTS[waiting.type]:
        return connection.waiting.pop((asker, request_id))
    for kind in _BY_KEY[row.name]:
        request = connection.keyed.pop((asker, kind, id_of(frame, COMMANDS[kind].paired_by)), None)
        if request is not None:
            return request
    return _oldest(connection, asker, row.name)


def _oldest(connection: Connection, asker: bool, answer: str) -> Request | None:
    for answers in _BY_ORDER[answer]:
        queue = connection.ordered.get((asker, answers))
        if queue:
            return queue.popleft()
    return None


def open_sends(stream: int, producer: Producer) -> list[Request]:
    """Return the SENDs of a producer without a receipt, as requests."""
    found = list(producer.sends.items())
    for sequence_id, queue in (producer.again or {}).items():
        found += ((sequence_id, sent) for sent in queue)
    requests = []
    for sequence_id, (number, time_ns) in found:
        request = Request(number, time_ns, SEND, stream, sequence_id)
        request.peer, request.system, request.topic = producer, producer.system, producer.topic
        requests.append(request)
    return requests


def open_requests(connection: Connection) -> list[Request]:
    """Return every open request of a connection, in no particular order."""
    queued = (request for queue in connection.ordered.values() for request in queue)
    found = [*connection.requests.values(), *connection.keyed.values(), *queued]
    for producer in connection.producers.values():
        found += open_sends(connection.stream, producer)
    return found


def open_numbers(connection: Connection) -> list[int]:
    """Return the frame numbers of a connection's open requests.

    Requests that have only one of two responses are included.
    """
    queued = (request for queue in connection.ordered.values() for request in queue)
    books = (connection.requests.values(), connection.keyed.values(), connection.waiting.values(), queued)
    found = [request.number for book in books for request in book]
    for producer in connection.producers.values():
        found += (number for number, _ in producer.sends.values())
        found += (number for queue in (producer.again or {}).values() for number, _ in queue)
    return found


def forget_before(connection: Connection, oldest: int) -> int:
    """Drop the open requests whose frame number is below ``oldest``. Return how many were dropped."""
    before = len(open_numbers(connection))
    connection.requests = {key: one for key, one in connection.requests.items() if one.number >= oldest}
    connection.keyed = {key: one for key, one in connection.keyed.items() if one.number >= oldest}
    connection.waiting = {key: one for key, one in connection.waiting.items() if one.number >= oldest}
    for answers, requests in connection.ordered.items():
        connection.ordered[answers] = deque(one for one in requests if one.number >= oldest)
    for producer in connection.producers.values():
        _forget_sends(producer, oldest)
    return before - len(open_numbers(connection))


def _forget_sends(producer: Producer, oldest: int) -> None:
    producer.sends = {key: sent for key, sent in producer.sends.items() if sent[0] >= oldest}
    if producer.again is not None:
        kept = {key: deque(sent for sent in queue if sent[0] >= oldest) for key, queue in producer.again.items()}
        producer.again = {key: queue for key, queue in kept.items() if queue}
        for key in producer.again.keys() - producer.sends.keys():
            producer.sends[key] = producer.again[key].popleft()
        producer.again = {key: queue for key, queue in producer.again.items() if queue} or None
