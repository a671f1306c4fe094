"""GET_SCHEMA and GET_OR_CREATE_SCHEMA (ServerCnx.handleGetSchema, handleGetOrCreateSchema; verified on 4.2.4).

A version that is shorter than eight bytes closes the connection.
If a version is longer than eight bytes, its first eight bytes are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.topics.schema_checks import add_producer_schema

if TYPE_CHECKING:
    from pcli.codec.wire.frame import Frame
    from pcli.minibroker.connection import Connection, Handler

_VERSION_BYTES: Final = 8


def get_schema(connection: Connection, command: pb.CommandGetSchema, _: Frame) -> None:
    """Handle GET_SCHEMA for the latest or a given version. A deletion is a version with a schema of type None."""
    version = None
    if command.HasField("schema_version"):
        if not command.schema_version:
            raise Refused(pb.IncompatibleSchema, "Empty schema version")
        if len(command.schema_version) < _VERSION_BYTES:
            raise RemoteError(f"a schema version of {len(command.schema_version)} bytes")
        version = command.schema_version[:_VERSION_BYTES]
    broker = connection.broker
    schemas, schema_id = broker.schemas, broker.topic_registry.topic_name(command.topic, prefix="").schema_id
    stored, deleted = schemas.get(schema_id, version), schemas.deletion(schema_id, version)
    if stored is not None:
        schema, found = stored.schema, stored.version
    elif deleted is not None:
        schema, found = pb.Schema(name=schema_id, schema_data=b"", type=pb.Schema.Type.Value("None")), deleted
    else:
        raise Refused(pb.TopicNotFound, f"Topic not found or no-schema {command.topic}")
    connection.send_command(
        pb.CommandGetSchemaResponse(request_id=command.request_id, schema=schema, schema_version=found)
    )


def get_or_create_schema(connection: Connection, command: pb.CommandGetOrCreateSchema, _: Frame) -> None:
    """Handle GET_OR_CREATE_SCHEMA. The schema is added like a producer's schema. The topic must exist."""
    try:
        name = connection.broker.topic_registry.topic_name(command.topic, prefix="")
    except Refused as refusal:
        if connection.broker.version.refuses_schema_of_bad_name:
            raise
        raise RemoteError(refusal.text) from None
    topic = connection.broker.topic_registry.load(name)
    if topic is None:
        raise Refused(pb.TopicNotFound, f"Topic not found {name}")
    version = add_producer_schema(
        topic, None if command.schema.type == pb.Schema.Type.Value("None") else command.schema
    )
    connection.send_command(pb.CommandGetOrCreateSchemaResponse(request_id=command.request_id, schema_version=version))


HANDLERS: Final[dict[str, Handler]] = {"GET_SCHEMA": get_schema, "GET_OR_CREATE_SCHEMA": get_or_create_schema}
