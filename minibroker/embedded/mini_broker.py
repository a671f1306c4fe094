"""MiniBroker: a broker in a separate thread and event loop for tests, used as `with MiniBroker() as broker`.

Rules of this file
1. Every call runs in the broker's thread between two turns, and the caller waits for the result. Calls from any thread
   see a consistent state.
2. Results are plain values (snapshots.py) and frames (conversation_log.py). They remain available after the broker has
   stopped.
3. An invalid setting, a port in use or an unknown name raises LocalError. Only `wait_until` raises TimeoutError. The
   error contains the last state.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, Self, TypeVar

from pcli.codec.errors import LocalError
from pcli.codec.wire.constants import FRAME_OVERHEAD
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.embedded import operations
from pcli.minibroker.embedded.argument_parsing import (
    check_exposure,
    host_of,
    port_of,
    seconds_of,
    setting_text,
    size_of,
)
from pcli.minibroker.embedded.clock_and_faults import BrokerClock, BrokerFaults, Waiter
from pcli.minibroker.embedded.conversation_log import Frames
from pcli.minibroker.server.clock import Clock, ManualClock
from pcli.minibroker.server.intercepting_server import InterceptingServer
from pcli.minibroker.server.tcp_server import new_event_loop
from pcli.minibroker.settings import Settings
from pcli.minibroker.storage.spilling_storage import Pool
from pcli.minibroker.versions import DEFAULT, version_of

if TYPE_CHECKING:
    from pcli.codec.capture.tap import Tap
    from pcli.codec.capture.tap_recording import Recording
    from pcli.codec.faults import Fault
    from pcli.minibroker.embedded.scalable_topics import BrokerScalableTopic
    from pcli.minibroker.embedded.snapshots import TopicState
    from pcli.minibroker.storage.broker_storage import Database

_LOG: Final = 64 << 20
_T = TypeVar("_T")


class MiniBroker:
    """A broker that runs during its ``with`` block, or from `start` to `stop`."""

    def __init__(
        self,
        *,
        port: int = 0,
        http_port: int = 0,
        bind: str = "127.0.0.1",
        insecure: bool = False,
        advertised_address: str = "",
        set: Mapping[str, object] | None = None,  # noqa: A002  (as the option of the command line)
        conf: Settings | None = None,
        topics: str | Iterable[str] = (),
        capture: str | Path | None = None,
        clock: Literal["real", "manual"] = "real",
        max_backlog: int | str | None = None,
        faults: Iterable[Fault] = (),
        latency: str = "",
        taps: Iterable[Tap] = (),
        max_log: int | str = _LOG,
        tls: bool = False,
        tokens: Mapping[str, str | Iterable[str]] | None = None,
        version: str = "",
        data: str | Path | None = None,
        sync: bool = True,
        **settings: object,
    ) -> None:
        """Configure a broker without starting it. Raises LocalError for an unknown setting or an invalid value.

        - ``port``, ``http_port``: 0 means any free port; ``bind``: the address for both; ``advertised_address``: the
          host in the URLs that clients receive
        - ``insecure``: permit other addresses than loopback without authentication
        - ``set`` and other keywords: settings by their names in broker.conf; ``conf``: the initial settings
        - ``version``: the version of Pulsar, ``4.2.4`` (the default) or ``5.0.1``; ``conf`` also has a version
        - ``topics``: topics to create at the start; ``jobs:4`` has four partitions
        - ``capture``: path of a pcapng file that receives every byte of every connection
        - ``clock``: a ``manual`` clock changes only with ``broker.clock.advance(seconds)``
        - ``max_backlog``: maximum size of stored entries, in bytes or as text (``2G``); entries that exceed it are
          refused
        - ``faults``, ``taps``: active from the first connection on
        - ``latency``: time by which all output to clients is delayed, such as ``3ms``
        - ``max_log``: bytes of conversation kept for `frames`; if 0, nothing is kept, and faults can be added only here
        - ``tls``: also listen on TLS ports (any free ports, unless the settings select ports), with a new certificate
          unless the settings name one; see `service_url_tls`, `http_url_tls` and `tls_trust_certs`
        - ``data``: directory that stores the state, so that it survives a restart of the process; ``sync``: whether a
          response waits until the change is on the disk
        - ``tokens``: require tokens from clients; the keys are roles, and each value is ``superuser`` or the actions
          (``produce``, ``consume``) that the role may take in public/default; see `tokens`
        """
        chosen = {**(set or {}), **settings}
        self._roles: dict[str, list[str] | None] = {}
        self.tokens: dict[str, str] = {}
        """The token of each role in the argument ``tokens``."""
        if tokens:
            from pcli.minibroker.embedded.token_arguments import actions_of, create_tokens

            self._roles = {role: actions_of(role, actions) for role, actions in tokens.items()}
            self.tokens, required = create_tokens(self._roles, chosen)
            chosen |= required
        if version and conf is not None:
            raise LocalError("version: cannot be combined with conf, which has a version")
        base = Settings.of_version(version_of(version) if version else DEFAULT) if conf is None else conf
        self._settings = Settings.from_pairs([f"{name}={setting_text(value)}" for name, value in chosen.items()], base)
        if self._roles:
            self._settings.superUserRoles = [role for role, actions in self._roles.items() if actions is None]
        self._settings.brokerServicePort = port_of("port", port)
        self._settings.webServicePort = port_of("http_port", http_port)
        self._settings.bindAddress = host_of("bind", bind)
        if not insecure:
            check_exposure(self._settings)
        advertised = advertised_address or self._settings.advertisedAddress
        self._settings.advertisedAddress = host_of("advertised_address", advertised)
        if clock not in ("real", "manual"):
            raise LocalError(f"clock {clock!r}: must be real or manual")
        names = [topics] if isinstance(topics, str) else topics
        self._topics = [operations.partitioned_name(topic) for topic in names]
        self._capture = capture
        self._recording: Recording | None = None
        self._data, self._sync, self._tls = data, sync, tls
        self._latency = seconds_of("latency", latency) if latency else 0.0
        self._max_backlog = None if max_backlog is None else size_of("max_backlog", max_backlog)
        limit = self._settings.maxMessageSize + FRAME_OVERHEAD
        self._frames = Frames(size_of("max_log", max_log), limit) if max_log else None
        self._taps = [*([self._frames] if self._frames is not None else []), *taps]
        self._time: Clock = ManualClock() if clock == "manual" else Clock()
        self._server: InterceptingServer | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_requested: asyncio.Event | None = None
        self.clock = BrokerClock(self._time, self._run_in_broker)
        """The broker's clock."""
        self.faults = BrokerFaults(faults, self._frames, self._run_in_broker)
        """The injected faults."""

    def __repr__(self) -> str:
        server, thread = self._server, self._thread
        alive = thread is not None and thread.is_alive()
        return (
            f"<MiniBroker {server.service_url}{'' if alive else ' stopped'}>" if server else "<MiniBroker not started>"
        )

    # -- start and stop ------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the broker. When this method returns, the broker accepts connections.

        Raises LocalError if a port is in use or the capture cannot be written.
        """
        if self._server is not None:
            raise LocalError("a MiniBroker can be started only once; use restart() to simulate a restart")
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="pcli-minibroker", daemon=True)
        self._thread.start()
        try:
            ready.result()
        except BaseException:
            self._thread.join()
            raise
        return self

    def stop(self) -> None:
        """Notify the clients and stop. This takes less than a second; a second call has no effect."""
        self._refuse_in_predicate("stop")
        thread, loop = self._thread, self._loop
        if thread is not None and loop is not None and thread.is_alive():
            assert self._stop_requested is not None
            loop.call_soon_threadsafe(self._stop_requested.set)
            thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _run(self, ready: Future[None]) -> None:
        with ExitStack() as stack:
            try:
                taps = [*self._taps, *self._open_capture(stack)]
                database = self._open_database(stack)
                if self._tls:
                    self._enable_tls(stack)
            except BaseException as fault:
                ready.set_exception(fault)
                return
            runner = stack.enter_context(asyncio.Runner(loop_factory=new_event_loop))
            runner.run(self._serve(taps, database, ready))

    def _open_capture(self, stack: ExitStack) -> Iterator[Tap]:
        if self._capture is not None:
            from pcli.codec.capture.tap_recording import Recording

            try:
                file = Path(self._capture).open("wb")  # noqa: SIM115  (the stack closes it)
                stack.callback(_close, file)
                self._recording = Recording(file)
            except OSError as fault:
                raise LocalError(f"{self._capture}: {(fault.strerror or str(fault)).lower()}") from None
            yield self._recording

    def _open_database(self, stack: ExitStack) -> Database | None:
        if self._data is None:
            return None
        from pcli.minibroker.storage.sqlite_database import SqliteDatabase

        database = SqliteDatabase(Path(self._data), sync=self._sync, max_backlog=self._max_backlog)
        return stack.enter_context(closing(database))

    def _enable_tls(self, stack: ExitStack) -> None:
        settings = self._settings
        settings.brokerServicePortTls = max(0, settings.brokerServicePortTls)
        settings.webServicePortTls = max(0, settings.webServicePortTls)
        if not settings.tlsCertificateFilePath:
            from pcli.minibroker.embedded import self_signed_certificate

            folder = stack.enter_context(TemporaryDirectory(prefix="pcli-tls-"))
            host = settings.advertisedAddress or settings.bindAddress
            files = self_signed_certificate.create(Path(folder), host)
            settings.tlsCertificateFilePath, settings.tlsKeyFilePath = str(files.certificate), str(files.key)

    async def _serve(self, taps: list[Tap], database: Database | None, ready: Future[None]) -> None:
        self._loop, self._stop_requested = asyncio.get_running_loop(), asyncio.Event()
        pool = Pool(max_backlog=self._max_backlog)
        intercept = bool(taps) or len(self.faults) > 0 or self._latency > 0
        http_taps = [self._recording] if self._recording is not None else []
        try:
            server = InterceptingServer(
                self._settings,
                self._time,
                pool=pool,
                database=database,
                taps=taps,
                http_taps=http_taps,
                intercept=intercept,
            )
            server.latency = self._latency
        except BaseException as fault:
            pool.close()
            ready.set_exception(fault)
            return
        try:
            if len(self.faults):
                self.faults.inject(server)
            await server.start()
            permissions = server.broker.policies.namespaces["public/default"].permissions
            permissions.update({role: [*actions] for role, actions in self._roles.items() if actions is not None})
            for name, partitions in self._topics:
                operations.create_topic(server, name, partitions)
        except BaseException as fault:
            await server.stop()
            ready.set_exception(fault)
            return
        self._server = server
        ready.set_result(None)
        await self._stop_requested.wait()
        await server.stop()

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def service_url(self) -> str:
        """The service URL for clients, ``pulsar://host:port``."""
        return self._running().service_url

    @property
    def http_url(self) -> str:
        """The URL of the REST API, ``http://host:port``."""
        return self._running().http_url

    @property
    def service_url_tls(self) -> str:
        """The service URL of the TLS port, ``pulsar+ssl://host:port``; an empty string if there is none."""
        return self._running().service_url_tls

    @property
    def http_url_tls(self) -> str:
        """The URL of the REST API over TLS, ``https://host:port``; an empty string if there is none."""
        return self._running().http_url_tls

    @property
    def tls_trust_certs(self) -> str:
        """The file with the certificate that clients must trust; it is removed when the broker stops."""
        return self._settings.tlsCertificateFilePath

    @property
    def frames(self) -> Frames:
        """The frames of all clients. Iterate over them, or call ``broker.frames("pulsar.type == 'ACK'")``."""
        if self._frames is None:
            raise LocalError("no frames are kept: max_log is 0")
        return self._frames

    @property
    def failures(self) -> list[BaseException]:
        """Exceptions caused by bugs in pcli; normally empty."""
        return list(self._running().failures)

    @property
    def topics(self) -> list[str]:
        """Full names of the existing topics. For partitioned topics, these are the names of the partitions."""
        return self._query(lambda server: operations.topic_names(server.broker))

    def topic(self, name: str) -> TopicState:
        """Return a snapshot of a topic or a partitioned topic. Raises LocalError if it does not exist."""
        wanted = TopicName.parse(name)
        return self._query(
            lambda server: operations.state(server.broker, wanted, lambda read: self._query(lambda _: read()))
        )

    @property
    def capture_failure(self) -> OSError | None:
        """The error that ended the capture early, or None."""
        return None if self._recording is None else self._recording.failure

    @property
    def connections(self) -> list[str]:
        """``address:port`` of the connected clients."""
        return self._query(lambda server: [operations.client(one) for one in server.broker.connections])

    # -- waiting ---------------------------------------------------------------------------------------------------

    def wait_until(self, predicate: Callable[[MiniBroker], _T], timeout: float = 5) -> _T:
        """Call ``predicate(broker)`` after each turn until it returns a true value, and return this value.

        The predicate is false if it uses a topic or subscription that does not exist. Raises TimeoutError with the last
        state.
        """
        waiter = self._waiter(predicate)
        try:
            return waiter.result.result(timeout)
        except TimeoutError:
            if waiter.result.done():
                raise
            raise self._timed_out(waiter, timeout) from None
        finally:
            self._remove_waiter(waiter)

    async def await_until(self, predicate: Callable[[MiniBroker], _T], timeout: float = 5) -> _T:
        """Do the same as `wait_until` in a coroutine that does not block the caller's event loop."""
        waiter = self._waiter(predicate)
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.wrap_future(waiter.result)
        except TimeoutError:
            if waiter.result.done() and not waiter.result.cancelled():
                raise
            raise self._timed_out(waiter, timeout) from None
        finally:
            self._remove_waiter(waiter)

    def _waiter(self, predicate: Callable[[MiniBroker], _T]) -> Waiter[_T]:
        self._refuse_in_predicate("wait")
        waiter = Waiter(lambda: predicate(self))

        def begin(server: InterceptingServer) -> None:
            server.waiters[waiter.check] = None
            waiter.check()

        self._run_in_broker(begin)
        return waiter

    def _remove_waiter(self, waiter: Waiter[_T]) -> None:
        self._query(lambda server: server.waiters.pop(waiter.check, None))

    def _timed_out(self, waiter: Waiter[_T], timeout: float) -> TimeoutError:
        seen = self._query(lambda server: operations.describe(server.broker))
        last = [frame.text for frame in self._frames()[-5:]] if self._frames is not None else []
        return waiter.timed_out(timeout, [*seen, *(["the last frames:", *last] if last else [])])

    # -- actions -------------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 0) -> None:
        """Create a topic unless it exists.

        If ``partitions`` is 0, the topic is not partitioned. Raises LocalError if the topic cannot be created.
        """
        wanted = TopicName.parse(name)
        self._run_in_broker(lambda server: operations.create_topic(server, wanted, partitions))

    def scalable(self, name: str, segments: int = 1) -> BrokerScalableTopic:
        """Return a scalable topic; create it with this number of segments unless it exists. Raises LocalError."""
        from pcli.minibroker.embedded import scalable_topics

        wanted = TopicName.parse(name)
        found = self._run_in_broker(lambda server: scalable_topics.find_or_create(server, wanted, segments))
        return scalable_topics.BrokerScalableTopic(found, self._run_in_broker, self._query)

    def crash(self, consumer: str) -> None:
        """Cut the connection of the stream or checkpoint consumer with this name; its grace period starts.

        A client that is still running reconnects and registers again. Raises LocalError if the name is unknown.
        """
        from pcli.minibroker.embedded import scalable_topics

        self._run_in_broker(lambda server: scalable_topics.crash(server, consumer))

    def advance(self, seconds: float) -> None:
        """Advance a manual clock, as ``broker.clock.advance`` does."""
        self.clock.advance(seconds)

    def unload(self, topic: str) -> None:
        """Close the topic's clients and roll its ledger, as an unload of its bundle does."""
        wanted = TopicName.parse(topic)
        self._run_in_broker(lambda server: operations.unload(server, wanted))

    def disconnect(
        self, *, client: str | int | None = None, producer: str | None = None, consumer: str | None = None
    ) -> int:
        """Close the connection of a client (``address:port`` or number), or close a producer or consumer by name.

        Without arguments, all connections are closed. Returns how many were closed. Raises LocalError if a name is
        unknown. Closed producers and consumers are notified (CLOSE_PRODUCER, CLOSE_CONSUMER) and reconnect on the same
        connection.
        """
        wanted = [(kind, value) for kind, value in (("client", client), ("producer", producer), ("consumer", consumer))]
        given = [(kind, value) for kind, value in wanted if value is not None]
        if len(given) > 1:
            raise LocalError("disconnect: pass only one of client, producer, consumer")
        kind, value = given[0] if given else ("client", "")
        return self._run_in_broker(lambda server: operations.disconnect(server, kind, value))

    def restart(self) -> None:
        """Restart on the same ports with the stored state, which is in memory unless there is a data directory."""
        self._refuse_in_predicate("restart")
        self._run_in_broker(lambda _: None)
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._running().restart(), self._loop).result()

    # -- the broker's thread ---------------------------------------------------------------------------------------

    def _running(self) -> InterceptingServer:
        if self._server is None:
            raise LocalError("the broker is not started: use it in a with block, or call start()")
        return self._server

    def _refuse_in_predicate(self, action: str) -> None:
        """Raise RuntimeError if a call from the broker's thread would wait for that thread."""
        if threading.current_thread() is self._thread:
            raise RuntimeError(f"a predicate cannot {action}: it runs in the broker's thread")

    def _run_in_broker(self, action: Callable[[InterceptingServer], _T]) -> _T:
        """In the broker's thread, run a function that changes the broker."""
        self._running()
        if self._thread is None or not self._thread.is_alive():
            raise LocalError("the broker has stopped")
        return self._query(action)

    def _query(self, question: Callable[[InterceptingServer], _T]) -> _T:
        """Run a function in the broker's thread; if that thread has ended, call it directly."""
        server, thread, loop = self._running(), self._thread, self._loop
        assert thread is not None
        assert loop is not None
        if threading.current_thread() is thread or not thread.is_alive():
            return question(server)
        answer: Future[_T] = Future()

        def run() -> None:
            try:
                answer.set_result(question(server))
            except BaseException as fault:
                answer.set_exception(fault)

        try:
            loop.call_soon_threadsafe(run)
        except RuntimeError:  # the loop has just closed
            thread.join()
            return question(server)
        return answer.result()


def _close(file: BinaryIO) -> None:
    """Close a capture. A write error was already reported and is ignored."""
    with suppress(OSError):
        file.close()
