"""Helpers of the capture tests: synthetic TCP packets, and functions that read them."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pcli.codec.capture import (
    NOTE_KINDS,
    CapturedFrame,
    Note,
    Packet,
    PcapngWriter,
    ReadOptions,
    read_capture,
    read_packets,
)
from pcli.codec.proto import pb
from pcli.codec.wire import push_frame
from pcli.codec.wire.hot import push_ack, push_message, push_send, push_send_receipt
from pcli.codec.wire.problems import KINDS

FIN, SYN, RST, ACK = 1, 2, 4, 16

Found = tuple[list[CapturedFrame], list[Note]]


class Tape:
    """Packets of connections, written by hand with offsets instead of sequence numbers.

    ``isn`` are the sequence numbers of the SYNs. Offset 0 is the byte after the SYN, -1 the SYN itself.
    """

    def __init__(self, client_isn: int = 1000, server_isn: int = 5_000_000, port: int = 6650) -> None:
        self.isn = (client_isn, server_isn)
        self.port = port
        self.packets: list[Packet] = []

    def send(
        self,
        at: int,
        data: bytes = b"",
        *,
        server: bool = False,
        flags: int = ACK,
        ack: int = 0,
        cut: int = 0,
        client_port: int = 40000,
        padding: bytes = b"",
    ) -> Tape:
        """Add one packet of the client (or the server) whose bytes start at offset ``at``; ``ack`` is an offset too.

        ``cut``: number of bytes at the end of the packet that are not captured.
        """
        ends = [(b"\x0a\0\0\x01", client_port), (b"\x0a\0\0\x02", self.port)]
        mine, other = (1, 0) if server else (0, 1)
        seq = self.isn[mine] + 1 + at & 0xFFFFFFFF
        acked = self.isn[other] + 1 + ack & 0xFFFFFFFF if flags & ACK else 0
        tcp = struct.pack(">HHIIBBHHH", ends[mine][1], ends[other][1], seq, acked, 0x50, flags, 9000, 0, 0) + data
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 1, 0x4000, 64, 6, 0, ends[mine][0], ends[other][0])
        whole = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0" + ip + tcp + padding
        number = len(self.packets) + 1
        kept = whole[: len(whole) - cut]
        self.packets.append(Packet(number, number * 1_000_000, 1, kept, len(whole)))
        return self

    def hello(self, client_port: int = 40000) -> Tape:
        """Add the three packets that open a connection."""
        self.send(-1, flags=SYN, client_port=client_port)
        self.send(-1, server=True, flags=SYN | ACK, client_port=client_port)
        return self.send(0, client_port=client_port)

    def idle(self, count: int) -> Tape:
        """Add packets of another connection, which let time pass."""
        for number in range(count):
            self.send(number, client_port=50_000, flags=ACK)
        return self


class CaptureHelpers:
    """Functions that write and read captures."""

    Tape = Tape
    FIN, SYN, RST, ACK = FIN, SYN, RST, ACK

    connect = push_frame(pb.CommandConnect(client_version="a client", protocol_version=21))
    connected = push_frame(pb.CommandConnected(server_version="a broker", protocol_version=21))
    ping = push_frame(pb.CommandPing())

    @staticmethod
    def send(number: int, payload: bytes = b"payload") -> bytes:
        """A SEND frame."""
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1).SerializeToString()
        return push_send(1, number, 1, 0, metadata, payload)

    @staticmethod
    def receipt(number: int) -> bytes:
        """A SEND_RECEIPT frame."""
        return push_send_receipt(1, number, 77, number, 0)

    @staticmethod
    def message(number: int, payload: bytes = b"payload") -> bytes:
        """A MESSAGE frame without checksum."""
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1).SerializeToString()
        return push_message(1, 77, number, -1, 0, len(metadata).to_bytes(4, "big") + metadata + payload)

    @staticmethod
    def ack(number: int) -> bytes:
        """An ACK frame."""
        return push_ack(1, 0, [(77, number, -1, -1)])

    @classmethod
    def talk(cls, tape: Tape) -> tuple[int, int]:
        """Add a connection with CONNECT and CONNECTED. Return the offsets after them."""
        tape.hello().send(0, cls.connect).send(0, cls.connected, server=True, ack=len(cls.connect))
        return len(cls.connect), len(cls.connected)

    @staticmethod
    def data(frames: Iterable[CapturedFrame]) -> list[bytes]:
        """Return the bytes of frames."""
        return [frame.data for frame in frames]

    @staticmethod
    def file(packets: Iterable[Packet] | Tape) -> io.BytesIO:
        """Return a pcapng file of packets."""
        file = io.BytesIO()
        writer = PcapngWriter(file)
        for packet in packets.packets if isinstance(packets, Tape) else packets:
            writer.packet(packet)
        file.seek(0)
        return file

    @staticmethod
    def pcap(packets: Iterable[Packet] | Tape, order: str = "<", magic: int = 0xA1B23C4D, link: int = 1) -> bytes:
        """Return the bytes of a pcap file, with nanoseconds unless another magic is given."""
        units = 1 if magic == 0xA1B23C4D else 1000
        out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)]
        for packet in packets.packets if isinstance(packets, Tape) else packets:
            seconds, nanos = divmod(packet.time_ns, 1_000_000_000)
            out.append(struct.pack(order + "IIII", seconds, nanos // units, len(packet.data), packet.wire_length))
            out.append(packet.data)
        return b"".join(out)

    @classmethod
    def read(cls, *files: Any, **options: Any) -> Found:
        """Read frames and notes on the fast and on the slow path, and check that the results are equal."""
        fast = cls.once(*files, **options)
        careful = cls.once(*files, **options, careful=True)
        assert cls.story(fast) == cls.story(careful)
        return fast

    @classmethod
    def once(cls, *files: Any, **options: Any) -> Found:
        """Read frames and notes once."""
        opened = [(f"file{index}", cls.opened(file)) for index, file in enumerate(files)]
        items = list(read_capture(opened, ReadOptions(**options)))
        frames = [x for x in items if isinstance(x, CapturedFrame)]
        notes = [x for x in items if isinstance(x, Note)]
        assert [frame.number for frame in frames] == list(range(1, len(frames) + 1))
        assert {note.kind for note in notes} <= set(NOTE_KINDS)
        assert {problem.kind for frame in frames for problem in frame.capture_problems} <= set(KINDS)
        return frames, notes

    @classmethod
    def opened(cls, file: Any) -> Any:
        """Return a file object at its start."""
        if isinstance(file, Tape):
            return cls.file(file)
        if isinstance(file, bytes):
            return io.BytesIO(file)
        file.seek(0)
        return file

    @staticmethod
    def story(found: Found) -> list[Any]:
        """Return all comparable attributes of frames and notes."""
        frames, notes = found
        return [
            *(
                (x.number, x.packet, x.packets, x.time_ns, x.stream.number, x.stream.client, x.from_client, x.offset,
                 x.sync, x.capture_problems, x.type, x.data)
                for x in frames
            ),
            *((x.kind, x.text, x.packet, x.from_client, x.offset, x.length) for x in notes),
        ]  # fmt: skip

    @classmethod
    def packets(cls, file: Any) -> list[Packet]:
        """Return the raw packets of a file."""
        return [x for x in read_packets([("", cls.opened(file))]) if isinstance(x, Packet)]


@pytest.fixture(scope="session")
def w() -> type[CaptureHelpers]:
    """The helper functions."""
    return CaptureHelpers


@pytest.fixture(scope="session")
def kinds() -> Callable[[list[Note]], list[str]]:
    """Return the kinds of notes in order."""
    return lambda notes: [note.kind for note in notes]


@pytest.fixture(scope="session")
def tshark() -> Callable[..., list[str]]:
    """A function that returns the lines that tshark prints for a capture."""
    command = shutil.which("tshark")
    if command is None:
        pytest.skip("tshark is not installed")

    def lines(path, *arguments: str) -> list[str]:
        done = subprocess.run([command, "-n", "-r", str(path), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    return lines
