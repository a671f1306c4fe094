"""Rewriting of the broker addresses in frames and HTTP responses to addresses of the proxy.

Rules of this file
1. A frame without another broker's address, or that can't be parsed, is returned unchanged. A rewritten frame keeps its
   other fields, including unknown ones.
2. The URL is set in the field for the client's protocol (plain or TLS); the other field is cleared, so that no client
   bypasses the proxy.
3. A response is relative to the broker that sent it: ``asked`` is the broker of the connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.replay.proxy.broker_addresses import Doors
from pcli.replay.service_url import ServiceUrl

__all__ = ["FROM_BROKER", "rewritten_answer", "rewritten_connect", "rewritten_lookup"]


def _lookup(body: pb.CommandLookupTopicResponse, doors: Doors, asked: ServiceUrl) -> bool:
    """Rewrite LOOKUP_RESPONSE. A client that must connect to another broker may use this listener."""
    tunnel = body.proxy_through_service_url
    broker = _replace(body, "brokerServiceUrl", doors, asked, tunnel=tunnel)
    if broker is None:
        return False
    if body.response == body.Connect and doors.apart(broker):
        body.proxy_through_service_url = True
    return True


def _migrated(body: pb.CommandTopicMigrated, doors: Doors, asked: ServiceUrl) -> bool:
    """Rewrite TOPIC_MIGRATED, whose broker belongs to another cluster."""
    return _replace(body, "brokerServiceUrl", doors, asked) is not None


def _closed(body: pb.CommandCloseProducer | pb.CommandCloseConsumer, doors: Doors, asked: ServiceUrl) -> bool:
    """Rewrite CLOSE_PRODUCER and CLOSE_CONSUMER with an assigned broker."""
    return _replace(body, "assignedBrokerServiceUrl", doors, asked) is not None


_REWRITERS: Final[dict[str, Callable[[Any, Doors, ServiceUrl], bool]]] = {
    "LOOKUP_RESPONSE": _lookup,
    "CLOSE_PRODUCER": _closed,
    "CLOSE_CONSUMER": _closed,
    "TOPIC_MIGRATED": _migrated,
}

FROM_BROKER: Final = frozenset(BY_NAME[name].number for name in _REWRITERS)
"""The types of broker commands with broker addresses."""

_BY_NUMBER: Final = {BY_NAME[name].number: rewriter for name, rewriter in _REWRITERS.items()}


def rewritten_answer(data: bytes, doors: Doors, asked: ServiceUrl) -> bytes:
    """Return the frame for the client: a whole broker frame of a type in FROM_BROKER, rewritten."""
    frame = Frame.of(data)
    if frame.problems or not _BY_NUMBER[frame.type](frame.body, doors, asked):
        return data
    return join_frame(frame.command.SerializeToString())


def rewritten_connect(data: bytes, doors: Doors, asked: ServiceUrl) -> tuple[bytes, ServiceUrl]:
    """Return a client's first frame as sent to its broker, and that broker. Frames other than CONNECT are unchanged."""
    frame = Frame.of(data)
    connect = frame.command.connect
    if not connect.HasField("proxy_to_broker_url") or frame.problems:
        return data, asked
    broker, name = doors.meant(connect.proxy_to_broker_url, asked)
    if name == connect.proxy_to_broker_url:
        return data, broker
    connect.proxy_to_broker_url = name
    if not name:
        connect.ClearField("proxy_to_broker_url")
    return join_frame(frame.command.SerializeToString()), broker


def rewritten_lookup(body: bytes, doors: Doors, asked: ServiceUrl) -> bytes:
    """Return the response to an HTTP lookup (LookupData) with proxy addresses; other responses are unchanged.

    ``asked``: the broker of the listener. Web service addresses stay unchanged: clients do not connect to them.
    """
    try:
        answer = json.loads(body)
    except ValueError:
        return body
    if not isinstance(answer, dict) or not (answer.get("brokerUrl") or answer.get("brokerUrlTls")):
        return body
    broker = doors.find(str(answer.get("brokerUrl") or ""), str(answer.get("brokerUrlTls") or ""), asked)
    url = doors.url(broker) if broker is not None else ""
    if not url:
        return body
    plain, tls = ("", url) if doors.tls else (url, "")
    answer |= {"brokerUrl": plain, "brokerUrlTls": tls, "brokerUrlSsl": tls, "nativeUrl": plain}
    return json.dumps(answer).encode()


def _replace(body: Any, field: str, doors: Doors, asked: ServiceUrl, *, tunnel: bool = False) -> ServiceUrl | None:
    """Put the door's URL into ``field``, or its twin for TLS; the broker, or None when nothing is to be changed."""
    twin = f"{field}Tls"
    broker = doors.find(getattr(body, field), getattr(body, twin), asked, tunnel=tunnel)
    url = doors.url(broker) if broker is not None else ""
    if not url:
        return None
    body.ClearField(field)
    body.ClearField(twin)
    setattr(body, twin if doors.tls else field, url)
    return broker
