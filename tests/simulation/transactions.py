"""A client that runs one transaction with raw commands, because the client engine has no transactions."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from simulation.links import Link
from simulation.network import Network

from pcli.codec.proto import pb
from pcli.codec.session import ClientSession
from pcli.codec.wire.build import push_entry

__all__ = ["TTL_MS", "WAIT_MS", "TransactionClient"]

_ASSIGN = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
TTL_MS = 10_000
"""The timeout of a transaction."""
WAIT_MS = 200
"""The time in which a consumer receives messages."""
_RECONNECT_MS = 500
_MAX_CONNECTIONS = 12


class TransactionClient:
    """A process that opens a transaction, sends and acknowledges messages in it, and ends it.

    If its connection ends before the last acknowledgement, it stops; the coordinator then aborts the transaction at its
    timeout. If it ends later, the client ends the transaction over a new connection.
    """

    def __init__(self, network: Network, number: int, topic: str, step: dict[str, Any]) -> None:
        self.network, self.number, self.topic, self.step = network, number, topic, step
        self.done = False
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
        step = self.step
        yield from self._connect_to_coordinator()
        opened = (yield pb.CommandNewTxn(txn_ttl_millis=TTL_MS, tc_id=0), b"").body
        if opened.HasField("error"):
            return
        bits = {"txnid_most_bits": opened.txnid_most_bits, "txnid_least_bits": opened.txnid_least_bits}
        yield pb.CommandLookupTopic(topic=self.topic), b""
        if step["messages"]:
            if (yield pb.CommandProducer(topic=self.topic, producer_id=1), b"").name != "PRODUCER_SUCCESS":
                return
            if (yield pb.CommandAddPartitionToTxn(partitions=[self.topic], **bits), b"").body.HasField("error"):
                return
            yield from self._send(step["messages"], bits)
        if step["acks"]:
            yield from self._acknowledge(step["acks"], bits)
        if step["action"] != "NONE":
            self._to_end = bits
            yield step["think_ms"]
            yield self._end(bits)

    def _end_over_new_connection(self, bits: dict[str, int]) -> Generator[Any, Any, None]:
        """End the transaction over a new connection."""
        yield
        yield from self._connect_to_coordinator()
        yield self._end(bits)

    def _connect_to_coordinator(self) -> Generator[Any, Any, None]:
        yield pb.CommandLookupTopic(topic=_ASSIGN), b""
        yield pb.CommandTcClientConnectRequest(tc_id=0), b""

    def _end(self, bits: dict[str, int]) -> tuple[pb.CommandEndTxn, bytes]:
        return pb.CommandEndTxn(txn_action=pb.TxnAction.Value(self.step["action"]), **bits), b""

    def _send(self, count: int, bits: dict[str, int]) -> Generator[Any, Any, None]:
        for index in range(count):
            metadata = pb.MessageMetadata(
                producer_name=f"t{self.number}", sequence_id=index, publish_time=self.network.now, **bits
            )
            text = b"t%d.%d" % (self.number, index)
            yield pb.CommandSend(producer_id=1, sequence_id=index, **bits), push_entry(metadata, text)

    def _acknowledge(self, count: int, bits: dict[str, int]) -> Generator[Any, Any, None]:
        """Receive entries with the subscription of the plan, and acknowledge them in the transaction."""
        kind = pb.CommandSubscribe.SubType.Value(self.step["type"])
        earliest = pb.CommandSubscribe.Earliest
        subscribe = pb.CommandSubscribe(
            topic=self.topic, subscription="s", subType=kind, consumer_id=1, consumer_name=f"t{self.number}",
            initialPosition=earliest,
        )  # fmt: skip
        if (yield subscribe, b"").name != "SUCCESS":
            return
        part = {"topic": self.topic, "subscription": "s"}
        if (yield pb.CommandAddSubscriptionToTxn(subscription=[part], **bits), b"").body.HasField("error"):
            return
        self.session.send(pb.CommandFlow(consumer_id=1, messagePermits=count))
        self._link.write(self.session.output(), from_client=True)
        yield WAIT_MS
        for place in self._messages[:count]:
            ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[place], **bits)
            ack.request_id = self.session.next_request_id()
            yield ack, b""
