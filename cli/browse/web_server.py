"""The application in a web browser: each page that is opened runs `pcli browse` in a process of its own.

Rules of this file
1. The server listens on loopback only, and every path begins with a random token. Any other request, including those
   for scripts and WebSockets, gets status 403.
2. The page is our own template and requests nothing from other hosts. A Content-Security-Policy enforces this.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import logging
import secrets
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import aiohttp_jinja2
import jinja2
from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server

from pcli.cli.common.output import write_line
from pcli.codec.errors import LocalError
from pcli.replay.sources.lazy_file import reason_of

_HOST: Final = "127.0.0.1"
_GRACE_S: Final = 5
"""Seconds after which the process of a closed page is killed."""

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebServer(Server):
    """The server of one command."""

    def __init__(self, arguments: Sequence[str], title: str, listening: socket.socket, token: str) -> None:
        """``arguments`` are those of the command that each page runs. ``listening`` is a bound socket."""
        port = listening.getsockname()[1]
        program = [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-m", "pcli.cli"]
        command = "exec " + shlex.join([*program, *arguments])  # the process itself, not a shell
        super().__init__(command, host=_HOST, port=port, title=title, templates_path=Path(__file__).parent)
        self._socket = listening
        self._token = token
        self.url = f"http://{_HOST}:{port}/{token}/"
        """The address of the page."""

    def initialize_logging(self) -> None:
        """Print errors only."""
        logging.getLogger("textual-serve").setLevel(logging.ERROR)

    async def on_startup(self, app: web.Application) -> None:
        """Print the address of the page."""
        write_line(f"browse URL  {self.url}")
        sys.stdout.flush()

    async def _make_app(self) -> web.Application:
        """Return the application with all routes below the token."""
        app = web.Application(middlewares=[self._protect])
        aiohttp_jinja2.setup(app, loader=jinja2.FileSystemLoader(self.templates_path))
        base = f"/{self._token}"
        app.add_routes([
            web.get(f"{base}/", self.handle_index, name="index"),
            web.get(f"{base}/ws", self.handle_websocket, name="websocket"),
            web.static(f"{base}/static", self.statics_path, name="static"),
        ])  # fmt: skip
        app.on_startup.append(self.on_startup)
        return app

    async def _process_messages(self, websocket: web.WebSocketResponse, app_service: AppService) -> None:
        """Process the messages of a page. When the page is closed, end its process, which may not have started yet."""
        try:
            await super()._process_messages(websocket, app_service)
        finally:
            asyncio.get_running_loop().call_later(_GRACE_S, _kill, app_service)

    @web.middleware
    async def _protect(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Refuse requests without the token, and forbid the page to contact other hosts."""
        given = request.path.split("/")[1] if request.path.startswith("/") else ""
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return web.Response(status=403, text="403: the address of this page contains a token\n")
        response = await handler(request)
        if not response.prepared:
            response.headers.update(_headers(self.port))
        return response

    def serve(self, debug: bool = False) -> None:
        """Serve until Ctrl-C or SIGTERM."""
        self.initialize_logging()
        web.run_app(self._make_app(), sock=self._socket, print=None, access_log=None)


def _kill(app_service: AppService) -> None:
    process = app_service._process
    if process is not None and process.returncode is None:
        process.kill()


def _headers(port: int) -> dict[str, str]:
    here = f"ws://{_HOST}:{port}"
    policy = f"default-src 'self' 'unsafe-inline' data: blob:; connect-src 'self' {here}; form-action 'none'"
    return {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'; base-uri 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }


def serve(arguments: Sequence[str], title: str, port: int) -> None:
    """Serve a command on a port, or on any free port if it is 0. Raises LocalError if the port is in use."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((_HOST, port))
    except OSError as error:
        listening.close()
        reason = "the port is in use" if error.errno == errno.EADDRINUSE else reason_of(error)
        raise LocalError(f"--port {port}: {reason}") from None
    with listening:
        WebServer(arguments, title, listening, secrets.token_urlsafe(24)).serve()
