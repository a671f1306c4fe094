"""A proxy for tests, in a separate thread and event loop: `with Proxy(to=…) as proxy`.

Rules of this file
1. An argument that exists in both Proxy and MiniBroker has the same name in both. The fault objects that the caller
   passes contain the counts of their uses.
2. An invalid address, a port in use, or an unusable certificate or capture raises LocalError.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Final, Self

from pcli.codec.errors import LocalError
from pcli.replay.event_loop import new_event_loop
from pcli.replay.proxy.broker_addresses import is_loopback
from pcli.replay.proxy.byte_faults import ByteFault
from pcli.replay.proxy.http_lookups import Lookups
from pcli.replay.proxy.listener import Listener
from pcli.replay.service_url import Security, ServiceUrl
from pcli.replay.sources.lazy_file import reason_of

if TYPE_CHECKING:
    import ssl

    from pcli.codec.capture.tap import Tap
    from pcli.codec.capture.tap_recording import Recording
    from pcli.codec.faults import Fault, Injector

_LARGEST: Final = 1 << 28
"""Maximum size of a frame that faults can match, in bytes."""
_NOTES: Final = 1000
"""Maximum number of notes kept."""


class Proxy:
    """A proxy that runs during its ``with`` block. To use it without a block, call `start` and `stop`."""

    def __init__(
        self,
        to: str,
        *,
        listen: int = 0,
        bind: str = "127.0.0.1",
        insecure: bool = False,
        advertised_address: str = "",
        http_listen: int | None = None,
        http_to: str = "",
        control: int | None = None,
        security: Security | None = None,
        listen_cert: str = "",
        listen_key: str = "",
        key_log: str = "",
        capture: str | Path | None = None,
        faults: Iterable[Fault] = (),
        byte_faults: Iterable[ByteFault] = (),
        seed: int | None = None,
        taps: Iterable[Tap] = (),
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        """Check the arguments without starting anything. Raises LocalError if an argument is invalid.

        - ``to``: service URL of the broker; ``security``: TLS settings for the connection to it
        - ``listen``: the port, or 0 for any free port; ``bind``: the address to listen on; ``advertised_address``: the
          host in the URLs that clients receive
        - ``insecure``: permit other addresses than loopback, because the proxy does not authenticate clients
        - ``http_listen``, ``http_to``: a port for HTTP, and the URL of the web service; None for no HTTP
        - ``control``: a port on 127.0.0.1 over which faults can be changed at run time; None for none
        - ``listen_cert``, ``listen_key``: paths of the certificate and key for TLS with clients; empty for no TLS
        - ``key_log``: path of a file to which the secrets of all TLS connections are appended; empty for none
        - ``capture``: path of a pcapng file for all bytes of all client connections
        - ``faults``: faults in the protocol; ``byte_faults``: network faults, with random numbers from ``seed``
        - ``taps``: taps for all connections; ``on_note``: a function that receives one line for each problem
        """
        self._to = ServiceUrl.parse(to)
        if self._to.http:
            raise LocalError(f"{to}: the proxy connects to a broker's binary port: write pulsar:// or pulsar+ssl://")
        self._http_to = ServiceUrl.parse(http_to) if http_to else None
        if (http_listen is None) != (self._http_to is None) or (self._http_to is not None and not self._http_to.http):
            raise LocalError("HTTP needs both a port to listen on and the http:// URL of the web service")
        if re.search(r"[\s/,]", advertised_address) or advertised_address.count(":") == 1:
            raise LocalError(f"advertised address {advertised_address}: write a host without a port")
        if not (insecure or is_loopback(bind)):
            raise LocalError(
                f"address {bind or '(all)'}: other hosts could use the broker through the proxy, which does not "
                "authenticate clients; accept this with --insecure (insecure=True)"
            )
        for port in (listen, http_listen or 0, control or 0):
            if not 0 <= port <= 65535:
                raise LocalError(f"port {port}: write a number from 0 to 65535")
        self._listen, self._bind, self._advertised = listen, bind, advertised_address
        self._http_listen, self._control = http_listen, control
        self._security = security or Security()
        self._listen_cert, self._listen_key = listen_cert, listen_key
        self._key_log = key_log
        self._capture = capture
        self._recording: Recording | None = None
        self.faults = list(faults)
        """Faults in the protocol, in the order in which they are checked."""
        self._byte_faults = list(byte_faults)
        self._listener: Listener | None = None
        self._random = Random(seed)  # noqa: S311  (not for security)
        self._taps = list(taps)
        self.notes: list[str] = []
        """The latest notes for the user."""
        self._on_note = on_note
        self.failures: list[BaseException] = []
        """Unexpected exceptions in the proxy. Each is a bug in pcli."""
        self.service_url = ""
        """The service URL for clients, ``pulsar://host:port``; empty before the start."""
        self.http_url = ""
        """The URL for HTTP, ``http://host:port``; empty without HTTP."""
        self.control_url = ""
        """The URL of the control port; empty without one."""
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None

    # -- start and stop --------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start and accept connections. Raises LocalError if a port is in use or a file is unusable."""
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="pcli-proxy", daemon=True)
        self._thread.start()
        try:
            ready.result()
        except BaseException:
            self._thread.join()
            raise
        return self

    def stop(self) -> None:
        """Reset all connections and close the ports. A second call has no effect."""
        if self._thread is not None and self._loop is not None and self._thread.is_alive():
            assert self._over is not None
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    # -- changes at run time, from any thread ----------------------------------------------------------------------

    @property
    def byte_faults(self) -> list[ByteFault]:
        """The network faults."""
        return self._byte_faults if self._listener is None else self._listener.byte_faults

    @property
    def enabled(self) -> bool:
        """Whether the ports are open."""
        return self._listener is None or self._listener.enabled

    def set_byte_faults(self, faults: Iterable[ByteFault]) -> None:
        """Replace the network faults, also those of open connections."""

        async def change(listener: Listener) -> None:
            listener.set_byte_faults(list(faults))

        self._run_in_proxy(change)

    def set_enabled(self, *, enabled: bool) -> None:
        """Open all ports, or close them and reset all connections. Raises LocalError if a port is in use."""
        self._run_in_proxy(lambda listener: listener.set_enabled(enabled=enabled))

    def _run_in_proxy(self, action: Callable[[Listener], Coroutine[None, None, None]]) -> None:
        if self._listener is None or self._loop is None:
            raise LocalError("the proxy does not run")
        asyncio.run_coroutine_threadsafe(action(self._listener), self._loop).result()

    @property
    def capture_failure(self) -> OSError | None:
        """The reason why the capture ended early, or None if it did not."""
        return None if self._recording is None else self._recording.failure

    # -- the proxy's thread ----------------------------------------------------------------------------------------

    def _run(self, ready: Future[None]) -> None:
        try:
            client_tls = self._client_tls()
            secure = self._to.tls or (self._http_to is not None and self._http_to.tls)
            broker_tls = self._security.context() if secure else None
            self._log_keys(client_tls, broker_tls)
            with ExitStack() as stack, asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve(stack, client_tls, broker_tls, ready))
        except BaseException as fault:
            if ready.done():
                raise
            ready.set_exception(fault)  # otherwise `start` would wait forever

    async def _serve(
        self,
        stack: ExitStack,
        client_tls: ssl.SSLContext | None,
        broker_tls: ssl.SSLContext | None,
        ready: Future[None],
    ) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(self._on_failure)
        listener = Listener(
            self._to,
            client_tls=client_tls,
            broker_tls=broker_tls,
            taps=self._taps,
            injector=self._injector(),
            byte_faults=self._byte_faults,
            random=self._random,
            note=self._note,
        )
        self._listener = listener
        try:
            control = self._open(listener, broker_tls, stack)
            async with self._controlled(listener, control):
                ready.set_result(None)
                await self._over.wait()
        finally:
            await listener.stop()

    @asynccontextmanager
    async def _controlled(self, listener: Listener, sock: socket.socket | None) -> AsyncIterator[None]:
        """Serve the control port, if there is one."""
        if sock is None:
            yield
            return
        from pcli.codec.faults import Faults
        from pcli.replay.proxy.control import ControlPort, serving

        def use_faults() -> None:
            if listener.injector is None:
                listener.injector = self._injector()
            else:
                listener.injector.faults = Faults(self.faults)

        port = ControlPort(listener, str(self._to), self.faults, use_faults)
        async with serving(port.app, sock) as self.control_url:
            yield

    def _open(self, listener: Listener, broker_tls: ssl.SSLContext | None, stack: ExitStack) -> socket.socket | None:
        """Open the ports and the capture; return the socket of the control port, if there is one.

        This blocks the event loop, so no client is accepted before all ports are open.
        """
        listener.start(self._bind, self._listen, self._advertised)
        lookups = None
        if self._http_to is not None:
            lookups = Lookups(listener, self._to, self._http_to, broker_tls)
            self.http_url = lookups.start(self._http_listen or 0)
        control = None
        if self._control is not None:
            from pcli.replay.proxy.control import bound_control_port

            control = stack.enter_context(bound_control_port(self._control))
        for recording in self._open_capture(stack):  # after the ports: a second proxy must not truncate this capture
            listener.taps.append(recording)
            if lookups is not None:
                lookups.taps.append(recording)
        self.service_url = listener.service_url
        return control

    def _injector(self) -> Injector | None:
        if not self.faults:
            return None
        from pcli.codec.faults import Faults, Injector
        from pcli.codec.observe.live_frames import LiveFrames
        from pcli.codec.observe.payload_contents import Contents

        return Injector(Faults(self.faults), LiveFrames(contents=Contents(), max_frame_size=_LARGEST))

    def _client_tls(self) -> ssl.SSLContext | None:
        if bool(self._listen_cert) != bool(self._listen_key):
            raise LocalError("TLS with clients needs two files: a certificate and its key")
        if not self._listen_cert:
            return None
        import ssl

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self._listen_cert, self._listen_key)
        except ssl.SSLError as fault:
            raise LocalError(f"{self._listen_cert}: no usable certificate and key ({fault.reason})") from None
        except OSError as fault:
            raise LocalError(f"{self._listen_cert}, {self._listen_key}: {reason_of(fault)}") from None
        return context

    def _log_keys(self, *contexts: ssl.SSLContext | None) -> None:
        """Let OpenSSL append the secrets of these contexts' connections to the key log."""
        used = [context for context in contexts if context is not None]
        if self._key_log and not used:
            raise LocalError(f"--keylog {self._key_log}: the proxy uses TLS on neither side")
        try:
            for context in used if self._key_log else ():
                context.keylog_filename = self._key_log
        except OSError as fault:
            raise LocalError(f"--keylog {self._key_log}: {reason_of(fault)}") from None

    def _open_capture(self, stack: ExitStack) -> Iterator[Recording]:
        if self._capture is not None:
            from pcli.codec.capture.tap_recording import Recording

            try:
                file = Path(self._capture).open("wb")  # noqa: SIM115  (the stack closes it)
                stack.callback(_close, file)
                self._recording = Recording(file)
            except OSError as fault:
                raise LocalError(f"{self._capture}: {reason_of(fault)}") from None
            yield self._recording

    def _note(self, text: str) -> None:
        self.notes.append(text)
        del self.notes[:-_NOTES]
        if self._on_note is not None:
            self._on_note(text)

    def _on_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        fault = context.get("exception")
        self.failures.append(fault if isinstance(fault, BaseException) else RuntimeError(context["message"]))
        self._note(f"internal error of the proxy: {context['message']}: {fault!r}")


def _close(file: BinaryIO) -> None:
    """Close a capture. A failure to write was already reported and is ignored."""
    with suppress(OSError):
        file.close()
