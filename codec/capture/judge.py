"""What a stream is and who is its client: the user's word, then the bytes, then the ports.

Rules of this file
1. ``decode_as`` of the user decides for its ports, whatever the bytes look like.
2. The sender of the SYN is the client. Without a SYN a command that only one side sends decides; until then the port
   that is known, else the lower one, is taken for the server's.
3. A known port makes nothing Pulsar; it only makes the search in a stream that began before the capture go on longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pcli.codec.capture.flows import Direction
from pcli.codec.capture.frames import START
from pcli.codec.capture.legal import BROKER_ONLY, CLIENT_ONLY
from pcli.codec.capture.sniff import pull_proxy, sniff
from pcli.codec.wire.constants import DEFAULT_PORT, DEFAULT_TLS_PORT

__all__ = ["ADVICE", "Judge"]

_SNIFFED: Final = 20_000
"""Bytes that are looked at: a TLS record and the header of the next."""

ADVICE: Final[dict[str, tuple[str, str]]] = {
    "tls": (
        "tls",
        "this is TLS, its frames are encrypted: capture where TLS has ended (behind a proxy, on a plain port), "
        "or decrypt the capture first with the session keys",
    ),
    "http": ("http", "this is HTTP, not the Pulsar protocol: the admin API, or a client with a wrong port"),
    "other": ("not-pulsar", "neither Pulsar nor TLS nor HTTP; if it is Pulsar, declare its port"),
}
"""Kind of stream to kind and text of the note on it."""


class Judge:
    """Decides about streams."""

    def __init__(self, decode_as: Mapping[int, str]) -> None:
        self.decode_as = decode_as
        self._hinted = {DEFAULT_PORT, DEFAULT_TLS_PORT, *(port for port, kind in decode_as.items() if kind == "pulsar")}

    def server_first(self, source: int, target: int) -> bool:
        """Whether, of two ports, the first looks like the server's."""
        if (source in self._hinted) != (target in self._hinted):
            return source in self._hinted
        return source < target

    def forced(self, way: Direction) -> str:
        """What the user says about the stream's ports; empty: nothing."""
        if not self.decode_as:
            return ""
        return self.decode_as.get(way.stream.server[1]) or self.decode_as.get(way.stream.client[1]) or ""

    def may_give_up(self, way: Direction) -> bool:
        """Whether a stream in which no frame was found may be taken for something else."""
        if way.stream.kind == "pulsar" or self.forced(way) == "pulsar":
            return False
        return way.stream.server[1] not in self._hinted and way.stream.client[1] not in self._hinted

    def verdict(self, way: Direction, *, final: bool) -> str:
        """What the direction's first bytes are: a kind of stream, "proxy", "search"; empty: more bytes are needed."""
        forced = self.forced(way)
        if forced and forced != "pulsar":
            return forced if forced in ADVICE else "other"
        begins = way.isn >= 0 and way.sync == START
        word = sniff(bytes(way.run[:_SNIFFED]), final=final)
        if word == "proxy" and begins and way.stream.kind == "unknown":
            return word
        if forced or way.stream.kind == "pulsar":
            return "pulsar" if begins else "search"
        if begins or word in ("tls", ""):
            return word
        # In the middle of a stream the bytes of a payload may look like anything.
        return word if word == "http" and self.may_give_up(way) else "search"

    def proxy(self, way: Direction) -> tuple[int, str] | None:
        """Length and text of the PROXY header at the beginning of the run; see `pull_proxy`."""
        return pull_proxy(bytes(way.run[:_SNIFFED]))

    def advice(self, kind: str) -> tuple[str, str]:
        """Kind and text of the note on a stream that is no Pulsar."""
        return ADVICE[kind]

    def orient(self, way: Direction, kinds: list[int]) -> None:
        """Learn from commands that were found in a direction whose sender was only guessed."""
        if way.connection.oriented:
            return
        client = any(kind in CLIENT_ONLY for kind in kinds)
        if client == any(kind in BROKER_ONLY for kind in kinds):
            return
        way.connection.oriented = True
        if way.from_client != client:
            stream = way.stream
            stream.client, stream.server = stream.server, stream.client
            way.from_client, way.peer.from_client = client, not client
