"""Requests and their answers, by the table of commands: what answers what, and how the two find each other.

Rules of this file
1. Everything comes from COMMANDS: ``answers`` and ``paired_by``. Both directions are kept apart, so it does not
   matter who plays client; both sides may ask.
2. An answer closes its request; what comes again with the same id answers nothing, but for PRODUCER_SUCCESS after
   "wait" (producer_ready = false), whose second coming is still the answer to the PRODUCER.
3. An answer of a kind that the request does not expect is none: request ids are only as unique as a client makes them.
4. An ERROR without a known request answers the handshake while that is open: a broker that refuses a CONNECT has no
   request id to name and writes 2^64-1.
5. A refreshed login (AUTH_RESPONSE on an open connection) is answered by silence: it is no open request.

SEND and its receipt are not here but with the producer (observer.py): they are most of the traffic.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.state import Connection, Request
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.constants import MINUS_ONE

__all__ = ["KEY_FIELDS", "find_request", "open_request", "take_all"]

KEY_FIELDS: Final = {"request_id": "request_id", "session_id": "session_id", "watch_id": "watch_id"}
"""The field that holds the key, by the word in ``paired_by``; ``order`` and ``sequence`` have none here."""

_ACCEPTS: Final[dict[int, frozenset[str]]] = {
    number: frozenset(row.answers) for number, row in COMMANDS.items() if row.answers
}
"""The answers of each request type."""

_BY_KEY: Final[dict[str, tuple[int, ...]]] = {
    answer: tuple(
        row.number for row in COMMANDS.values() if answer in row.answers and row.paired_by in ("session_id", "watch_id")
    )
    for answer in BY_NAME
}
"""Which lookups and watches an answer may close."""

_BY_ORDER: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    answer: tuple({row.answers for row in COMMANDS.values() if answer in row.answers and row.paired_by == "order"})
    for answer in BY_NAME
}
"""Which queues of requests without ids an answer may close."""

_HANDSHAKE: Final = BY_NAME["CONNECT"].answers


def open_request(connection: Connection, from_client: bool, request: Request) -> Request | None:  # noqa: FBT001
    """Remember a request. Returns an older one that it pushes out by using the same id again."""
    row = COMMANDS[request.type]
    if row.paired_by == "order":
        if row.answers != _HANDSHAKE or not connection.connected:
            connection.ordered.setdefault((from_client, row.answers), []).append(request)
        return None
    older: Request | None
    if row.paired_by == "request_id":
        # A broker that closes something itself writes -1, or a number that means nothing: nobody answers it.
        if request.id == MINUS_ONE or not (from_client or row.sender != "both"):
            return None
        older = connection.requests.pop((from_client, request.id), None)
        connection.requests[from_client, request.id] = request
        return older
    older = connection.keyed.pop((from_client, request.type, request.id), None)
    connection.keyed[from_client, request.type, request.id] = request
    return older


def find_request(connection: Connection, from_client: bool, number: int, ids: dict[str, int]) -> Request | None:  # noqa: FBT001
    """The request that a frame of this type and direction answers, closed by it; None: it answers none.

    ``ids`` are the frame's own ids by the names in KEY_FIELDS.
    """
    row = COMMANDS[number]
    asker = not from_client
    request_id = ids.get("request_id", -1)
    request = connection.requests.get((asker, request_id))
    if request is not None and row.name in _ACCEPTS[request.type]:
        return connection.requests.pop((asker, request_id))
    if request_id in connection.waiting and row.name in _ACCEPTS[connection.waiting[request_id].type]:
        return connection.waiting.pop(request_id)
    for kind in _BY_KEY[row.name]:
        request = connection.keyed.pop((asker, kind, ids.get(COMMANDS[kind].paired_by, -1)), None)
        if request is not None:
            return request
    return _oldest(connection, asker, row.name)


def _oldest(connection: Connection, asker: bool, answer: str) -> Request | None:  # noqa: FBT001
    for answers in _BY_ORDER[answer]:
        queue = connection.ordered.get((asker, answers))
        if queue:
            return queue.pop(0)
    return None


def take_all(connection: Connection) -> list[Request]:
    """Every open request but the SENDs, in no order."""
    queues = [request for queue in connection.ordered.values() for request in queue]
    return [*connection.requests.values(), *connection.keyed.values(), *queues]
