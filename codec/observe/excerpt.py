"""Excerpts: smaller captures, reduced to the packets that a reader needs to extract selected frames.

Rules of this file
1. An excerpt contains the packets of the selected frames and of the requests that they answer. It also contains the
   frames that an observer needs from their connections: handshakes, schemas, and the opening and closing of producers
   and consumers. The first packets of every connection are kept, so that connections have the same numbers.
2. If a packet ends inside a frame, all packets of that frame are kept. The step is repeated until the run of packets
   begins and ends at frame boundaries. A comment on the first packet of a run states that packets before it were
   omitted.
3. There are three passes: the selection (one bit of memory per frame), the search for packets (one bit per packet), and
   the copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pcli.codec.capture import CapturedFrame, Note, Packet, Secrets, Stream, StreamEnd
from pcli.codec.capture.writer import PcapngWriter
from pcli.codec.observe.bit_set import Bits
from pcli.codec.observe.observer_state import Facts
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.redact import secret_bytes

_CONTEXT = frozenset(
    BY_NAME[name].number
    for name in (
        "CONNECT", "CONNECTED", "PRODUCER", "PRODUCER_SUCCESS", "SUBSCRIBE", "SUCCESS", "ERROR", "CLOSE_PRODUCER",
        "CLOSE_CONSUMER", "LOOKUP", "GET_SCHEMA", "GET_SCHEMA_RESPONSE", "GET_OR_CREATE_SCHEMA",
        "GET_OR_CREATE_SCHEMA_RESPONSE", "SCALABLE_TOPIC_SUBSCRIBE", "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE",
    )
)  # fmt: skip


class SelectedFrames:
    """The selected frames by number, and their connections."""

    __slots__ = ("decrypted", "frames", "streams")

    def __init__(self) -> None:
        self.frames = Bits()
        self.streams = Bits()
        self.decrypted: set[int] = set()
        """The connections whose bytes are decrypted from TLS."""

    def add(self, facts: Facts) -> None:
        """Select a frame and the request that it answers."""
        stream = facts.frame.stream
        self.streams.add(stream.number)
        if isinstance(stream, Stream) and stream.decrypted:
            self.decrypted.add(stream.number)
        self.frames.add(facts.frame.number)
        if facts.request_number:
            self.frames.add(facts.request_number)


class KeptPackets:
    """The numbers of the packets to keep, and of the kept packets that follow omitted packets."""

    __slots__ = ("after_left_out", "packets", "secrets")

    def __init__(self) -> None:
        self.packets = Bits()
        self.after_left_out = Bits()
        self.secrets: dict[int, list[bytes]] = {}
        """Credentials by the packets that contain them in whole or in part."""


class _Run:
    """Frames of one direction that share packets: each frame starts in the packet in which the previous frame ends."""

    __slots__ = ("certain", "end", "packets", "wanted")

    def __init__(self) -> None:
        self.packets: list[int] = []
        self.end = 0
        """Offset of the end of the last frame."""
        self.wanted = False
        self.certain = False
        """Whether the first packet starts with the first frame."""


def packets_of(recording: Iterable[CapturedFrame | Note | StreamEnd], chosen: SelectedFrames) -> KeptPackets:
    """Read the capture once, and return the packets to keep for the selected frames."""
    kept = KeptPackets()
    seen = Bits()
    runs: dict[tuple[int, bool], _Run] = {}
    for event in recording:
        stream = event.stream
        if stream is not None and stream.number not in seen:
            seen.add(stream.number)
            for packet in stream.opening:
                kept.packets.add(packet)
        if isinstance(event, CapturedFrame) and event.stream.number in chosen.streams:
            direction = (event.stream.number, event.from_client)
            run = runs.get(direction)
            if run is None or run.packets[-1] != event.packets[0]:
                runs[direction] = run = _next_run(event, run, kept)
            for value in secret_bytes(event):
                for packet in event.packets:
                    kept.secrets.setdefault(packet, []).append(value)
            run.packets += event.packets if not run.packets else event.packets[1:]
            run.end = event.offset + event.length
            run.wanted = run.wanted or event.number in chosen.frames or event.type in _CONTEXT
    for run in runs.values():
        _keep(run, kept)
    return kept


def _next_run(frame: CapturedFrame, before: _Run | None, kept: KeptPackets) -> _Run:
    run = _Run()
    if before is None:
        run.certain = frame.offset == 0 and not frame.stream.midstream
    else:
        _keep(before, kept)
        run.certain = before.end == frame.offset
    return run


def _keep(run: _Run, kept: KeptPackets) -> None:
    if run.wanted:
        for packet in run.packets:
            kept.packets.add(packet)
        if run.certain:
            kept.after_left_out.add(run.packets[0])


def copy_packets(
    recording: Iterable[Packet | Secrets | Note], kept: KeptPackets, writer: PcapngWriter, *, secrets: bool = False
) -> int:
    """Copy the packets to keep. Return the number of packets written.

    Credentials are replaced by asterisks. If ``secrets`` is set, they are copied unchanged, and decryption secrets are
    also copied.
    """
    written = 0
    for item in recording:
        if isinstance(item, Secrets):
            if secrets:
                writer.secrets(item)
        elif isinstance(item, Packet) and item.number in kept.packets:
            data = item.data
            for value in kept.secrets.get(item.number, ()) if not secrets else ():
                data = _starred(data, value)
            left_out = item.left_out or item.number in kept.after_left_out
            writer.packet(replace(item, data=data, left_out=left_out))
            written += 1
    return written


def _starred(data: bytes, value: bytes) -> bytes:
    """Return a packet's bytes with asterisks in place of a credential.

    A packet can also contain only the start, the middle or the end of a credential. A start or middle of at least four
    bytes ends with the packet.
    """
    if value in data:
        return data.replace(value, b"*" * len(value))
    for size in range(min(len(value), len(data)), 3, -1):
        if data[-size:] in value:
            return data[:-size] + b"*" * size
    for size in range(len(value) - 1, 3, -1):
        if value[-size:] in data:
            return data.replace(value[-size:], b"*" * size)
    return data
