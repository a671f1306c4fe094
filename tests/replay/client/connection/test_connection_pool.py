"""The connections of an engine."""

from __future__ import annotations

from typing import Any

from pcli.replay.client.connection.errors import Refusal


def test_who_asks_while_it_is_opened_waits_for_the_same_one(wire: Any) -> None:
    end = wire()
    links: list[Any] = []
    for _ in range(2):
        end.engine.pool.link_to(("a", 1), links.append)
    assert end.said() == ["0 Connect"]
    end.shake()
    end.engine.pool.link_to(("a", 1), links.append)
    assert links == end.links * 3


def test_several_connections_to_a_broker(wire: Any) -> None:
    end = wire(connectionsPerBroker=2)
    for index in (0, 1, 0, 1):
        end.engine.pool.link_to(("a", 1), lambda link: None, index=index)
    assert end.said() == ["0 Connect", "1 Connect"]


def test_no_sharing(wire: Any) -> None:
    end = wire(connectionsPerBroker=0)
    for _ in range(2):
        end.engine.pool.link_to(("a", 1), lambda link: None)
    assert end.said() == ["0 Connect", "1 Connect"]


def test_through_a_proxy_each_broker_has_its_own_connection(wire: Any) -> None:
    end = wire()
    for broker in ("b1", "b2"):
        end.engine.pool.link_to((broker, 6650), lambda link: None, through=("a", 1))
    end.engine.pool.link_to(("a", 1), lambda link: None)
    targets = [body.proxy_to_broker_url for _, body in end.hear()]
    assert targets == ["b1:6650", "b2:6650", ""]
    assert [link.address for link in end.links] == [("a", 1)] * 3


def test_what_could_not_be_opened_is_forgotten(wire: Any) -> None:
    end = wire()
    links: list[Any] = []
    end.engine.pool.link_to(("a", 1), links.append)
    [connect] = end.engine.take()
    end.engine.disconnected(connect.link, end.now, "connection refused")
    assert links == [Refusal("Connect", "a:1: connection refused")]
    assert end.engine.pool.links == []
    end.engine.pool.link_to(("a", 1), links.append)
    end.hear()
    end.shake()
    assert links[1:] == end.links


def test_tls_goes_with_the_service_url(wire: Any) -> None:
    end = wire("pulsar+ssl://a:1")
    end.engine.pool.link_to(("b", 2), lambda link: None)
    end.hear()
    assert end.tls == [True]
