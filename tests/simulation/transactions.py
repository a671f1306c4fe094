"""A client that runs one transaction with raw commands, because the client engine has no transactions."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

from simulation.links import Link
from simulation.network import Network

from pcli.codec.proto import pb
from pcli.codec.session import ClientSession
from pcli.codec.wire.build import push_entry

_ASSIGN = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
_TTL_MS = 10_000
_WAIT_MS = 200
_RECONNECT_MS = 500
_MAX_CONNECTIONS = 12


class TransactionClient:
    """A process that opens a transaction, sends and acknowledges messages in it, and ends it.

    If a message is refused, or its connection ends before the last acknowledgement, it stops. The coordinator then
    aborts the transaction at its timeout. If the connection ends later, the client ends the transaction over a new one.
    """

    coordinator = 0
    """The id of its transaction coordinator."""
    fields: ClassVar[dict[str, Any]] = {}
    """Fields of the commands of transactions."""

    def __init__(self, network: Network, number: int, topic: str, step: dict[str, Any]) -> None:
        self.network, self.number, self.topic, self.step = network, number, topic, step
        self.done = False
        self.receipts: list[bytes] = []
        """The texts of the messages with receipts."""
        self.outcome = ""
        """COMMIT or ABORT after a confirmed end; otherwise empty."""
        self.requested = False
        """Whether the end was requested."""
        self._messages: list[Any] = []
        self._to_end: dict[str, int] | None = None
        """The id of the transaction, when nothing remains but to end it."""
        self._connections = 0
        self._connect(self._run())

    # -- connection ----------------------------------------------------------------------------------------------------

    def _connect(self, program: Generator[Any, Any, None]) -> None:
        """Open a connection and run a program over it."""
        self.session = ClientSession()
        self._waits_for: Any = None
        self._program = program
        next(program)
        self._connections += 1
        self._link = self.network.connect(self, self)

    def opened(self, link: Link) -> None:
        """Start the handshake."""
        self.session.connect()
        self._waits_for = "CONNECTED"
        link.write(self.session.output(), from_client=True)

    def received(self, link: Link, data: bytes) -> None:
        """Process the responses and messages."""
        if link is not self._link:
            return
        for event in self.session.receive(data):
            if event.name == "MESSAGE":
                self._messages.append(event.body.message_id)
            elif event.name in ("CLOSE_CONSUMER", "CLOSE_PRODUCER"):
                if self._to_end is None:
                    self._stop()
            elif event.name == self._waits_for or (event.request is not None and event.request is self._waits_for):
                self._next(event)
        if link.client_open:
            link.write(self.session.output(), from_client=True)

    def ended(self, link: Link, reason: str) -> None:
        """Stop, or reconnect to end the transaction."""
        del reason
        if self.done or link is not self._link:
            return
        transaction = self._to_end
        if transaction is None or self._connections == _MAX_CONNECTIONS:
            self.done = True
        else:
            self.network.at(
                self.network.now + _RECONNECT_MS, lambda: self._connect(self._end_over_new_connection(transaction))
            )

    def _stop(self) -> None:
        if not self.done:
            self.done = True
            self._link.close(from_client=True)

    def _next(self, event: Any) -> None:
        """Continue the program until it waits for a response or for a time."""
        if self.done:
            return
        try:
            wanted = self._program.send(event)
        except StopIteration:
            self._stop()
            return
        if isinstance(wanted, str):
            self._waits_for = wanted
            self._link.write(self.session.output(), from_client=True)
        elif isinstance(wanted, int):
            self._waits_for = None
            program = self._program
            self.network.at(self.network.now + wanted, lambda: self._wake(program))
        else:
            body, entry = wanted
            self._waits_for = self.session.send(body, entry)
            self._link.write(self.session.output(), from_client=True)

    def _wake(self, program: Generator[Any, Any, None]) -> None:
        if not self.done and program is self._program and self._link.client_open:
            self._next(None)

    # -- program -------------------------------------------------------------------------------------------------------

    def _run(self) -> Generator[Any, Any, None]:
        """Yield commands, and receive their responses.

        A number waits for so many milliseconds, and a text for the command of this name.
        """
        yield
        bits = yield from self._begin()
        if not bits:
            return
        yield pb.CommandLookupTopic(topic=self.topic), b""
        count = self.step["messages"]
        if count and not (yield from self._send(self.topic, 1, range(count), bits)):
            return
        if self.step["acks"]:
            yield from self._acknowledge(self.topic, "s", self.step["type"], bits)
        yield from self._finish(bits)

    def _connect_to_coordinator(self) -> Generator[Any, Any, None]:
        yield pb.CommandLookupTopic(topic=_ASSIGN), b""
        yield pb.CommandTcClientConnectRequest(tc_id=self.coordinator), b""

    def _begin(self) -> Generator[Any, Any, dict[str, int]]:
        """Open a transaction. Return the fields with its id, or no fields after an error."""
        yield from self._connect_to_coordinator()
        opened = (yield pb.CommandNewTxn(txn_ttl_millis=_TTL_MS, tc_id=self.coordinator, **self.fields), b"").body
        if opened.HasField("error"):
            return {}
        return {"txnid_most_bits": opened.txnid_most_bits, "txnid_least_bits": opened.txnid_least_bits}

    def _finish(self, bits: dict[str, int]) -> Generator[Any, Any, None]:
        """End the transaction after a pause, unless its step has no end."""
        if self.step["action"] != "NONE":
            self._to_end = bits
            yield self.step["think_ms"]
            yield from self._end(bits)

    def _end_over_new_connection(self, bits: dict[str, int]) -> Generator[Any, Any, None]:
        yield
        yield from self._connect_to_coordinator()
        yield from self._end(bits)

    def _end(self, bits: dict[str, int]) -> Generator[Any, Any, None]:
        action = self.step["action"]
        self.requested = True
        response = yield pb.CommandEndTxn(txn_action=pb.TxnAction.Value(action), **self.fields, **bits), b""
        if response.name == "END_TXN_RESPONSE" and not response.body.HasField("error"):
            self.outcome = action

    def _send(self, topic: str, producer: int, indexes: range, bits: dict[str, int]) -> Generator[Any, Any, bool]:
        """Send messages to a topic; return whether all of them have receipts."""
        request = pb.CommandProducer(topic=topic, producer_id=producer, txn_enabled=True)
        if (yield request, b"").name != "PRODUCER_SUCCESS":
            return False
        added = yield pb.CommandAddPartitionToTxn(partitions=[topic], **self.fields, **bits), b""
        if added.body.HasField("error"):
            return False
        for sequence, index in enumerate(indexes):
            metadata = pb.MessageMetadata(
                producer_name=f"t{self.number}", sequence_id=sequence, publish_time=self.network.now, **bits
            )
            text = b"t%d.%d" % (self.number, index)
            sent = pb.CommandSend(producer_id=producer, sequence_id=sequence, **bits)
            if (yield sent, push_entry(metadata, text)).name != "SEND_RECEIPT":
                return False
            self.receipts.append(text)
        return True

    def _acknowledge(self, topic: str, subscription: str, kind: str, bits: dict[str, int]) -> Generator[Any, Any, None]:
        """Receive entries of a topic, and acknowledge them in the transaction."""
        subscribe = pb.CommandSubscribe(
            topic=topic, subscription=subscription, subType=pb.CommandSubscribe.SubType.Value(kind), consumer_id=1,
            consumer_name=f"t{self.number}", initialPosition=pb.CommandSubscribe.Earliest,
        )  # fmt: skip
        if (yield subscribe, b"").name != "SUCCESS":
            return
        pairs = [{"topic": topic, "subscription": subscription}]
        added = yield pb.CommandAddSubscriptionToTxn(subscription=pairs, **self.fields, **bits), b""
        if added.body.HasField("error"):
            return
        count = self.step["acks"]
        self.session.send(pb.CommandFlow(consumer_id=1, messagePermits=count))
        self._link.write(self.session.output(), from_client=True)
        yield _WAIT_MS
        for place in self._messages[:count]:
            ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[place], **bits)
            ack.request_id = self.session.next_request_id()
            yield ack, b""
