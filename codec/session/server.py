"""The broker's side of a connection: the handshake, and the features that the client supports.

Rules of this file (ServerCnx, Commands.newConnectedCommand; 4.2.4)
1. The negotiated version is the lower of the two sides' versions. CONNECTED contains the broker's own feature flags,
   regardless of the client's flags. The client's flags are stored because they state what it supports.
2. A client that sends no version has version 0.
3. The features of a client are determined once, in the handshake, and stored as plain attributes, because dispatchers
   read them for every delivery.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pcli.codec.proto import pb
from pcli.codec.session.keepalive import KeepAlive
from pcli.codec.session.states import State, may_receive
from pcli.codec.session.versions import (
    BATCHES,
    BROKER_ENTRY,
    CHECKSUMS,
    CLOSE_COMMANDS,
    NEWEST,
    PINGS,
    supports_command,
)
from pcli.codec.wire.constants import DEFAULT_MAX_MESSAGE_SIZE


@dataclass(frozen=True, slots=True)
class Offer:
    """The broker's properties that CONNECTED contains."""

    server_version: str
    """``Pulsar Server`` followed by the version, without a space between them."""
    max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE
    """``maxMessageSize`` in bytes."""
    features: frozenset[str] = field(default_factory=frozenset)
    """The names of the FeatureFlags fields that are set."""
    newest: int = NEWEST
    """The newest protocol version that the broker supports."""
    expose_broker_entry: bool = False
    """``exposingBrokerEntryMetadataToClientEnabled``."""


class ServerSession:
    """One connection from the broker's side."""

    __slots__ = (
        "client_version",
        "features",
        "keep_alive",
        "offer",
        "plain_delivery",
        "proxy_version",
        "reads_batches",
        "reads_broker_entry",
        "reads_checksum",
        "state",
        "supports_close",
        "version",
    )

    def __init__(self, offer: Offer, keep_alive: KeepAlive) -> None:
        self.offer = offer
        self.keep_alive = keep_alive
        self.state = State.START
        self.client_version = ""
        """The client version in CONNECT."""
        self.proxy_version = ""
        """The version of the proxy that forwarded the connection; empty if there is none."""
        self.features: frozenset[str] = frozenset()
        """The names of the feature flags that the client has set."""
        self._see(0)

    def _see(self, version: int) -> None:
        self.version = version
        """The negotiated protocol version; 0 before the handshake."""
        self.supports_close = version >= CLOSE_COMMANDS
        """Whether the client supports CLOSE_PRODUCER and CLOSE_CONSUMER. If not, the connection is closed instead."""
        self.reads_batches = version >= BATCHES
        self.reads_checksum = self.plain_delivery = version >= CHECKSUMS
        """Whether the client accepts entries as stored, except for a leading broker entry block."""
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
        """Whether the client supports PING."""
        return self.version >= PINGS

    def supports_command(self, command: str) -> bool:
        """Whether the client's protocol version includes a command, given by name."""
        return supports_command(self.version, command)

    def allows(self, number: int) -> bool:
        """Whether a command of this type is allowed in the current state."""
        return may_receive(self.state, number)

    def connect(self, request: pb.CommandConnect) -> pb.CommandConnected:
        """Complete the handshake and return the response."""
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
        """Accept no further commands; the caller closes the connection."""
        self.state = State.FAILED
