"""A client that runs one transaction on several segments of a scalable topic with raw commands.

The commands and their order are those of the V5 Java client 5.0.1 (capture transaction-across-segments). As this
client does, it does not commit after a message was refused.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from simulation.network import Network
from simulation.transactions import TTL_MS, WAIT_MS, TransactionClient

from pcli.codec.proto import pb
from pcli.codec.scalable import Layout
from pcli.codec.wire.build import push_entry

__all__ = ["QUEUE", "ScalableTransactionClient"]

QUEUE = "q"
"""The subscription with the acknowledgements of transactions."""
_COORDINATORS = 3


class ScalableTransactionClient(TransactionClient):
    """A process that opens a transaction, sends to each segment, acknowledges messages, and ends the transaction."""

    def __init__(self, network: Network, number: int, topic: str, step: dict[str, Any]) -> None:
        self.receipts: list[bytes] = []
        """The texts of the messages with receipts."""
        self.outcome = ""
        """COMMIT or ABORT after a confirmed end; otherwise empty."""
        self.requested = False
        """Whether the end was requested."""
        super().__init__(network, number, topic, step)

    def _run(self) -> Generator[Any, Any, None]:
        yield
        step = self.step
        self.session.send(pb.CommandScalableTopicLookup(session_id=1, topic=self.topic))
        update = yield "SCALABLE_TOPIC_UPDATE"
        if update.body.HasField("error"):
            return
        segments = [one.name(self.topic) for one in Layout.of(update.body.dag).active]
        yield from self._connect_to_coordinator()
        opened = (
            yield (
                pb.CommandNewTxn(txn_ttl_millis=TTL_MS, tc_id=self._coordinator, scalable=True),
                b"",
            )
        ).body
        if opened.HasField("error"):
            return
        bits = {"txnid_most_bits": opened.txnid_most_bits, "txnid_least_bits": opened.txnid_least_bits}
        for index, name in enumerate(segments if step["messages"] else ()):
            if not (yield from self._send_to(name, index, bits)):
                return
        if step["acks"]:
            yield from self._acknowledge_on(segments[self.number % len(segments)], bits)
        if step["action"] != "NONE":
            self._to_end = bits
            yield step["think_ms"]
            yield from self._finish(bits)

    @property
    def _coordinator(self) -> int:
        return self.number % _COORDINATORS

    def _connect_to_coordinator(self) -> Generator[Any, Any, None]:
        yield pb.CommandTcClientConnectRequest(tc_id=self._coordinator, scalable=True), b""

    def _end_over_new_connection(self, bits: dict[str, int]) -> Generator[Any, Any, None]:
        yield
        yield from self._connect_to_coordinator()
        yield from self._finish(bits)

    def _finish(self, bits: dict[str, int]) -> Generator[Any, Any, None]:
        action = self.step["action"]
        self.requested = True
        response = yield pb.CommandEndTxn(txn_action=pb.TxnAction.Value(action), scalable=True, **bits), b""
        if response.name == "END_TXN_RESPONSE" and not response.body.HasField("error"):
            self.outcome = action

    def _send_to(self, segment: str, index: int, bits: dict[str, int]) -> Generator[Any, Any, bool]:
        """Send messages to a segment; return whether all of them have receipts."""
        producer = index + 1
        yield pb.CommandLookupTopic(topic=segment), b""
        request = pb.CommandProducer(topic=segment, producer_id=producer, txn_enabled=True)
        if (yield request, b"").name != "PRODUCER_SUCCESS":
            return False
        added = yield pb.CommandAddPartitionToTxn(partitions=[segment], scalable=True, **bits), b""
        if added.body.HasField("error"):
            return False
        for number in range(self.step["messages"]):
            text = b"t%d.%d" % (self.number, index * self.step["messages"] + number)
            metadata = pb.MessageMetadata(
                producer_name=f"t{self.number}", sequence_id=number, publish_time=self.network.now, **bits
            )
            sent = pb.CommandSend(producer_id=producer, sequence_id=number, **bits)
            if (yield sent, push_entry(metadata, text)).name != "SEND_RECEIPT":
                return False
            self.receipts.append(text)
        return True

    def _acknowledge_on(self, segment: str, bits: dict[str, int]) -> Generator[Any, Any, None]:
        """Receive entries of a segment, and acknowledge them in the transaction."""
        subscribe = pb.CommandSubscribe(
            topic=segment, subscription=QUEUE, subType=pb.CommandSubscribe.Shared, consumer_id=1,
            consumer_name=f"t{self.number}", initialPosition=pb.CommandSubscribe.Earliest,
        )  # fmt: skip
        yield pb.CommandLookupTopic(topic=segment), b""
        if (yield subscribe, b"").name != "SUCCESS":
            return
        pairs = [{"topic": segment, "subscription": QUEUE}]
        added = yield pb.CommandAddSubscriptionToTxn(subscription=pairs, scalable=True, **bits), b""
        if added.body.HasField("error"):
            return
        self.session.send(pb.CommandFlow(consumer_id=1, messagePermits=self.step["acks"]))
        self._link.write(self.session.output(), from_client=True)
        yield WAIT_MS
        for place in self._messages[: self.step["acks"]]:
            ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[place], **bits)
            ack.request_id = self.session.next_request_id()
            yield ack, b""
