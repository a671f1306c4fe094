"""The frames that name brokers, with the addresses of the proxy in their place.

Rules of this file
1. A frame that names nobody else, or that can't be read, is given back as it came, byte for byte. One that is
   rewritten keeps its other fields, unknown ones too.
2. A URL stands in the field of the tongue that the client speaks to us; the other one is emptied, so that no client
   goes around us.
3. An answer is about the broker that gave it: ``asked`` is the one at the other end of the connection.
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
    """LOOKUP_RESPONSE; a client that is to connect to another broker may do it through this listener."""
    tunnel = body.proxy_through_service_url
    broker = _replace(body, "brokerServiceUrl", doors, asked, tunnel=tunnel)
    if broker is None:
        return False
    if body.response == body.Connect and doors.apart(broker):
        body.proxy_through_service_url = True
    return True


def _migrated(body: pb.CommandTopicMigrated, doors: Doors, asked: ServiceUrl) -> bool:
    """TOPIC_MIGRATED: the broker is one of another cluster."""
    return _replace(body, "brokerServiceUrl", doors, asked) is not None


def _closed(body: pb.CommandCloseProducer | pb.CommandCloseConsumer, doors: Doors, asked: ServiceUrl) -> bool:
    """CLOSE_PRODUCER and CLOSE_CONSUMER, with the broker that has the topic now."""
    return _replace(body, "assignedBrokerServiceUrl", doors, asked) is not None


_REWRITERS: Final[dict[str, Callable[[Any, Doors, ServiceUrl], bool]]] = {
    "LOOKUP_RESPONSE": _lookup,
    "CLOSE_PRODUCER": _closed,
    "CLOSE_CONSUMER": _closed,
    "TOPIC_MIGRATED": _migrated,
}

FROM_BROKER: Final = frozenset(BY_NAME[name].number for name in _REWRITERS)
"""The command types of a broker that name brokers."""

_BY_NUMBER: Final = {BY_NAME[name].number: rewriter for name, rewriter in _REWRITERS.items()}


def rewritten_answer(data: bytes, doors: Doors, asked: ServiceUrl) -> bytes:
    """A whole frame from a broker, of one of the types FROM_BROKER, as the client is to get it."""
    frame = Frame.of(data)
    if frame.problems or not _BY_NUMBER[frame.type](frame.body, doors, asked):
        return data
    return join_frame(frame.command.SerializeToString())


def rewritten_connect(data: bytes, doors: Doors, asked: ServiceUrl) -> tuple[bytes, ServiceUrl]:
    """The first frame of a client, as its broker is to get it, and that broker. Any other frame goes on as it is."""
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
    """The answer to an HTTP lookup (LookupData), with addresses of the proxy; anything else comes back as it was.

    ``asked``: the broker of the listener. The addresses of the broker's web service stay: clients do not go there.
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
