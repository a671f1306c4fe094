"""What the broker of a replay must have, and what was done to the captured one from outside, told from the capture.

Rules of this file
1. Before the play: namespaces; topics with their partitions; schemas that a client was told of and no client of the
   play brought. Settings that the broker's own words betray: the maximum message size of CONNECTED, the metadata of
   entries in MESSAGE. Receipts for duplicates betray that a namespace deduplicates.
2. During the play: more partitions before the answer that first knows of them. A CLOSE_PRODUCER or CLOSE_CONSUMER that
   nobody's SEEK, UNSUBSCRIBE or fencing PRODUCER asked for is the sign of a deed of an administrator (`interventions`).
3. Paths are those of the REST interface, so any broker can be prepared whose address is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.player.script.admin_interventions import interventions
from pcli.replay.player.script.commands_not_replayed import topics_of, unsaid
from pcli.replay.player.script.recorded_sends import answers_to_sends, stored
from pcli.replay.player.script.rest_calls import Call, Rename, topic_path
from pcli.replay.player.script.script import Line, Script

__all__ = ["Preparation", "prepare"]

_TIMESTAMP: Final = "org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor"
_INDEX: Final = "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor"
_HUMP: Final = re.compile("(?<=[a-z])(?=[A-Z])")
"""Where a word of the interface's spelling begins: KeyValue is KEY_VALUE there."""


@dataclass(slots=True)
class Preparation:
    """What must be there, and what is to be done."""

    settings: dict[str, str] = field(default_factory=dict)
    """Names and values of broker.conf that the capture betrays."""
    calls: list[Call] = field(default_factory=list)
    """Before the play. What is there already may be refused."""
    before: dict[int, list[Call]] = field(default_factory=dict)
    """Before a client's line is said."""
    instead: dict[int, list[Call]] = field(default_factory=dict)
    """When the live broker does not say a captured answer by itself."""
    topics: set[str] = field(default_factory=set)
    """To which topics something was done; an empty name: to all."""
    unsaid: set[int] = field(default_factory=set)
    """Lines of clients that are not said, and the answers to them that are not waited for: swallowed.py."""


def prepare(script: Script, settings: Mapping[str, str], rename: Rename = str) -> Preparation:
    """What the capture says.

    ``settings``: those that the user gave; they are not told from the capture. ``rename``: how topics are called live.
    """
    found = Preparation()
    found.settings = {name: value for name, value in _settings(script) if name not in settings}
    found.calls = [*_namespaces(script, rename), *_schemas(script, rename)]
    _partitions(script, found, rename, partitioned=settings.get("allowAutoTopicCreationType") == "partitioned")
    deeds = interventions(script, rename)
    for deed in deeds:
        found.instead.setdefault(deed.line.index, []).append(deed.call)
    found.topics = {deed.topic for deed in deeds}
    found.unsaid = unsaid(script, deeds)
    _size_limits(script, found, rename)
    return found


# -- settings ----------------------------------------------------------------------------------------------------------


def _settings(script: Script) -> Iterator[tuple[str, str]]:
    greetings = (line.frame for line in script.lines if line.name == "CONNECTED")
    size = max((frame.command.connected.max_message_size for frame in greetings if frame is not None), default=0)
    if size:
        yield "maxMessageSize", str(size)
    entries = [line.frame.broker_entry for line in script.lines if line.frame is not None and line.name == "MESSAGE"]
    stamped = any(one is not None and one.HasField("broker_timestamp") for one in entries)
    counted = any(one is not None and one.HasField("index") for one in entries)
    classes = [name for name, used in ((_TIMESTAMP, stamped), (_INDEX, counted)) if used]
    if classes:
        yield "exposingBrokerEntryMetadataToClientEnabled", "true"
        yield "brokerEntryMetadataInterceptors", ",".join(classes)


# -- what must be there ------------------------------------------------------------------------------------------------


def _namespaces(script: Script, rename: Rename) -> Iterator[Call]:
    """Tenants and namespaces in which the captured broker served something."""
    names: dict[str, None] = {}
    for line in script.lines:
        if line.name in ("PRODUCER_SUCCESS", "SUCCESS", "LOOKUP_RESPONSE") and line.request is not None:
            good = line.frame is not None and not line.frame.command.lookupTopicResponse.error
            names |= {_namespace(topic, rename): None for topic in topics_of(line.request.topic) if good}
        if line.name == "GET_TOPICS_OF_NAMESPACE" and line.frame is not None:
            names[line.frame.command.getTopicsOfNamespace.namespace] = None
    for tenant in dict.fromkeys(name.partition("/")[0] for name in names):
        yield Call("PUT", f"tenants/{tenant}", {"allowedClusters": ["standalone"]})
    duplicates = {_namespace(topic, rename) for topic in _with_duplicates(script)}
    for name in names:
        yield Call("PUT", f"namespaces/{name}")
        if name in duplicates:
            yield Call("POST", f"namespaces/{name}/deduplication", body=True)


def _with_duplicates(script: Script) -> Iterator[TopicName]:
    """Topics on which a receipt says -1:-1: the message was known."""
    for send, _, place in stored(script.lines):
        if place == (-1, -1):
            yield from topics_of(send.topic)


def _namespace(topic: TopicName, rename: Rename) -> str:
    live = TopicName.parse(rename(str(topic)))
    return f"{live.tenant}/{live.namespace}"


def _partitions(script: Script, found: Preparation, rename: Rename, *, partitioned: bool) -> None:
    """Partitioned topics, and where they grew; plain ones too where a missing topic would become partitioned."""
    known: dict[str, int] = {}
    for line in script.lines:
        if line.name != "PARTITIONED_METADATA_RESPONSE" or line.request is None or line.frame is None:
            continue
        answer = line.frame.command.partitionMetadataResponse
        for topic in topics_of(line.request.topic) if not answer.error else ():
            path, count, before = topic_path(rename(str(topic))), answer.partitions, known.get(str(topic))
            if before is None and count:
                found.calls.append(Call("PUT", f"{path}/partitions", count))
            elif before is None and partitioned:
                found.calls.append(Call("PUT", path))
            elif before is not None and count > before > 0:
                request = _line_of(script, line)
                found.before.setdefault(request, []).append(Call("POST", f"{path}/partitions", count))
            known[str(topic)] = count


def _line_of(script: Script, answer: Line) -> int:
    """The place of the request that an answer answers."""
    assert answer.request is not None
    number = answer.request.number
    return next(line.index for line in script.lines if line.frame is not None and line.frame.number == number)


def _schemas(script: Script, rename: Rename) -> Iterator[Call]:
    """Schemas that clients were told of, and that nobody in the play brought before."""
    brought: set[str] = set()
    for line in script.lines:
        if line.frame is None:
            continue
        command = line.frame.command
        if line.from_client:
            carriers = (command.producer, command.subscribe, command.getOrCreateSchema)
            with_schema = [one.topic for one in carriers if one.topic and one.HasField("schema")]
            brought |= {str(topic.base) for topic in topics_of(with_schema)}
        elif line.request is not None and command.getSchemaResponse.HasField("schema"):
            for topic in topics_of(line.request.topic):
                if str(topic.base) not in brought:
                    brought.add(str(topic.base))
                    yield _schema_call(TopicName.parse(rename(str(topic))), command.getSchemaResponse.schema)


def _schema_call(topic: TopicName, schema: pb.Schema) -> Call:
    body = {
        "type": _HUMP.sub("_", pb.Schema.Type.Name(schema.type)).upper(),
        "schema": schema.schema_data.decode("utf-8", "replace"),
        "properties": {one.key: one.value for one in schema.properties},
    }
    return Call("POST", f"schemas/{topic.base.schema_id}/schema", body)


def _size_limits(script: Script, found: Preparation, rename: Rename) -> None:
    """Topics that refused what is smaller than the broker's maximum have one of their own."""
    largest: dict[str, int] = {}
    for send, answer in answers_to_sends(script.lines).items():
        if send.frame is None or answer.frame is None:
            continue
        if answer.name == "SEND_RECEIPT":
            size = len(send.frame.data) - send.frame.parts.command_end
            largest[send.topic] = max(largest.get(send.topic, 0), size)
        elif "maximum message size" in answer.frame.command.send_error.message:
            call = Call("POST", f"{topic_path(rename(send.topic))}/maxMessageSize", max(largest.get(send.topic, 0), 1))
            found.before.setdefault(send.index, []).append(call)
