"""A client's connection inside the broker (ServerCnx): incoming frames, outgoing frames, producers and consumers.

Rules of this file
1. Bytes arrive in chunks, and only whole frames are processed. SEND, ACK and FLOW, which make up nearly all traffic,
   are recognised by their first bytes and decoded in place. All other commands are parsed strictly and passed to the
   table of handlers.
2. The connection closes without a response after an invalid frame, a command in the wrong state, or a RemoteError from
   a handler. An exception caused by a bug has the same effect and is reported.
3. Everything sent in one turn is collected in ``out`` and joined by the broker. If it exceeds the limit, ``writable``
   is False and no more entries are read for the client.
4. Closing takes effect at the end of the turn, so a dispatcher that closes a connection is not called back before that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Protocol

from google.protobuf.message import Message

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.session import KeepAlive, ServerSession, TickAction, read_command
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.commands import BY_NAME, name_of
from pcli.codec.wire.constants import FRAME_OVERHEAD
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.hot import pull_ack, pull_flow, pull_send
from pcli.minibroker.error_responses import error, invalid_frame, refusal
from pcli.minibroker.errors import Refused
from pcli.minibroker.liveness_check import LivenessCheck
from pcli.minibroker.topics.broker_service import BrokerService

if TYPE_CHECKING:
    from pcli.codec.session import Offer
    from pcli.codec.session.timers import Timer
    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.scalable.scalable_topic_service import ScalableTopicService
    from pcli.minibroker.security.authentication import AuthenticationService, Principal
    from pcli.minibroker.security.authorization import AuthorizationService
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.producer import Producer
    from pcli.minibroker.topics.topic import Topic
    from pcli.minibroker.topics.topic_list_watchers import TopicListWatcher
    from pcli.minibroker.topics.topic_registry import TopicRegistry
    from pcli.minibroker.transactions.metadata_store_service import (
        TransactionBufferClient,
        TransactionMetadataStoreService,
    )
    from pcli.minibroker.transactions.scalable_transactions import ScalableTransactions

Handler = Callable[..., None]
"""The type of the functions that handle a command: function(connection, body, frame)."""

_two_lengths = Struct(">II").unpack_from
_length = Struct(">I").unpack_from

_SEND: Final = BY_NAME["SEND"].number
_ACK: Final = BY_NAME["ACK"].number
_FLOW: Final = BY_NAME["FLOW"].number
_PING: Final = BY_NAME["PING"].number
_HOT_TYPES: Final = frozenset((_ACK, _FLOW, _PING))
_PING_FRAME: Final = push_frame(pb.CommandPing())
_PING_COMMAND: Final = _PING_FRAME[8:]
_PONG_FRAME: Final = push_frame(pb.CommandPong())


class PulsarService(BrokerService, Protocol):
    """The broker's interface for connections and command handlers."""

    service_url: str
    service_url_tls: str
    authentication: AuthenticationService | None
    authorization: AuthorizationService | None
    turn_end: int
    offer: Offer
    topics: dict[str, Topic]
    topic_registry: TopicRegistry
    scalable_topics: ScalableTopicService
    transactions: TransactionMetadataStoreService
    scalable_transactions: ScalableTransactions
    transaction_buffers: TransactionBufferClient
    dirty: list[Connection]
    """Connections with frames to write, or to close."""

    def connection_closing(self, connection: Connection) -> None:
        """Release the producers and consumers of a closing connection at the end of this turn."""

    def reading_changed(self, connection: Connection) -> None:
        """Record that `Connection.reading` has changed."""

    def report(self, fault: BaseException, connection: Connection | None = None) -> None:
        """Record an exception that is a bug of the broker."""

    def next_producer_name(self) -> str:
        """Return a generated producer name."""

    def check_owned(self, name: TopicName) -> None:
        """Raise Refused (ServiceNotReady) if the bundle of a topic was never looked up."""

    def get_or_create(self, name: TopicName, *, create: bool = True, missing: str = "") -> Topic:
        """Return a topic for a producer or consumer, and create it if policies allow this. Raises Refused."""


class Connection:
    """One connection of a client."""

    __slots__ = (
        "_buffer",
        "_bytes_needed",
        "_handlers",
        "_high_water",
        "_hot_handlers",
        "_keep_alive_timer",
        "_limit",
        "_liveness_check",
        "_read_pauses",
        "broker",
        "certificate_role",
        "client_socket",
        "closing",
        "congested",
        "connected_since",
        "consumers",
        "credentials_timer",
        "input_paused",
        "original_principal",
        "out",
        "peer",
        "pending_subscribes",
        "principal",
        "producers",
        "queued",
        "reason",
        "recently_closed",
        "released",
        "sends",
        "session",
        "watchers",
        "writable",
    )

    def __init__(
        self,
        broker: PulsarService,
        peer: tuple[str, int],
        handlers: Mapping[int, Handler],
        hot_handlers: Mapping[int, Callable[..., None]],
    ) -> None:
        """``handlers`` and ``hot_handlers`` are the tables in `commands`, by command type."""
        self.broker = broker
        self._handlers = handlers
        self._hot_handlers = hot_handlers
        self.peer = peer
        """Address and port of the client."""
        self.connected_since = broker.now
        interval = broker.settings.keepAliveIntervalSeconds * 1000
        self.session = ServerSession(broker.offer, KeepAlive(interval, broker.now))
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, Consumer] = {}
        self.pending_subscribes: dict[int, pb.CommandSubscribe] = {}
        """SUBSCRIBE commands whose liveness check is pending, by consumer id."""
        self.watchers: dict[int, TopicListWatcher] = {}
        self.recently_closed: dict[int, int] = {}
        """Ids of producers that the broker closed, with the time (ms) until which SENDs with this id are dropped."""
        self.out: list[bytes] = []
        """Frames to write at the end of this turn."""
        self.queued = 0
        """Number of bytes in ``out``."""
        self.sends = 0
        """Number of SENDs in this turn."""
        self.writable = True
        """Whether entries may be sent: True while the client reads fast enough."""
        self.congested = False
        """Whether the server's unwritten output exceeds the limit."""
        self.input_paused = False
        """Whether input is paused until large responses are written."""
        self.closing = False
        """Whether input is ignored and the socket will close after the frames queued so far."""
        self.released = False
        """Whether the producers and consumers were released."""
        self.reason = ""
        """The reason why the broker closed the connection, for the log."""
        self.certificate_role = ""
        """Common name of the client's verified certificate, or an empty string."""
        self.principal: Principal | None = None
        """The authenticated client; None without authentication."""
        self.original_principal = ""
        """The role of the client behind a proxy, as given by the proxy."""
        self.credentials_timer: Timer | None = None
        """The timer of the next check whether the credentials have expired."""
        self.client_socket: Any = None
        """The server's socket object for this connection."""
        self._limit = broker.settings.maxMessageSize + FRAME_OVERHEAD - 4
        self._high_water = broker.settings.pulsarChannelWriteBufferHighWaterMark
        self._buffer = bytearray()
        self._bytes_needed = 4
        self._liveness_check = LivenessCheck(broker, self._liveness_timeout)
        self._read_pauses = 0
        self._keep_alive_timer: Timer | None = None
        self._start_keep_alive_timer()

    @property
    def version(self) -> int:
        """The negotiated protocol version."""
        return self.session.version

    @property
    def role(self) -> str:
        """The role of the authenticated client; empty without authentication."""
        return self.principal.role if self.principal is not None else ""

    # -- input ---------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Process the next bytes of the stream. While reading is paused, they are only stored."""
        if self.closing:
            return
        buffer = self._buffer
        if buffer or self._read_pauses:
            buffer += data
            if self._read_pauses or len(buffer) < self._bytes_needed:
                return
            data = bytes(buffer)
            buffer.clear()
        try:
            position = self._handle_frames(data)
        except Exception as fault:
            self._close_on_exception(fault)
            return
        if position:
            self.session.keep_alive.outstanding = False
        if position < len(data):
            buffer += data[position:]

    def run(self) -> None:
        """Continue with the input that arrived while reading was paused."""
        self.receive(b"")

    def receive_frame(self, frame: Frame) -> None:
        """Process one whole frame."""
        if self._read_pauses or self._buffer:
            self.receive(frame.data)
            return
        if self.closing:
            return
        self.session.keep_alive.outstanding = False
        if self._liveness_check.pending:
            self._liveness_check.finish(alive=True)
        try:
            self.handle_frame(frame)
        except Exception as fault:
            self._close_on_exception(fault)

    def _close_on_exception(self, fault: Exception) -> None:
        """Close after an exception. The client caused a RemoteError; any other exception is a bug and is reported."""
        if isinstance(fault, RemoteError):
            self.fail(fault.text)
        else:
            self.broker.report(fault, self)
            self.close("an internal error of the broker")

    def _handle_frames(self, data: bytes) -> int:
        """Process all whole frames. Return the start of the incomplete frame after them."""
        position, size, limit = 0, len(data), self._limit
        producers = self.producers
        hot = self.session.connected
        if self._liveness_check.pending and len(data) >= 4 and len(data) >= 4 + _length(data, 0)[0]:
            self._liveness_check.finish(alive=True)
        while size - position >= 8:
            total, length = _two_lengths(data, position)
            end = position + 4 + total
            if end > size:
                break
            start = position + 8
            stop = start + length
            if stop > end or total > limit:
                raise RemoteError(f"a command of {length} bytes in a frame of {total + 4}")
            kind = data[start + 1] if hot and length > 3 and data[start] == 8 else -1
            send = pull_send(data, start, stop) if kind == _SEND else None
            if send is not None and (producer := producers.get(send[0])) is not None:
                self.sends += 1
                producer.publish(send[1], send[3], send[2], data, stop, end)
                if end < size and producer.fast_path and not self.closing and not self._read_pauses:
                    end, count = producer.publish_run(data, end, limit)
                    self.sends += count
            elif kind not in _HOT_TYPES or not self._handle_hot_command(kind, data, start, stop):
                self.handle_frame(Frame(data[position:end], kind))
                hot = self.session.connected
                if self.queued > self._high_water and not self.closing:
                    self._pause_input()
            position = end
            if self.closing:
                return size
            if self._read_pauses:
                self._bytes_needed = 4
                return int(position)
        return self._await_frame_end(data, position, size)

    def _pause_input(self) -> None:
        """Pause input until large responses to small requests are written."""
        if not self.input_paused:
            self.input_paused = True
            self.pause_reading()

    def _await_frame_end(self, data: bytes, position: int, size: int) -> int:
        """Compute the number of bytes needed for the next frame.

        A length above the limit closes the connection at once. If a length is too small to include the second length
        field, the connection closes when the frame is complete.
        """
        if size - position < 4:
            self._bytes_needed = 4
            return position
        total = _length(data, position)[0]
        if total > self._limit or size - position >= total + 4:
            raise invalid_frame(data, position)
        self._bytes_needed = total + 4
        return position

    def _handle_hot_command(self, kind: int, data: bytes, start: int, stop: int) -> bool:
        """Process an ACK, FLOW or PING in its usual form. Return False if the generic path is needed."""
        if kind == _PING:
            if data[start:stop] != _PING_COMMAND:
                return False
            self.send(_PONG_FRAME)
            return True
        arguments = pull_ack(data, start, stop) if kind == _ACK else pull_flow(data, start, stop)
        if arguments is None:
            return False
        self._hot_handlers[kind](self, *arguments)
        return True

    def handle_frame(self, frame: Frame) -> None:
        """Process one frame on the generic path. Raises RemoteError to close the connection."""
        command, body = read_command(frame.data[8 : frame.parts.command_end])
        frame.type = command.type
        if not self.session.allows(frame.type):
            raise RemoteError(f"{name_of(frame.type)} in state {self.session.state.value}")
        handler = self._handlers.get(frame.type)
        if handler is None:
            raise RemoteError(f"{name_of(frame.type)} is not supported by this broker")
        try:
            handler(self, body, frame)
        except Refused as refused:
            answer = refusal(frame.type, body, refused)
            if answer is not None:
                self.send_command(answer)

    # -- output --------------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Queue a whole frame for the client."""
        self.send_pieces((data,))

    def send_pieces(self, pieces: Sequence[bytes]) -> None:
        """Queue the pieces of whole frames for the client."""
        if self.closing:
            return
        out = self.out
        if not out:
            self.broker.dirty.append(self)
        out += pieces
        self.queued += sum(map(len, pieces))
        if self.queued > self._high_water:
            self.writable = False

    def send_command(self, body: Message, entry: bytes = b"") -> None:
        """Queue a command. An entry follows a MESSAGE command."""
        self.send(push_frame(body, entry))

    def answer_success(self, request_id: int) -> None:
        """Queue SUCCESS for a request. It is sent after all changes so far are stored."""
        self.broker.storage.require()
        self.send_command(pb.CommandSuccess(request_id=request_id))

    def answer_error(self, request_id: int, refused: Refused) -> None:
        """Queue ERROR for a request."""
        self.send_command(error(request_id, refused))

    # -- close ---------------------------------------------------------------------------------------------------------

    def close(self, reason: str = "") -> None:
        """Close after the frames queued so far. Producers and consumers are released at the end of this turn."""
        if self.closing:
            return
        self.closing = True
        self.writable = False
        self.reason = reason
        if not self.out:
            self.broker.dirty.append(self)
        self.broker.connection_closing(self)

    def fail(self, reason: str) -> None:
        """Close the connection after a client error, without sending a response."""
        self.session.fail()
        self.close(reason)

    def release(self) -> None:
        """Release the producers, consumers and watchers of a closed connection (ServerCnx.channelInactive)."""
        if self.released:
            return
        self.closing = self.released = True
        self.writable = False
        self._buffer.clear()
        for timer in (self._keep_alive_timer, self.credentials_timer):
            if timer is not None:
                timer.cancel()
        for producer in list(self.producers.values()):
            producer.leave()
        self.producers.clear()
        for consumer in list(self.consumers.values()):
            consumer.leave()
        self.consumers.clear()
        self.pending_subscribes.clear()
        for watcher in list(self.watchers.values()):
            self.broker.watchers.remove(watcher)
        self.watchers.clear()
        self.broker.scalable_topics.connection_closed(self)
        self._liveness_check.finish(alive=False)

    # -- liveness ------------------------------------------------------------------------------------------------------

    def _start_keep_alive_timer(self) -> None:
        due = self.session.keep_alive.due
        if due is not None:
            self._keep_alive_timer = self.broker.call_at(due, self._keep_alive)

    def _keep_alive(self) -> None:
        """Run a keep-alive tick. After a jump in time the next interval starts now, so the client can still respond."""
        session = self.session
        action = session.keep_alive.tick(
            self.broker.turn_end, connected=session.connected, pings=session.pings, reading=self.reading
        )
        if action is TickAction.CLOSE:
            self.close("the client sent nothing within the keep-alive interval")
            return
        if action is TickAction.PING:
            self.send(_PING_FRAME)
        self._start_keep_alive_timer()

    def check_liveness(self, on_answer: Callable[[bool], None]) -> None:
        """Check whether the client is alive. The callback receives the result, at the latest when the timeout expires.

        If ``connectionLivenessCheckTimeoutMillis`` is 0 or less, the client is considered alive.
        """
        timeout = self.broker.settings.connectionLivenessCheckTimeoutMillis
        if self.closing or timeout <= 0:
            on_answer(not self.closing)
        elif self._liveness_check.start(timeout, on_answer):
            self.send(_PING_FRAME)

    def _liveness_timeout(self) -> None:
        self.close("no response to the PING of a liveness check")
        self.release()

    # -- flow control --------------------------------------------------------------------------------------------------

    @property
    def reading(self) -> bool:
        """Whether the server may read from the client."""
        return self._read_pauses == 0

    def pause_reading(self) -> None:
        """Add a reason, such as publish throttling, not to read from the client."""
        self._read_pauses += 1
        if self._read_pauses == 1:
            self.broker.reading_changed(self)

    def resume_reading(self) -> None:
        """Remove a reason not to read from the client. If no reasons are left, reading resumes."""
        self._read_pauses -= 1
        if self._read_pauses == 0:
            self.broker.reading_changed(self)
            self.broker.schedule(self)

    # -- closed producers and consumers --------------------------------------------------------------------------------

    def removed_producer(self, producer_id: int, producer: object) -> None:
        """Free the id of a closed producer, unless a new producer uses it."""
        if self.producers.get(producer_id) is producer:
            del self.producers[producer_id]

    def removed_consumer(self, consumer_id: int) -> None:
        """Free the id of a closed consumer."""
        self.consumers.pop(consumer_id, None)

    def mark_producer_closed(self, producer_id: int) -> None:
        """Record that the broker closes this producer. For one keep-alive interval, SENDs in flight are dropped."""
        now = self.broker.now
        self.recently_closed = {one: until for one, until in self.recently_closed.items() if now < until}
        self.recently_closed[producer_id] = now + self.broker.settings.keepAliveIntervalSeconds * 1000

    def is_recently_closed(self, producer_id: int) -> bool:
        """Return whether the broker closed this producer recently."""
        until = self.recently_closed.get(producer_id)
        return until is not None and self.broker.now < until
