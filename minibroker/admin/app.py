"""The ASGI application, which passes requests to endpoints and converts the returned values to responses.

Rules of this file
1. A request is one turn of the broker: `begin_turn` is called with the current time before the request, and
   `finish_turn` is called after the request.
2. The body of an error is ``{"reason": …}``. An error in the body of a request has Jackson's text, and an error that
   the real broker's HTTP server reports (for example an unknown path) is an HTML page.
3. Paths are matched in percent-encoded form, as sent, because a topic's name can contain an encoded slash.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.minibroker.admin.endpoint import VARIANTS, Call, Endpoint, PageError, RedirectionError, Reply, RestError
from pcli.minibroker.admin.error_page import error_page
from pcli.minibroker.admin.permission_checks import UNAUTHENTICATED, check_permission
from pcli.minibroker.errors import Refused
from pcli.minibroker.policies.errors import BadValueError
from pcli.minibroker.policies.java_types import EmptyBodyError, convert
from pcli.minibroker.policies.json_parser import JsonError
from pcli.minibroker.security.authentication import AuthenticationError
from pcli.minibroker.security.authorization import required_roles

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from pcli.minibroker.broker import Broker
    from pcli.minibroker.settings import Settings

_log: Final = logging.getLogger("pcli.minibroker")

_STATUS: Final = {
    pb.TopicNotFound: 404,
    pb.SubscriptionNotFound: 404,
    pb.InvalidTopicName: 412,
    pb.ConsumerBusy: 412,
    pb.ProducerBusy: 412,
    pb.NotAllowedError: 409,
    pb.IncompatibleSchema: 409,
    pb.MetadataError: 412,
    pb.TopicTerminatedError: 409,
    pb.ServiceNotReady: 503,
}
"""The status for each error of the broker. All other errors have status 500."""

_LOOKUP: Final = re.compile(r"/lookup/v2/topic(/[^/]+){4}(/bundle)?")
"""The path of a lookup. If there is no such endpoint, the domain of the topic is unknown."""

_Asgi = Callable[[Any, Any, Any], Awaitable[None]]


def application(broker: Broker, now: Callable[[], int]) -> _Asgi:
    """Return the application. ``now``, called once per request, returns milliseconds since 1970."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    from pcli.minibroker.admin.endpoint_table import ENDPOINTS

    routes = []
    for endpoint in ENDPOINTS:
        if endpoint.setting and not getattr(broker.settings, endpoint.setting):
            continue
        name = next((name for name in VARIANTS if f"{{{name}}}" in endpoint.path), "domain")
        for value in VARIANTS[name] if f"{{{name}}}" in endpoint.path else ("",):
            serve = _server(broker, now, endpoint, value)
            routes.append(Route(endpoint.path.replace(f"{{{name}}}", value), serve, methods=[endpoint.method]))

    async def missing(request: Request, error: Exception) -> Response:
        return _page(broker, 500 if _LOOKUP.fullmatch(request.scope["path"]) else 404, request)

    async def wrong_method(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        page = _page(broker, 405, request)
        page.headers.update(error.headers or {})
        return page

    served = Starlette(routes=routes, exception_handlers={404: missing, 405: wrong_method})

    async def with_raw_path(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or scope["path"].encode()
            path = raw.partition(b"?")[0].decode("latin-1")
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await served(scope, receive, send)

    return with_raw_path


def _server(
    broker: Broker, now: Callable[[], int], endpoint: Endpoint, domain: str
) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        called = False
        try:
            roles = () if endpoint.path in UNAUTHENTICATED else _roles(broker, request, now())
            data, media = await _body(request, broker.settings), request.headers.get("content-type", "")
            call = Call(
                broker,
                {"domain": domain, **request.path_params},
                dict(request.query_params),
                media=media,
                method=request.method,
                url=_url(request.scope),
                headers=request.headers,
            )
            endpoint.check_numbers(call)
            kind = endpoint.body_type(media)
            if kind is not None:
                call.body = convert(data, kind)
            check_permission(call, endpoint, roles)
            broker.begin_turn(now())
            called = endpoint.method != "GET"
            value = endpoint.function(call)
        except Exception as error:
            return _failure(broker, request, error)
        finally:
            if called and broker.documents is not None:
                broker.documents.changed_by_request({"domain": domain, **request.path_params})
            broker.finish_turn()
        return _answer(value)

    return serve


def _url(scope: Mapping[str, Any]) -> str:
    """Return the URL of a request, with any bytes in its query; starlette decodes only queries in UTF-8."""
    query = scope["query_string"].decode("latin-1")
    return f"{scope.get('scheme', 'http')}://broker{scope['path']}?{query}"


def _failure(broker: Broker, request: Request, error: Exception) -> Response:
    """Return the response to a request that was not successful."""
    match error:
        case EmptyBodyError():
            return _answer(Reply(400, b"The request entity cannot be empty."))
        case RedirectionError():
            return _answer(Reply(307, b"", {"location": str(error)}))
        case PageError():
            return _page(broker, error.status, request, error.text)
        case JsonError():
            overflow = error.overflow and not error.path
            return _page(broker, 500, request) if overflow else _error(400, error.full, "text/plain")
        case RestError():
            return _error(error.status, error.reason, error.media)
        case BadValueError():
            return _error(error.status, error.text) if error.text else _page(broker, error.status, request)
        case LocalError():
            return _error(412, error.text)
        case Refused():
            return _error(_STATUS.get(pb.ServerError.ValueType(error.code), 500), error.text)
    broker.report(error)
    return _error(500, f"{type(error).__name__}: {error}")


def _roles(broker: Broker, request: Request, now: int) -> tuple[str, ...]:
    """Return the roles that need the permission for a request; none without authentication. Raises 401."""
    if broker.authentication is None:
        return ()
    certificate_role = request.scope.get("certificate_role", "")
    original = request.headers.get("x-original-principal", "")
    try:
        role = broker.authentication.authenticate_http(request.headers, certificate_role, now).role
        if broker.authorization is not None:
            broker.authorization.check_original_principal(role, original, http=True)
    except (AuthenticationError, Refused) as fault:
        _log.warning("a request was refused: %s", fault)
        raise RestError(401, "Authentication required", media="text/html; charset=utf-8") from None
    return required_roles(role, original)


async def _body(request: Request, settings: Settings) -> bytes:
    most = settings.httpMaxRequestSize if settings.httpMaxRequestSize > 0 else settings.maxMessageSize
    read = bytearray()
    async for piece in request.stream():
        read += piece
        if len(read) > most:
            raise RestError(413, f"The body has more than {most} bytes")
    return bytes(read)


def _answer(value: Any) -> Response:
    from starlette.responses import Response

    reply = value if isinstance(value, Reply) else Reply(204 if value is None else 200, value)
    content = reply.value
    if content is None:
        content = b""
    elif reply.media == "application/json" and not isinstance(content, bytes):
        content = json.dumps(content, separators=(",", ":"))
    headers = {name: _header(text) for name, text in reply.headers.items()}
    if reply.status != 204:
        headers["content-type"] = reply.media
    return Response(content, reply.status, headers)


def _header(text: str) -> str:
    """Return a text as a one-line header value in UTF-8."""
    return " ".join(text.splitlines()).encode().decode("latin-1")


def _error(status: int, reason: str, media: str = "application/json") -> Response:
    value = {"reason": reason} if media == "application/json" else reason
    return _answer(Reply(status, value, media=media))


def _page(broker: Broker, status: int, request: Request, text: str = "") -> Response:
    return _answer(error_page(broker.version, status, request, text))
