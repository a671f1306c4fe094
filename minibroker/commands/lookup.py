"""LOOKUP and PARTITIONED_METADATA.

Rules of this file (TopicLookupBase, ServerCnx.handlePartitionMetadataRequest; 4.2.4)
1. A lookup makes the broker serve the bundle of the topic. It does not check whether the topic exists.
2. If the broker's address is a loopback address, the response sets ``proxy_through_service_url``, because the client's
   service URL may lead through a tunnel.
3. PARTITIONED_METADATA creates a partitioned topic if that is the default type, the client allows it, and the name is
   neither a partition nor a retry or dead letter topic. It never creates a non-partitioned topic.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.topic_names import topic_name

if TYPE_CHECKING:
    from pcli.codec.wire.frame import Frame
    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.connection import Connection, Handler, PulsarService

__all__ = ["HANDLERS"]

_RETRY: Final = ("-RETRY", "-DLQ")


def _lookup(connection: Connection, command: pb.CommandLookupTopic, frame: Frame) -> None:
    broker = connection.broker
    name = topic_name(command.topic)
    if command.advertised_listener_name:
        raise Refused(pb.ServiceNotReady, f"the broker do not have {command.advertised_listener_name} listener")
    broker.topic_registry.look_up(name)
    connection.send_command(
        pb.CommandLookupTopicResponse(
            request_id=command.request_id,
            response=pb.CommandLookupTopicResponse.Connect,
            brokerServiceUrl=broker.service_url,
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
    name = topic_name(command.topic)
    connection.broker.topic_registry.check_namespace(name)
    count = _partitions(connection.broker, name, create=command.metadata_auto_creation_enabled)
    connection.send_command(
        pb.CommandPartitionedTopicMetadataResponse(
            request_id=command.request_id,
            response=pb.CommandPartitionedTopicMetadataResponse.Success,
            partitions=count,
        )
    )


def _partitions(broker: PulsarService, name: TopicName, *, create: bool) -> int:
    registry = broker.topic_registry
    if registry.exists(name):
        return registry.partitions(name)
    if not (create and registry.may_create(name)):
        raise Refused(pb.TopicNotFound, "")
    if (
        broker.policies.effective(name, "allowAutoTopicCreationType") != "partitioned"
        or name.partition >= 0
        or name.local.endswith(_RETRY)
    ):
        return 0
    count = int(broker.policies.effective(name, "defaultNumPartitions"))
    registry.check_topic_limit(name, count)
    registry.set_partitions(name, count)
    return count


HANDLERS: Final[dict[str, Handler]] = {"LOOKUP": _lookup, "PARTITIONED_METADATA": _partitioned_metadata}
