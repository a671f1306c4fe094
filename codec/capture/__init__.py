"""Captures: from the bytes of a file to Pulsar frames, and from packets to a file.

The way of the data, a module each: ``files`` and ``zst`` (bytes, unpacked), ``pcap`` and ``pcapng`` (records),
``link``, ``ip`` and ``tunnels`` (to the TCP segment), ``connections`` and ``streams`` (bytes in order, holes), ``walk``
(frames), with ``sniff`` and ``judge`` (what is it) and ``resync`` (where does it go on). ``fast`` is the short way
through all of them. ``reading`` puts them together. ``rotated`` orders the parts of a recording; ``writer`` and
``recorder`` write.
"""

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
