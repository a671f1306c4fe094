"""Drawn traffic of other protocols: bytes that resemble frames, gaps in both directions, connections without SYN."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from pcli.codec.capture import Packet

FIN, SYN, RST, ACK = 1, 2, 4, 16


def _lengths(size: int, command: int, rest: int) -> bytes:
    return struct.pack(">II", size, command) + bytes(rest)


CONTENTS = st.one_of(
    st.sampled_from(
        [b"\4\2\0\x08\0\0\0\1", b"\0\0\0\1", b"zz", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\1", b"PROXY "]
    ),
    st.builds(_lengths, st.integers(0, 40), st.integers(0, 40), st.integers(0, 20)),
    st.builds(_lengths, st.sampled_from([5 << 20, 1 << 27, 0xFFFFFFFF]), st.integers(0, 40), st.integers(0, 20)),
    # A PING, a part of it, and commands of wrong content.
    st.sampled_from(
        [b"\0\0\0\x09\0\0\0\5\x08\x12\x92\1\0", b"\0\0\0\x09\0\0\0\5\x08", b"\0\0\0\x0a\0\0\0\6\x08\x06\x32\2\1\1"]
    ),
    st.binary(min_size=1, max_size=12),
)
"""The bytes of a packet."""

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["there", "back", "both"]), CONTENTS),
        st.tuples(st.sampled_from(["lost", "lost there", "lost back"]), st.sampled_from([1, 8, 500, 70_000])),
        st.tuples(st.just("idle"), st.sampled_from([1, 31, 33, 64, 65, 130])),
        st.tuples(st.sampled_from(["ack", "again", "alive", "open", "close", "reset", "jump"]), st.none()),
    ),
    min_size=3,
    max_size=25,
)
"""Steps of a connection, with their values."""

CONNECTIONS = st.lists(st.tuples(st.sampled_from([7000, 6650, 443]), STEPS), min_size=1, max_size=3)
"""Server ports and steps of the connections."""

_LENGTHS: Any = ("both", b"\4\2\0\x08\0\0\0\1")
_ACK: Any = ("ack", None)
BOTH_GAPS: list[tuple[int, list[tuple[str, Any]]]] = [
    (7000, [_LENGTHS, _ACK, _LENGTHS, _ACK, ("lost", 500), _LENGTHS, _ACK, ("idle", 80)])
]
"""A search in both directions, a gap in both, and more packets than a search waits for."""


class Foreign:
    """The packets of drawn connections, one step of each after the other."""

    def __init__(self, connections: list[tuple[int, list[tuple[str, Any]]]]) -> None:
        self.packets: list[Packet] = []
        talks = [Talk(self, 40_000 + number, port, steps) for number, (port, steps) in enumerate(connections)]
        while talks:
            talks = [talk for talk in talks if talk.step()]

    def put(self, ports: tuple[int, int], seq: int, ack: int, flags: int, data: bytes = b"") -> None:
        """Add a packet."""
        ends = [b"\x0a\0\0\x01", b"\x0a\0\0\x02"]
        source, target = ends if ports[0] >= 40_000 else ends[::-1]
        tcp = struct.pack(">HHIIBBHHH", *ports, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50, flags, 9000, 0, 0) + data
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 1, 0x4000, 64, 6, 0, source, target)
        whole = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0" + ip + tcp
        number = len(self.packets) + 1
        self.packets.append(Packet(number, number * 1_000_000, 1, whole, len(whole)))


class Talk:
    """One connection. The sequence numbers of both sides advance with their bytes."""

    def __init__(self, traffic: Foreign, client: int, server: int, steps: list[tuple[str, Any]]) -> None:
        self.traffic = traffic
        self.ports = ((client, server), (server, client))
        self.seq = [5000, 9000]
        self.last: tuple[int, bytes] = (0, b"")
        self.steps = iter(steps)

    def step(self) -> bool:
        """Add the packets of the next step. Return False if there is none."""
        kind, value = next(self.steps, ("", None))
        match kind:
            case "":
                return False
            case "there" | "back" | "both":
                for side in {"there": (0,), "back": (1,), "both": (0, 1)}[kind]:
                    self.last = (side, value)
                    self._send(side, ACK, value)
            case "lost" | "lost there" | "lost back":
                for side in {"lost": (0, 1), "lost there": (0,), "lost back": (1,)}[kind]:
                    self.seq[side] += value
            case "idle":
                for number in range(value):
                    self.traffic.put((50_000, 7001), 100 + 2 * number, 0, ACK, b"zz")
            case "ack":
                self._send(0, ACK)
                self._send(1, ACK)
            case "again":
                side, data = self.last
                self.seq[side] -= len(data)
                self._send(side, ACK, data)
            case "alive":
                self.seq[0] -= 1
                self._send(0, ACK, b"\0")
            case "open":
                self._send(0, SYN)
                self._send(1, SYN | ACK)
                self.seq = [self.seq[0] + 1, self.seq[1] + 1]
            case "close":
                self._send(0, FIN | ACK)
                self._send(1, FIN | ACK)
            case "reset":
                self._send(1, RST)
            case _:
                self.seq[1] += 1 << 30
        return True

    def _send(self, side: int, flags: int, data: bytes = b"") -> None:
        self.traffic.put(self.ports[side], self.seq[side], self.seq[1 - side], flags, data)
        self.seq[side] += len(data)
