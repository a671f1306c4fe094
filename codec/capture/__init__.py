"""Captures: Pulsar frames read from files, and packets written to a file.

The modules, in the order of the data flow, are ``files`` and ``zstd`` (decompressed bytes), ``pcap`` and ``pcapng``
(records), ``link``, ``ip`` and ``tunnels`` (TCP segments), ``connections`` and ``streams`` (ordered bytes and gaps),
and ``frame_extraction`` (frames), which uses ``stream_kind`` and ``stream_kind_by_bytes`` (kind of stream) and
``resync`` (search for the next frame). ``fast_path`` combines all these steps for ordinary packets, and ``reading`` is
the entry point. ``rotated`` sorts the parts of a rotated capture. ``writer`` and ``recorder`` write captures.
"""

from typing import TYPE_CHECKING

from pcli.codec.lazy_names import lazy_names

if TYPE_CHECKING:
    from pcli.codec.capture.frames import NOTE_KINDS, CapturedFrame, Note, Stream, StreamEnd
    from pcli.codec.capture.packets import Packet, Secrets
    from pcli.codec.capture.reading import CaptureTotals, ReadOptions, read_capture, read_packets
    from pcli.codec.capture.recorder import Conversation, TcpRecorder
    from pcli.codec.capture.rotated import Part, order_parts, pull_first_time
    from pcli.codec.capture.writer import PcapngWriter

__all__ = [
    "NOTE_KINDS",
    "CaptureTotals",
    "CapturedFrame",
    "Conversation",
    "Note",
    "Packet",
    "Part",
    "PcapngWriter",
    "ReadOptions",
    "Secrets",
    "Stream",
    "StreamEnd",
    "TcpRecorder",
    "order_parts",
    "pull_first_time",
    "read_capture",
    "read_packets",
]

__getattr__ = lazy_names(
    __name__,
    {
        "frames": "NOTE_KINDS CapturedFrame Note Stream StreamEnd",
        "packets": "Packet Secrets",
        "reading": "CaptureTotals ReadOptions read_capture read_packets",
        "recorder": "Conversation TcpRecorder",
        "rotated": "Part order_parts pull_first_time",
        "writer": "PcapngWriter",
    },
)
