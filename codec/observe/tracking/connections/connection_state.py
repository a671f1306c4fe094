"""State of a connection besides its record: open requests, and the time of the last frame of each side."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from pcli.codec.observe.observer_state import Consumer, Producer
from pcli.codec.observe.tracking.connections.repeated_connections import Leg
from pcli.codec.observe.tracking.records.connection_records import ExchangeRecord, Loss
from pcli.codec.wire.commands import name_of

NO_LIMIT: Final = 1 << 40
"""Maximum frame size in bytes before CONNECTED reports a limit."""

_MAX_RECENT: Final = 64

_ROUND_TRIP_NS: Final = 1_000_000_000
"""Time after which a frame cannot have been under way when another one was sent (the initial timeout of RFC 6298)."""

_End = tuple[int, int, int]

Open = tuple[int, int, Producer | Consumer | None]
"""A request without a response: type, time, and the producer or consumer that it concerns."""


@dataclass(slots=True, eq=False, repr=False)
class ConnectionState(Leg):
    """State of one connection."""

    used_by_application: bool = False
    """Whether an application opened a producer or consumer on the connection."""
    connected: bool = True
    """Whether the handshake is complete, or took place before the capture."""
    login_refused: bool = False
    has_unnamed_peers: bool = False
    """Whether the connection carried messages of producers or consumers whose names are not in the capture."""
    last_frame_ns: list[int] = field(default_factory=lambda: [0, 0])
    """Times of the last frame from the broker and from the client."""
    recent: tuple[deque[_End], deque[_End]] = field(
        default_factory=lambda: (deque(maxlen=_MAX_RECENT), deque(maxlen=_MAX_RECENT))
    )
    """The last frames of the broker and of the client: the offset after the frame, its number and time."""
    silences: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0), (0, 0)])
    """Start and end in ns of the last silence of the broker and of the client that lasted over PATIENCE_NS."""
    answered_pings: dict[bool, tuple[int, int]] = field(default_factory=dict)
    """The last PING of each side that the other side answered: frame and time, by sender."""
    limit: int = NO_LIMIT
    """Maximum frame size in bytes."""
    sends: ExchangeRecord | None = None
    exchanges: dict[int, ExchangeRecord] = field(default_factory=dict)
    """Records by request type."""
    open_requests: dict[int, Open] = field(default_factory=dict)
    """Requests other than SEND that have no response, by frame number; the oldest first."""
    overtaken: dict[int, tuple[int, int]] = field(default_factory=dict)
    """PRODUCERs and SUBSCRIBEs that were still open when a later request of the same producer or consumer received
    its response, by frame number."""
    early_responses: dict[tuple[int, int], int] = field(default_factory=dict)
    """Types of responses captured before their requests, by (-1, request id), or by producer id and sequence id."""
    answered_requests: dict[int, int] = field(default_factory=dict)
    """The last request ids that have a response, and the types of the requests."""
    refused_topics: dict[str, set[int]] = field(default_factory=dict)
    """Types of refused requests, by topic."""
    existence_checks: set[int] = field(default_factory=set)
    """Open PARTITIONED_METADATA without auto-creation, by frame number."""
    waiting_producers: set[int] = field(default_factory=set)
    """PRODUCERs whose first response has producer_ready false, by frame number."""
    watch_hashes: dict[int, str] = field(default_factory=dict)
    """The client's topic hashes for watchers that have no response yet, by watcher id."""
    producer: Producer | None = None
    """The producer of the last SEND."""
    producers: dict[Producer, None] = field(default_factory=dict)
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
