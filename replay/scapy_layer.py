"""A ``Pulsar`` layer for scapy: frames in packets, reassembled from segments by scapy's TCPSession.

    from scapy.sendrecv import sniff
    from scapy.sessions import TCPSession
    from pcli.replay.scapy_layer import frames_in

    for packet in sniff(offline="capture.pcap", session=TCPSession):
        for layer in frames_in(packet):
            print(layer.frame.command)

The module requires the extra ``pulsar-pcli[capture]``. For whole captures, `pcli dissect` is a hundred times faster and
detects gaps. This layer is for existing scapy scripts and for building packets: ``IP()/TCP()/Pulsar(body=…)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

from scapy.fields import FieldLenField, StrLenField
from scapy.layers.inet import TCP
from scapy.packet import Packet, bind_layers

from pcli.codec.wire import Frame, name_of
from pcli.codec.wire.constants import DEFAULT_PORT, MAX_FRAME_SIZE

_u32 = Struct(">I").unpack_from


class Pulsar(Packet):
    """One frame: the two lengths, the command and, in a SEND or MESSAGE, the headers and the payload.

    The command's field is ``body`` because ``command`` is a method of scapy's Packet.
    """

    name = "Pulsar"
    fields_desc = [  # noqa: RUF012  (required by scapy)
        FieldLenField("size", None, fmt="I", length_of="entry", adjust=lambda packet, x: x + 4 + len(packet.body)),
        FieldLenField("body_size", None, fmt="I", length_of="body"),
        StrLenField("body", b"", length_from=lambda packet: packet.body_size),
        StrLenField("entry", b"", length_from=lambda packet: max(0, packet.size - 4 - packet.body_size)),
    ]

    @classmethod
    def tcp_reassemble(cls, data: bytes, _metadata: dict[str, Any], _session: dict[str, Any]) -> Pulsar | None:
        """Return the first frame once it is complete. Scapy passes the bytes after it as padding."""
        if len(data) < 8 or len(data) < _u32(data, 0)[0] + 4 <= MAX_FRAME_SIZE:
            return None
        return cls(data)

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Return all bytes after the frame as padding."""
        return b"", s

    @property
    def frame(self) -> Frame:
        """The parsed frame."""
        return Frame.of(self.self_build())

    def mysummary(self) -> str:
        """Return a one-line summary for scapy."""
        return f"Pulsar {name_of(self.frame.type)}"


def frames_in(packet: Packet) -> Iterator[Pulsar]:
    """Yield every frame of a packet. Scapy nests the frames that end in one segment."""
    layer = packet.getlayer(Pulsar)
    while isinstance(layer, Pulsar):
        yield layer
        layer = layer.payload


bind_layers(TCP, Pulsar, dport=DEFAULT_PORT)
bind_layers(TCP, Pulsar, sport=DEFAULT_PORT)
