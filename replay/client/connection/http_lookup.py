"""Lookup over HTTP, for service URLs with ``http://`` and ``https://`` (HttpLookupService).

Rules of this file (HttpLookupService, HttpClient; 4.2.4)
1. The paths are ``/lookup/v2/topic/…`` for the owner, ``/admin/v2/…/partitions?checkAllowAutoCreation=…``,
   ``/admin/v2/namespaces/…/topics?mode=…`` and ``/admin/v2/schemas/…/schema[/version]``.
2. Status 404 is reported as NotFound. Status 401 is reported as an authentication error and status 403 as an
   authorization error. These errors are not retried. All other errors are retriable.
3. A token is sent as ``Authorization: Bearer``, a password as ``Authorization: Basic``.
4. The broker's web service ignores patterns and hashes and returns all topics. Lookups return no proxies.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.binary_lookup import LookupResult, Mode, Topics, retry
from pcli.replay.client.connection.connection_pool import Address, ServiceHosts, address_of
from pcli.replay.client.connection.errors import ClientFailure

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

_ERRORS: Final = {401: "AuthenticationError", 403: "AuthorizationError", 404: "NotFound"}

_TYPES: Final = {name.upper().replace("_", ""): value for name, value in pb.Schema.Type.items()}
"""Schema types by their names in REST responses (``KEY_VALUE``), from which the underscores are removed."""


class HttpLookup:
    """A lookup service that uses the web service of a broker."""

    def __init__(self, engine: ClientContext, hosts: ServiceHosts) -> None:
        self._engine = engine
        self._hosts = hosts

    def reach(self, done: Callable[[ClientFailure | None], None]) -> None:
        """Check that the next host of the service URL responds. Any status is accepted."""

        def completed(result: ClientFailure | None) -> None:
            done(result if result is not None and result.error == "Connect" else None)

        self._get("admin/v2/brokers/ready", lambda response: None, completed)

    def proxy_of(self, topic: str) -> Address | None:
        """Return None, because HTTP lookups return no proxies."""
        return None

    def broker_of(self, topic: str, done: Callable[[LookupResult | ClientFailure], None]) -> None:
        """Find the broker that serves a topic."""
        listener = self._engine.settings.listenerName
        path = f"lookup/v2/topic/{_path(topic)}" + (f"?listenerName={quote(listener)}" if listener else "")

        def found(response: Any) -> LookupResult | ClientFailure:
            tls = self._engine.url.tls
            url = response.get("brokerUrlTls") if tls else response.get("brokerUrl") or response.get("nativeUrl")
            broker = address_of(url or "")
            return broker if isinstance(broker, ClientFailure) else LookupResult(broker)

        self._get(path, found, done)

    def partitions(self, topic: str, done: Callable[[int | ClientFailure], None], *, create: bool) -> None:
        """Get the number of partitions of a topic, or 0 if it is not partitioned."""
        path = f"admin/v2/{_path(topic)}/partitions?checkAllowAutoCreation={str(create).lower()}"
        retry(self._engine, lambda then: self._get(path, lambda response: int(response["partitions"]), then), done)

    def topics_of(
        self,
        namespace: str,
        mode: Mode.ValueType,
        pattern: str,
        known_hash: str,
        done: Callable[[Topics | ClientFailure], None],
    ) -> None:
        """List all topics of a namespace."""
        path = f"admin/v2/namespaces/{namespace}/topics?mode={Mode.Name(mode)}"
        self._get(path, lambda response: Topics(request_id=0, topics=response, filtered=False, changed=True), done)

    def schema(
        self, topic: str, version: bytes, done: Callable[[pb.CommandGetSchemaResponse | ClientFailure], None]
    ) -> None:
        """Get a schema by its version, or the newest schema."""
        name = TopicName.parse(topic).base
        path = f"admin/v2/schemas/{name.tenant}/{name.namespace}/{quote(name.local, safe='')}/schema"
        if version:
            path += f"/{int.from_bytes(version, 'big', signed=True)}"

        def completed(result: pb.CommandGetSchemaResponse | ClientFailure) -> None:
            none = isinstance(result, ClientFailure) and result.error == "NotFound"
            done(ClientFailure("TopicNotFound", "the topic has no schema") if none else result)

        self._get(path, _schema, completed)

    def _get(self, path: str, read: Callable[[Any], Any], done: Callable[[Any], None]) -> None:
        """Send a GET to the next host. ``read`` converts the response's JSON to the result for ``done``."""
        host, port = self._hosts.next()
        scheme = "https" if self._engine.url.tls else "http"
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

        def fetched(status: int, body: bytes) -> None:
            done(_answer(f"{scheme}://{where}", status, body, read))

        try:
            headers = self._headers()
        except LocalError as fault:
            done(ClientFailure("InvalidConfiguration", fault.text))
            return
        self._engine.fetch(f"{scheme}://{where}/{path}", headers, fetched)

    def _headers(self) -> dict[str, str]:
        return {"Accept": "application/json", **self._engine.settings.security.headers()}


def _path(topic: str) -> str:
    """Return the topic as a REST path, ``persistent/public/default/name`` (TopicName.getLookupName)."""
    name = TopicName.parse(topic)
    parts = (name.domain, name.tenant, name.cluster, name.namespace, quote(name.local, safe=""))
    return "/".join(part for part in parts if part)


def _answer(where: str, status: int, body: bytes, read: Callable[[Any], Any]) -> Any:
    if status == 0:
        return ClientFailure("Connect", f"{where}: {body.decode(errors='replace')}")
    if status != 200:
        return ClientFailure(
            _ERRORS.get(status, "UnknownError"), f"{where} responded with status {status}: {_reason(body)}"
        )
    try:
        return read(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ClientFailure("UnknownError", f"{where} sent an invalid response")


def _reason(body: bytes) -> str:
    """Return a broker's error text on one line: ``reason`` or ``message`` in the JSON, or else the whole body."""
    text = body.decode(errors="replace")
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        response = json.loads(text)
        text = str(response.get("reason") or response["message"])
    return " ".join(text.split())[:200]


def _schema(response: Any) -> pb.CommandGetSchemaResponse:
    schema = pb.Schema(
        name="",
        type=_TYPES[response["type"].replace("_", "")],
        schema_data=response["data"].encode(),
        properties=[pb.KeyValue(key=key, value=value) for key, value in (response.get("properties") or {}).items()],
    )
    version = int(response["version"]).to_bytes(8, "big", signed=True)
    return pb.CommandGetSchemaResponse(request_id=0, schema=schema, schema_version=version)
