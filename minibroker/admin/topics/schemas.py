"""Schemas over HTTP (SchemasResourceBase): read, store and delete them, check compatibility, and find versions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.proto import pb
from pcli.minibroker.admin.body_types import SCHEMA
from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, Reply, RestError, unexpected
from pcli.minibroker.errors import Refused
from pcli.minibroker.schema.registry import TYPE_NAMES, InvalidSchemaData, version_number

if TYPE_CHECKING:
    from pcli.minibroker.schema.registry import StoredSchema

_ALL: Final = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
_ONE: Final = f"{_ALL}/schema"

_NUMBERS: Final = {word: number for number, word in TYPE_NAMES.items()}


def _id(call: Call) -> str:
    call.path = {**call.path, "domain": "persistent"}
    return call.topic_name.schema_id


def _shown(stored: StoredSchema) -> dict[str, Any]:
    schema = stored.schema
    return {
        "version": version_number(stored.version),
        "type": TYPE_NAMES[schema.type],
        "timestamp": stored.timestamp,
        "data": _key_value_text(schema) if schema.type == pb.Schema.KeyValue else _text(schema.schema_data),
        "properties": {pair.key: pair.value for pair in schema.properties},
    }


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _key_value_text(schema: pb.Schema) -> str:
    """Convert ``i32 size, key, i32 size, value`` to the JSON object that the REST API uses."""
    data, position, halves = schema.schema_data, 0, []
    for name in ("key", "value"):
        size = max(int.from_bytes(data[position : position + 4], "big", signed=True), 0)
        half = _text(data[position + 4 : position + 4 + size])
        halves.append(f'"{name}":{half or chr(34) * 2}')
        position += 4 + size
    return f"{{{','.join(halves)}}}"


def _key_value_data(text: str) -> bytes:
    """Convert the JSON object of the REST API to ``i32 size, key, i32 size, value``. Raises 422 if it is invalid."""
    try:
        halves = json.loads(text)
        words = [halves[name] for name in ("key", "value")]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise RestError(422, "A KEY_VALUE schema must be an object with key and value") from None
    data = [(json.dumps(word, separators=(",", ":")) if word else "").encode() for word in words]
    return b"".join(len(half).to_bytes(4, "big") + half for half in data)


def _get(call: Call) -> Any:
    version = call.parsed("version").to_bytes(8, "big", signed=True) if "version" in call.path else None
    stored = call.broker.schemas.get(_id(call), version)
    if stored is None:
        raise RestError(404, "Schema not found")
    return _shown(stored)


def _get_all(call: Call) -> Any:
    return {"getSchemaResponses": [_shown(stored) for stored in call.broker.schemas.versions(_id(call))]}


def _read(call: Call) -> pb.Schema:
    body = call.body or {}
    if str(body.get("type")) not in _NUMBERS:
        raise RestError(422, "The body must be a schema: type, schema, properties")
    properties, text = body.get("properties") or {}, body.get("schema") or ""
    kind = _NUMBERS[str(body["type"])]
    return pb.Schema(
        name=call.topic_name.local,
        schema_data=_key_value_data(text) if kind == pb.Schema.KeyValue else text.encode(),
        type=pb.Schema.Type.ValueType(kind),
        properties=[pb.KeyValue(key=key, value=value or "") for key, value in properties.items()],
    )


def _post(call: Call) -> Any:
    schema_id = _id(call)
    call.namespace()
    try:
        version = call.broker.schemas.put(schema_id, _read(call), _effective(call), call.broker.now)
    except Refused as refused:
        raise PageError(422 if isinstance(refused, InvalidSchemaData) else 409, refused.text) from None
    return {"version": {"version": version_number(version)}}


def _effective(call: Call) -> Any:
    """Return the function that finds settings. A request may add a schema where clients may not."""
    name, effective = call.topic_name, call.broker.policies.effective
    return lambda setting: setting == "isAllowAutoUpdateSchemaEnabled" or effective(name, setting)


def _delete(call: Call) -> Any:
    version = call.broker.schemas.delete(_id(call), call.broker.now)
    return {"version": version_number(version)}


def _compatibility(call: Call) -> Reply:
    """Return that a schema is compatible. Raises 500 if it is not, as on the real broker."""
    schema_id, effective = _id(call), _effective(call)
    call.namespace()
    try:
        call.broker.schemas.check(schema_id, _read(call), effective)
    except Refused as refused:
        kind = "InvalidSchemaDataException" if isinstance(refused, InvalidSchemaData) else "IncompatibleSchemaException"
        raise unexpected(refused.text, f"org.apache.pulsar.broker.service.schema.exceptions.{kind}") from None
    strategy = effective("schemaCompatibilityStrategy")
    return Reply(202, {"schemaCompatibilityStrategy": strategy, "compatibility": True})


def _version(call: Call) -> Any:
    """Return the version of a schema, or -1 if it is not stored."""
    found = call.broker.schemas.find(_id(call), _read(call))
    return {"version": -1 if found is None else version_number(found)}


ENDPOINTS: Final = (
    Endpoint("GET", _ONE, _get, "the latest schema of a topic"),
    Endpoint("GET", f"{_ONE}/{{version}}", _get, "a schema by its version"),
    Endpoint("GET", f"{_ALL}/schemas", _get_all, "all schemas of a topic"),
    Endpoint("POST", _ONE, _post, "store a schema", SCHEMA),
    Endpoint("DELETE", _ONE, _delete, "delete the schemas of a topic"),
    Endpoint("POST", f"{_ALL}/compatibility", _compatibility, "whether a schema could be stored", SCHEMA),
    Endpoint("POST", f"{_ALL}/version", _version, "the version of a stored schema", SCHEMA),
)
