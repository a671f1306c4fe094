"""The ASGI application: requests to endpoints, and their values to answers.

Rules of this file
1. A request is one turn of the broker. The core is told the time before, and settles after.
2. Errors are ``{"reason": …}``. What the table has not is a 404 that says so.
3. A path is matched as it was sent, still percent-encoded: a topic's name may hold an encoded slash.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, RestError
from pcli.minibroker.errors import Refused
from pcli.minibroker.policies.policy_table import BadValueError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from pcli.minibroker.broker import Broker

__all__ = ["application"]

_MOST: Final = 16 * 1024 * 1024
"""Bytes of a body."""

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
"""Of what the core refuses; anything else is a 500."""

_Asgi = Callable[[Any, Any, Any], Awaitable[None]]


def application(broker: Broker, now: Callable[[], int]) -> _Asgi:
    """The application. ``now``: milliseconds since 1970, asked once for each request."""
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
        return _error(error.status_code, f"pcli's mini-broker does not have {request.method} {request.scope['path']}")

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
            body = await _body(request)
            call = Call(
                broker,
                {"domain": domain, **request.path_params},
                dict(request.query_params),
                body,
                request.headers.get("content-type", ""),
            )
            broker.begin_turn(now())
            value = endpoint.function(call)
        except RestError as error:
            return _error(error.status, error.reason)
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


async def _body(request: Request) -> Any:
    """The JSON of the body; None where there is none."""
    read = bytearray()
    async for piece in request.stream():
        read += piece
        if len(read) > _MOST:
            raise RestError(413, f"The body has more than {_MOST} bytes")
    if not read.strip():
        return None
    try:
        return json.loads(read)
    except (ValueError, RecursionError) as error:
        raise RestError(400, f"The body is no JSON: {error}") from None


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
    """UTF-8 in a header, one line."""
    return " ".join(text.splitlines()).encode().decode("latin-1")


def _error(status: int, reason: str) -> Response:
    return _answer(Reply(status, {"reason": reason}))
