"""The ASGI application, which passes requests to endpoints and converts the returned values to responses.

Rules of this file
1. A request is one turn of the broker: `begin_turn` is called with the current time before the request, and
   `finish_turn` is called after the request.
2. The body of an error is ``{"reason": …}``. For a path that is not in the table, the response is a 404 with an
   explanation.
3. Paths are matched in percent-encoded form, as sent, because a topic's name can contain an encoded slash.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, RestError
from pcli.minibroker.admin.permissions import check_permission
from pcli.minibroker.errors import Refused
from pcli.minibroker.policies.policy_table import BadValueError
from pcli.minibroker.security.authentication import AuthenticationError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from pcli.minibroker.broker import Broker
    from pcli.minibroker.security.authentication import Principal

__all__ = ["application"]

_log: Final = logging.getLogger("pcli.minibroker")
_MOST: Final = 16 * 1024 * 1024
"""Maximum size of a body in bytes."""

_STATUS: Final = {
    pb.TopicNotFound: 404,
    pb.SubscriptionNotFound: 404,
    pb.InvalidTopicName: 412,
    pb.ConsumerBusy: 412,
    pb.ProducerBusy: 412,
    pb.NotAllowedError: 409,
    pb.IncompatibleSchema: 409,
    pb.TopicTerminatedError: 409,
    pb.ServiceNotReady: 503,
}
"""The status for each error of the broker. All other errors have status 500."""

_Asgi = Callable[[Any, Any, Any], Awaitable[None]]


def application(broker: Broker, now: Callable[[], int]) -> _Asgi:
    """Return the application. ``now``, called once per request, returns milliseconds since 1970."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    from pcli.minibroker.admin.endpoint_table import ENDPOINTS

    routes = []
    for endpoint in ENDPOINTS:
        for domain in ("persistent", "non-persistent") if "{domain}" in endpoint.path else ("",):
            path = endpoint.path.replace("{domain}", domain)
            serve = _server(broker, now, endpoint, domain)
            routes.append(Route(path, serve, methods=[endpoint.method]))

    async def missing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _error(
            error.status_code, f"pcli's mini-broker does not support {request.method} {request.scope['path']}"
        )

    served = Starlette(routes=routes, exception_handlers={404: missing, 405: missing})

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
        try:
            principal = _authenticate(broker, request, now())
            body = await _body(request)
            call = Call(
                broker,
                {"domain": domain, **request.path_params},
                dict(request.query_params),
                body,
                request.headers.get("content-type", ""),
            )
            check_permission(call, endpoint, principal.role if principal is not None else "")
            broker.begin_turn(now())
            value = endpoint.function(call)
        except RestError as error:
            return _error(error.status, error.reason, error.media)
        except BadValueError as error:
            return _error(error.status, error.text)
        except LocalError as error:
            return _error(412, error.text)
        except Refused as refused:
            return _error(_STATUS.get(pb.ServerError.ValueType(refused.code), 500), refused.text)
        except Exception as fault:
            broker.report(fault)
            return _error(500, f"{type(fault).__name__}: {fault}")
        finally:
            broker.finish_turn()
        return _answer(value)

    return serve


def _authenticate(broker: Broker, request: Request, now: int) -> Principal | None:
    """Return the principal of a request; None without authentication. Raises 401."""
    if broker.authentication is None:
        return None
    certificate_role = request.scope.get("certificate_role", "")
    try:
        return broker.authentication.authenticate_http(request.headers, certificate_role, now)
    except AuthenticationError as fault:
        _log.warning("a request was refused: %s", fault)
        raise RestError(401, "Authentication required", media="text/html") from None


async def _body(request: Request) -> Any:
    """Return the JSON of the body, or None if there is no body."""
    read = bytearray()
    async for piece in request.stream():
        read += piece
        if len(read) > _MOST:
            raise RestError(413, f"The body has more than {_MOST} bytes")
    if not read.strip():
        return None
    try:
        return json.loads(read, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise RestError(400, f"The body is invalid JSON: {error}") from None


def _reject_constant(name: str) -> None:
    """Raise ValueError for NaN and Infinity, which Python's parser accepts."""
    raise ValueError(f"{name} is not a JSON value")


def _answer(value: Any) -> Response:
    from starlette.responses import Response

    reply = value if isinstance(value, Reply) else Reply(204 if value is None else 200, value)
    content = reply.value
    if content is None:
        content = b""
    elif reply.media == "application/json" and not isinstance(content, bytes):
        content = json.dumps(content, separators=(",", ":"))
    headers = {name: _header(text) for name, text in reply.headers.items()}
    return Response(content, reply.status, headers, None if reply.status == 204 else reply.media)


def _header(text: str) -> str:
    """Return a text as a one-line header value in UTF-8."""
    return " ".join(text.splitlines()).encode().decode("latin-1")


def _error(status: int, reason: str, media: str = "application/json") -> Response:
    value = {"reason": reason} if media == "application/json" else reason
    return _answer(Reply(status, value, media=media))
