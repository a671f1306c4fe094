"""A smaller capture with the packets of chosen frames, in which the same frames are found again.

Rules of this file
1. Kept are the packets of the chosen frames and of the requests that they answer, and, on their connections, what
   an observer must have seen to know the same: handshakes, producers and consumers coming and going, schemas.
2. Three passes, little memory: one bit a frame while frames are chosen, one bit a packet when they are looked up,
   and the copying.
"""

from __future__ import annotations

from collections.abc import Iterable

from pcli.codec.capture import CapturedFrame, Note, Packet, Secrets
from pcli.codec.capture.writer import PcapngWriter
from pcli.codec.observe.state import Facts
from pcli.codec.wire.commands import BY_NAME

__all__ = ["Chosen", "copy_packets", "packets_of"]

_CONTEXT = frozenset(
    BY_NAME[name].number
    for name in (
        "CONNECT", "CONNECTED", "PRODUCER", "PRODUCER_SUCCESS", "SUBSCRIBE", "SUCCESS", "ERROR", "CLOSE_PRODUCER",
        "CLOSE_CONSUMER", "GET_SCHEMA", "GET_SCHEMA_RESPONSE", "GET_OR_CREATE_SCHEMA", "GET_OR_CREATE_SCHEMA_RESPONSE",
        "SCALABLE_TOPIC_SUBSCRIBE", "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE",
    )
)  # fmt: skip


class Chosen:
    """A set of numbers from 1, as bits."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, number: int) -> None:
        """Choose a number."""
        place = number >> 3
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 + (place >> 3) - len(self._bits)))
        self._bits[place] |= 1 << (number & 7)

    def __contains__(self, number: int) -> bool:
        place = number >> 3
        return place < len(self._bits) and bool(self._bits[place] >> (number & 7) & 1)

    def add_frame(self, facts: Facts) -> None:
        """Choose a frame, and the request that it answers."""
        self.add(facts.frame.number)
        if facts.request_number:
            self.add(facts.request_number)


def packets_of(recording: Iterable[CapturedFrame | Note], frames: Chosen) -> Chosen:
    """The packets to keep for the chosen frames of a recording, which is gone through once.

    What a connection needs before its first chosen frame is not known to be needed yet when it passes: it is kept
    for every connection, and is a few packets each.
    """
    packets = Chosen()
    streams: set[int] = set()
    for event in recording:
        if not isinstance(event, CapturedFrame):
            continue
        if event.stream.number not in streams:
            streams.add(event.stream.number)
            for packet in event.stream.opening:
                packets.add(packet)
        if event.type in _CONTEXT or event.number in frames:
            for packet in event.packets:
                packets.add(packet)
    return packets


def copy_packets(recording: Iterable[Packet | Secrets | Note], packets: Chosen, writer: PcapngWriter) -> int:
    """Write the chosen packets of a recording, and all its decryption secrets; how many packets were written."""
    written = 0
    for item in recording:
        if isinstance(item, Secrets):
            writer.secrets(item)
        elif isinstance(item, Packet) and item.number in packets:
            writer.packet(item)
            written += 1
    return written
