"""Where a topic is, over HTTP: for service URLs of ``http://`` and ``https://`` (HttpLookupService).

Rules of this file (HttpLookupService, HttpClient; 4.2.4)
1. ``/lookup/v2/topic/…`` for the owner, ``/admin/v2/…/partitions?checkAllowAutoCreation=…``,
   ``/admin/v2/namespaces/…/topics?mode=…``, ``/admin/v2/schemas/…/schema[/version]``.
2. 404 is NotFound; 401 and 403 are about who we are, and no second try helps. Everything else may be tried again.
3. A token goes as ``Authorization: Bearer``.
4. Patterns and hashes are not evaluated by this side of a broker: all topics come, unfiltered. There are no proxies.
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
from pcli.replay.client.connection.binary_lookup import Found, Mode, Topics, retry
from pcli.replay.client.connection.connection_pool import Address
from pcli.replay.client.connection.errors import Refusal
from pcli.replay.client.connection.service_hosts import Hosts, address_of

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

__all__ = ["HttpLookup"]

_ERRORS: Final = {401: "AuthenticationError", 403: "AuthorizationError", 404: "NotFound"}

_TYPES: Final = {name.upper().replace("_", ""): value for name, value in pb.Schema.Type.items()}
"""Schema types as REST writes them (``KEY_VALUE``), without their lines."""


class HttpLookup:
    """Asks the web service of a broker."""

    def __init__(self, engine: ClientContext, hosts: Hosts) -> None:
        self._engine = engine
        self._hosts = hosts

    def reach(self, done: Callable[[Refusal | None], None]) -> None:
        """Whether the next host of the service URL answers, whatever it says."""

        def told(result: Refusal | None) -> None:
            done(result if result is not None and result.error == "Connect" else None)

        self._get("admin/v2/brokers/ready", lambda answer: None, told)

    def proxy_of(self, topic: str) -> Address | None:
        """None: there are none."""
        return None

    def broker_of(self, topic: str, done: Callable[[Found | Refusal], None]) -> None:
        """The broker that serves a topic."""
        listener = self._engine.settings.listenerName
        path = f"lookup/v2/topic/{_path(topic)}" + (f"?listenerName={quote(listener)}" if listener else "")

        def found(answer: Any) -> Found | Refusal:
            tls = self._engine.url.tls
            url = answer.get("brokerUrlTls") if tls else answer.get("brokerUrl") or answer.get("nativeUrl")
            broker = address_of(url or "")
            return broker if isinstance(broker, Refusal) else Found(broker)

        self._get(path, found, done)

    def partitions(self, topic: str, done: Callable[[int | Refusal], None], *, create: bool) -> None:
        """How many partitions a topic has; 0: it has none."""
        path = f"admin/v2/{_path(topic)}/partitions?checkAllowAutoCreation={str(create).lower()}"
        retry(self._engine, lambda then: self._get(path, lambda answer: int(answer["partitions"]), then), done)

    def topics_of(
        self,
        namespace: str,
        mode: Mode.ValueType,
        pattern: str,
        known_hash: str,
        done: Callable[[Topics | Refusal], None],
    ) -> None:
        """The topics of a namespace, all of them."""
        path = f"admin/v2/namespaces/{namespace}/topics?mode={Mode.Name(mode)}"
        self._get(path, lambda answer: Topics(request_id=0, topics=answer, filtered=False, changed=True), done)

    def schema(self, topic: str, version: bytes, done: Callable[[pb.CommandGetSchemaResponse | Refusal], None]) -> None:
        """A schema by its version, or the newest one."""
        name = TopicName.parse(topic).base
        path = f"admin/v2/schemas/{name.tenant}/{name.namespace}/{quote(name.local, safe='')}/schema"
        if version:
            path += f"/{int.from_bytes(version, 'big', signed=True)}"

        def told(result: pb.CommandGetSchemaResponse | Refusal) -> None:
            none = isinstance(result, Refusal) and result.error == "NotFound"
            done(Refusal("TopicNotFound", "it has no schema") if none else result)

        self._get(path, _schema, told)

    def _get(self, path: str, read: Callable[[Any], Any], done: Callable[[Any], None]) -> None:
        """Ask, and read the answer's JSON."""
        host, port = self._hosts.next()
        scheme = "https" if self._engine.url.tls else "http"
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

        def fetched(status: int, body: bytes) -> None:
            done(_answer(f"{scheme}://{where}", status, body, read))

        try:
            headers = self._headers()
        except LocalError as fault:
            done(Refusal("InvalidConfiguration", fault.text))
            return
        self._engine.fetch(f"{scheme}://{where}/{path}", headers, fetched)

    def _headers(self) -> dict[str, str]:
        security = self._engine.settings.security
        headers = {"Accept": "application/json"}
        if security.method == "token":
            headers["Authorization"] = f"Bearer {security.data().decode(errors='replace')}"
        return headers


def _path(topic: str) -> str:
    """``persistent/public/default/name``, as REST has it (TopicName.getLookupName)."""
    name = TopicName.parse(topic)
    parts = (name.domain, name.tenant, name.cluster, name.namespace, quote(name.local, safe=""))
    return "/".join(part for part in parts if part)


def _answer(where: str, status: int, body: bytes, read: Callable[[Any], Any]) -> Any:
    if status == 0:
        return Refusal("Connect", f"{where}: {body.decode(errors='replace')}")
    if status != 200:
        return Refusal(_ERRORS.get(status, "UnknownError"), f"{where} answers {status}: {_reason(body)}")
    try:
        return read(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Refusal("UnknownError", f"{where} answers what is no answer of a broker")


def _reason(body: bytes) -> str:
    """What a broker says of an error: ``reason`` or ``message`` of its JSON, or the text as it is, on one line."""
    text = body.decode(errors="replace")
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        answer = json.loads(text)
        text = str(answer.get("reason") or answer["message"])
    return " ".join(text.split())[:200]


def _schema(answer: Any) -> pb.CommandGetSchemaResponse:
    schema = pb.Schema(
        name="",
        type=_TYPES[answer["type"].replace("_", "")],
        schema_data=answer["data"].encode(),
        properties=[pb.KeyValue(key=key, value=value) for key, value in (answer.get("properties") or {}).items()],
    )
    version = int(answer["version"]).to_bytes(8, "big", signed=True)
    return pb.CommandGetSchemaResponse(request_id=0, schema=schema, schema_version=version)
