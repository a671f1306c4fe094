"""Packets of random connections, for the tests of splits."""

from __future__ import annotations

import io
import itertools
import random
import struct
from collections.abc import Sequence

from pcli.codec.capture import Packet, PcapngWriter
from pcli.codec.proto import pb
from pcli.codec.wire import push_frame
from pcli.codec.wire.hot import push_ack, push_message, push_send, push_send_receipt

FIN, SYN, RST, ACK = 1, 2, 4, 16


class Storm:
    """Return the packets of random connections, some of which are lost, duplicated, reordered or truncated.

    Some connections carry no Pulsar, began before the capture, or reuse a port.
    """

    def __init__(self, seed: int, packets: int, weather: dict[str, float]) -> None:
        self.chance = random.Random(seed)
        self.weather = {"hostile": 0.3, "midstream": 0.3, "plain": 0.2, "close": 0.5, "big": 0.05, "ports": 4} | weather
        self.packets: list[bytes] = []
        lives: dict[int, Life] = {}
        while len(self.packets) < packets:
            port = 40_000 + self.chance.randrange(int(self.weather["ports"]))
            if port not in lives or lives[port].done:
                lives[port] = Life(self, port)
            for _ in range(self.chance.choice((1, 1, 2, 6, 20))):
                lives[port].step()
        self._distort()

    def happens(self, what: str) -> bool:
        return self.chance.random() < self.weather.get(what, 0)

    def frame(self, *, client: bool, nested: bool = False) -> bytes:
        """Return a random frame of one side; payloads may be frames."""
        number, kind = self.chance.randrange(10**6), self.chance.random()
        if kind < 0.1:
            return push_frame(pb.CommandPing())
        payload = self.chance.randbytes(20) if nested else self._payload()
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1).SerializeToString()
        if client:
            frame = push_send(1, number, 1, 0, metadata, payload)
            return frame if kind < 0.6 else push_ack(1, 0, [(77, number, -1, -1)])
        message = push_message(1, 77, number, -1, 0, len(metadata).to_bytes(4, "big") + metadata + payload)
        return message if kind < 0.5 else push_send_receipt(1, number, 77, number, 0)

    def _payload(self) -> bytes:
        if self.happens("hostile"):
            count = self.chance.randrange(1, 12)
            return b"".join(self.frame(client=bool(number % 2), nested=True) for number in range(count))
        return self.chance.randbytes(30_000 if self.happens("big") else self.chance.choice((3, 200, 1000, 4000)))

    def put(self, port: int, *, server: bool, seq: int, ack: int, flags: int, data: bytes) -> None:
        ends = [(b"\x0a\0\0\x01", port), (b"\x0a\0\0\x02", 6650)]
        (near, source), (far, target) = reversed(ends) if server else ends
        numbers = (seq & 0xFFFFFFFF, ack & 0xFFFFFFFF if flags & ACK else 0)
        tcp = struct.pack(">HHIIBBHHH", source, target, *numbers, 0x50, flags, 9000, 0, 0) + data
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 1, 0x4000, 64, 6, 0, near, far)
        self.packets.append(b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0" + ip + tcp)

    def _distort(self) -> None:
        out: list[bytes] = []
        for packet in self.packets:
            if self.happens("loss"):
                continue
            out.append(packet)
            if self.happens("again"):
                old = out[-min(len(out), self.chance.choice((1, 2, 5, 40, 200)))]
                out.append(old[:-3] + bytes(3) if len(old) > 60 and self.happens("other") else old)
            if len(out) > 3 and self.happens("swap"):
                out.append(out.pop(-self.chance.randrange(2, min(len(out), 40))))
        self.packets = out

    def capture(self) -> bytes:
        out = io.BytesIO()
        writer = PcapngWriter(out)
        for number, packet in enumerate(self.packets, 1):
            kept = packet[: max(54, len(packet) - 100)] if self.happens("cut") else packet
            writer.packet(Packet(number, 10**18 + number * 1_000_000, 1, kept, len(packet)))
        return out.getvalue()


def parts(storm: Storm, bounds: Sequence[int]) -> list[bytes]:
    """Return the packets between these bounds as parts of a recording."""
    out = []
    for start, end in itertools.pairwise(bounds):
        part = Storm(0, 0, storm.weather)
        part.packets = storm.packets[start:end]
        out.append(part.capture())
    return out


class Life:
    """Return one connection: handshake, traffic, an end."""

    def __init__(self, storm: Storm, port: int) -> None:
        chance = storm.chance
        self.storm, self.port, self.done, self.state = storm, port, False, 0
        self.next = [chance.getrandbits(32), chance.getrandbits(32)]
        self.queue = [b"", b""]
        self.plain, self.lonely = storm.happens("plain"), chance.random() < 0.03
        if storm.happens("midstream"):
            self.state = 3
            if chance.random() < 0.5:
                self.queue = [chance.randbytes(chance.randrange(300)) for _ in range(2)]

    def _add_connection(self, side: int, flags: int, data: bytes = b"") -> None:
        if not (self.lonely and side):
            numbers = {"seq": self.next[side], "ack": self.next[1 - side]}
            self.storm.put(self.port, server=bool(side), **numbers, flags=flags, data=data)
        self.next[side] += len(data) + bool(flags & (SYN | FIN))

    def step(self) -> None:
        chance = self.storm.chance
        if self.done:
            return
        if self.state < 3:
            self._handshake()
        elif self.state == 4:
            self._add_connection(1, FIN | ACK)
            self._add_connection(0, ACK)
            self.done = True
        elif chance.random() < self.storm.weather["close"] * 0.02:
            self._end(chance.random())
        else:
            self._talk(chance.getrandbits(1))

    def _handshake(self) -> None:
        self._add_connection((0, 1, 0)[self.state], (SYN, SYN | ACK, ACK)[self.state])
        if self.state == 0 and self.storm.chance.random() < 0.1:
            self.next[0] -= 1  # sent again
            return
        self.state += 1
        if self.state == 3 and not self.plain:
            most = self.storm.chance.choice((0, 0, 5 << 20, 8 << 20))
            self.queue = [
                push_frame(pb.CommandConnect(client_version="a", protocol_version=21)),
                push_frame(pb.CommandConnected(server_version="b", protocol_version=21, max_message_size=most)),
            ]

    def _talk(self, side: int) -> None:
        chance = self.storm.chance
        if not self.queue[side]:
            if chance.random() < 0.3:
                self._add_connection(side, ACK)
                return
            count = chance.choice((1, 1, 1, 3, 20))
            frames = b"".join(self.storm.frame(client=not side) for _ in range(count))
            self.queue[side] = b"\x17\x03\x03\x00\xc8" + chance.randbytes(200) if self.plain else frames
        size = chance.choice((1448, 1448, 1448, 60_000, chance.randrange(1, 1448)))
        self._add_connection(side, ACK, self.queue[side][:size])
        self.queue[side] = self.queue[side][size:]
        if chance.random() < 0.5:
            self._add_connection(1 - side, ACK)

    def _end(self, kind: float) -> None:
        if kind < 0.4:
            self._add_connection(0, FIN | ACK)
            self.state = 4
            return
        if kind < 0.8:
            self._add_connection(int(kind > 0.6), RST | ACK)
        self.done = True
