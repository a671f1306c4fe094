"""The schemas of producers and consumers of a topic (AbstractTopic.addSchema, checkSchemaCompatibleForConsumer)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.schema.registry import InvalidSchemaData

if TYPE_CHECKING:
    from pcli.minibroker.topics.topic import Topic

_EXCEPTION: Final = "org.apache.pulsar.broker.service.schema.exceptions.IncompatibleSchemaException"
_ENFORCED: Final = (
    "Producers cannot connect or send message without a schema to topics with a schemawhen SchemaValidationEnforced "
    "is enabled"
)


def add_producer_schema(topic: Topic, schema: pb.Schema | None) -> bytes:
    """Store the schema of a producer. Return its version, or b"" if there is no schema.

    Raises Refused. Except for invalid data, the message contains the exception twice.
    """
    try:
        if schema is not None:
            return _add(topic, schema)
        if topic.effective("isSchemaValidationEnforced") and topic.broker.schemas.has(topic.schema_id):
            raise Refused(pb.IncompatibleSchema, _ENFORCED)
    except InvalidSchemaData:
        raise
    except Refused as refused:
        text = f"{_EXCEPTION}: {refused.text}"
        raise Refused(refused.code, f"{text} caused by {text}") from None
    return b""


def _add(topic: Topic, schema: pb.Schema) -> bytes:
    return topic.broker.schemas.put(topic.schema_id, schema, topic.effective_policies.for_schemas, topic.broker.now)


def check_consumer_schema(topic: Topic, schema: pb.Schema) -> None:
    """Check the schema of a consumer, and store it if the topic was never used. Raises Refused.

    On a topic that was never used, invalid data are ignored (ServerCnx.ignoreUnrecoverableBKException).
    """
    if schema.type == pb.Schema.AutoConsume:
        return
    schemas = topic.broker.schemas
    stored = topic.ledger.total_size if topic.ledger is not None else topic.entries_in
    speaking = any(not one.auto_consume for one in topic.consumers)
    if stored or topic.producers or speaking or schemas.has(topic.schema_id):
        schemas.check_consumer(topic.schema_id, schema, topic.effective_policies.for_schemas)
    else:
        with suppress(InvalidSchemaData):
            _add(topic, schema)
