"""A client's first bytes, and the broker that they select."""

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.replay.proxy.first_frame import FirstFrame

CONNECT = push_frame(pb.CommandConnect(client_version="c", proxy_to_broker_url="proxy:7000"))
PLAIN = push_frame(pb.CommandConnect(client_version="c"))
MORE = push_frame(pb.CommandPing())


def test_byte_by_byte(proxy_addresses):
    first_frame = FirstFrame(proxy_addresses.addresses, proxy_addresses.current)
    for at in range(len(CONNECT)):
        assert not first_frame.complete
        first_frame.data += CONNECT[at : at + 1]
    assert first_frame.complete
    assert first_frame.wrong_protocol == ""


def test_bytes_after_the_first_frame_are_kept(proxy_addresses):
    first_frame = FirstFrame(proxy_addresses.addresses, proxy_addresses.current)
    first_frame.data += CONNECT + MORE
    assert first_frame.broker() == proxy_addresses.current
    assert first_frame.data == PLAIN + MORE


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "uses TLS: give --listen-cert"),
        (b"GET /lookup/v2/topic/persistent/public/default/t HTTP/1.1\r\n", "uses HTTP: give --http-listen"),
    ],
)
def test_other_protocols_are_reported(proxy_addresses, data, said):
    first_frame = FirstFrame(proxy_addresses.addresses, proxy_addresses.current)
    first_frame.data += data
    assert first_frame.complete
    assert said in first_frame.wrong_protocol


@pytest.mark.parametrize("data", [b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", b"what is this?", b"\0" * 20])
def test_invalid_frames_are_forwarded(proxy_addresses, data):
    first_frame = FirstFrame(proxy_addresses.addresses, proxy_addresses.current)
    first_frame.data += data
    assert first_frame.complete
    assert (first_frame.wrong_protocol, first_frame.broker(), first_frame.data) == ("", proxy_addresses.current, data)


def test_an_oversized_first_frame_is_forwarded_incomplete(proxy_addresses):
    first_frame = FirstFrame(proxy_addresses.addresses, proxy_addresses.current)
    first_frame.data += push_frame(pb.CommandConnect(client_version="c", auth_data=bytes(3 << 20)))[: 1 << 20]
    assert first_frame.complete
    assert first_frame.broker() == proxy_addresses.current
