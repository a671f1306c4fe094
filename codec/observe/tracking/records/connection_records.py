"""What is kept of connections, of hosts, of exchanges, and of the capture itself. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pcli.codec.observe.tracking.records.counters import Occurrences

__all__ = ["ENDS", "CaptureRecord", "ConnectionRecord", "ExchangeRecord", "HostRecord", "TransactionRecord"]

ENDS: Final[dict[str, str]] = {
    "closed": "its client closed it",
    "broker": "the broker closed it without a request (unload, seek, deletion, limits)",
    "fin_client": "the client closed the connection",
    "fin_broker": "the broker closed the connection",
    "reset_client": "the client reset the connection",
    "reset_broker": "the broker reset the connection",
    "keep_alive": "a PING was not answered, and its sender closed the connection",
    "auth": "the broker refused the login and closed the connection",
    "refused": "the broker refused it with an error",
    "replaced": "the same id was opened again on the same connection",
    "silence": "the capture contains no further frames of it and no end",
}
"""How a session or a connection ended."""


@dataclass(slots=True)
class ConnectionRecord:
    """A TCP connection."""

    stream: int
    """``tcp.stream``."""
    client: tuple[str, int]
    server: tuple[str, int]
    kind: str = "pulsar"
    """As Stream.kind: pulsar, tls, http, proxy, other, unknown."""
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
    """Of CONNECT; -1: not seen."""
    server_version: str = ""
    server_protocol_version: int = -1
    max_message_size: int = 0
    """As CONNECTED tells; 0: not told."""
    proxy_to_broker_url: str = ""
    leg_of: int = -1
    """tcp.stream of the other leg when this one is a proxy's connection to its broker; -1: none."""
    other_leg: ConnectionRecord | None = field(default=None, repr=False, compare=False)
    """The other leg, in both records of a proxied conversation."""
    connect_frame: int = 0
    connected_ns: int = -1
    challenges: Occurrences = field(default_factory=Occurrences)
    """AUTH_CHALLENGE on an open connection: the credentials had expired."""
    challenge_open_ns: int = -1
    """Since when one of these waits for its AUTH_RESPONSE; -1: none does."""
    refreshed_ns: int = -1
    """When the last of these had its AUTH_RESPONSE."""
    ping_open: dict[bool, tuple[int, int]] = field(default_factory=dict)
    """The oldest PING after which nothing came from the other side: frame and time, by who sent it (True: client)."""
    end: str = ""
    """A key of ENDS; empty: it lasts."""
    ended_ns: int = -1
    first_bytes: str = ""
    """What stood there instead of the protocol: tls, http, proxy-protocol, text; empty: nothing wrong."""
    first_bytes_text: str = ""
    """In words, with the length that a Pulsar peer would have read from it."""
    first_bytes_packet: int = 0
    wrong_crc: dict[bool, Occurrences] = field(default_factory=dict)
    """SEND (True: from the client) and MESSAGE (False) frames with a wrong checksum, all bytes captured."""
    oversize: Occurrences = field(default_factory=Occurrences)
    """Frames larger than max_message_size and its padding, from either side; the sample says type and size."""
    deprecated: dict[str, Occurrences] = field(default_factory=dict)
    """Commands and fields that newer versions have done away with, by name."""
    out_of_order: Occurrences = field(default_factory=Occurrences)
    """Answers about a producer or consumer that came before that to the PRODUCER or SUBSCRIBE which opens it."""
    watchers: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    """Open topic-list watchers: watcher id to frame, time, namespace and pattern."""
    watch_gaps: Occurrences = field(default_factory=Occurrences)
    """WATCH_TOPIC_LISTs whose answer has another hash than the client knew: topics changed while nobody watched. The
    frames are those of question and answer, the sample names topics."""
    watch_missed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Topics that a watcher was told of and that this client address has not subscribed to: frame and time."""
    doubts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class HostRecord:
    """All connections of one client address to one server: attempts, and how they ended."""

    client: str
    server: tuple[str, int]
    attempts: Occurrences = field(default_factory=Occurrences)
    """Connections that began; frames are unknown to TCP, so these are those of their CONNECTs."""
    refused: Occurrences = field(default_factory=Occurrences)
    """SYNs answered by RST."""
    ends: dict[str, Occurrences] = field(default_factory=dict)
    """How connections ended, by ENDS."""
    recent_ends: list[tuple[int, str, int]] = field(default_factory=list)
    """The last 64 of them, and refused SYNs: time, word of ENDS, frame (0: none)."""
    redirect_loops: Occurrences = field(default_factory=Occurrences)
    """Redirects by a server to which the client had been sent back within ten seconds; the sample is the topic."""
    denied: dict[str, Occurrences] = field(default_factory=dict)
    """AuthenticationErrors and AuthorizationErrors by ``error command``: to what they answered; the sample is the
    message."""
    attempt_times: list[int] = field(default_factory=list)
    """When the last 64 connections began, ns."""
    doubts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class ExchangeRecord:
    """All requests of one type on one connection."""

    stream: int
    type: str
    """Name of the request's command type; of answers to which no request is known it is their own."""
    client: tuple[str, int] = ("", 0)
    server: tuple[str, int] = ("", 0)
    asked: int = 0
    answered: int = 0
    slow: Occurrences = field(default_factory=Occurrences)
    """Answers that took longer than the bound of slow-answers; the sample is the longest in ms."""
    slowest_ns: int = 0
    slowest: tuple[int, int] = (0, 0)
    """Frames of that request and answer."""
    unanswered: Occurrences = field(default_factory=Occurrences)
    """Requests without answer, so far or when their connection ended."""
    waited_ns: int = 0
    """How long the oldest of them has waited, or had."""
    overtaken: int = 0
    """How many of them are older than a request of the same type that was answered."""
    last_answered_frame: int = 0
    """The youngest request of the type that was answered."""
    answered_twice: Occurrences = field(default_factory=Occurrences)
    unasked: Occurrences = field(default_factory=Occurrences)
    """Answers to which no request is known."""
    doubts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class TransactionRecord:
    """A transaction, by its id."""

    id: tuple[int, int]
    """most and least significant bits."""
    stream: int
    began_ns: int
    began_frame: int
    """NEW_TXN's answer; 0: not seen."""
    timeout_ms: int = 0
    sent: int = 0
    acked: int = 0
    end_asked_ns: int = -1
    end_asked_frame: int = 0
    """The last END_TXN of a client; 0: none."""
    ended_ns: int = -1
    ended_frame: int = 0
    action: str = ""
    """COMMIT or ABORT; empty: open."""
    ended_by: str = ""
    """client, or coordinator when no END_TXN was seen (time-out); empty: open."""
    left_ns: int = -1
    """When the connection that began it ended while it was open; -1: it did not."""
    error: str = ""
    """Of the last answer that refused something."""
    doubts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class CaptureRecord:
    """The capture itself."""

    first_ns: int = 0
    last_ns: int = 0
    frames: int = 0
    packets: int = 0
    gaps: Occurrences = field(default_factory=Occurrences)
    """Holes; count is in holes. The sample is the first note."""
    gap_bytes: int = 0
    midstream: int = 0
    """Connections that began before the capture and carry messages of producers or consumers without names."""
    one_way: int = 0
    """Connections of which one direction is missing."""
    cut: bool = False
    """Whether packets are cut by a snap length."""
    unfinished: int = 0
    """Frames of which the end is missing because their connection, or the capture, ended before."""
    damaged: bool = False
    """Whether a file ended in the middle of something."""
    resyncs: int = 0
    evicted: dict[str, int] = field(default_factory=dict)
    """What was forgotten to bound the memory, by kind of record."""
    other_streams: dict[str, int] = field(default_factory=dict)
    """Connections that are not Pulsar, by kind."""
