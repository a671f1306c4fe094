"""Encapsulations of TCP: link layers, IP, fragments, tunnels. scapy creates the packets independently of pcli."""

from __future__ import annotations

import shutil
import struct
import subprocess

import pytest

from pcli.codec.capture import Packet

scapy = pytest.importorskip("scapy.all")
geneve = pytest.importorskip("scapy.contrib.geneve")
mpls = pytest.importorskip("scapy.contrib.mpls")

V4 = {True: {"src": "10.1.1.1", "dst": "10.1.1.2"}, False: {"src": "10.1.1.2", "dst": "10.1.1.1"}}
V6 = {True: {"src": "fd00::1", "dst": "fd00::2"}, False: {"src": "fd00::2", "dst": "fd00::1"}}


PKTAP = struct.pack("<III", 108, 1, 1) + bytes(96)
ERSPAN_III = b"\x20\x0a\0\x64\0\1\xe2\x40\0\1"
NFLOG = 239
NSH = b"\x0f\xc6\1"


def ether(kind=None):
    """Return the layer with addresses, because scapy would otherwise resolve them over the network."""
    more = {} if kind is None else {"type": kind}
    return scapy.Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", **more)


def gre(kind, number=0):
    """Return GRE in IP, with a sequence number if ``number`` is not 0."""
    return ether() / scapy.IP(src="9.9.9.9", dst="8.8.8.8") / scapy.GRE(proto=kind, seqnum_present=number)


def udp(port):
    return ether() / scapy.IP(src="9.9.9.9", dst="8.8.8.8") / scapy.UDP(sport=50_000, dport=port)


def gtp(flags, optional):
    """Return a GTP-U header; scapy computes no lengths of raw bytes, so the length is not correct."""
    return scapy.Raw(struct.pack(">BBHI", flags, 255, 0x100, 7) + optional)


def nflog(packet, order):
    """Return NFLOG attributes around a packet: its protocol and hook, its interface, its prefix, and the packet."""
    attributes = ((1, b"\x08\0\2\0"), (5, b"\0\0\0\x0a"), (10, b"pulsar\0"), (9, packet))
    texts = (struct.pack(order + "HH", 4 + len(text), kind) + text + bytes(-len(text) & 3) for kind, text in attributes)
    return b"\x02\0\0\x64" + b"".join(texts)


def ip4(there, **more):
    return scapy.IP(**V4[there], **more)


def ip6(there, **more):
    return scapy.IPv6(**V6[there], **more)


def outer(there):
    return ether() / scapy.IP(src="172.16.0.1", dst="172.16.0.2") / scapy.UDP(sport=5555, dport=4789)


WRAPS = {
    "ethernet": (1, lambda there: ether() / ip4(there)),
    "ethernet, IPv6": (1, lambda there: ether() / ip6(there)),
    "vlan": (1, lambda there: ether() / scapy.Dot1Q(vlan=7) / ip4(there)),
    "qinq": (1, lambda there: ether() / scapy.Dot1AD(vlan=3) / scapy.Dot1Q(vlan=7) / ip6(there)),
    "mpls": (1, lambda there: ether() / mpls.MPLS(s=0, label=3) / mpls.MPLS(s=1, label=4) / ip4(there)),
    "pppoe": (1, lambda there: ether() / scapy.PPPoE() / scapy.PPP() / ip4(there)),
    "cooked": (113, lambda there: scapy.CookedLinux() / ip4(there)),
    "cooked, vlan": (113, lambda there: scapy.CookedLinux(proto=0x8100) / scapy.Dot1Q() / ip4(there)),
    "cooked 2": (276, lambda there: scapy.CookedLinuxV2() / ip4(there)),
    "cooked 2, IPv6": (276, lambda there: scapy.CookedLinuxV2(proto=0x86DD) / ip6(there)),
    "null": (0, lambda there: scapy.Loopback(type=2) / ip4(there)),
    "null, IPv6 of macOS": (0, lambda there: scapy.Loopback(type=30) / ip6(there)),
    "loop": (108, lambda there: scapy.Raw(b"\0\0\0\x02") / ip4(there)),
    "raw": (101, ip4),
    "raw, IPv6": (101, ip6),
    "raw of BSD": (12, ip4),
    "ipv4": (228, ip4),
    "ipv6": (229, ip6),
    "options": (1, lambda there: ether() / ip4(there, options=[scapy.IPOption(b"\x94\x04\0\0")])),
    "extensions": (
        1,
        lambda there: ether() / ip6(there) / scapy.IPv6ExtHdrHopByHop() / scapy.IPv6ExtHdrDestOpt(),
    ),
    "ip in ip": (1, lambda there: ether() / scapy.IP(src="9.9.9.9", dst="8.8.8.8") / ip4(there)),
    "6in4": (1, lambda there: ether() / scapy.IP(src="9.9.9.9", dst="8.8.8.8") / ip6(there)),
    "4in6": (1, lambda there: ether() / scapy.IPv6(src="::9", dst="::8") / ip4(there)),
    "gre": (1, lambda there: ether() / scapy.IP() / scapy.GRE() / ip4(there)),
    "gre with key and number": (
        1,
        lambda there: ether() / scapy.IP() / scapy.GRE(key_present=1, seqnum_present=1) / ip6(there),
    ),
    "gre with ethernet": (
        1,
        lambda there: ether() / scapy.IP() / scapy.GRE(proto=0x6558) / ether() / ip4(there),
    ),
    "vxlan": (1, lambda there: outer(there) / scapy.VXLAN(vni=9) / ether() / ip4(there)),
    "vxlan in vlan": (
        1,
        lambda there: ether() / scapy.Dot1Q() / scapy.IPv6() / scapy.UDP(dport=4789) / scapy.VXLAN()
        / ether() / scapy.Dot1Q() / ip6(there),
    ),
    "geneve": (
        1,
        lambda there: udp(6081) / geneve.GENEVE(proto=0x6558, vni=5)
        / ether() / ip4(there),
    ),
    "geneve with ip": (
        1,
        lambda there: udp(6081) / geneve.GENEVE(proto=0x0800) / ip4(there),
    ),
    "vn-tag": (1, lambda there: ether(0x8926) / scapy.Raw(b"\x80\1\0\2\x08\0") / ip4(there)),
    "e-tag": (1, lambda there: ether(0x893F) / scapy.Raw(b"\0\1\0\2\0\0\x08\0") / ip4(there)),
    "cisco metadata": (1, lambda there: ether(0x8909) / scapy.Raw(b"\1\1\0\1\0\2\x08\0") / ip4(there)),
    "pktap": (258, lambda there: scapy.Raw(PKTAP) / ether() / ip4(there)),
    "pktap, raw": (258, lambda there: scapy.Raw(struct.pack("<III", 156, 1, 12) + bytes(144)) / ip6(there)),
    "nflog": (239, lambda there: scapy.Raw(b"<") / ip4(there)),
    "nflog, big": (239, lambda there: scapy.Raw(b">") / ip6(there)),
    "ppp": (9, lambda there: scapy.Raw(b"\0\x21") / ip4(there)),
    "ppp in hdlc": (9, lambda there: scapy.Raw(b"\xff\3\0\x57") / ip6(there)),
    "ppp, compressed": (9, lambda there: scapy.Raw(b"\x21") / ip4(there)),
    "ppp, mpls": (9, lambda there: scapy.Raw(b"\2\x81") / mpls.MPLS(s=1, label=4) / ip4(there)),
    "ppp with direction": (204, lambda there: scapy.Raw(bytes([there]) + b"\xff\3\0\x21") / ip4(there)),
    "cisco hdlc": (104, lambda there: scapy.Raw(b"\x0f\0\x08\0") / ip4(there)),
    "erspan 1": (1, lambda there: gre(0x88BE) / ether() / ip4(there)),
    "erspan 2": (1, lambda there: gre(0x88BE, number=1) / scapy.Raw(b"\x10\x0a\0\x64\0\0\0\5") / ether() / ip4(there)),
    "erspan 3": (1, lambda there: gre(0x22EB, number=1) / scapy.Raw(ERSPAN_III + b"\0\0") / ether() / ip4(there)),
    "erspan 3, sub-header": (
        1,
        lambda there: gre(0x22EB, number=1) / scapy.Raw(ERSPAN_III + b"\0\1" + bytes(8)) / ether() / ip6(there),
    ),
    "erspan 3, vlan": (
        1,
        lambda there: gre(0x22EB, number=1) / scapy.Raw(ERSPAN_III + b"\0\0") / ether() / scapy.Dot1Q() / ip4(there),
    ),
    "erspan 3, ip": (1, lambda there: gre(0x22EB, number=1) / scapy.Raw(ERSPAN_III + b"\x08\0") / ip4(there)),
    "vxlan-gpe": (1, lambda there: udp(4790) / scapy.Raw(b"\x0c\0\0\3\0\0\x2a\0") / ether() / ip4(there)),
    "vxlan-gpe with ip": (1, lambda there: udp(4790) / scapy.Raw(b"\x0c\0\0\1\0\0\x2a\0") / ip4(there)),
    "vxlan-gpe with nsh": (
        1,
        lambda there: udp(4790) / scapy.Raw(b"\x0c\0\0\4\0\0\x2a\0" + NSH + b"\3\0\0\1\xff" + bytes(16))
        / ether() / ip4(there),
    ),
    "gtp-u": (1, lambda there: udp(2152) / gtp(0x30, b"") / ip4(there)),
    "gtp-u with number": (1, lambda there: udp(2152) / gtp(0x32, b"\0\1\0\0") / ip6(there)),
    "gtp-u with extensions": (
        1,
        lambda there: udp(2152) / gtp(0x34, b"\0\0\0\x85" + b"\1\0\1\xc0" + b"\1\0\0\0") / ip4(there),
    ),
    "pptp": (
        1,
        lambda there: ether() / scapy.IP(src="9.9.9.9", dst="8.8.8.8", proto=47)
        / scapy.Raw(b"\x30\x81\x88\x0b\0\x40\0\1\0\0\0\1\0\0\0\1\xff\3\0\x21") / ip4(there),
    ),
}  # fmt: skip


def conversation(w):
    """Return direction, sequence number, flags and bytes."""
    return [
        (True, 99, "S", b""),
        (False, 499, "SA", b""),
        (True, 100, "PA", w.connect),
        (False, 500, "PA", w.connected),
        (True, 100 + len(w.connect), "PA", w.send(1) + w.send(2)),
    ]


def tcp(there, seq, flags, data):
    ports = (40000, 6650) if there else (6650, 40000)
    return scapy.TCP(sport=ports[0], dport=ports[1], seq=seq, ack=1, flags=flags) / scapy.Raw(data)


def packets(wraps, w, link):
    datas = [bytes(wraps(there) / tcp(there, seq, flags, data)) for there, seq, flags, data in conversation(w)]
    if link == NFLOG:
        datas = [nflog(data[1:], data[:1].decode()) for data in datas]
    return [Packet(number, number, link, data, len(data)) for number, data in enumerate(datas, 1)]


@pytest.mark.parametrize("name", list(WRAPS))
def test_every_encapsulation_gives_the_same_frames(w, name):
    link, wraps = WRAPS[name]
    frames, notes = w.read(w.file(packets(wraps, w, link)))
    assert [frame.data for frame in frames] == [w.connect, w.connected, w.send(1), w.send(2)]
    assert [frame.from_client for frame in frames] == [True, False, True, True]
    assert frames[0].stream.client[0] in ("10.1.1.1", "fd00::1")
    assert {frame.stream.number for frame in frames} == {0}
    assert notes == []


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_every_encapsulation_contains_the_segments_of_tshark(w, tmp_path):
    path = tmp_path / "all.pcapng"
    # tshark reads NFLOG only in its own byte order, and no IP packets in ERSPAN type III.
    known = [wraps for name, wraps in WRAPS.items() if name not in ("nflog, big", "erspan 3, ip")]
    path.write_bytes(w.file([one for link, wraps in known for one in packets(wraps, w, link)]).getvalue())
    command = ["tshark", "-n", "-r", str(path), "-d", "tcp.port==6650,data", "-T", "fields", "-e", "tcp.payload"]
    payloads = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert payloads == [data.hex() for _ in known for _, _, _, data in conversation(w)]


def test_a_packet_captured_inside_and_outside_its_tunnel_counts_once(w):
    inside = packets(WRAPS["vxlan"][1], w, 1)
    outside = packets(WRAPS["ethernet"][1], w, 1)
    frames, notes = w.read(w.file([each for pair in zip(inside, outside) for each in pair]))
    assert [frame.data for frame in frames] == [w.connect, w.connected, w.send(1), w.send(2)]
    assert notes == []


def fragmented(w, order):
    """Return the last packet of the conversation in fragments."""
    whole = packets(WRAPS["ethernet"][1], w, 1)
    pieces = scapy.fragment(scapy.Ether(whole[-1].data), fragsize=40)
    return whole[:-1], [Packet(0, 9, 1, bytes(piece), len(piece)) for piece in order(pieces)]


@pytest.mark.parametrize("order", [list, lambda pieces: pieces[::-1], lambda pieces: pieces[1:] + pieces[:2]])
def test_fragments_in_any_order(w, order):
    before, pieces = fragmented(w, order)
    frames, notes = w.read(w.file(before + pieces))
    assert [frame.data for frame in frames[2:]] == [w.send(1), w.send(2)]
    assert set(frames[2].packets) <= set(range(5, 5 + len(pieces)))
    assert len(frames[2].packets) > 1
    assert notes == []


def test_a_missing_fragment_is_a_gap(w):
    before, pieces = fragmented(w, list)
    frames, _ = w.read(w.file(before + pieces[:-1]))
    assert len(frames) == 2


def test_fragments_of_ipv6(w):
    whole = packets(WRAPS["ethernet, IPv6"][1], w, 1)
    last = scapy.Ether(whole[-1].data)
    split = scapy.fragment6(scapy.IPv6(**V6[True]) / scapy.IPv6ExtHdrFragment() / last[scapy.TCP], 88)
    assert len(split) > 1
    pieces = [bytes(ether() / piece) for piece in split]
    frames, _ = w.read(w.file(whole[:-1] + [Packet(0, 9, 1, piece, len(piece)) for piece in pieces]))
    assert [frame.data for frame in frames[2:]] == [w.send(1), w.send(2)]


def test_incomplete_fragments_take_bounded_memory(w):
    from pcli.codec.capture.ip import MAX_DATAGRAMS, Fragments, pull_ip

    table = Fragments()
    for number in range(MAX_DATAGRAMS * 3):
        data = bytes(scapy.IP(**V4[True], id=number, flags="MF", proto=6) / scapy.Raw(bytes(64)))
        inner = pull_ip(data, 0x0800, 0, len(data), len(data))
        assert inner is not None
        assert table.add(inner, number) is None
    assert len(table._open) == MAX_DATAGRAMS


def test_a_packet_with_length_zero_uses_the_wire_length(w):
    """Big TCP: the length field of an IPv6 packet above 64 KB is 0."""
    frame = w.send(1, bytes(100_000))
    whole = packets(WRAPS["ethernet, IPv6"][1], w, 1)[:4]
    data = bytes(ether() / ip6(True, plen=0) / tcp(True, 100 + len(w.connect), "PA", b"")) + frame
    frames, notes = w.read(w.file([*whole, Packet(5, 5, 1, data, len(data))]))
    assert frames[2].data == frame
    assert notes == []


def test_other_traffic_has_no_segment(w):
    others = [
        ether() / scapy.ARP(),
        ether() / scapy.IP() / scapy.ICMP(),
        ether() / scapy.IP() / scapy.UDP(dport=53) / scapy.DNS(),
        ether() / scapy.IP() / scapy.UDP(dport=4789) / scapy.Raw(b"no tunnel at all"),
        ether() / scapy.IP() / scapy.UDP(dport=6081) / scapy.Raw(b"\xffno tunnel at all"),
        ether() / scapy.LLC() / scapy.Raw(bytes(50)),
    ]
    assert w.read(w.file([Packet(1, 1, 1, bytes(each), len(each)) for each in others])) == ([], [])
