"""LOOKUP and PARTITIONED_METADATA.

Rules of this file (TopicLookupBase, ServerCnx.handlePartitionMetadataRequest; 4.2.4)
1. A lookup makes the broker serve the bundle of the topic. It does not check whether the topic exists.
2. If the broker's address is a loopback address, the response sets ``proxy_through_service_url``, because the client's
   service URL may lead through a tunnel.
3. If only a peer cluster serves the namespace, the lookup is redirected to the peer, and the topic has no partitions
   here. If neither this cluster nor a peer serves it, both commands are refused.
4. PARTITIONED_METADATA may create a partitioned topic (`TopicRegistry.find_or_create_partitions`).
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pcli.codec.proto import pb
from pcli.minibroker.commands.permission_checks import require_lookup
from pcli.minibroker.errors import Refused

if TYPE_CHECKING:
    from pcli.codec.wire.frame import Frame
    from pcli.minibroker.connection import Connection, Handler


def check_pending_lookups(connection: Connection) -> None:
    """Raise Refused (TooManyRequests) if maxConcurrentLookupRequest permits no lookup. Lookups never overlap."""
    if connection.broker.settings.maxConcurrentLookupRequest <= 0:
        raise Refused(pb.TooManyRequests, "Failed due to too many pending lookup requests")


def _lookup(connection: Connection, command: pb.CommandLookupTopic, frame: Frame) -> None:
    broker = connection.broker
    name = broker.topic_registry.topic_name(command.topic)
    if command.advertised_listener_name:
        raise Refused(pb.ServiceNotReady, f"the broker do not have {command.advertised_listener_name} listener")
    check_pending_lookups(connection)
    require_lookup(connection, name, "Lookup")
    peer = broker.policies.peer_of(broker.topic_registry.check_namespace(name))
    if peer is not None:
        connection.send_command(
            pb.CommandLookupTopicResponse(
                request_id=command.request_id,
                response=pb.CommandLookupTopicResponse.Redirect,
                brokerServiceUrl=peer.data.get("brokerServiceUrl"),
                brokerServiceUrlTls=peer.data.get("brokerServiceUrlTls"),
                authoritative=True,
            )
        )
        return
    broker.topic_registry.look_up(name)
    connection.send_command(
        pb.CommandLookupTopicResponse(
            request_id=command.request_id,
            response=pb.CommandLookupTopicResponse.Connect,
            brokerServiceUrl=broker.service_url,
            brokerServiceUrlTls=broker.service_url_tls or None,
            authoritative=True,
            proxy_through_service_url=_is_loopback(broker.service_url),
        )
    )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _partitioned_metadata(connection: Connection, command: pb.CommandPartitionedTopicMetadata, frame: Frame) -> None:
    registry, create = connection.broker.topic_registry, command.metadata_auto_creation_enabled
    name = registry.topic_name(command.topic)
    check_pending_lookups(connection)
    require_lookup(connection, name, "Get Partition Metadata")
    namespace = registry.check_namespace(name)
    peer = connection.broker.policies.peer_of(namespace) if create or registry.exists(name) else None
    count = registry.find_or_create_partitions(name, create=create) if peer is None else 0
    connection.send_command(
        pb.CommandPartitionedTopicMetadataResponse(
            request_id=command.request_id, response=pb.CommandPartitionedTopicMetadataResponse.Success, partitions=count
        )
    )


HANDLERS: Final[dict[str, Handler]] = {"LOOKUP": _lookup, "PARTITIONED_METADATA": _partitioned_metadata}
