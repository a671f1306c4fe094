"""The kind and the client of a stream, based on the user's options, then the bytes, and then the ports.

Rules of this file
1. The user's ``decode_as`` determines the kind for its ports, regardless of the bytes.
2. The client is the sender of the SYN. If no SYN was captured, the first command that only one side may send identifies
   it. Before that, the known port or, if neither port is known, the lower port is assumed to be the server's.
3. A known port does not prove that a stream is Pulsar. It only extends the search in a stream captured midstream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pcli.codec.capture.command_start_patterns import BROKER_ONLY, CLIENT_ONLY
from pcli.codec.capture.flows import Direction, Unclassified
from pcli.codec.capture.frames import START
from pcli.codec.capture.stream_kind_by_bytes import pull_proxy, sniff
from pcli.codec.wire.constants import DEFAULT_PORT, DEFAULT_TLS_PORT

_MAX_SNIFFED: Final = 20_000
"""Number of bytes to examine: a TLS record and the header of the next record."""

ADVICE: Final[dict[str, tuple[str, str]]] = {
    "tls": (
        "tls",
        "this is TLS, so its frames are encrypted: give the session keys with --keylog, or capture where TLS is "
        "terminated (after a proxy, on a plain port)",
    ),
    "http": ("http", "this is HTTP, not the Pulsar protocol: the admin API, or a client with a wrong port"),
    "other": ("not-pulsar", "neither Pulsar nor TLS nor HTTP; if the traffic is Pulsar, declare its port"),
}
"""Kind and text of the note for each kind of stream."""


class StreamClassifier:
    """A classifier that determines the kind and the client of each stream."""

    def __init__(self, decode_as: Mapping[int, str]) -> None:
        self.decode_as = decode_as
        self._hinted = {DEFAULT_PORT, DEFAULT_TLS_PORT, *(port for port, kind in decode_as.items() if kind == "pulsar")}

    def server_first(self, source: int, target: int) -> bool:
        """Whether the first of two ports is more likely to be the server's."""
        if (source in self._hinted) != (target in self._hinted):
            return source in self._hinted
        return source < target

    def forced(self, direction: Direction) -> str:
        """Return the kind that the user set for the stream's ports; empty if none."""
        if not self.decode_as:
            return ""
        return self.decode_as.get(direction.stream.server[1]) or self.decode_as.get(direction.stream.client[1]) or ""

    def may_give_up(self, direction: Direction) -> bool:
        """Whether a stream without a frame so far may be classified as not Pulsar."""
        if direction.stream.kind == "pulsar" or self.forced(direction) == "pulsar":
            return False
        return direction.stream.server[1] not in self._hinted and direction.stream.client[1] not in self._hinted

    def verdict(self, direction: Direction, mode: Unclassified, *, final: bool) -> str:
        """Return a kind of stream, "proxy" or "search" for a direction's first bytes; empty if more are needed."""
        if direction.stream.decrypted:
            return sniff(bytes(direction.run[:_MAX_SNIFFED]), final=final)
        forced = self.forced(direction)
        if forced and forced != "pulsar":
            return forced if forced in ADVICE else "other"
        begins = direction.isn >= 0 and mode.sync == START
        word = sniff(bytes(direction.run[:_MAX_SNIFFED]), final=final)
        if word == "proxy" and begins and direction.stream.kind == "unknown":
            return word
        if forced or direction.stream.kind == "pulsar":
            return "pulsar" if begins else "search"
        if begins or word in ("tls", ""):
            return word
        # In the middle of a stream, payload bytes can resemble any protocol.
        return word if word == "http" and self.may_give_up(direction) else "search"

    def proxy(self, direction: Direction) -> tuple[int, str] | None:
        """Return length and text of the PROXY header at the start of the run; see `pull_proxy`."""
        return pull_proxy(bytes(direction.run[:_MAX_SNIFFED]))

    def advice(self, kind: str) -> tuple[str, str]:
        """Return kind and text of the note for a stream that is not Pulsar."""
        return ADVICE[kind]

    def orient(self, direction: Direction, kinds: list[int]) -> None:
        """Determine client and server from the commands found in a direction, if they were inferred from ports."""
        if direction.connection.oriented:
            return
        client = any(kind in CLIENT_ONLY for kind in kinds)
        if client == any(kind in BROKER_ONLY for kind in kinds):
            return
        direction.connection.oriented = True
        if direction.from_client != client:
            stream = direction.stream
            stream.client, stream.server = stream.server, stream.client
            stream.bases.reverse()
            direction.from_client, direction.peer.from_client = client, not client
