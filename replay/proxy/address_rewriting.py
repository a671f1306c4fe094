"""Rewriting of the broker addresses in frames and HTTP responses to addresses of the proxy.

Rules of this file
1. A frame that contains no other broker's address, or that cannot be parsed, is returned unchanged. The other fields of
   a rewritten frame, including unknown fields, do not change.
2. The URL is set in the field for the client's protocol (plain or TLS). The other field is cleared, so that no client
   bypasses the proxy.
3. Addresses are relative to the broker that sent the response: ``current`` is the broker of the connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.replay.proxy.broker_addresses import BrokerAddresses
from pcli.replay.service_url import ServiceUrl


def _lookup(body: pb.CommandLookupTopicResponse, addresses: BrokerAddresses, current: ServiceUrl) -> bool:
    """Rewrite LOOKUP_RESPONSE. A client that must connect to a different broker may use this listener."""
    tunnel = body.proxy_through_service_url
    broker = _replace(body, "brokerServiceUrl", addresses, current, tunnel=tunnel)
    if broker is None:
        return False
    if body.response == body.Connect and addresses.is_other_broker(broker):
        body.proxy_through_service_url = True
    return True


def _migrated(body: pb.CommandTopicMigrated, addresses: BrokerAddresses, current: ServiceUrl) -> bool:
    """Rewrite TOPIC_MIGRATED, whose broker belongs to a different cluster."""
    return _replace(body, "brokerServiceUrl", addresses, current) is not None


def _closed(
    body: pb.CommandCloseProducer | pb.CommandCloseConsumer, addresses: BrokerAddresses, current: ServiceUrl
) -> bool:
    """Rewrite CLOSE_PRODUCER and CLOSE_CONSUMER with an assigned broker."""
    return _replace(body, "assignedBrokerServiceUrl", addresses, current) is not None


def _layout(body: pb.CommandScalableTopicUpdate, addresses: BrokerAddresses, current: ServiceUrl) -> bool:
    """Rewrite SCALABLE_TOPIC_UPDATE, which names the brokers of the controller and of each segment."""
    if not body.HasField("dag"):
        return False
    changed = [_replace(one, "broker_url", addresses, current) for one in body.dag.segment_brokers]
    changed.append(_replace(body.dag, "controller_broker_url", addresses, current))
    for one in body.dag.segment_brokers if addresses.tls else ():
        one.broker_url = one.broker_url or one.broker_url_tls  # the field is required
    return any(one is not None for one in changed)


def _coordinators(body: pb.CommandWatchTcAssignmentsUpdate, addresses: BrokerAddresses, current: ServiceUrl) -> bool:
    """Rewrite WATCH_TC_ASSIGNMENTS_UPDATE, which names the broker of each transaction coordinator."""
    changed = [_replace(one, "broker_service_url", addresses, current) for one in body.snapshot.assignments]
    return any(one is not None for one in changed)


_REWRITERS: Final[dict[str, Callable[[Any, BrokerAddresses, ServiceUrl], bool]]] = {
    "LOOKUP_RESPONSE": _lookup,
    "CLOSE_PRODUCER": _closed,
    "CLOSE_CONSUMER": _closed,
    "TOPIC_MIGRATED": _migrated,
    "SCALABLE_TOPIC_UPDATE": _layout,
    "WATCH_TC_ASSIGNMENTS_UPDATE": _coordinators,
}

FROM_BROKER: Final = frozenset(BY_NAME[name].number for name in _REWRITERS)
"""The types of broker commands that contain broker addresses."""

_BY_NUMBER: Final = {BY_NAME[name].number: rewriter for name, rewriter in _REWRITERS.items()}


def rewritten_response(data: bytes, addresses: BrokerAddresses, current: ServiceUrl) -> bytes:
    """Return a complete broker frame, rewritten for the client. Its type is in FROM_BROKER."""
    frame = Frame.of(data)
    if frame.problems or not _BY_NUMBER[frame.type](frame.body, addresses, current):
        return data
    return join_frame(frame.command.SerializeToString())


def rewritten_connect(data: bytes, addresses: BrokerAddresses, current: ServiceUrl) -> tuple[bytes, ServiceUrl]:
    """Return a client's first frame for its broker, and the broker. A frame other than CONNECT is unchanged."""
    frame = Frame.of(data)
    connect = frame.command.connect
    if not connect.HasField("proxy_to_broker_url") or frame.problems:
        return data, current
    broker, name = addresses.resolve(connect.proxy_to_broker_url, current)
    if name == connect.proxy_to_broker_url:
        return data, broker
    connect.proxy_to_broker_url = name
    if not name:
        connect.ClearField("proxy_to_broker_url")
    return join_frame(frame.command.SerializeToString()), broker


def rewritten_lookup(body: bytes, addresses: BrokerAddresses, current: ServiceUrl) -> bytes:
    """Return the response to an HTTP lookup (LookupData) with proxy addresses. Other responses are unchanged.

    ``current`` is the broker of the listener. Web service addresses are not rewritten, because clients do not connect
    to them.
    """
    try:
        response = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(response, dict) or not (response.get("brokerUrl") or response.get("brokerUrlTls")):
        return body
    broker = addresses.find(str(response.get("brokerUrl") or ""), str(response.get("brokerUrlTls") or ""), current)
    url = addresses.url(broker) if broker is not None else ""
    if not url:
        return body
    plain, tls = ("", url) if addresses.tls else (url, "")
    response |= {"brokerUrl": plain, "brokerUrlTls": tls, "brokerUrlSsl": tls, "nativeUrl": plain}
    return json.dumps(response).encode()


def _replace(
    body: Any, field: str, addresses: BrokerAddresses, current: ServiceUrl, *, tunnel: bool = False
) -> ServiceUrl | None:
    """Write the broker's proxy URL to ``field`` or its TLS variant. Return the broker, or None if nothing changes."""
    twin = f"{field}{'_tls' if '_' in field else 'Tls'}"
    broker = addresses.find(getattr(body, field), getattr(body, twin), current, tunnel=tunnel)
    url = addresses.url(broker) if broker is not None else ""
    if not url:
        return None
    body.ClearField(field)
    body.ClearField(twin)
    setattr(body, twin if addresses.tls else field, url)
    return broker
