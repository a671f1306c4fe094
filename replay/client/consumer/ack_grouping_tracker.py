"""Acknowledgements of the application, grouped and sent together.

Rules of this file (PersistentAcknowledgmentsGroupingTracker, LastCumulativeAck; 4.2.4)
1. Acks wait until the next tick of ``acknowledgementsGroupTimeMicros``, counted from the creation of the consumer, or
   until ``maxAcknowledgmentGroupSize`` entries are waiting. If the time is 0, each ack is sent immediately. Acks with
   properties are always sent immediately.
2. A tick sends the last cumulative ack in a separate command, then one command with all individual acks: complete
   entries in order, then partial batches in order.
3. A batch entry is acknowledged when all its messages are acknowledged. Before that, the remaining messages are sent as
   ``ack_set`` if ``batchIndexAckEnabled`` is set; otherwise nothing is sent. If ack sets are disabled, a cumulative ack
   within a batch acknowledges the previous entry.
4. An individual ack of a chunked message acknowledges all its chunks. A cumulative ack acknowledges only the last
   chunk.
5. If receipts are used (``ackReceiptEnabled``, protocol version 17), a command has a request id, and its ACK_RESPONSE
   completes all acks in the command. Otherwise an ack is complete when the tracker accepts it.
6. Waiting acks are kept when the connection is lost, and are sent on the next connection. A message that is redelivered
   while its ack waits is a duplicate (isDuplicate). Java sends acks as soon as there is a connection, but a broker
   drops acks that arrive before it has responded to SUBSCRIBE. This client sends acks only after that response.
7. Non-persistent topics have no acks (NonPersistentAcknowledgmentGroupingTracker).

Java keeps acks whose write failed. In this client a write fails only when the connection ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from pcli.codec.proto import pb
from pcli.codec.wire.bits import words_of
from pcli.codec.wire.hot import push_ack
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.message_ids import AckSet, ClientMessageId

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.connection.client_connection import ClientConnection
    from pcli.replay.client.consumer.unacked_message_tracker import Clock
    from pcli.replay.client.settings import ConsumerSettings

AckDone = Callable[[ClientFailure | None], None]
"""Callback for the result of an ack. It is called once; None means success."""

_RECEIPTS: Final = 17
"""The first protocol version with ACK_RESPONSE."""

_INDIVIDUAL: Final = pb.CommandAck.Individual
_CUMULATIVE: Final = pb.CommandAck.Cumulative

_NO_BATCH: Final = AckSet(0)
"""A placeholder ack set that does not belong to any id."""


class Owner(Protocol):
    """The consumer that owns the acks."""

    number: int
    persistent: bool

    def settled(self, id_: ClientMessageId) -> None:
        """Process the acknowledgement of an entry."""

    def settled_till(self, last: ClientMessageId) -> None:
        """Process the acknowledgement of all messages up to this message."""


class AckGroupingTracker:
    """The waiting acks of one consumer."""

    def __init__(self, clock: Clock, owner: Owner, settings: ConsumerSettings) -> None:
        self.connection: ClientConnection | None = None
        """The connection on which acks are sent; None if there is no subscription."""
        self.chunks: dict[ClientMessageId, list[ClientMessageId]] = {}
        """Chunk ids of received chunked messages, until the messages are acknowledged."""
        self._clock = clock
        self._owner = owner
        self._number = owner.number
        self._persistent = owner.persistent
        self._time = -(-settings.acknowledgementsGroupTimeMicros // 1000)
        self._most = settings.maxAcknowledgmentGroupSize
        self._indexes = settings.batchIndexAckEnabled
        self._receipts = settings.ackReceiptEnabled
        self._start = clock.now
        self._timer: Timer | None = None
        self._entries: dict[tuple[int, int], ClientMessageId] = {}
        self._parts: dict[tuple[int, int], AckSet] = {}
        self._current = _NO_BATCH
        """The waiting ack set that was last changed."""
        self._last: ClientMessageId | None = None
        self._last_bits: int | None = None
        self._last_waits = False
        self._dones: list[AckDone] = []
        self._last_dones: list[AckDone] = []

    # -- input -----------------------------------------------------------------------------------------------------

    def add(self, id_: ClientMessageId, done: AckDone | None = None) -> None:
        """Acknowledge one message."""
        acks = id_.acks
        if acks is self._current and done is None:
            # Hot path: a message in the middle of a batch whose ack set is already waiting.
            acks.bits = left = acks.bits & ~(1 << id_.batch_index)
            if left:
                return
        if not self._persistent:
            _tell(done)
        elif id_.batch_index < 0 or id_.acknowledge():
            self._owner.settled(id_)
            self._add_entry(id_, done)
        elif not self._indexes:
            _tell(done)
        elif self._time <= 0:
            left = (1 << id_.batch_size) - 1 if acks is None else acks.bits
            self._at_once(id_, left & ~(1 << id_.batch_index), _INDIVIDUAL, {}, done)
        else:
            self._add_part(id_, acks)
            self._wait(done, self._dones)
            if len(self._parts) >= self._most:
                self.flush()

    def _add_part(self, id_: ClientMessageId, acks: AckSet | None) -> None:
        place = id_.ledger, id_.entry
        kept = self._parts.get(place)
        if kept is None:
            kept = self._parts[place] = AckSet((1 << id_.batch_size) - 1) if acks is None or not acks.bits else acks
        kept.bits &= ~(1 << id_.batch_index)
        self._current = _NO_BATCH if acks is not kept else kept

    def add_cumulative(
        self, id_: ClientMessageId, done: AckDone | None = None, properties: Mapping[str, int] | None = None
    ) -> None:
        """Acknowledge all messages up to this id. The broker stores the properties with the subscription's cursor."""
        if not self._persistent:
            _tell(done)
            return
        bits: int | None = None
        if id_.acknowledge(cumulative=True):
            id_ = id_.whole
        elif self._indexes:
            bits = (1 << id_.batch_size) - (1 << id_.batch_index + 1)
        else:
            id_ = id_.previous
        self._owner.settled_till(id_)
        if self._time <= 0 or properties:
            self._at_once(id_, bits, _CUMULATIVE, properties or {}, done)
            return
        if self._last is None or _reach(self._last) < _reach(id_):
            self._last, self._last_bits, self._last_waits = id_, bits, True
        self._wait(done, self._last_dones)

    def _add_entry(self, id_: ClientMessageId, done: AckDone | None) -> None:
        if self._time <= 0:
            self._at_once(id_, None, _INDIVIDUAL, {}, done)
            return
        place = id_.ledger, id_.entry
        self._entries[place] = id_
        if self._parts.pop(place, None) is not None:
            self._current = _NO_BATCH
        self._wait(done, self._dones)
        if len(self._entries) >= self._most:
            self.flush()

    def _wait(self, done: AckDone | None, dones: list[AckDone]) -> None:
        if done is not None:
            if self._asks:
                dones.append(done)
            else:
                done(None)
        if self._timer is None:
            ticks = (self._clock.now - self._start) // self._time + 1
            self._timer = self._clock.call_at(self._start + ticks * self._time, self._tick)

    @property
    def _asks(self) -> bool:
        return self._receipts and self.connection is not None and self.connection.version >= _RECEIPTS

    # -- queries -----------------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether no acks are tracked. If none are tracked, no message can be a duplicate."""
        return self._last is None and not self._entries and not self._parts

    def duplicate(self, id_: ClientMessageId) -> bool:
        """Return whether this tracker contains an ack for this message."""
        if self._last is not None and _reach(id_) <= _reach(self._last):
            return True
        place = id_.ledger, id_.entry
        if place in self._entries:
            return True
        kept = self._parts.get(place)
        return kept is not None and id_.batch_index >= 0 and not kept.bits >> id_.batch_index & 1

    # -- output ------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send the waiting acks if there is a connection."""
        connection = self.connection
        if connection is None:
            return
        if self._last_waits:
            assert self._last is not None
            self._last_waits = False
            dones, self._last_dones = self._last_dones, []
            self._send(connection, [(self._last, self._last_bits)], _CUMULATIVE, {}, dones)
            self.chunks.pop(self._last, None)
        acks: list[tuple[ClientMessageId, int | None]] = []
        for place in sorted(self._entries):
            id_ = self._entries[place]
            acks += [(one, None) for one in self.chunks.pop(id_, None) or (id_,)]
        acks += [(ClientMessageId(*place), self._parts[place].bits) for place in sorted(self._parts)]
        self._entries.clear()
        self._parts.clear()
        self._current = _NO_BATCH
        if acks:
            dones, self._dones = self._dones, []
            self._send(connection, acks, _INDIVIDUAL, {}, dones)

    def flush_and_clean(self) -> None:
        """Send the waiting acks and reset the cumulative position after the cursor was moved."""
        self.flush()
        self._last = self._last_bits = None
        self._last_waits = False
        self._entries.clear()

    def close(self) -> None:
        """Send the waiting acks and stop the timer."""
        self.flush()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def refuse(self, id_: ClientMessageId, error: pb.CommandAck.ValidationError.ValueType) -> None:
        """Acknowledge an unreadable entry immediately (discardCorruptedMessage)."""
        if self.connection is not None:
            ack = pb.CommandAck(consumer_id=self._number, ack_type=_INDIVIDUAL, validation_error=error)
            _add_id(ack, id_, None)
            self.connection.send(ack)

    def _tick(self) -> None:
        self._timer = None
        self.flush()
        if self._entries or self._parts or self._last_waits:
            self._wait(None, self._dones)

    def _at_once(
        self, id_: ClientMessageId, bits: int | None, kind: Any, properties: Mapping[str, int], done: AckDone | None
    ) -> None:
        connection = self.connection
        dones = [] if done is None else [done]
        if connection is None:
            for one in dones:
                one(ClientFailure("Disconnected", f"{id_} cannot be acknowledged: there is no connection"))
            return
        chunks = self.chunks.pop(id_, None) if bits is None else None
        acks: list[tuple[ClientMessageId, int | None]] = [(id_, bits)]
        if chunks and kind == _INDIVIDUAL:
            acks = [(one, None) for one in chunks]
        waits = self._asks
        self._send(connection, acks, kind, properties, dones)
        if not waits:
            for one in dones:
                one(None)

    def _send(
        self,
        connection: ClientConnection,
        acks: list[tuple[ClientMessageId, int | None]],
        kind: Any,
        properties: Mapping[str, int],
        dones: list[AckDone],
    ) -> None:
        if not self._asks and not properties and all(bits is None for _, bits in acks):
            connection.write(push_ack(self._number, kind, [(id_.ledger, id_.entry, -1, -1) for id_, _ in acks]))
            return
        ack = pb.CommandAck(consumer_id=self._number, ack_type=kind)
        for id_, bits in acks:
            _add_id(ack, id_, bits)
        for key, value in properties.items():
            ack.properties.add(key=key, value=value)
        if not self._asks:
            connection.send(ack)
            return

        def on_response(response: Any) -> None:
            for done in dones:
                done(response if isinstance(response, ClientFailure) else None)

        ack.request_id = connection.session.next_request_id()
        connection.request(ack, on_response)


def _reach(id_: ClientMessageId) -> tuple[int, int, int | float]:
    """Return a sort key. An id without a batch index covers its whole entry (LastCumulativeAck.compareTo)."""
    return id_.ledger, id_.entry, id_.batch_index if id_.batch_index >= 0 else float("inf")


def _add_id(ack: pb.CommandAck, id_: ClientMessageId, bits: int | None) -> None:
    data = ack.message_id.add(ledgerId=id_.ledger & (1 << 64) - 1, entryId=id_.entry & (1 << 64) - 1)
    if bits is not None:
        data.ack_set.extend(words_of(bits))


def _tell(done: AckDone | None) -> None:
    if done is not None:
        done(None)
