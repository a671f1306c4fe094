"""The relay between a client's connection and the matching connection to its broker.

Rules of this file
1. The relay connects to the broker after the client's first frame has arrived, because that frame may contain the
   broker's address.
2. Bytes from the client pass through taps and faults to the broker. Bytes from the broker pass through address
   rewriting, faults and taps to the client. Taps therefore receive the same bytes as the client's socket.
3. Buffers are bounded: if one side does not read, the relay stops reading from the other side.
4. The end of a stream is forwarded after all bytes before it, and the other direction remains open. A reset is
   forwarded immediately as a reset.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.capture.stream_kind_by_bytes import sniff
from pcli.codec.faults import Step
from pcli.replay.event_loop import now_ns
from pcli.replay.proxy.address_rewriting import FROM_BROKER, rewritten_response
from pcli.replay.proxy.byte_faults import ByteFault, TrafficShaper
from pcli.replay.proxy.delayed_output import DelayedOutput
from pcli.replay.proxy.first_frame import FirstFrame
from pcli.replay.proxy.frame_filter import FrameFilter

if TYPE_CHECKING:
    from random import Random

    from pcli.codec.capture.tap import Address
    from pcli.replay.proxy.listener import Listener
    from pcli.replay.service_url import ServiceUrl

_HIGH: Final = 1 << 20
"""Size in bytes of one side's write buffer at which reading from the other side stops."""
_REQUEST_TIMEOUT: Final = 30.0
"""Seconds to wait for the first frame, the same number as in a broker (keepAliveIntervalSeconds)."""
_RESET: Final = struct.pack("ii", 1, 0)
"""The SO_LINGER value with which a close causes a reset."""
_OTHER_PROTOCOLS: Final = {
    "tls": "uses TLS: write --to pulsar+ssl://…",
    "http": "uses HTTP: write the binary port in --to",
}
"""Notes for a broker whose first bytes are not a Pulsar frame, such as a TLS alert or 400 Bad Request."""
_SILENT: Final = "closed the connection without a response; if it uses TLS, write --to pulsar+ssl://…"
"""The note for a broker that closes the connection without a response, for example because only one side uses TLS."""


_BY_FAULT: Final = "cut by a fault"


class _Endpoint(asyncio.Protocol):
    """The socket of one side."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.transport: Any = None
        self.output = DelayedOutput(self.write, self.finish, relay.end_by_fault, lambda change: self.other.hold(change))
        """Bytes that wait to be written to this side."""
        self.ended = False
        """Whether this side has ended its stream."""
        self.finished = False
        """Whether the end of the other side's stream was forwarded to this side."""
        self.closed = False
        self._holds = 0

    @property
    def other(self) -> _Endpoint:
        """The other side."""
        relay = self.relay
        return relay.broker if self is relay.client else relay.client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start relaying on this connection."""
        self.transport = transport
        self._socket = transport.get_extra_info("socket")
        self._tls = transport.get_extra_info("ssl_object") is not None
        self.transport.set_write_buffer_limits(high=_HIGH)
        if self is self.relay.client:
            self.relay.arrived()

    def data_received(self, data: bytes) -> None:
        """Process bytes from this side."""
        if self is self.relay.client:
            self.relay.from_client(data)
        else:
            self.relay.from_broker(data)

    def eof_received(self) -> bool:
        """Process the end of this side's stream.

        asyncio cannot half-close TLS, so both directions end if TLS is used.
        """
        self.relay.ends(self)
        return not self._tls

    def connection_lost(self, exc: Exception | None) -> None:
        """Process the closing of the socket."""
        self.closed = True
        self.relay.lost(self, exc)

    def pause_writing(self) -> None:
        """Stop reading from the other side, because this side's write buffer is full."""
        self.other.hold(1)

    def resume_writing(self) -> None:
        """Resume reading from the other side."""
        self.other.hold(-1)

    def hold(self, change: int) -> None:
        """Add (1) or remove (-1) a reason not to read from this side."""
        self._holds += change
        if self.transport is not None and not self.transport.is_closing():
            if self._holds:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Write bytes to this side."""
        if self is self.relay.client:
            self.relay.pass_to_taps(data, from_client=False)
        elif self.relay.first_frame is not None:
            self.relay.wait_for_broker(self.relay.first_frame, data)
            return
        if not self.transport.is_closing():
            self.transport.write(data)

    def finish(self) -> None:
        """Forward the end of the other side's stream to this side."""
        self.finished = True
        transport, other = self.transport, self.other
        if self is self.relay.broker and self.relay.first_frame is not None:
            self.relay.end_without_broker()
        elif other.finished or other.closed or not transport.can_write_eof():
            transport.close()
            other.transport.close()
        elif not transport.is_closing():
            transport.write_eof()

    def cut(self) -> None:
        """Reset the connection immediately."""
        self.output.clear()
        if self.transport is not None and not self.closed:
            # The socket may be closing, or closed; uvloop raises ValueError for a closed one.
            with suppress(OSError, ValueError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.transport.abort()


class Relay:
    """A client's connection and the matching connection to its broker."""

    def __init__(self, listener: Listener, number: int, address: Address, current: ServiceUrl) -> None:
        """``address`` is the client's address. ``current`` is the broker of the port that accepted the client."""
        self._listener = listener
        self._number = number
        self._address = address  # stored because a socket that was already reset does not return it
        self.first_frame: FirstFrame | None = FirstFrame(listener.addresses, current)
        """The client's bytes until the broker is connected. Afterwards it is None."""
        self._broker_url = current
        self._injector = listener.injector
        self.client = _Endpoint(self)
        self.broker = _Endpoint(self)
        self._responses = FrameFilter(
            FROM_BROKER, lambda frame: rewritten_response(frame, listener.addresses, self._broker_url)
        )
        self._first_to_end: _Endpoint | None = None
        self._end_reported = False
        self._reason = ""
        self._cut = False
        self._responded = False
        """Whether the broker has sent any bytes."""
        self._drawn: dict[ByteFault, bool] = {}
        """Whether each byte fault applies to this connection."""
        self._fault_timers: list[asyncio.TimerHandle] = []
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_REQUEST_TIMEOUT, self.cut, "no first frame")

    # -- start -----------------------------------------------------------------------------------------------------

    def arrived(self) -> None:
        """Register the client's connection with taps and faults."""
        client, listener = self._address, self._listener
        server = self.client.transport.get_extra_info("sockname")[:2]
        listener.relays.add(self)
        for tap in listener.taps:
            tap.opened(self._number, client, server, now_ns())
        if self._injector is not None:
            self._injector.open(self._number, client, server)
        self.apply_byte_faults()

    def apply_byte_faults(self) -> None:
        """Apply the listener's byte faults. Call this again when they have changed."""
        listener = self._listener
        for fault in listener.byte_faults:
            if fault not in self._drawn:
                self._drawn[fault] = fault.draws(listener.random)
                self._start_timers(fault)
        drawn = [fault for fault in listener.byte_faults if self._drawn[fault]]
        for side, to in (("client", self.broker), ("broker", self.client)):
            to.output.shape(
                _shaper(to.output.shaper, [one for one in drawn if one.side in ("", side)], listener.random)
            )

    def _start_timers(self, fault: ByteFault) -> None:
        """Start the time after which a new fault ends the connection."""
        loop = asyncio.get_running_loop()
        for time_ns, reset in ((fault.timeout or -1, False), (fault.reset_peer, True)):
            if self._drawn[fault] and time_ns >= 0:
                end = partial(self._end_if_applied, fault, reset=reset)
                self._fault_timers.append(loop.call_later(time_ns / 1e9, end))

    def _end_if_applied(self, fault: ByteFault, *, reset: bool) -> None:
        """End the connection by a fault, unless the fault was removed."""
        if fault in self._listener.byte_faults:
            self.end_by_fault(Step(now_ns(), to_broker=False, data=bytearray(), cut=True, reset=reset))

    def wait_for_broker(self, first_frame: FirstFrame, data: bytes) -> None:
        """Keep the client's bytes, and connect to the broker once the first frame is complete."""
        first_frame.data += data
        if self._task is not None or not first_frame.complete:
            return
        if first_frame.wrong_protocol:
            self._listener.note(f"a client at {self._address[0]} {first_frame.wrong_protocol}")
            self.cut("another protocol")
            return
        self.client.hold(1)
        self._task = asyncio.ensure_future(self._connect(first_frame))

    async def _connect(self, first_frame: FirstFrame) -> None:
        self._timer.cancel()
        self._broker_url = first_frame.broker()
        reason = await self._listener.connect(lambda: self.broker, self._broker_url)
        if self._cut:
            self.broker.cut()
        elif reason:
            self._listener.note(f"no broker at {self._broker_url}: {reason}")
            self.cut("no broker")
        else:
            self.first_frame = None
            self.broker.write(bytes(first_frame.data))
            if self.broker.finished:
                self.broker.finish()
            self.client.hold(-1)

    def end_without_broker(self) -> None:
        """Process the end of the client's stream before a broker is connected.

        Close unless a connect is in progress.
        """
        if self._task is None:
            self.client.transport.close()

    # -- bytes -----------------------------------------------------------------------------------------------------

    def from_client(self, data: bytes) -> None:
        """Forward bytes from the client."""
        if self.broker.output.shaper is not None:
            self._timer.cancel()  # a fault may delay the first frame
        self.pass_to_taps(data, from_client=True)
        if self._injector is None:
            self.broker.output.send(data)
        else:
            self._inject(data, from_client=True)

    def from_broker(self, data: bytes) -> None:
        """Forward bytes from the broker with rewritten addresses."""
        if not self._responded:
            self._responded = True
            if wrong_protocol := _OTHER_PROTOCOLS.get(sniff(data[:4096], final=False)):
                self._listener.note(f"the broker at {self._broker_url} {wrong_protocol}")
            else:
                self._listener.allow_repeated_note()
        self._to_client(self._responses.feed(data))

    def _to_client(self, data: bytes) -> None:
        if self._injector is None:
            self.client.output.send(data)
        else:
            self._inject(data, from_client=False)

    def _inject(self, data: bytes, *, from_client: bool) -> None:
        assert self._injector is not None
        for step in self._injector.feed(self._number, data, now_ns(), from_client=from_client):
            (self.broker if step.to_broker else self.client).output.execute(step)

    def pass_to_taps(self, data: bytes, *, from_client: bool) -> None:
        """Pass bytes of the client's socket to the taps, until the client has ended its stream."""
        for tap in () if self._end_reported else self._listener.taps:
            tap.passed(self._number, data, now_ns(), from_client=from_client)

    # -- end -------------------------------------------------------------------------------------------------------

    def ends(self, end: _Endpoint) -> None:
        """Forward the end of one side's stream to the other side, after the waiting bytes."""
        if not end.ended:
            end.ended = True
            if not self._cut:
                self._first_to_end = self._first_to_end or end
            if end is self.broker and (held := self._responses.end()):
                self._to_client(held)
            if end is self.client:
                self._report_end()  # before the broker can respond to the end, for example with redeliveries
            end.other.output.end()

    def lost(self, end: _Endpoint, exc: Exception | None) -> None:
        """Process the closing of one side's socket."""
        if exc is not None and not self._cut:
            self._first_to_end = self._first_to_end or end
            self.cut()
        self.ends(end)
        if end.other.finished and end.other.transport is not None:
            end.other.transport.close()
        if end.other.closed or end.other.transport is None:
            self._end()

    def cut(self, reason: str = _BY_FAULT) -> None:
        """Reset both connections."""
        if not self._cut:
            self._cut, self._reason = True, reason
            self.client.cut()
            self.broker.cut()

    def end_by_fault(self, step: Step) -> None:
        """End both connections as a step requires."""
        if step.reset or self.broker.transport is None:
            self.cut()
        elif not self._cut:
            self._reason = _BY_FAULT
            for end in (self.client, self.broker):
                end.output.clear()
                end.finish()

    def _end(self) -> None:
        """Report the end to the listener and to faults once both sockets are closed."""
        for timer in (self._timer, *self._fault_timers):
            timer.cancel()
        if self not in self._listener.relays:
            return
        self._listener.relays.remove(self)
        for end in (self.client, self.broker):
            end.output.clear()
        if self._first_to_end is self.broker and not self._responded:
            self._listener.note(f"the broker at {self._broker_url} {_SILENT}")
        self._report_end()
        if self._injector is not None:
            self._injector.close(self._number)

    def _report_end(self) -> None:
        """Report the end to taps once. A client that has ended its stream closes its socket and reads nothing more."""
        if self._end_reported:
            return
        self._end_reported = True
        from_client = self._first_to_end is self.client
        for tap in self._listener.taps:
            tap.closed(self._number, now_ns(), from_client=from_client, reset=self._cut, reason=self._reason)


def _shaper(known: TrafficShaper | None, faults: list[ByteFault], random: Random) -> TrafficShaper | None:
    """Return the shaper of a direction, which keeps the state of faults that remain."""
    if not faults:
        return None
    if known is None:
        return TrafficShaper(faults, random)
    known.update(faults)
    return known
