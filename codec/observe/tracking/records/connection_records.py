"""Records of connections, hosts, exchanges, transactions and the capture. The module contains only data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pcli.codec.observe.tracking.records.counters import Occurrences

ENDS: Final[dict[str, str]] = {
    "closed": "the client closed the producer or consumer",
    "broker": "the broker closed the producer or consumer without a request (unload, seek, deletion, limits)",
    "fin_client": "the client closed the connection",
    "fin_broker": "the broker closed the connection",
    "reset_client": "the client reset the connection",
    "reset_broker": "the broker reset the connection",
    "keep_alive": "a PING was not answered, and the sender of the PING closed the connection",
    "auth": "the broker refused the login and closed the connection",
    "refused": "the broker refused to open it and sent an error",
    "replaced": "the same id was opened again on the same connection",
    "silence": "the capture contains neither its end nor any further frames",
}
"""Descriptions of the ends of sessions and connections."""

LOST: Final = frozenset(("fin_broker", "reset_broker", "keep_alive"))
"""Ends of connections that the broker's side has lost."""

MAX_CONNECTIONS: Final = 10_000
"""Maximum number of connections, including ended connections."""

MAX_TXN_TOPICS: Final = 64

MAX_LOSSES: Final = 10_000


@dataclass(slots=True)
class ConnectionRecord:
    """A TCP connection."""

    stream: int
    """``tcp.stream``."""
    client: tuple[str, int]
    server: tuple[str, int]
    kind: str = "pulsar"
    """The value of Stream.kind: pulsar, tls, http, proxy, other or unknown."""
    midstream: bool = False
    system: bool = False
    first_ns: int = 0
    last_ns: int = 0
    first_frame: int = 0
    last_frame: int = 0
    client_frames: int = 0
    broker_frames: int = 0
    client_version: str = ""
    protocol_version: int = -1
    """Protocol version in CONNECT; -1 if not captured."""
    server_version: str = ""
    server_protocol_version: int = -1
    max_message_size: int = 0
    """The value in CONNECTED; 0 if absent."""
    proxy_to_broker_url: str = ""
    leg_of: int = -1
    """tcp.stream of the client's connection if this is the connection from its proxy to the broker, or if this is the
    same connection after a translation of its addresses; otherwise -1."""
    translated: bool = False
    """Whether this is the same connection as ``leg_of``, after a translation of its addresses."""
    other_leg: ConnectionRecord | None = field(default=None, repr=False, compare=False)
    """The other connection of a proxied pair, in both records."""
    connect_frame: int = 0
    connected_ns: int = -1
    challenges: Occurrences = field(default_factory=Occurrences)
    """AUTH_CHALLENGEs after the handshake: the credentials had expired."""
    challenge_open_ns: int = -1
    """Time of the AUTH_CHALLENGE that has no AUTH_RESPONSE yet, or -1."""
    refreshed_ns: int = -1
    """Time of the last AUTH_RESPONSE after the handshake."""
    ping_open: dict[bool, tuple[int, int]] = field(default_factory=dict)
    """Oldest PING without a later frame from the other side: frame and time, by sender (True for the client)."""
    end: str = ""
    """A key of ENDS; empty while the connection is open."""
    ended_ns: int = -1
    first_bytes: str = ""
    """Kind of non-Pulsar data at the start: tls, http, proxy-protocol or text; empty if there is none."""
    first_bytes_text: str = ""
    """Description of the non-Pulsar data, with the length that a Pulsar peer would read from it."""
    first_bytes_packet: int = 0
    wrong_crc: dict[bool, Occurrences] = field(default_factory=dict)
    """Completely captured SEND (key True: from the client) and MESSAGE (key False) frames with a wrong checksum."""
    oversize: Occurrences = field(default_factory=Occurrences)
    """Frames larger than max_message_size plus its padding, in both directions; the sample contains type and size."""
    deprecated: dict[str, Occurrences] = field(default_factory=dict)
    """Deprecated commands and fields, by name."""
    out_of_order: Occurrences = field(default_factory=Occurrences)
    """Responses about a producer or consumer that preceded the response to its PRODUCER or SUBSCRIBE."""
    watchers: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    """Open topic-list watchers: watcher id to frame, time, namespace and pattern."""
    watch_gaps: Occurrences = field(default_factory=Occurrences)
    """WATCH_TOPIC_LISTs whose hash differs from the hash in the response: topics changed while no watcher was open. The
    frames are those of the request and response; the sample contains topics.
    """
    watch_missed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Topics that a watcher received and to which this client address has not subscribed: frame and time."""
    doubts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Outage:
    """A time in which a client could not connect to a server."""

    since_ns: int
    """Time at which the first lookup was refused, the first connection was lost, or the first attempt failed."""
    until_ns: int = -1
    """Time of the next CONNECTED; -1 if there is none."""
    until_frame: int = 0
    not_ready: Occurrences = field(default_factory=Occurrences)
    """Lookups that the server refused because it was not ready; the sample is the message."""
    lost: Occurrences = field(default_factory=Occurrences)
    """Connections that the server closed or reset, or on which it did not answer a PING; the frame is the last of
    each."""
    refused: Occurrences = field(default_factory=Occurrences)
    """SYNs answered with RST; the sample is the first packet."""
    unanswered: Occurrences = field(default_factory=Occurrences)
    """Connections that ended without a frame from the server for a second or longer; the frame is the last of each."""

    @property
    def attempts(self) -> int:
        """Number of lost connections and failed attempts."""
        return self.lost.count + self.refused.count + self.unanswered.count

    @property
    def certain(self) -> bool:
        """Whether the server was not available: it refused two attempts, or did not respond to one."""
        return self.refused.count > 1 or self.unanswered.count > 0


@dataclass(slots=True)
class HostRecord:
    """All connections of one client address to one server: attempts and ends."""

    client: str
    server: tuple[str, int]
    attempts: Occurrences = field(default_factory=Occurrences)
    """Connection attempts; the frames are those of CONNECT."""
    refused: Occurrences = field(default_factory=Occurrences)
    """SYNs answered with RST."""
    ends: dict[str, Occurrences] = field(default_factory=dict)
    """Ends of connections, by key of ENDS."""
    recent_ends: list[tuple[int, str, int]] = field(default_factory=list)
    """The last 64 ends, including refused SYNs: time, key of ENDS, frame (0 if none)."""
    denied: dict[str, Occurrences] = field(default_factory=dict)
    """AuthenticationErrors and AuthorizationErrors by ``error command``: the ServerError and the command type of the
    request. The sample is the message.
    """
    outages: list[Outage] = field(default_factory=list)
    """Past outages, at most 64."""
    outage: Outage | None = None
    """The connections that were lost, and the attempts that failed, since the last CONNECTED; they may be no outage."""
    attempt_times: list[int] = field(default_factory=list)
    """Times of the last 64 connection attempts, ns."""
    doubts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class ExchangeRecord:
    """All requests of one type on one connection."""

    stream: int
    type: str
    """Name of the request's command type; for a response without a request, the name of the response's type."""
    client: tuple[str, int] = ("", 0)
    server: tuple[str, int] = ("", 0)
    asked: int = 0
    answered: int = 0
    slow: Occurrences = field(default_factory=Occurrences)
    """Responses slower than the limit of slow-answers; the sample is the longest latency in ms."""
    slowest_ns: int = 0
    slowest: tuple[int, int] = (0, 0)
    """Frames of the request and response with the longest latency."""
    slowest_by_client: bool = False
    """Whether the client sent that response: PONG."""
    unanswered: Occurrences = field(default_factory=Occurrences)
    """Requests that have no response so far, or had none when their connection ended."""
    waited_ns: int = 0
    """Age of the oldest request without a response, in ns."""
    overtaken: int = 0
    """Number of requests without a response that are older than an answered request of the same type."""
    last_answered_frame: int = 0
    """Frame of the latest answered request of the type."""
    answered_twice: Occurrences = field(default_factory=Occurrences)
    unasked: Occurrences = field(default_factory=Occurrences)
    """Responses without a request."""
    refused: dict[tuple[str, str], Occurrences] = field(default_factory=dict)
    """Responses with an error, by ServerError and topic (empty if none), at most 64; the sample is the message. The
    errors of PRODUCER, SUBSCRIBE, SEND, ACK and of the login, and errors of authorization, are in other records."""
    accepted_later: set[str] = field(default_factory=set)
    """Topics of refused requests for which a later request of any type succeeded on the connection."""
    doubts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class TransactionRecord:
    """A transaction, by its id."""

    id: tuple[int, int]
    """Most and least significant bits of the id."""
    stream: int
    began_ns: int
    began_frame: int
    """Frame of the response to NEW_TXN; 0 if not captured."""
    timeout_ms: int = 0
    sent: int = 0
    acked: int = 0
    end_asked_ns: int = -1
    end_asked_frame: int = 0
    """Frame of the client's last END_TXN, or 0."""
    ended_ns: int = -1
    ended_frame: int = 0
    action: str = ""
    """COMMIT or ABORT; empty while the transaction is open, and if only the response to END_TXN was captured."""
    ended_by: str = ""
    """client, or coordinator if there was no END_TXN (timeout); empty while the transaction is open."""
    left_ns: int = -1
    """Time at which the connection that began the transaction ended, if the transaction was still open; otherwise
    -1."""
    error: str = ""
    """Error of the last response that contained an error."""
    scalable: bool = False
    """Whether a command had the flag ``scalable``: the transaction belongs to a V5 client."""
    topics: dict[str, int] = field(default_factory=dict)
    """The topics to which the transaction writes, with the first frame; at most MAX_TXN_TOPICS."""
    doubts: set[str] = field(default_factory=set)


class Loss(NamedTuple):
    """The end of a direction that TCP did not deliver, although it was retransmitted."""

    frame: int
    """The first frame that is certain to be lost."""
    exact: bool
    """Whether the frames before it were delivered; False if they are too many to know."""
    heard: bool
    """Whether the other side has sent frames since: its host is running."""
    since_ns: int
    """Time of the first frame."""


@dataclass(slots=True)
class CaptureRecord:
    """The capture itself."""

    first_ns: int = 0
    last_ns: int = 0
    frames: int = 0
    packets: int = 0
    gaps: Occurrences = field(default_factory=Occurrences)
    """Gaps; the sample is the first note."""
    gap_bytes: int = 0
    midstream: int = 0
    """Connections that began before the capture and carry messages of producers or consumers without names."""
    one_way: int = 0
    """Connections with only one direction."""
    cut: bool = False
    """Whether packets are truncated by a snap length."""
    unfinished: int = 0
    """Frames truncated by the end of their connection or of the capture."""
    unread: list[str] = field(default_factory=list)
    """Packets that were not decoded, for each file and reason."""
    damaged: bool = False
    """Whether a file is truncated."""
    resyncs: int = 0
    evicted: dict[str, int] = field(default_factory=dict)
    """Numbers of evicted records, by kind."""
    other_streams: dict[str, int] = field(default_factory=dict)
    """Numbers of connections that are not Pulsar, by kind."""
    losses: dict[tuple[int, bool], Loss] = field(default_factory=dict)
    """Frames that TCP did not deliver, by connection and sender (True for the client); at most MAX_LOSSES."""
