"""Topics: create, delete, list, unload and terminate them, and access their properties (PersistentTopics of 4.2.4).

Rules of this file
1. If ``force`` is not set, deleting a topic with connected clients results in a 412. Subscriptions without consumers do
   not prevent the deletion.
2. For operations that the real broker executes in the background (truncation, trimming), the response
   reports that the operation is finished. Closed ledgers that are not needed are deleted as usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, RestError, check_persistent, unexpected
from pcli.minibroker.admin.topics.message_responses import message_id
from pcli.minibroker.errors import SERVICE_EXCEPTION, Refused
from pcli.minibroker.policies.java_types import STRING_MAP
from pcli.minibroker.stats.internal_stats import ledger_properties
from pcli.minibroker.topic_names import is_internal, is_system
from pcli.minibroker.topics.shadow_replicators import SHADOW_SOURCE
from pcli.minibroker.topics.topic_compaction import AlreadyRunningError, TopicCompaction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pcli.minibroker.broker import Broker
    from pcli.minibroker.topics.topic import Topic

SHADOW_TOPICS_DISABLED: Final = "Shadow topics are disabled"
SYSTEM_TOPIC: Final = "Termination of a system topic is not allowed"
_SPACE: Final = "/admin/v2/{domain}/{tenant}/{namespace}"
_TOPIC: Final = f"{_SPACE}/{{topic}}"
_LEDGER: Final = "org.apache.bookkeeper.mledger.ManagedLedgerException"


# -- one topic ---------------------------------------------------------------------------------------------------------


def _create(call: Call) -> None:
    name = call.topic_name
    call.namespace_of_new_topic()
    check_external(name)
    check_shadow_topics(call, call.body)
    registry = call.broker.topic_registry
    if name.partition >= 0:
        _check_partition(name, registry.partitions(name.base))
    if registry.exists(name):
        raise RestError(409, "This topic already exists")
    properties = call.broker.policies.properties
    if call.body:
        properties[str(name.base)] = call.body
    try:
        _create_it(call, name)
    except RestError:
        properties.pop(str(name.base), None)
        raise
    registry.look_up(name)


def check_shadow_topics(call: Call, properties: Mapping[str, str] | None) -> None:
    """Raise 405 if the properties make a topic a shadow topic, which the settings can disable."""
    if SHADOW_SOURCE in (properties or {}) and not call.broker.settings.enableShadowTopics:
        raise RestError(405, SHADOW_TOPICS_DISABLED)


def check_external(name: TopicName) -> None:
    """Raise 400 if a topic has a name that is reserved for transactions."""
    if is_internal(name):
        raise RestError(400, "Cannot create topic in system topic format!")


def _check_partition(name: TopicName, count: int) -> None:
    """Check that the name of a partition belongs to a partitioned topic."""
    start = f'Can\'t create topic {name.local} with "-partition-" followed by'
    if not count:
        text = f"numeric value if there isn't a partitioned topic {name.base.local} created."
        raise RestError(412, f"{start} {text}")
    if name.partition >= count:
        text = f"a number smaller than number of partition of partitioned topic {name.base.local}"
        raise RestError(412, f"{start} {text}")


def _create_it(call: Call, name: TopicName) -> None:
    try:
        call.broker.topic_registry.create(name)
    except Refused as refused:
        if refused.code == pb.PersistenceError:
            missing = f"{_LEDGER}$ManagedLedgerNotFoundException: {_LEDGER}$MetadataNotFoundException: {refused.text}"
            raise unexpected(missing, f"{SERVICE_EXCEPTION}$PersistenceException") from None
        raise RestError(412, refused.text) from None


def _delete(call: Call) -> None:
    name = call.topic_name
    if call.broker.topic_registry.partitions(name):
        text = "is a partitioned topic, instead of calling delete topic, please call delete-partitioned-topic."
        raise RestError(409, f"{name} {text}")
    registry = call.broker.topic_registry
    if not name.persistent and registry.load(name) is None:
        return  # a non-persistent topic exists only while it is loaded
    topic = call.topic()
    check_unused(call, [name])
    delete_topic(call.broker, topic.name)


def check_unused(call: Call, names: list[TopicName]) -> None:
    """Raise 412 if a client is connected to one of the topics, unless ``force`` is set."""
    found = [topic for name in names if (topic := call.broker.topic_registry.load(name)) is not None]
    for topic in found:
        if topic.shadow_replicators.by_name and not call.flag("force"):
            raise RestError(422, f"Delete forbidden. Topic {topic.full_name} is replicated to shadow topics.")
    consumers = sum(len(topic.consumers) for topic in found)
    producers = sum(len(topic.producers) for topic in found)
    if (consumers or producers) and not call.flag("force"):
        count = consumers + producers
        if not call.topic_name.persistent:
            raise RestError(412, f"Topic has {count} connected producers/consumers")
        raise RestError(412, clients_text(consumers, producers))


def clients_text(consumers: int, producers: int) -> str:
    """Return why a topic with connected clients is not deleted."""
    count = consumers + producers
    clients = "client" if count == 1 else "clients"
    text = f"Including {consumers} consumers, {producers} producers, and 0 replicators."
    return f"Topic has {count} {clients} connected {text}"


def delete_topic(broker: Broker, name: TopicName) -> None:
    """Delete a topic with its policies and schemas, or delete a partition, even if clients are connected."""
    broker.delete_topic(name, force=True)
    if name.partition < 0:
        delete_policies_and_schemas(broker, name)


def delete_policies_and_schemas(broker: Broker, name: TopicName) -> None:
    """Delete the policies and schemas of a deleted topic."""
    broker.policies.forget(name)
    broker.schemas.forget(name.schema_id)


def _unload(call: Call) -> None:
    for topic in call.topics():
        call.broker.unload(topic)


def _terminate(call: Call) -> Any:
    name = call.topic_name
    if not name.persistent:
        raise RestError(406, "Need to provide a persistent topic name")
    if is_system(name):
        raise RestError(405, SYSTEM_TOPIC)
    if call.broker.topic_registry.partitions(name):
        raise RestError(405, "Termination of a partitioned topic is not allowed")
    topic = call.topic()
    if topic.shadow_source is not None:
        raise unexpected("Terminate is not allowed on shadow topic.", _LEDGER)
    return message_id(call.broker.version, call.broker.terminate(topic), -1)


def _truncate(call: Call) -> None:
    """Acknowledge all entries of all subscriptions, roll the ledger, and trim closed ledgers."""
    if not call.topic_name.persistent:
        call.owned_namespace()
        raise RestError(412, "unsupport truncate")
    for topic in call.topics():
        for subscription in list(topic.subscriptions.values()):
            subscription.skip_all()
        if topic.ledger is not None:
            topic.ledger.roll_if_full(call.broker.now)
            topic.trim(all_closed=True)


def _trim(call: Call) -> Reply:
    if not call.topic_name.persistent:
        raise RestError(405, "Trim on a non-persistent topic is not allowed")
    for topic in call.topics():
        topic.trim()
    return Reply(200)


# -- lists -------------------------------------------------------------------------------------------------------------


def _list(call: Call) -> Any:
    space = call.namespace()
    if call.path["domain"] == "persistent":
        stored = call.broker.topic_registry.names(space.name, system=call.flag("includeSystemTopic"))
        names = [name for name in stored if not is_internal(TopicName.parse(name))]
    else:
        names = call.loaded_non_persistent_topics()
    bundle = call.query.get("bundle", "")
    return [name for name in names if not bundle or space.bundle(name) == bundle]


# -- properties --------------------------------------------------------------------------------------------------------


def _existing(call: Call) -> str:
    """Return the base name of an existing topic, which is the key of its properties."""
    name = call.topic_name
    if not name.persistent:
        raise RestError(406, "Need to provide a persistent topic name")
    if not call.broker.topic_registry.exists(name):
        raise RestError(404, f"Topic {name} not found")
    return str(name.base)


def _properties(call: Call) -> Any:
    found = call.broker.policies.properties.get(_existing(call))
    if call.broker.topic_registry.partitions(call.topic_name):
        return Reply(200, found)
    topic = call.broker.topic_registry.load(call.topic_name)
    return Reply(200, found or {} if topic is None else ledger_properties(topic))


def _add_properties(call: Call) -> None:
    check_shadow_topics(call, call.body)
    call.broker.policies.properties.setdefault(_existing(call), {}).update(call.body or {})


def _remove_property(call: Call) -> None:
    topic, key = _existing(call), call.query.get("key")
    if key is None and not call.broker.topic_registry.partitions(call.topic_name):
        raise unexpected('Cannot invoke "Object.hashCode()" because "key" is null')
    call.broker.policies.properties.get(topic, {}).pop(key or "", None)


# -- compaction --------------------------------------------------------------------------------------------------------


def _compact(call: Call) -> None:
    call.owned_namespace()
    if not call.broker.topic_registry.exists(call.topic_name):
        raise RestError(404, f"Topic {call.topic_name} not found")
    for topic in call.topics():
        try:
            _compaction(topic).trigger()
        except AlreadyRunningError as running:
            raise RestError(409, str(running)) from None


def _compaction(topic: Topic) -> TopicCompaction:
    check_persistent(topic)
    assert topic.compaction is not None
    return topic.compaction


def _compaction_status(call: Call) -> Any:
    compaction = _compaction(call.load(call.topic_name))
    return {"status": compaction.status, "lastError": compaction.error}


def _delete_policies(call: Call) -> None:
    """Remove all policies of a topic, which need not exist."""
    call.broker.policies.unset_all_of_topic(call.topic_name)


def _create_missing_partitions(call: Call) -> None:
    name, registry = call.topic_name, call.broker.topic_registry
    call.owned_namespace()
    count = registry.partitions(name)
    if not count:
        raise RestError(404, f"Topic {name} does not exist")
    for part in (name.with_partition(index) for index in range(count)):
        if not registry.exists(part):
            registry.create(part)


ENDPOINTS: Final = (
    Endpoint("DELETE", f"{_TOPIC}/policies", _delete_policies, "remove all policies of a topic"),
    Endpoint("POST", f"{_TOPIC}/createMissedPartitions", _create_missing_partitions, "create the missing partitions"),
    Endpoint("GET", _SPACE, _list, "names of the topics of a namespace, with all partitions"),
    Endpoint("PUT", _TOPIC, _create, "create a topic", STRING_MAP),
    Endpoint("DELETE", _TOPIC, _delete, "delete a topic"),
    Endpoint("PUT", f"{_TOPIC}/unload", _unload, "disconnect the clients of a topic and roll over its ledger"),
    Endpoint("POST", f"{_TOPIC}/terminate", _terminate, "terminate a topic"),
    Endpoint(
        "DELETE",
        f"{_TOPIC}/truncate",
        _truncate,
        "acknowledge all messages on all subscriptions and delete closed ledgers",
    ),
    Endpoint("POST", f"{_TOPIC}/trim", _trim, "delete closed ledgers that are not needed"),
    Endpoint("PUT", f"{_TOPIC}/compaction", _compact, "compact a topic"),
    Endpoint("GET", f"{_TOPIC}/compaction", _compaction_status, "status of the last compaction"),
    Endpoint("GET", f"{_TOPIC}/properties", _properties, "properties of a topic"),
    Endpoint("PUT", f"{_TOPIC}/properties", _add_properties, "add properties to a topic", STRING_MAP),
    Endpoint("DELETE", f"{_TOPIC}/properties", _remove_property, "remove a property from a topic"),
)
