"""A broker whose state is stored in a database in memory, and its restarts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pcli.minibroker.broker import Broker
from pcli.minibroker.settings import Settings
from pcli.minibroker.storage.broker_storage import DurableBrokerStorage
from tests.minibroker.admin.conftest import Rest
from tests.minibroker.conftest import World
from tests.minibroker.storage.memory_database import MemoryDatabase


class DurableWorld(World):
    """A broker with a database. Output is delivered after the changes that it requires are written."""

    def __init__(self, **settings: Any) -> None:
        self.database = MemoryDatabase()
        self._settings = settings
        super().__init__(**settings)
        self._start()

    def _start(self) -> None:
        self.storage = DurableBrokerStorage(self.database)
        self._written = 0
        self.broker = Broker(
            Settings(**self._settings), service_url="pulsar://127.0.0.1:6650", storage=self.storage, now=self.now
        )
        self.clients = {}
        self.rest = Rest(self)

    def write(self) -> None:
        """Write all changes, including lazy ones."""
        batch = self.storage.seal()
        self.database.write(batch)
        self.storage.written(batch)
        self._written = batch.number

    def deliver(self) -> None:
        if self.broker.storage.durable and self.storage.required > self._written:
            self.write()
        super().deliver()

    def restart(self, *, lazy: bool = True) -> None:
        """Kill the broker and start it again. If ``lazy`` is not set, lazy changes are lost."""
        for failure in self.broker.failures:
            raise failure
        if lazy:
            self.write()
        self._start()


@pytest.fixture
def make_world() -> Iterator[Any]:
    """Create a broker with other settings. At the end no broker may have had an internal error."""
    worlds: list[DurableWorld] = []

    def make(**settings: Any) -> DurableWorld:
        worlds.append(DurableWorld(**settings))
        return worlds[-1]

    yield make
    for world in worlds:
        for failure in world.broker.failures:
            raise failure
