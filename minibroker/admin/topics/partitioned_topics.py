"""Partitioned topics: create, delete, list and terminate them, add partitions, and show the number of partitions."""

from __future__ import annotations

import re
from typing import Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.admin.body_types import PARTITIONED_METADATA
from pcli.minibroker.admin.endpoint import Call, Endpoint, RestError, unexpected
from pcli.minibroker.admin.topics.message_responses import message_id
from pcli.minibroker.admin.topics.topics import (
    SYSTEM_TOPIC,
    check_external,
    check_shadow_topics,
    check_unused,
    delete_policies_and_schemas,
)
from pcli.minibroker.errors import Refused
from pcli.minibroker.policies.java_types import INT
from pcli.minibroker.topic_names import is_system

_SPACE: Final = "/admin/v2/{domain}/{tenant}/{namespace}"
_TOPIC: Final = f"{_SPACE}/{{topic}}"
_CPP_VERSION: Final = re.compile(r"Pulsar-CPP-v(\d+)\.(\d+)")
_PARTITIONS: Final = f"{_TOPIC}/partitions"
_WITH_PROPERTIES: Final = "application/vnd.partitioned-topic-metadata+json"


def _create(call: Call) -> None:
    name, registry = call.topic_name, call.broker.topic_registry
    call.namespace_of_new_topic()
    _check_base_name(name)
    if name.persistent:
        check_external(name)
    metadata: Any = {"partitions": call.body} if isinstance(call.body, int) else call.body
    if metadata is None:
        raise unexpected('Cannot read field "partitions" because "metadata" is null')
    check_shadow_topics(call, metadata.get("properties"))
    count = _count(call, metadata["partitions"])
    if registry.exists(name):
        raise RestError(409, "This topic already exists")
    stray = [one for one in registry.stored if one.startswith(f"{name}-partition-")]
    if any(int(one.rpartition("-")[2]) >= count for one in stray if one.rpartition("-")[2].isdigit()):
        raise RestError(409, f"Already have a partition of {name} with a higher index")
    _set_partitions(call, name, count)
    if metadata.get("properties"):
        call.broker.policies.properties[str(name)] = metadata["properties"]


def _check_base_name(name: TopicName) -> None:
    if name.partition >= 0:
        raise RestError(412, "Partitioned Topic Name should not contain '-partition-'")


def _count(call: Call, count: int) -> int:
    if count <= 0:
        raise RestError(406, "Number of partitions should be more than 0")
    limit = call.broker.settings.maxNumPartitionsPerPartitionedTopic
    if 0 < limit < count:
        raise RestError(406, f"Number of partitions should be less than or equal to {limit}")
    return count


def _set_partitions(call: Call, name: TopicName, count: int) -> None:
    try:
        call.broker.create_partitioned(name, count)
    except Refused as refused:
        raise RestError(412, refused.text) from None


def _partitions(call: Call) -> Any:
    name, registry = call.topic_name, call.broker.topic_registry
    call.owned_namespace()
    try:
        count = registry.find_or_create_partitions(name, create=call.flag("checkAllowAutoCreation"))
    except Refused as refused:
        if refused.code != pb.TopicNotFound:
            raise
        raise RestError(404, f"Topic {name} not found") from None
    if count > 1 and call.broker.settings.clientLibraryVersionCheckEnabled:
        _check_client(call.headers.get("user-agent", ""))
    found: dict[str, Any] = {"partitions": count, "deleted": False}
    properties = call.broker.policies.properties.get(str(name))
    return {**found, "properties": properties} if count and properties is not None else found


def _check_client(user_agent: str) -> None:
    """Raise 405 for clients without version, and for C++ clients whose major or minor version is below that of 1.21."""
    text = "Client lib is not compatible to access partitioned metadata: version"
    if not user_agent.strip():
        raise RestError(405, f"{text} in user-agent is not present")
    found = _CPP_VERSION.search(user_agent)
    if found is not None and (int(found[1]) < 1 or int(found[2]) < 21):
        raise RestError(405, f"{text} {user_agent} is not supported")


def _enlarge(call: Call) -> None:
    name = call.topic_name
    now = call.broker.topic_registry.partitions(name)
    if not now:
        raise RestError(409, f"Topic {name} is not the partitioned topic.")
    count = _count(call, call.body)
    if count < now:
        raise RestError(422, f"Desired partitions {count} can't be less than the current partitions {now}.")
    _set_partitions(call, name, count)


def _delete(call: Call) -> None:
    name, registry = call.topic_name, call.broker.topic_registry
    _check_base_name(name)
    count = registry.partitions(name)
    if not count:
        if registry.exists(name):
            text = "is a non-partitioned topic. Instead of calling delete-partitioned-topic please call delete."
            raise RestError(409, f"{name} {text}")
        raise RestError(404, f"Topic {name} not found.")
    names = [part for index in range(count) if registry.exists(part := name.with_partition(index))]
    check_unused(call, names)
    for part in names:
        if registry.load(part) is not None:
            call.broker.delete_topic(part, force=True)
    call.broker.policies.set_partitions(str(name), 0)
    delete_policies_and_schemas(call.broker, name)


def _list(call: Call) -> Any:
    prefix, system = f"{call.path['domain']}://{call.namespace().name}/", call.flag("includeSystemTopic")
    names = sorted(name for name in call.broker.policies.partitioned if name.startswith(prefix))
    return [name for name in names if system or not is_system(TopicName.parse(name))]


def _terminate(call: Call) -> Any:
    call.owned_namespace()
    if not call.broker.topic_registry.partitions(call.topic_name):
        text = "Termination of a non-partitioned topic is not allowed using partitioned-terminate"
        raise RestError(405, f"{text}, please use terminate commands")
    if is_system(call.topic_name):
        raise unexpected(SYSTEM_TOPIC, "org.apache.pulsar.client.admin.PulsarAdminException$NotAllowedException")
    return {
        str(topic.partition): message_id(call.broker.version, call.broker.terminate(topic), -1)
        for topic in call.topics()
    }


ENDPOINTS: Final = (
    Endpoint("GET", f"{_SPACE}/partitioned", _list, "names of the partitioned topics"),
    Endpoint("PUT", _PARTITIONS, _create, "create a partitioned topic", INT, (_WITH_PROPERTIES, PARTITIONED_METADATA)),
    Endpoint("GET", _PARTITIONS, _partitions, "number of partitions of a topic"),
    Endpoint("POST", _PARTITIONS, _enlarge, "add partitions to a topic", INT),
    Endpoint("DELETE", _PARTITIONS, _delete, "delete a partitioned topic"),
    Endpoint("POST", f"{_TOPIC}/terminate/partitions", _terminate, "terminate all partitions of a topic"),
)
