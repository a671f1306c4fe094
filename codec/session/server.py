"""The broker's side of a connection: the handshake, and what this client may see.

Rules of this file (ServerCnx, Commands.newConnectedCommand; 4.2.4)
1. The version is the smaller of both sides; the feature flags of the answer are the broker's own, whatever the client
   says. The client's flags are remembered: they say what it can take.
2. A client that names no version has 0.
3. What a client may see is decided once, at the handshake, and kept as plain attributes: dispatchers ask for every
   delivery.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pcli.codec.proto import pb
from pcli.codec.session.keepalive import KeepAlive
from pcli.codec.session.states import State, may_receive
from pcli.codec.session.versions import BATCHES, BROKER_ENTRY, CHECKSUMS, CLOSE_COMMANDS, NEWEST, PINGS, knows
from pcli.codec.wire.constants import DEFAULT_MAX_MESSAGE_SIZE

__all__ = ["Offer", "ServerSession"]


@dataclass(frozen=True, slots=True)
class Offer:
    """What a broker says of itself in CONNECTED."""

    server_version: str
    """``Pulsar Server`` and the version, without a space between them."""
    max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE
    """Bytes, ``maxMessageSize``."""
    features: frozenset[str] = field(default_factory=frozenset)
    """The flags of FeatureFlags that are set."""
    newest: int = NEWEST
    """The newest protocol version that it speaks."""
    expose_broker_entry: bool = False
    """``exposingBrokerEntryMetadataToClientEnabled``."""


class ServerSession:
    """One connection, seen from the broker."""

    __slots__ = (
        "client_version",
        "features",
        "keep_alive",
        "knows_close",
        "offer",
        "plain_delivery",
        "proxy_version",
        "reads_batches",
        "reads_broker_entry",
        "reads_checksum",
        "state",
        "version",
    )

    def __init__(self, offer: Offer, keep_alive: KeepAlive) -> None:
        self.offer = offer
        self.keep_alive = keep_alive
        self.state = State.START
        self.client_version = ""
        """What the client calls itself."""
        self.proxy_version = ""
        """What the proxy calls itself through which it came; empty: none."""
        self.features: frozenset[str] = frozenset()
        """The feature flags that the client has set."""
        self._see(0)

    def _see(self, version: int) -> None:
        self.version = version
        """The protocol version of both sides together; 0 before the handshake."""
        self.knows_close = version >= CLOSE_COMMANDS
        """Takes CLOSE_PRODUCER and CLOSE_CONSUMER; otherwise the connection is closed."""
        self.reads_batches = version >= BATCHES
        self.reads_checksum = self.plain_delivery = version >= CHECKSUMS
        """Takes entries as they are stored, but for a broker entry block in front."""
        self.reads_broker_entry = (
            version >= BROKER_ENTRY
            and self.offer.expose_broker_entry
            and "supports_broker_entry_metadata" in self.features
        )

    @property
    def connected(self) -> bool:
        """Whether the handshake is complete."""
        return self.state is State.CONNECTED

    @property
    def pings(self) -> bool:
        """Whether the client knows PING."""
        return self.version >= PINGS

    def knows(self, command: str) -> bool:
        """Whether the client knows a command, by name."""
        return knows(self.version, command)

    def allows(self, number: int) -> bool:
        """Whether a command of this type may come now."""
        return may_receive(self.state, number)

    def connect(self, request: pb.CommandConnect) -> pb.CommandConnected:
        """Complete the handshake; gives what to answer."""
        self.client_version = request.client_version
        self.proxy_version = request.proxy_version
        self.features = frozenset(flag.name for flag, value in request.feature_flags.ListFields() if value)
        self._see(min(self.offer.newest, request.protocol_version))
        self.state = State.CONNECTED
        return pb.CommandConnected(
            server_version=self.offer.server_version,
            protocol_version=self.version,
            max_message_size=self.offer.max_message_size,
            feature_flags=pb.FeatureFlags(**dict.fromkeys(self.offer.features, True)),
        )

    def fail(self) -> None:
        """Nothing more is taken; the connection is to be closed."""
        self.state = State.FAILED
