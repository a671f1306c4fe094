"""State of a connection besides its record: open requests, and the time of the last frame of each side."""

from __future__ import annotations

from collections import deque
from typing import Final

from pcli.codec.observe.observer_state import Consumer, Producer
from pcli.codec.observe.tracking.connections.repeated_connections import Leg
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord, ExchangeRecord, Loss
from pcli.codec.wire.commands import name_of

__all__ = ["NO_LIMIT", "ConnectionState", "Open"]

NO_LIMIT: Final = 1 << 40
"""Maximum frame size in bytes before CONNECTED reports a limit."""

_MAX_RECENT: Final = 64

_ROUND_TRIP_NS: Final = 1_000_000_000
"""Time after which a frame cannot have been under way when another one was sent (the initial timeout of RFC 6298)."""

_End = tuple[int, int, int]

Open = tuple[int, int, Producer | Consumer | None]
"""A request without a response: type, time, and the producer or consumer that it concerns."""


class ConnectionState(Leg):
    """State of one connection."""

    __slots__ = (
        "answered_pings",
        "answered_requests",
        "connected",
        "early_responses",
        "exchanges",
        "existence_checks",
        "has_unnamed_peers",
        "last_frame_ns",
        "limit",
        "login_refused",
        "open_requests",
        "overtaken",
        "producer",
        "producers",
        "recent",
        "refused_topics",
        "sends",
        "silences",
        "used_by_application",
        "waiting_producers",
        "watch_hashes",
    )

    def __init__(self, record: ConnectionRecord) -> None:
        super().__init__(record)
        self.used_by_application = False
        """Whether an application opened a producer or consumer on the connection."""
        self.connected = True
        """Whether the handshake is complete, or took place before the capture."""
        self.login_refused = False
        self.has_unnamed_peers = False
        """Whether the connection carried messages of producers or consumers whose names are not in the capture."""
        self.last_frame_ns = [0, 0]
        """Times of the last frame from the broker and from the client."""
        self.recent: tuple[deque[_End], deque[_End]] = (deque(maxlen=_MAX_RECENT), deque(maxlen=_MAX_RECENT))
        """The last frames of the broker and of the client: the offset after the frame, its number and time."""
        self.silences = [(0, 0), (0, 0)]
        """Start and end in ns of the last silence of the broker and of the client that lasted over PATIENCE_NS."""
        self.answered_pings: dict[bool, tuple[int, int]] = {}
        """The last PING of each side that the other side answered: frame and time, by sender."""
        self.limit = NO_LIMIT
        """Maximum frame size in bytes."""
        self.sends: ExchangeRecord | None = None
        self.exchanges: dict[int, ExchangeRecord] = {}
        """Records by request type."""
        self.open_requests: dict[int, Open] = {}
        """Requests other than SEND that have no response, by frame number; the oldest first."""
        self.overtaken: dict[int, tuple[int, int]] = {}
        """PRODUCERs and SUBSCRIBEs that were still open when a later request of the same producer or consumer received
        its response, by frame number."""
        self.early_responses: dict[tuple[int, int], int] = {}
        """Types of responses captured before their requests, by (-1, request id), or by producer id and sequence id."""
        self.answered_requests: dict[int, int] = {}
        """The last request ids that have a response, and the types of the requests."""
        self.refused_topics: dict[str, set[int]] = {}
        """Types of refused requests, by topic."""
        self.existence_checks: set[int] = set()
        """Open PARTITIONED_METADATA without auto-creation, by frame number."""
        self.waiting_producers: set[int] = set()
        """PRODUCERs whose first response has producer_ready false, by frame number."""
        self.watch_hashes: dict[int, str] = {}
        """The client's topic hashes for watchers that have no response yet, by watcher id."""
        self.producer: Producer | None = None
        """The producer of the last SEND."""
        self.producers: dict[Producer, None] = {}
        """Producers that may have open SENDs; the Observer keeps the SENDs in them."""

    def loss(self, offset: int, *, from_client: bool) -> Loss | None:
        """Return what is lost if one side's bytes from an offset on were not delivered; None if no frame."""
        sent, heard = self.recent[from_client], self.recent[not from_client]
        lost, sent_ns = next(((number, time_ns) for end, number, time_ns in sent if end > offset), (0, 0))
        if not lost:
            return None
        running = bool(heard) and heard[-1][2] - sent_ns > _ROUND_TRIP_NS
        return Loss(lost, lost != sent[0][1] or len(sent) < _MAX_RECENT, running, sent_ns)

    def exchange(self, number: int) -> ExchangeRecord:
        """Return the record of a request type; create it if necessary."""
        found = self.exchanges.get(number)
        if found is None:
            record = self.record
            found = ExchangeRecord(record.stream, name_of(number), record.client, record.server)
            found.doubts = record.doubts
            self.exchanges[number] = found
        return found
