"""Requests and their responses as rows of `exchanges`.

Rules of this file
1. ACKs with a request id are frequent. If the response has no error, ACK and response are one row of ``answered``, and
   this module only adds the names, also for an ACK without a response. The Observer of pcli.codec pairs all other
   requests.
2. A request without a response has a row if a response is possible. No response is possible to a close command that the
   broker sends, or to a refreshed login on an open connection. A waiting PRODUCER receives two responses; the first
   response is used.
3. SEND and its receipt are in ``messages``. The duplicate connection of a proxied conversation has no rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.capture.frames import CapturedFrame, Stream
from pcli.codec.observe.command_ids import id_of
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.observer_state import Facts, Request
from pcli.codec.wire.commands import BY_NAME, COMMANDS, name_of
from pcli.codec.wire.message_id import signed
from pcli.codec.wire.topic_name import full_name
from pcli.spark.columnar.lifecycles.frame_replay import replay, with_role
from pcli.spark.columnar.lifecycles.lifecycle_schemas import EXCHANGES
from pcli.spark.columnar.lifecycles.partial_tables import Partials
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts, Session
from pcli.spark.columnar.lifecycles.row_operations import longs, texts_at

_ACK: Final = BY_NAME["ACK"].number
_SEND: Final = BY_NAME["SEND"].number


def exchanges_of_requests(small: Partials, facts: RecordingFacts, streams: Sequence[Stream], cluster: str) -> pa.Table:
    """Return EXCHANGES of all requests that are not in ``answered``; ``small`` contains the recording's numbers."""
    by_number = {one.number: one for one in streams}
    pairing = _Pairing(facts, by_number, cluster)
    for _, _, item in replay(with_role(small.forwarded, "control", "acks"), small.events, by_number):
        if isinstance(item, CapturedFrame):
            pairing.see(item)
    return pa.Table.from_pylist(pairing.finish(), EXCHANGES)


class _Pairing:
    """A collector of requests and their responses."""

    def __init__(self, facts: RecordingFacts, streams: Mapping[int, Stream], cluster: str) -> None:
        self._observer = Observer()
        self._facts, self._streams, self._cluster = facts, streams, cluster
        self._asked: dict[int, tuple[bool, int | None]] = {}
        self._rows: dict[int, dict[str, Any]] = {}

    def see(self, frame: CapturedFrame) -> None:
        """Process a frame."""
        observed = self._observer.see(frame)
        row = COMMANDS.get(frame.type)
        if row is not None and row.answers:
            producer_id = id_of(frame, "producer_id")
            owner = id_of(frame, "consumer_id") if producer_id is None else producer_id
            self._asked[frame.number] = frame.from_client, owner
        request = observed.request
        if request is not None and request.number not in self._rows:
            self._rows[request.number] = self._row(request, observed)

    def finish(self) -> list[dict[str, Any]]:
        """Return all rows."""
        for request in self._observer.unanswered():
            if request.type != _SEND and request.number not in self._rows:
                self._rows[request.number] = self._row(request, None)
        return [row for row in self._rows.values() if row["connection"] not in self._facts.duplicate_connections]

    def _row(self, request: Request, observed: Facts | None) -> dict[str, Any]:
        from_client, owner = self._asked.get(request.number, (True, None))
        stream, peer = self._streams[request.stream], request.peer
        error = observed.error[0] or None if observed is not None else None
        known = self._session(request, owner) if request.type == _ACK and owner is not None else peer
        topic = _first(request.topic) or (known.topic if known is not None else "")
        return {
            "cluster": self._cluster, "connection": request.stream, "client": _address(stream.client),
            "server": _address(stream.server), "request": name_of(request.type),
            "answer": None if observed is None else name_of(observed.frame.type), "from_client": from_client,
            "request_id": _number(request), "owner_id": _owner(owner if peer is None else peer.id),
            "topic": full_name(topic) or None,
            "subscription": _first(request.subscription) or getattr(known, "subscription", "") or None,
            "asked_ns": request.time_ns, "answered_ns": None if observed is None else observed.frame.time_ns,
            "latency_ns": None if observed is None else observed.latency_ns,
            "error": error,
            "asked_frame": request.number, "answered_frame": None if observed is None else observed.frame.number,
            "system": request.system,
        }  # fmt: skip

    def _session(self, request: Request, owner: int) -> Session | None:
        """Return the consumer of an ACK, which may be closed, as `exchanges_of_acks` does."""
        place = (np.array([one], np.int64) for one in (request.stream, signed(owner), request.number))
        at = int(self._facts.consumers.find(*place)[0])
        return self._facts.sessions[self._facts.session[at]] if at >= 0 else None


def _number(request: Request) -> int | None:
    if COMMANDS[request.type].paired_by == "order":
        return None
    return signed(request.id)


def _owner(number: int | None) -> int | None:
    return None if number is None else signed(number)


def _first(words: str | list[str]) -> str:
    return words if isinstance(words, str) else next(iter(words), "")


def _address(ends: tuple[str, int]) -> str:
    host, port = ends
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def exchanges_of_acks(answered: pa.Table, facts: RecordingFacts, streams: Sequence[Stream], cluster: str) -> pa.Table:
    """Return EXCHANGES of the rows of ANSWERED that contain an ACK. The rows contain the recording's numbers."""
    stream = longs(answered, "stream")
    kept = ~np.isin(stream, list(facts.duplicate_connections)) & (longs(answered, "asked_number") >= 0)
    if not kept.all():
        answered, stream = answered.filter(pa.array(kept)), stream[kept]
    owner, asked = longs(answered, "consumer_id"), longs(answered, "asked_number")
    at = facts.consumers.find(stream, owner, asked)
    session = np.where(at >= 0, facts.session[at], -1) if len(facts.session) else at
    asked_ns, answered_ns = longs(answered, "asked_ns"), longs(answered, "answered_ns")
    without = longs(answered, "answered_number") < 0
    ends = {one.number: one for one in streams}
    numbers, place = np.unique(stream, return_inverse=True)
    size = len(answered)
    own = np.array([*(one.system for one in facts.sessions), False])[session]
    columns = {
        "cluster": pa.repeat(cluster, size),
        "connection": stream,
        "client": texts_at([_address(ends[one].client) for one in numbers.tolist()], place, empty_is_null=True),
        "server": texts_at([_address(ends[one].server) for one in numbers.tolist()], place, empty_is_null=True),
        "request": pa.repeat("ACK", size),
        "answer": texts_at(["ACK_RESPONSE"], np.where(without, -1, 0)),
        "from_client": np.ones(size, np.bool_),
        "request_id": longs(answered, "request_id"),
        "owner_id": owner,
        "topic": texts_at([one.topic for one in facts.sessions], session, empty_is_null=True),
        "subscription": texts_at([one.subscription for one in facts.sessions], session, empty_is_null=True),
        "asked_ns": asked_ns,
        "answered_ns": pa.array(answered_ns, mask=without),
        "latency_ns": pa.array(answered_ns - asked_ns, mask=without),
        "error": pa.nulls(size, pa.string()),
        "asked_frame": asked,
        "answered_frame": pa.array(longs(answered, "answered_number"), mask=without),
        "system": np.where(session >= 0, own, np.isin(stream, list(facts.system))),
    }
    arrays = [
        one if isinstance(one, pa.Array) else pa.array(one, EXCHANGES.field(name).type) for name, one in columns.items()
    ]
    return pa.Table.from_arrays(arrays, schema=EXCHANGES)
