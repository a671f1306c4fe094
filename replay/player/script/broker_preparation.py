"""Preparation of the live broker before and during a replay, inferred from the capture.

Rules of this file
1. Before the replay, namespaces and topics with their partitions are created, and also each schema that a response
   contains but that no replayed client registered. CONNECTED shows the maximum message size, and the broker entry
   metadata in MESSAGE shows the interceptors. Receipts of duplicates show that deduplication is enabled for a
   namespace.
2. During the replay, partitions are added before the first response that contains the new count. A CLOSE_PRODUCER or
   CLOSE_CONSUMER that no SEEK, UNSUBSCRIBE or fencing PRODUCER caused shows an administrative operation
   (admin_interventions.py).
3. Calls use the REST interface. Any broker with a known REST address can therefore be prepared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.scalable import scalable_topic
from pcli.codec.wire.commands import COMMANDS
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.player.script.admin_interventions import find_interventions
from pcli.replay.player.script.commands_not_replayed import skipped_steps, topics_of
from pcli.replay.player.script.recorded_exchanges import responses_to_sends, stored
from pcli.replay.player.script.scalable_topic_changes import find_changes
from pcli.replay.player.script.script import FEATURES_OF_5, Rename, RestCall, Script, Step, topic_path

_TIMESTAMP: Final = "org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor"
_INDEX: Final = "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor"
_VERSION: Final = re.compile(r"\d{1,4}\.\d{1,4}(\.\d{1,4})?")
_COORDINATORS: Final = ("TC_CLIENT_CONNECT_RESPONSE", "WATCH_TC_ASSIGNMENTS_UPDATE")
_SUCCESSES: Final = ("PRODUCER_SUCCESS", "SUCCESS", "LOOKUP_RESPONSE", "SCALABLE_TOPIC_UPDATE")
_HUMP: Final = re.compile("(?<=[a-z])(?=[A-Z])")
"""Word boundaries in the name of a schema type. The REST interface writes KeyValue as KEY_VALUE."""


@dataclass(slots=True)
class Preparation:
    """The settings and REST calls that a replay needs."""

    version: str = ""
    """The version of the captured broker (``5.0.1``); empty if the capture does not show it."""
    settings: dict[str, str] = field(default_factory=dict)
    """Names and values of broker.conf that the capture shows."""
    calls: list[RestCall] = field(default_factory=list)
    """Calls before the replay. The broker may refuse calls that create existing objects."""
    before: dict[int, list[RestCall]] = field(default_factory=dict)
    """Calls before a client's step is sent, by the step's index."""
    instead: dict[int, list[RestCall]] = field(default_factory=dict)
    """Calls to make if the live broker does not send a captured step without them, by the step's index."""
    topics: set[str] = field(default_factory=set)
    """Topics with an administrative operation; an empty name means all topics."""
    skipped: set[int] = field(default_factory=set)
    """Indexes of client steps that are not sent and of responses that are not awaited (commands_not_replayed.py)."""


def prepare(script: Script, settings: Mapping[str, str], rename: Rename = str) -> Preparation:
    """Return the preparation that the capture requires.

    ``settings`` are the user's settings, which take precedence. ``rename`` maps captured topic names to live topic
    names.
    """
    found = Preparation()
    found.version = _version(script)
    found.settings = {name: value for name, value in _settings(script) if name not in settings}
    found.calls = [*_namespaces(script, rename), *_schemas(script, rename)]
    _partitions(script, found, rename, partitioned=settings.get("allowAutoTopicCreationType") == "partitioned")
    scalable = find_changes(script, rename)
    found.calls += scalable.calls
    interventions = find_interventions(script, rename, scalable.changes)
    for intervention in interventions:
        table = found.before if intervention.step.from_client else found.instead
        calls = table.setdefault(intervention.step.index, [])
        if intervention.call not in calls:  # a merge replaces two segments
            calls.append(intervention.call)
    found.topics = {intervention.topic for intervention in interventions}
    found.skipped = skipped_steps(script, interventions)
    _size_limits(script, found, rename)
    return found


# -- settings ----------------------------------------------------------------------------------------------------------


def _version(script: Script) -> str:
    """Return the version in the first CONNECTED that has one. Otherwise, commands and segments show Pulsar 5.0."""
    used = False
    for step in script.steps:
        row = COMMANDS.get(step.type)
        used = used or (row is not None and row.feature in FEATURES_OF_5) or bool(scalable_topic(step.topic))
        if step.name == "CONNECTED" and step.frame is not None:
            found = _VERSION.search(str(step.frame.command.connected.server_version))
            if found is not None:
                return found[0]
    return "5.0" if used else ""


def _settings(script: Script) -> Iterator[tuple[str, str]]:
    greetings = (step.frame for step in script.steps if step.name == "CONNECTED")
    size = max((frame.command.connected.max_message_size for frame in greetings if frame is not None), default=0)
    if size:
        yield "maxMessageSize", str(size)
    entries = [step.frame.broker_entry for step in script.steps if step.frame is not None and step.name == "MESSAGE"]
    stamped = any(one is not None and one.HasField("broker_timestamp") for one in entries)
    counted = any(one is not None and one.HasField("index") for one in entries)
    classes = [name for name, used in ((_TIMESTAMP, stamped), (_INDEX, counted)) if used]
    if classes:
        yield "exposingBrokerEntryMetadataToClientEnabled", "true"
        yield "brokerEntryMetadataInterceptors", ",".join(classes)
    coordinators = (step.frame for step in script.steps if step.name in _COORDINATORS)
    if any(not frame.body.HasField("error") for frame in coordinators if frame is not None):
        yield "transactionCoordinatorEnabled", "true"


# -- namespaces, topics and schemas ------------------------------------------------------------------------------------


def _namespaces(script: Script, rename: Rename) -> Iterator[RestCall]:
    """Yield the calls that create the tenants and namespaces that the captured broker served."""
    names: dict[str, None] = {}
    for step in script.steps:
        if step.frame is None:
            continue
        if step.name in _SUCCESSES and step.request is not None:
            good = not getattr(step.frame.body, "error", 0)
            names |= {_namespace(topic, rename): None for topic in topics_of(step.request.topic) if good}
        elif step.name == "WATCH_SCALABLE_TOPICS_UPDATE":
            update = step.frame.command.watchScalableTopicsUpdate
            listed = topics_of([*update.snapshot.topics, *update.diff.added])
            names |= {_namespace(topic, rename): None for topic in listed}
        elif step.name == "GET_TOPICS_OF_NAMESPACE":
            names[step.frame.command.getTopicsOfNamespace.namespace] = None
    for tenant in dict.fromkeys(name.partition("/")[0] for name in names):
        yield RestCall("PUT", f"tenants/{tenant}", {"allowedClusters": ["standalone"]})
    duplicates = {_namespace(topic, rename) for topic in _with_duplicates(script)}
    for name in names:
        yield RestCall("PUT", f"namespaces/{name}")
        if name in duplicates:
            yield RestCall("POST", f"namespaces/{name}/deduplication", body=True)


def _with_duplicates(script: Script) -> Iterator[TopicName]:
    """Yield the topics with a receipt of -1:-1, which marks a duplicate."""
    for send, _, position in stored(script.steps):
        if position == (-1, -1):
            yield from topics_of(send.topic)


def _namespace(topic: TopicName, rename: Rename) -> str:
    live = TopicName.parse(rename(str(topic)))
    return f"{live.tenant}/{live.namespace}"


def _partitions(script: Script, found: Preparation, rename: Rename, *, partitioned: bool) -> None:
    """Add calls for partitioned topics, and for plain topics if auto-creation would create partitioned topics."""
    known: dict[str, int] = {}
    for step in script.steps:
        if step.name != "PARTITIONED_METADATA_RESPONSE" or step.request is None or step.frame is None:
            continue
        response = step.frame.command.partitionMetadataResponse
        for topic in topics_of(step.request.topic) if not response.error else ():
            path, count, before = topic_path(rename(str(topic))), response.partitions, known.get(str(topic))
            if before is None and count:
                found.calls.append(RestCall("PUT", f"{path}/partitions", count))
            elif before is None and partitioned:
                found.calls.append(RestCall("PUT", path))
            elif before is not None and count > before > 0:
                request = _line_of(script, step)
                found.before.setdefault(request, []).append(RestCall("POST", f"{path}/partitions", count))
            known[str(topic)] = count


def _line_of(script: Script, response: Step) -> int:
    """Return the index of the request that belongs to a response."""
    assert response.request is not None
    number = response.request.number
    return next(step.index for step in script.steps if step.frame is not None and step.frame.number == number)


def _schemas(script: Script, rename: Rename) -> Iterator[RestCall]:
    """Yield calls that create the schemas that a response contains and that no client registered before."""
    brought: set[str] = set()
    for step in script.steps:
        if step.frame is None:
            continue
        command = step.frame.command
        if step.from_client:
            carriers = (command.producer, command.subscribe, command.getOrCreateSchema)
            with_schema = [one.topic for one in carriers if one.topic and one.HasField("schema")]
            brought |= {str(topic.base) for topic in topics_of(with_schema)}
        elif step.request is not None and command.getSchemaResponse.HasField("schema"):
            for topic in topics_of(step.request.topic):
                if str(topic.base) not in brought:
                    brought.add(str(topic.base))
                    yield _schema_call(TopicName.parse(rename(str(topic))), command.getSchemaResponse.schema)


def _schema_call(topic: TopicName, schema: pb.Schema) -> RestCall:
    body = {
        "type": _HUMP.sub("_", pb.Schema.Type.Name(schema.type)).upper(),
        "schema": schema.schema_data.decode("utf-8", "replace"),
        "properties": {one.key: one.value for one in schema.properties},
    }
    return RestCall("POST", f"schemas/{topic.base.schema_id}/schema", body)


def _size_limits(script: Script, found: Preparation, rename: Rename) -> None:
    """Add a maxMessageSize call for each topic that refused a message smaller than the broker's maximum."""
    largest: dict[str, int] = {}
    for send, response in responses_to_sends(script.steps).items():
        if send.frame is None or response.frame is None:
            continue
        if response.name == "SEND_RECEIPT":
            size = len(send.frame.data) - send.frame.parts.command_end
            largest[send.topic] = max(largest.get(send.topic, 0), size)
        elif "maximum message size" in response.frame.command.send_error.message:
            call = RestCall(
                "POST", f"{topic_path(rename(send.topic))}/maxMessageSize", max(largest.get(send.topic, 0), 1)
            )
            found.before.setdefault(send.index, []).append(call)
