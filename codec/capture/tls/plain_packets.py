"""Packets of decrypted connections as plain TCP, for excerpts and bundles, which contain no TLS secrets.

Rules of this file
1. Every packet of a decrypted connection is replaced by one packet with the same number and time. It contains the
   application data of the TLS records that the original packet completed, so frames have the same packet numbers.
2. Sequence numbers count the decrypted bytes. Retransmissions and packets of the handshake become empty packets.
3. Packets are delayed while a decrypted connection has a gap, because a later packet may complete their records. The
   limits of TCP reassembly on gaps also limit the delay.
4. Bytes after the end of the decryption become missing bytes, as in a packet that the snap length truncated.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pcli.codec.capture.flows import Direction, Encrypted
from pcli.codec.capture.frame_extraction import FrameExtractor
from pcli.codec.capture.frames import Note
from pcli.codec.capture.ip import Fragments
from pcli.codec.capture.output import Output
from pcli.codec.capture.packets import TLS_KEY_LOG, Packet, Secrets
from pcli.codec.capture.reading import ReadOptions
from pcli.codec.capture.recorder import push_segment
from pcli.codec.capture.stream_kind import StreamClassifier
from pcli.codec.capture.streams import TcpReassembly
from pcli.codec.capture.tls.key_log import KeyLog
from pcli.codec.capture.tunnels import ACK, FIN, SYN, Segment, pull_segment

_ETHERNET: Final = 1
_MASK: Final = 0xFFFFFFFF


class _PlainExtractor(FrameExtractor):
    """A frame extractor that also collects the decrypted bytes."""

    def __init__(self, output: Output, classifier: StreamClassifier, key_log: KeyLog) -> None:
        super().__init__(output, classifier, key_log)
        self.plain: defaultdict[int, bytearray] = defaultdict(bytearray)
        """Decrypted bytes by the packet that completes their record, until they are written."""
        self.starts: dict[int, int] = {}
        """Offset of the decrypted bytes in their direction, by packet."""
        self.sizes: Counter[Direction] = Counter()
        """Number of decrypted bytes of each direction."""
        self.stops: dict[Direction, int] = {}
        """Offset, in the encrypted bytes, at which the decryption of a direction ended early."""

    def take_plain(self, direction: Direction, mode: Encrypted, data: bytes, packet: int, time_ns: int) -> None:
        """Process the next decrypted bytes of a direction."""
        self.starts.setdefault(packet, self.sizes[direction])
        self.plain[packet] += data
        self.sizes[direction] += len(data)
        super().take_plain(direction, mode, data, packet, time_ns)

    def stop_decryption(self, direction: Direction, reason: str, packet: int) -> None:
        """Skip the rest of a direction that cannot be decrypted."""
        self.stops[direction] = direction.offset
        super().stop_decryption(direction, reason, packet)


def decrypted_packets(
    packets: Iterable[Packet | Secrets | Note], streams: Collection[int], options: ReadOptions
) -> Iterator[Packet | Secrets | Note]:
    """Yield the packets, with those of the connections ``streams`` decrypted.

    TLS secrets in the capture are dropped if a connection is decrypted.
    """
    return _Decryption(streams, options).packets(packets) if streams else iter(packets)


@dataclass(slots=True)
class _Replaced:
    """A packet of a decrypted connection, with the state after it was processed."""

    packet: Packet
    segment: Segment
    direction: Direction
    seq: int
    ack: int


class _Decryption:
    """The replacement of the packets of one capture."""

    def __init__(self, streams: Collection[int], options: ReadOptions) -> None:
        output, classifier = Output(), StreamClassifier(options.decode_as)
        self._key_log = KeyLog(options.key_log, options.more_secrets)
        self._streams = streams
        self._output = output
        self._extractor = _PlainExtractor(output, classifier, self._key_log)
        self._tcp = TcpReassembly(output, self._extractor, classifier, options.max_frame_size)
        self._waiting: set[Direction] = set()
        """Directions with a gap."""
        self._delayed: deque[Packet | Secrets | Note | _Replaced] = deque()

    def packets(self, packets: Iterable[Packet | Secrets | Note]) -> Iterator[Packet | Secrets | Note]:
        """Yield the packets of the new capture."""
        fragments, number = Fragments(), 0
        for packet in packets:
            if isinstance(packet, Secrets) and packet.kind == TLS_KEY_LOG:
                self._key_log.add(packet.data)
                continue
            replaced = None
            if isinstance(packet, Packet):
                number = packet.number
                if number >= self._tcp.table.timer:
                    self._tcp.run_timers(number)
                data = packet.data
                segment = pull_segment(data, packet.link, 0, len(data), packet.wire_length, number, fragments)
                replaced = None if segment is None else self._take(packet, segment)
                self._output.out.clear()
            self._delayed.append(replaced or packet)
            self._waiting = {one for one in self._waiting if _has_gap(one)}
            if not self._waiting:
                yield from self._release()
        self._tcp.end(number)
        yield from self._release()

    def _take(self, packet: Packet, segment: Segment) -> _Replaced | None:
        """Process a segment. Return its replacement, or None if its connection is not decrypted."""
        if packet.left_out:
            self._tcp.skip_left_out(segment, packet.number)
        self._tcp.segment(segment, packet.number, packet.time_ns)
        direction = self._tcp.table.directions.get(segment.key)
        if direction is None or direction.stream.number not in self._streams:
            return None
        if _has_gap(direction):
            self._waiting.add(direction)
        sizes = self._extractor.sizes
        return _Replaced(packet, segment, direction, sizes[direction], sizes[direction.peer])

    def _release(self) -> Iterator[Packet | Secrets | Note]:
        """Yield the delayed packets."""
        while self._delayed:
            one = self._delayed.popleft()
            yield self._written(one) if isinstance(one, _Replaced) else one

    def _written(self, one: _Replaced) -> Packet:
        packet, key, flags = one.packet, one.segment.key, one.segment.flags
        data = bytes(self._extractor.plain.pop(packet.number, b""))
        offset = self._extractor.starts.pop(packet.number, one.seq)
        left_out, missing = self._undecrypted(one)
        if left_out or missing or (flags & FIN and not data):
            offset = self._extractor.sizes[one.direction] + left_out - len(data)
        seq, ack = _first(one.direction) + offset - bool(flags & SYN), _first(one.direction.peer) + one.ack
        half = len(key) // 2 - 2
        frame = push_segment(
            key[:half] + key[-4:-2],
            key[half:-4] + key[-2:],
            not one.direction.from_client,
            seq & _MASK,
            ack & _MASK if flags & ACK else 0,
            flags,
            data,
            packet.number,
            missing=missing,
        )
        return Packet(packet.number, packet.time_ns, _ETHERNET, frame, len(frame) + missing, packet.interface)

    def _undecrypted(self, one: _Replaced) -> tuple[int, int]:
        """Return the number of bytes between the end of the decryption and the packet's bytes, and in the packet."""
        stop = self._extractor.stops.get(one.direction)
        segment, direction = one.segment, one.direction
        if stop is None:
            return 0, 0
        ahead = segment.seq + bool(segment.flags & SYN) - direction.base - direction.offset & _MASK
        start = direction.offset + (ahead - _MASK - 1 if ahead > _MASK >> 1 else ahead) - stop
        end = start + segment.end - segment.start + segment.missing
        return max(start, 0), max(end - max(start, 0), 0)


def _has_gap(direction: Direction) -> bool:
    """Whether bytes of a direction wait for a missing packet."""
    return isinstance(direction.mode, Encrypted) and (bool(direction.held) or direction.fin > direction.offset)


def _first(direction: Direction) -> int:
    """Return the sequence number of a direction's first byte."""
    return direction.isn + 1 if direction.isn >= 0 else 1
