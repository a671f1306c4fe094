"""What is remembered of a connection beside its record: what is open on it, and who has spoken. Data only."""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.observer_state import Consumer, Producer
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord, ExchangeRecord
from pcli.codec.wire.commands import name_of

__all__ = ["NO_LIMIT", "ConnectionState", "Open"]

NO_LIMIT: Final = 1 << 40
"""Bytes of the largest frame as long as no CONNECTED has told."""

Open = tuple[int, int, Producer | Consumer | None]
"""A request that waits: type, time, and the producer or consumer it is about."""


class ConnectionState:
    """One connection."""

    __slots__ = (
        "after_connect",
        "answered_requests",
        "connected",
        "early_responses",
        "exchanges",
        "has_unnamed_peers",
        "is_proxy_side",
        "last_frame_ns",
        "limit",
        "login_refused",
        "open_requests",
        "overtaken",
        "producer",
        "producers",
        "record",
        "sends",
        "used_by_application",
        "waiting_producers",
        "watch_hashes",
    )

    def __init__(self, record: ConnectionRecord) -> None:
        self.record = record
        self.used_by_application = False
        """Whether an application's producer or consumer was opened on it."""
        self.connected = True
        """Whether the handshake is over; also when it was before the capture."""
        self.login_refused = False
        self.has_unnamed_peers = False
        """Whether it carried messages of producers or consumers whose names are not in the capture."""
        self.after_connect = False
        """Whether CONNECT was its last frame from the client."""
        self.is_proxy_side = False
        """Whether its frames are those of another connection, through a proxy."""
        self.last_frame_ns = [0, 0]
        """When the broker, and the client, spoke last."""
        self.limit = NO_LIMIT
        """Bytes of the largest frame."""
        self.sends: ExchangeRecord | None = None
        self.exchanges: dict[int, ExchangeRecord] = {}
        """By the type of the request."""
        self.open_requests: dict[int, Open] = {}
        """Requests without answer, other than SEND, by frame number; the oldest first."""
        self.overtaken: dict[int, tuple[int, int]] = {}
        """PRODUCERs and SUBSCRIBEs, by frame number, with a later request about the same that was answered before."""
        self.early_responses: dict[tuple[int, int], int] = {}
        """The types of answers that came before their requests, by (-1, request id), or producer and sequence id."""
        self.answered_requests: dict[int, int] = {}
        """Request ids that were answered, the last of them, and the types of the requests."""
        self.waiting_producers: set[int] = set()
        """PRODUCERs, by frame number, whose first answer was "wait"."""
        self.watch_hashes: dict[int, str] = {}
        """What the client knows, by the id of a watcher that has no answer yet."""
        self.producer: Producer | None = None
        """The one of the last SEND."""
        self.producers: dict[Producer, None] = {}
        """Those that may have open SENDs; the Observer keeps these in them."""

    def exchange(self, number: int) -> ExchangeRecord:
        """The record of a request type."""
        found = self.exchanges.get(number)
        if found is None:
            record = self.record
            found = ExchangeRecord(record.stream, name_of(number), record.client, record.server)
            found.doubts = record.doubts
            self.exchanges[number] = found
        return found
