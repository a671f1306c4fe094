"""A client's first bytes, and the broker that they mean."""

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.replay.proxy.first_frame import Opening

CONNECT = push_frame(pb.CommandConnect(client_version="c", proxy_to_broker_url="proxy:7000"))
PLAIN = push_frame(pb.CommandConnect(client_version="c"))
MORE = push_frame(pb.CommandPing())


def test_byte_by_byte(house):
    opening = Opening(house.doors, house.asked)
    for at in range(len(CONNECT)):
        assert not opening.whole
        opening.data += CONNECT[at : at + 1]
    assert opening.whole
    assert opening.stranger == ""


def test_what_comes_behind_it_follows(house):
    opening = Opening(house.doors, house.asked)
    opening.data += CONNECT + MORE
    assert opening.broker() == house.asked
    assert opening.data == PLAIN + MORE


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "speaks TLS; --listen-cert"),
        (b"GET /lookup/v2/topic/persistent/public/default/t HTTP/1.1\r\n", "speaks HTTP; --http-listen"),
    ],
)
def test_strangers(house, data, said):
    opening = Opening(house.doors, house.asked)
    opening.data += data
    assert opening.whole
    assert said in opening.stranger


@pytest.mark.parametrize("data", [b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", b"what is this?", b"\0" * 20])
def test_what_is_no_frame_is_the_brokers_to_deal_with(house, data):
    opening = Opening(house.doors, house.asked)
    opening.data += data
    assert opening.whole
    assert (opening.stranger, opening.broker(), opening.data) == ("", house.asked, data)


def test_a_frame_larger_than_any_connect_is_not_waited_for(house):
    opening = Opening(house.doors, house.asked)
    opening.data += push_frame(pb.CommandConnect(client_version="c", auth_data=bytes(3 << 20)))[: 1 << 20]
    assert opening.whole
    assert opening.broker() == house.asked
