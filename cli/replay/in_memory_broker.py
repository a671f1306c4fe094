"""The mini-broker for a replay without --to: the broker's core and the player, without a socket between them.

Rules of this file
1. Only this module imports both the broker and the player.
2. Broker and player use the capture's time. The clock stops while they exchange commands, and jumps to the next event:
   a command, a timer of the broker, or the end of a wait. Half an hour of capture therefore takes a second, delayed
   messages and rate limits keep their times, and two replays of one capture are equal.
3. Calls of the REST interface are passed to the broker's own application, in the same turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.minibroker.broker import Broker
    from pcli.minibroker.connection import Connection
    from pcli.replay.player.player import Action, Player
    from pcli.replay.player.script.script import RestCall

_URL: Final = "pulsar://localhost:6650"


class InMemoryBroker:
    """The core of the mini-broker. It exchanges bytes with a player."""

    def __init__(self, settings: Mapping[str, str], now: int, *, version: str = "") -> None:
        """``now`` is in milliseconds since 1970, and ``version`` the version of the captured broker, empty if unknown.

        Raises LocalError for an unknown setting or an invalid value.
        """
        from pcli.minibroker.broker import Broker
        from pcli.minibroker.settings import Settings
        from pcli.minibroker.versions import nearest_version

        base = Settings.of_version(nearest_version(version))
        read = Settings.from_pairs([f"{name}={value}" for name, value in settings.items()], base)
        self.broker: Broker = Broker(read, service_url=_URL, now=now)
        self.now = now
        self._application: Any = None
        self._of: dict[int, Connection] = {}
        self._streams: dict[Connection, int] = {}

    def play(self, player: Player, progress: Callable[[float], None]) -> None:
        """Run the player to its end. Raise the first internal error that occurred in the broker."""
        while not player.done:
            actions = player.actions(self.now)
            if actions:
                self._do(player, actions)
                progress(player.progress)
                continue
            self._advance_clock(player)
        for failure in self.broker.failures:
            raise failure

    def _advance_clock(self, player: Player) -> None:
        due, timer = player.deadline, self.broker.deadline
        if due is None or due <= self.now:
            return
        self.now = due if timer is None else max(self.now, min(due, timer))
        self.broker.advance(self.now)
        self._flush(player)

    def _do(self, player: Player, actions: list[Action]) -> None:
        from pcli.replay.player.player import CloseConnection, OpenConnection, SendCommand
        from pcli.replay.player.script.script import RestCall

        for action in actions:
            match action:
                case OpenConnection(stream):
                    client = player.script.connections[stream].client
                    self._of[stream] = connection = self.broker.connect(client, self.now)
                    self._streams[connection] = stream
                case SendCommand(stream, data):
                    if self._of[stream] in self._streams:
                        self.broker.receive(self._of[stream], data, self.now)
                case CloseConnection(stream):
                    self._close_connection(self._of[stream])
                case RestCall():
                    player.answered(action, self.call(action))
            self._flush(player)

    def _close_connection(self, connection: Connection) -> None:
        if self._streams.pop(connection, None) is not None:
            self.broker.disconnected(connection, self.now)

    def _flush(self, player: Player) -> None:
        broker = self.broker
        while split_literal := broker.drain():
            for connection, data in split_literal:
                stream = self._streams.get(connection)
                if stream is None:
                    continue
                if data:
                    self._do(player, player.receive(stream, data))
                if connection.closing:
                    player.lost(stream)
                    self._close_connection(connection)
            broker.finish_turn()
        broker.take_reading_changes()

    # -- REST calls ------------------------------------------------------------------------------------------------

    def call(self, call: RestCall) -> int:
        """Make one call and return its status. Raises LocalError if the broker does not respond."""
        if call.method == "RESTART":
            self._restart()
            return 204
        path, _, query = call.path.partition("?")
        body = b"" if call.body is None else json.dumps(call.body).encode()
        scope = {
            "type": "http",
            "method": call.method,
            "path": f"/admin/v2/{path}",
            "raw_path": f"/admin/v2/{path}".encode(),
            "query_string": query.encode(),
            "headers": [(b"content-type", b"application/json")],
        }
        return self._request(scope, body)

    def _request(self, scope: dict[str, Any], body: bytes) -> int:
        """Run the application, which waits only for the request. Return the status."""
        if self._application is None:
            from pcli.minibroker.admin import application

            self._application = application(self.broker, lambda: self.now)
        responses: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            responses.append(message)

        running = self._application(scope, receive, send)
        try:
            running.send(None)
        except StopIteration:
            return int(responses[0]["status"])
        raise LocalError(f"{scope['method']} {scope['path']}: the broker did not respond")

    def _restart(self) -> None:
        """Simulate a restart of the broker: close topics and connections, and roll over ledgers."""
        broker = self.broker
        broker.begin_turn(self.now)
        for topic in list(broker.topics.values()):
            broker.unload(topic)
        for connection in list(broker.connections):
            connection.close("the broker restarts")
        broker.finish_turn()
