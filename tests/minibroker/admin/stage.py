"""Runs the recorded states of `states.jsonl`: clients and requests, against any broker.

A state is a list of steps. ``read`` steps have the response of a real 4.2.4. Message ids are the numbers of the
messages that the step's topic received, because ledger ids differ between brokers.
"""

from __future__ import annotations

from typing import Any

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry

PUBLISHED = 1_700_000_000_000
"""The publish time of all messages."""
COORDINATOR = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"


class Stage:
    """One broker. A subclass implements `send`, `rest` and `wait`."""

    def __init__(self) -> None:
        self.ids: dict[str, list[Any]] = {}
        """The ids of the messages by topic."""
        self.txns: list[tuple[int, int]] = []
        self.topics: dict[tuple[str, int], str] = {}
        """The topic by client and id of the producer."""

    def send(self, client: str, command: Any, entry: bytes = b"") -> list[Any]:
        """Send a command and return the received commands. A client connects with its first command."""
        raise NotImplementedError

    def rest(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return the JSON of the response."""
        raise NotImplementedError

    def wait(self, milliseconds: int) -> None:
        """Let time pass."""
        raise NotImplementedError

    def run(self, operation: str, *arguments: Any, **options: Any) -> Any:
        """Run one step. Return the response of ``read``."""
        return getattr(self, f"do_{operation}")(*arguments, **options)

    def do_wait(self, milliseconds: int) -> None:
        self.wait(milliseconds)

    def do_rest(self, method: str, path: str, body: Any = None) -> None:
        self.rest(method, path, body)

    def do_read(self, path: str) -> Any:
        return self.rest("GET", path)

    def do_producer(self, client: str, number: int, topic: str, **fields: Any) -> None:
        self.topics[client, number] = topic
        if "schema" in fields:
            fields["schema"] = pb.Schema(name="", type=fields["schema"], schema_data=b"")
        self.send(client, pb.CommandLookupTopic(topic=topic, request_id=1))
        self.send(client, pb.CommandProducer(topic=topic, producer_id=number, request_id=2, **fields))

    def do_subscribe(self, client: str, number: int, topic: str, kind: str, subscription: str, **fields: Any) -> None:
        self.send(client, pb.CommandLookupTopic(topic=topic, request_id=1))
        mode = fields.pop("mode", None)
        command = pb.CommandSubscribe(
            topic=topic, subscription=subscription, consumer_id=number, request_id=2, subType=kind, **fields
        )
        if mode is not None:
            command.keySharedMeta.keySharedMode = pb.KeySharedMode.Value(mode)
        self.send(client, command)

    def do_flow(self, client: str, number: int, permits: int) -> None:
        self.send(client, pb.CommandFlow(consumer_id=number, messagePermits=permits))

    def do_publish(self, client: str, number: int, payload: str = "hello", batch: int = 0, **fields: Any) -> None:
        """Publish a message, or a batch of messages with the same payload."""
        topic = self.topics[client, number]
        ids = self.ids.setdefault(topic, [])
        txn = fields.pop("txn", None)
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=len(ids), publish_time=PUBLISHED, **fields)
        command = pb.CommandSend(producer_id=number, sequence_id=len(ids), num_messages=batch or 1)
        if txn is not None:
            command.txnid_most_bits, command.txnid_least_bits = self.txns[txn]
        data = payload.encode()
        if batch:
            metadata.num_messages_in_batch = batch
            single = pb.SingleMessageMetadata(payload_size=len(data)).SerializeToString()
            data = (len(single).to_bytes(4, "big") + single + data) * batch
        for body in self.send(client, command, push_entry(metadata, data)):
            if isinstance(body, pb.CommandSendReceipt):
                ids.append(body.message_id)

    def do_ack(
        self, client: str, number: int, topic: str, numbers: list[int], kind: str = "Individual", **fields: Any
    ) -> None:
        txn, bits = fields.pop("txn", None), fields.pop("ack_set", None)
        command = pb.CommandAck(consumer_id=number, ack_type=kind, request_id=3)
        for index in numbers:
            place = command.message_id.add()
            place.CopyFrom(self.ids[topic][index])
            if bits is not None:
                place.ack_set.extend(bits)
        if txn is not None:
            command.txnid_most_bits, command.txnid_least_bits = self.txns[txn]
        self.send(client, command)

    def do_redeliver(self, client: str, number: int, topic: str, numbers: list[int]) -> None:
        command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=number)
        for index in numbers:
            place = self.ids[topic][index]
            command.message_ids.add(ledgerId=place.ledgerId, entryId=place.entryId)
        self.send(client, command)

    def do_close(self, client: str, number: int) -> None:
        self.send(client, pb.CommandCloseConsumer(consumer_id=number, request_id=4))

    def do_seek(self, client: str, number: int, topic: str, index: int) -> None:
        place = self.ids[topic][index]
        command = pb.CommandSeek(consumer_id=number, request_id=5)
        command.message_id.CopyFrom(place)
        self.send(client, command)

    def do_begin(self, client: str, topic: str, subscription: str = "") -> None:
        """Begin a transaction with a topic, and with a subscription if it is given."""
        self.send(client, pb.CommandLookupTopic(topic=COORDINATOR, request_id=1))
        self.send(client, pb.CommandTcClientConnectRequest(tc_id=0, request_id=6))
        found = self.send(client, pb.CommandNewTxn(request_id=7, txn_ttl_millis=600_000, tc_id=0))
        [created] = [body for body in found if isinstance(body, pb.CommandNewTxnResponse)]
        most, least = created.txnid_most_bits, created.txnid_least_bits
        self.txns.append((most, least))
        ids = {"txnid_most_bits": most, "txnid_least_bits": least}
        self.send(client, pb.CommandAddPartitionToTxn(request_id=8, partitions=[topic], **ids))
        if subscription:
            added = pb.CommandAddSubscriptionToTxn(request_id=9, **ids)
            added.subscription.add(topic=topic, subscription=subscription)
            self.send(client, added)

    def do_end(self, client: str, txn: int, action: str) -> None:
        most, least = self.txns[txn]
        command = pb.CommandEndTxn(request_id=10, txnid_most_bits=most, txnid_least_bits=least, txn_action=action)
        self.send(client, command)
