"""REST without sockets: requests directly to the ASGI application of a broker in memory."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import unquote

import pytest

from pcli.minibroker.admin import application


class Answer:
    """A response."""

    def __init__(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.status, self.headers, self.data = status, headers, data

    @property
    def json(self) -> Any:
        """The parsed body; None if there is none."""
        return json.loads(self.data) if self.data else None


class Rest:
    """A REST client."""

    def __init__(self, world: Any) -> None:
        self._world = world
        world.broker.http_url = "http://127.0.0.1:8080"
        self.reload()

    def reload(self) -> None:
        """Use the current table of endpoints."""
        self._application = application(self._world.broker, lambda: self._world.now)

    def __call__(
        self,
        method: str,
        target: str,
        body: Any = None,
        media: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send one request. The body is sent as JSON, or unchanged if it is bytes."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [
                (name.encode(), value.encode()) for name, value in {"content-type": media, **(headers or {})}.items()
            ],
        }
        said: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: Any) -> None:
            said.append(message)

        asyncio.run(self._application(scope, receive, send))
        self._world.deliver()
        headers = {name.decode(): value.decode("latin-1") for name, value in said[0]["headers"]}
        return Answer(said[0]["status"], headers, b"".join(message.get("body", b"") for message in said[1:]))


@pytest.fixture
def rest(world: Any) -> Rest:
    return Rest(world)


@pytest.fixture
def make_rest(make_world: Any) -> Any:
    """Create a broker with other settings, and its REST client."""

    def make(**settings: Any) -> tuple[Any, Rest]:
        world = make_world(**settings)
        return world, Rest(world)

    return make
