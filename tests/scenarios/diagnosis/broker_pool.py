"""The brokers of a run: one for each set of settings, shared by scenarios, and brokers for single scenarios."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from scenarios.brokers import BrokerError, mini_broker, real_broker
from scenarios.connections import Broker
from scenarios.diagnosis.plan import Plan
from scenarios.diagnosis.tokens import SETTINGS, signed


class Brokers:
    """Brokers that are started when the first scenario needs them, and stopped at the end of the run."""

    def __init__(self, start: Path | None, settings: tuple[str, ...], stack: ExitStack) -> None:
        """``start`` is the script of a real broker, None for mini-brokers; all brokers have the ``settings``."""
        self._start, self._settings, self._stack = start, settings, stack
        self._lock = threading.Lock()
        self._shared: dict[tuple[str, ...], Broker | BrokerError] = {}

    def use(self, broker: Broker) -> None:
        """Use a running broker for scenarios without settings."""
        self._shared[()] = broker

    def shared(self, settings: tuple[str, ...] = ()) -> Broker:
        """Return the broker with these settings. Raises BrokerError if it cannot be started."""
        with self._lock:
            if settings not in self._shared:
                try:
                    self._shared[settings] = self._stack.enter_context(self._new(settings))
                except BrokerError as fault:
                    self._shared[settings] = fault
            found = self._shared[settings]
        if isinstance(found, BrokerError):
            raise found
        return found

    @contextmanager
    def broker_for(self, plan: Plan) -> Iterator[Broker]:
        """Return the broker for a plan. Raises BrokerError if it cannot be started."""
        if plan.own_broker:
            with self._new(plan.settings) as broker:
                yield broker
        else:
            yield self.shared(plan.settings)

    def _new(self, settings: tuple[str, ...]) -> AbstractContextManager[Broker]:
        token = signed() if settings == SETTINGS else ""
        if self._start is not None:
            return real_broker(self._start, *self._settings, *settings, token=token)
        return mini_broker(*self._settings, *settings, token=token)
