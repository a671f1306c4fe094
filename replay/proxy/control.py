"""The control port of the proxy: toxics, protocol faults and the state of the proxy, changed at run time over HTTP.

Rules of this file
1. The paths under ``/proxies`` and ``/reset`` are those of Toxiproxy's HTTP API, so its clients work. There is one
   proxy with the name ``pulsar``. Its URLs cannot be changed.
2. ``/faults`` contains the protocol faults. If the proxy had none, they apply to new connections only.
3. Byte faults of ``--bytes`` and toxics apply to open connections immediately. ``/reset`` removes all of them.
4. Only programs on this host can use the port. Requests from web pages are refused.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.config import Config
from uvicorn.server import Server

from pcli.codec.errors import LocalError
from pcli.codec.faults import Fault
from pcli.replay.proxy.listener import reason_of
from pcli.replay.proxy.toxics import Toxic

if TYPE_CHECKING:
    from pcli.replay.proxy.listener import Listener

NAME: Final = "pulsar"
"""The name of the proxy."""

_ADDRESS: Final = "127.0.0.1"
_HOSTS: Final = [_ADDRESS, "localhost"]


class _MissingError(LocalError):
    """A proxy, toxic or fault does not exist."""


class ControlPort:
    """The application of the control port. Its methods are called in the event loop of the proxy."""

    def __init__(self, listener: Listener, upstream: str, faults: list[Fault], use_faults: Callable[[], None]) -> None:
        """``faults`` are the protocol faults; ``use_faults`` is called when the list has changed."""
        self._listener, self._upstream, self._faults, self._use_faults = listener, upstream, faults, use_faults
        self._toxics: dict[str, Toxic] = {}
        routes = [
            _route("/version", self._version),
            _route("/proxies", self._all_proxies),
            _route("/proxies/{proxy}", self._show_proxy),
            _route("/proxies/{proxy}", self._change_proxy, "POST", "PATCH"),
            _route("/proxies/{proxy}/toxics", self._list_toxics),
            _route("/proxies/{proxy}/toxics", self._add_toxic, "POST"),
            _route("/proxies/{proxy}/toxics/{toxic}", self._show_toxic),
            _route("/proxies/{proxy}/toxics/{toxic}", self._change_toxic, "POST", "PATCH"),
            _route("/proxies/{proxy}/toxics/{toxic}", self._remove_toxic, "DELETE"),
            _route("/reset", self._reset, "POST"),
            _route("/faults", self._list_faults),
            _route("/faults", self._add_fault, "POST"),
            _route("/faults/{number:int}", self._remove_fault, "DELETE"),
        ]
        self.app = Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS)])

    # -- the proxy

    async def _version(self, _request: Request) -> Any:
        return {"version": version("pulsar-pcli")}

    async def _all_proxies(self, _request: Request) -> Any:
        return {NAME: self._proxy()}

    async def _show_proxy(self, request: Request) -> Any:
        _check_name(request)
        return self._proxy()

    async def _change_proxy(self, request: Request) -> Any:
        _check_name(request)
        enabled = (await _object_of(request)).get("enabled", self._listener.enabled)
        if not isinstance(enabled, bool):
            raise LocalError("enabled: write true or false")
        await self._listener.set_enabled(enabled=enabled)
        return self._proxy()

    async def _reset(self, _request: Request) -> Any:
        await self._listener.set_enabled(enabled=True)
        self._toxics.clear()
        self._listener.set_byte_faults([])
        return None

    def _proxy(self) -> dict[str, Any]:
        toxics = [one.as_json() for one in self._toxics.values()]
        own = [one.fault for one in self._toxics.values()]
        return {
            "name": NAME,
            "listen": self._listener.service_url.partition("://")[2],
            "upstream": self._upstream.partition("://")[2],
            "enabled": self._listener.enabled,
            "toxics": toxics,
            "bytes": [str(fault) for fault in self._listener.byte_faults if fault not in own],
        }

    # -- toxics

    async def _list_toxics(self, request: Request) -> Any:
        _check_name(request)
        return [one.as_json() for one in self._toxics.values()]

    async def _add_toxic(self, request: Request) -> Any:
        _check_name(request)
        toxic = Toxic.from_json(await _object_of(request))
        if toxic.name in self._toxics:
            return JSONResponse({"error": f"toxic {toxic.name} already exists", "status": 409}, 409)
        self._toxics[toxic.name] = toxic
        self._listener.set_byte_faults([*self._listener.byte_faults, toxic.fault])
        return toxic.as_json()

    async def _show_toxic(self, request: Request) -> Any:
        return self._named(request).as_json()

    async def _change_toxic(self, request: Request) -> Any:
        old = self._named(request)
        new = self._toxics[old.name] = old.changed(await _object_of(request))
        faults = [new.fault if fault is old.fault else fault for fault in self._listener.byte_faults]
        self._listener.set_byte_faults(faults)
        return new.as_json()

    async def _remove_toxic(self, request: Request) -> Any:
        toxic = self._toxics.pop(self._named(request).name)
        self._listener.set_byte_faults([fault for fault in self._listener.byte_faults if fault is not toxic.fault])
        return None

    def _named(self, request: Request) -> Toxic:
        _check_name(request)
        name = request.path_params["toxic"]
        if name not in self._toxics:
            raise _MissingError(f"toxic {name} does not exist")
        return self._toxics[name]

    # -- protocol faults

    async def _list_faults(self, _request: Request) -> Any:
        return [_fault_as_json(number, fault) for number, fault in enumerate(self._own_faults())]

    def _own_faults(self) -> list[Fault]:
        """Return the protocol faults without those of scripts."""
        return [fault for fault in self._faults if not fault.is_script]

    async def _add_fault(self, request: Request) -> Any:
        text = (await _object_of(request)).get("fault")
        if not isinstance(text, str):
            raise LocalError("fault: write a string, for example drop times=1 on pulsar.type == 'FLOW'")
        self._faults.append(Fault.parse(text))
        self._use_faults()
        return _fault_as_json(len(self._own_faults()) - 1, self._faults[-1])

    async def _remove_fault(self, request: Request) -> Any:
        number = request.path_params["number"]
        if number >= len(self._own_faults()):
            raise _MissingError(f"fault {number} does not exist")
        self._faults.remove(self._own_faults()[number])
        self._use_faults()
        return None


def bound_control_port(port: int) -> socket.socket:
    """Return a socket that listens on a port of 127.0.0.1. Raises LocalError if the port is in use."""
    try:
        return socket.create_server((_ADDRESS, port))
    except OSError as error:
        raise LocalError(f"control port {port} of {_ADDRESS}: {reason_of(error)}") from None


@asynccontextmanager
async def serving(app: Starlette, sock: socket.socket) -> AsyncIterator[str]:
    """Serve an application on a socket, and yield its URL."""
    server = Server(Config(app, lifespan="off", ws="none", log_config=None, access_log=False, server_header=False))
    task = asyncio.ensure_future(server.serve(sockets=[sock]))
    try:
        yield f"http://{_ADDRESS}:{sock.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await task


def _fault_as_json(number: int, fault: Fault) -> dict[str, Any]:
    return {"number": number, "action": fault.do, "on": fault.on, "seen": fault.seen, "fired": fault.fired}


def _check_name(request: Request) -> None:
    if request.path_params["proxy"] != NAME:
        raise _MissingError(f"proxy {request.path_params['proxy']} does not exist: the proxy has the name {NAME}")


async def _object_of(request: Request) -> dict[str, Any]:
    try:
        found = await request.json()
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # also a lone surrogate, which no response can contain
        raise LocalError(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise LocalError("the body is not a JSON object")
    return found


def _route(path: str, answer: Callable[[Request], Awaitable[Any]], *methods: str) -> Route:
    async def respond(request: Request) -> Response:
        """Respond with the JSON of a result, with 204 if there is none, or with an error in Toxiproxy's form."""
        if "origin" in request.headers:
            return _error(403, "requests from web pages are refused")
        try:
            found = await answer(request)
        except _MissingError as error:
            return _error(404, error.text)
        except LocalError as error:
            return _error(400, error.text)
        if found is None:
            return Response(status_code=204)
        return found if isinstance(found, Response) else JSONResponse(found)

    return Route(path, respond, methods=list(methods or ("GET",)))


def _error(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text, "status": status}, status)
