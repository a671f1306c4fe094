"""CommitGate: the output of a broker with a data directory waits for the commit that contains its cause.

Rules of this file
1. While a batch is written in the gate's thread, the changes of further turns collect in the next batch (group commit).
2. All output after a required change waits, in order, until the batch with this change is written. This also applies to
   messages: as on the real broker, no consumer receives an entry that a crash could remove.
3. Lazy changes (acknowledgements without a response) are written with the next batch, or after ``_FLUSH_SECONDS``. The
   real broker also writes a cursor at most once per second (managedLedgerDefaultMarkDeleteRateLimit).
4. If a batch cannot be written, the responses that wait become errors (PersistenceError), and messages are dropped. The
   server then closes all connections and reads its state from the database, as after a crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame
from pcli.minibroker.error_responses import refused_response
from pcli.minibroker.errors import Refused

if TYPE_CHECKING:
    from pcli.minibroker.storage.broker_storage import DurableBrokerStorage

_log = logging.getLogger("pcli.minibroker")

_FLUSH_SECONDS: Final = 1.0

_FULL: Final = 64 << 20
"""Size of a batch in bytes above which the broker waits for the batch before it."""

_SPACE_SECONDS: Final = 0.5
"""Interval of the checks for free space while entries are refused."""


class Output(Protocol):
    """The socket of a client."""

    def hold(self, size: int, sends: int) -> None:
        """Count bytes of output, and the SENDs that it answers, which wait for a commit."""

    def release(self, size: int, sends: int) -> None:
        """Undo `hold`."""

    def write(self, data: bytes) -> None:
        """Write bytes to the client."""

    def close(self) -> None:
        """Close after the pending output."""


class CommitGate:
    """The gate of one server. All methods must be called in its event loop."""

    def __init__(
        self, storage: DurableBrokerStorage, flush: Callable[[], None], on_failure: Callable[[str], None]
    ) -> None:
        """``flush`` writes the output of clients that may receive more after their output was sent.

        ``on_failure`` is called with the reason if a batch cannot be written. The gate is then closed.
        """
        self._storage = storage
        self._flush_output = flush
        self._on_failure = on_failure
        self._thread = ThreadPoolExecutor(1, "pcli-broker-database")
        self._task: asyncio.Task[None] | None = None
        """The task that writes batches, while there are any."""
        self._writing: Future[None] | None = None
        self._written = 0
        """Number of the last written batch."""
        self._failure = ""
        self._held: deque[tuple[int, Output, bytes, int, bool]] = deque()
        """Output that waits: the number of its batch, the socket, the bytes, the number of answered SENDs, and whether
        the socket is closed then."""
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        """The callers of `written`, with the number of their batch."""
        self._flush_timer: asyncio.TimerHandle | None = None
        self._reported = False
        """Whether the lack of space was logged."""
        self._space_timer: asyncio.TimerHandle | None = None
        self._check_space()

    # -- output --------------------------------------------------------------------------------------------------------

    def hold(self, client_socket: Output, data: bytes, sends: int, *, close: bool) -> bool:
        """Hold output until the changes before it are written. Return False if it can be sent at once.

        ``sends`` is the number of SENDs that the output answers.
        """
        number = self._storage.required
        if number <= self._written:
            return False
        self._held.append((number, client_socket, data, sends, close))
        client_socket.hold(len(data), sends)
        return True

    async def written(self) -> None:
        """Wait until all required changes are written. Raises Refused (PersistenceError) if they cannot be written."""
        self.submit()
        number = self._storage.required
        if number > self._written and not self._failure:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((number, future))
            await future
        if self._failure:
            raise Refused(pb.PersistenceError, self._failure)

    def _release(self) -> None:
        """Send the output that waited for written batches."""
        while self._held and self._held[0][0] <= self._written:
            _, client_socket, data, sends, close = self._held.popleft()
            client_socket.write(data)
            client_socket.release(len(data), sends)
            if close:
                client_socket.close()
        while self._waiting and (self._failure or self._waiting[0][0] <= self._written):
            future = self._waiting.popleft()[1]
            if not future.done():
                future.set_result(None)

    # -- batches -------------------------------------------------------------------------------------------------------

    def submit(self) -> None:
        """Write the batch if it must be written, unless another batch is being written."""
        storage = self._storage
        if self._task is not None:
            if storage.size > _FULL and self._writing is not None:
                wait([self._writing])
        elif storage.required > self._written and not self._failure:
            self._task = asyncio.get_running_loop().create_task(self._write_batches())
        elif storage.dirty and self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        """Write lazy changes."""
        self._flush_timer = None
        self._storage.require()
        self.submit()

    async def _write_batches(self) -> None:
        """Write batches as long as there are required changes, then delete trimmed entries."""
        storage = self._storage
        while not self._failure:
            if storage.required > self._written:
                batch = storage.seal()
                try:
                    await self._run(partial(storage.database.write, batch))
                except OSError as error:
                    self._fail(str(error))
                    break
                storage.written(batch)
                self._written = batch.number
                self._release()
                self._flush_output()
                storage.full = storage.database.out_of_space()
            elif not (storage.full or storage.database.collectable) or not await self._collect():
                break
        self._check_space()
        self._task = None
        self.submit()

    async def _collect(self) -> bool:
        """Delete a part of the trimmed entries. Return whether to continue now; after an error, a later batch does."""
        try:
            await self._run(self._storage.database.collect)
        except OSError as error:
            _log.warning("trimmed entries cannot be deleted: %s", error)
            return False
        return self._storage.database.collectable

    async def _run(self, work: Callable[[], Any]) -> Any:
        self._writing = self._thread.submit(work)
        return await asyncio.wrap_future(self._writing)

    def _check_space(self) -> None:
        """Refuse entries while the file system is nearly full."""
        storage = self._storage
        storage.full = storage.database.out_of_space()
        if storage.full and not self._space_timer:
            self._space_timer = asyncio.get_running_loop().call_later(_SPACE_SECONDS, self._check_space_again)
        if storage.full and not self._reported:
            _log.error("%s; messages are refused (PersistenceError) until there is more space", storage.full)
        self._reported = bool(storage.full)

    def _check_space_again(self) -> None:
        self._space_timer = None
        self._check_space()

    # -- end -----------------------------------------------------------------------------------------------------------

    def _fail(self, reason: str) -> None:
        """Replace the responses that wait by errors, and report the failure."""
        self._failure = reason
        refused = Refused(pb.PersistenceError, reason)
        for _, client_socket, data, *_ in self._held:
            client_socket.write(_errors_instead(data, refused))
        self._held.clear()
        self._release()
        self._on_failure(reason)

    async def close(self) -> None:
        """Write all changes and end the thread. The database remains open."""
        self._storage.require()
        self.submit()
        if self._task is not None:
            await asyncio.wait([self._task])
        for timer in (self._flush_timer, self._space_timer):
            if timer is not None:
                timer.cancel()
        self._thread.shutdown()


def _errors_instead(data: bytes, refused: Refused) -> bytes:
    """Return the errors for the responses in whole frames. All other frames are dropped."""
    errors, position = [], 0
    while position < len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        response = refused_response(Frame.of(data[position:end]).body, refused)
        if response is not None:
            errors.append(push_frame(response))
        position = end
    return b"".join(errors)
