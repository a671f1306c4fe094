"""A producer inside the broker: its checks and its responses (class Producer).

Rules of this file
1. A producer is joining, attached or closed. It is joining while it waits for exclusive access or for the check whether
   another producer with its name is alive. While it is joining, its id is in use, and a SEND closes the connection.
2. Receipts are sent in the order of the entries. If a check fails, its error is sent at once. This does not change the
   order, because an append is complete when it returns.
3. When the broker closes a producer, the connection keeps the producer id for one keep-alive interval and drops SENDs
   in flight without a response. Clients below version 5 do not support CLOSE_PRODUCER; their connections are closed.
4. The fast path, which checks only the checksum, is the hot path of the whole broker. `fast_path` is True while it may
   be used; any change that enables a check clears it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

import google_crc32c

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.wire.constants import CHECKSUM_MAGIC
from pcli.codec.wire.hot import pull_send, push_varint
from pcli.codec.wire.message_id import signed
from pcli.minibroker.error_responses import NOBODY
from pcli.minibroker.errors import Refused, service_exception
from pcli.minibroker.storage.spilling_storage import StorageFull
from pcli.minibroker.topics.frame_writers import SendReceiptWriter
from pcli.minibroker.topics.publishing import Publication, publish
from pcli.minibroker.transactions.txn_id import txn_of

if TYPE_CHECKING:
    from pcli.minibroker.topics.topic import Topic
    from pcli.minibroker.topics.transport_cnx import TransportCnx

_head = Struct(">HI").unpack_from
_two_lengths = Struct(">II").unpack_from
_crc32c = google_crc32c.value
_EXCEPTIONS: Final[dict[int, str]] = {
    pb.ProducerBusy: "ProducerBusyException",
    pb.ProducerFenced: "ProducerFencedException",
    pb.TopicTerminatedError: "TopicTerminatedException",
    pb.ServiceNotReady: "TopicFencedException",
}
"""The classes of the real broker's exceptions when it adds a producer, by error code."""

_HEAD: Final = 6
_LEAST: Final = 8 + 4 + _HEAD
"""A lower bound of the size of a frame that the fast path can handle."""
_SEND: Final = pb.BaseCommand.SEND
_BYTES: Final = [bytes([value]) for value in range(256)]


class Producer:
    """One producer of a topic."""

    __slots__ = (
        "_append",
        "_append_run",
        "_write_receipt",
        "_write_receipts",
        "access_mode",
        "bytes_in",
        "chunked",
        "closed",
        "connected_since",
        "connection",
        "encrypted",
        "fast_path",
        "id",
        "messages_in",
        "metadata",
        "name",
        "ready",
        "request_id",
        "schema_version",
        "topic",
        "topic_epoch",
    )

    def __init__(
        self, topic: Topic, connection: TransportCnx, command: pb.CommandProducer, name: str, schema_version: bytes
    ) -> None:
        self.topic = topic
        self.connection = connection
        self.id = command.producer_id
        self.request_id = command.request_id
        """Request id of the producer's PRODUCER command. The command can get two responses."""
        self.name = name
        self.access_mode = command.producer_access_mode
        self.topic_epoch = signed(command.topic_epoch) if command.HasField("topic_epoch") else None
        """The topic epoch that the producer claims, or None for the next epoch."""
        self.encrypted = command.encrypted
        self.metadata = {pair.key: pair.value for pair in command.metadata}
        self.schema_version = schema_version
        """The schema version as on the wire; empty if none."""
        self.connected_since = topic.broker.now
        receipts = SendReceiptWriter(self.id)
        self._write_receipt, self._write_receipts = receipts.write, receipts.write_run
        self.ready = False
        """Whether the producer is attached to the topic."""
        self.closed = False
        self.fast_path = False
        """Whether the fast path may be used: the producer is attached, and the topic requires no checks."""
        self.chunked = False
        """Whether the producer has sent a chunk."""
        self.messages_in = self.bytes_in = 0

    # -- SEND ------------------------------------------------------------------------------------------------------

    def publish(self, sequence: int, highest: int, count: int, data: bytes, start: int, end: int) -> None:
        """Store the entry data[start:end] and respond. ``highest`` and ``count`` are -1 if absent.

        `publish_command` handles a SEND with other fields in its command.
        """
        block = data[start:end]
        if not self.fast_path or end - start < _HEAD:
            self._publish(Publication(sequence, highest, count, block))
            return
        magic, checksum = _head(data, start)
        if magic == CHECKSUM_MAGIC and _crc32c(data[start + _HEAD : end]) != checksum:
            self._publish(Publication(sequence, highest, count, block))
            return
        topic = self.topic
        try:
            entry = self._append(block, topic.broker.now)
        except Refused as refusal:
            self.refuse_send(sequence, highest, refusal)
            return
        self.messages_in += count if count >= 0 else 1
        self.bytes_in += end - start
        self.connection.send(self._write_receipt(sequence, highest, entry.ledger_id, entry.entry_id))
        if not topic.entries_announced:
            topic.entries_announced = True
            topic.broker.schedule(topic)

    def publish_run(self, data: bytes, position: int, limit: int) -> tuple[int, int]:
        """Store the entries of the SENDs of this producer that follow each other from a position on, and respond.

        Return the position after them and their number. The run ends before the first frame that is incomplete, larger
        than ``limit``, or that needs `publish` or another path.
        """
        begin, size = position, len(data)
        head = b"\x08" + push_varint(self.id) + b"\x10"
        lead, sequence, following = 4 + len(head), 0, b""
        sequences: list[int] = []
        blocks: list[bytes] = []
        ends: list[int] = []
        while size - position >= _LEAST:
            total, length = _two_lengths(data, position)
            start, end = position + 8, position + 4 + total
            stop = start + length
            if end > size or total > limit or stop + _HEAD > end or data[start + 1] != _SEND:
                break
            command = data[start:stop]
            if following and command == following:
                sequence += 1
            else:
                send = pull_send(data, start, stop)
                if send is None or send[0] != self.id or send[2] not in (-1, 1) or send[3] >= 0:
                    break
                sequence = send[1]
                usual = command[3] < 128 and command.startswith(head, 4)
                before, after = command[:lead], command[lead + 1 :]
            # Usually, the next command differs in the first byte of its sequence id.
            low = command[lead] if usual else 127
            following = before + _BYTES[low + 1] + after if low & 127 < 127 else b""
            magic, checksum = _head(data, stop)
            if magic == CHECKSUM_MAGIC and _crc32c(data[stop + _HEAD : end]) != checksum:
                break
            sequences.append(sequence)
            blocks.append(data[stop:end])
            ends.append(end)
            position = end
        count = self._store_run(sequences, blocks) if blocks else 0
        return ends[count - 1] if count else begin, count

    def _store_run(self, sequences: list[int], blocks: list[bytes]) -> int:
        """Store entries, and send their receipts. Return the number of those that could be stored."""
        topic = self.topic
        try:
            entries = self._append_run(blocks, topic.broker.now)
        except Refused:
            return 0
        count = len(entries)
        self.messages_in += count
        self.bytes_in += sum(map(len, blocks[:count]))
        self.connection.send(self._write_receipts(sequences[:count], entries))
        if not topic.entries_announced:
            topic.entries_announced = True
            topic.broker.schedule(topic)
        return count

    def publish_command(self, command: pb.CommandSend, block: bytes) -> None:
        """Store the entry of a SEND whose command can contain any fields."""
        highest = command.highest_sequence_id if command.HasField("highest_sequence_id") else -1
        publication = Publication(command.sequence_id, highest, command.num_messages, block)
        publication.chunk, publication.marker = command.is_chunk, command.marker
        if command.HasField("message_id"):
            publication.message_id = command.message_id.ledgerId, command.message_id.entryId
        if command.HasField("txnid_most_bits") and command.HasField("txnid_least_bits"):
            publication.transaction = txn_of(command)
        self._publish(publication)

    def _publish(self, publication: Publication) -> None:
        if not self.ready:
            raise RemoteError(f"SEND of producer {self.id}, which is not attached")
        publish(self, publication)

    def count(self, publication: Publication) -> None:
        """Count the messages of a SEND."""
        self.messages_in += publication.count
        self.bytes_in += len(publication.block)
        self.chunked = self.chunked or publication.chunk

    def send_receipt(self, sequence: int, highest: int, ledger: int, entry: int) -> None:
        """Send SEND_RECEIPT. The ledger id and entry id are -1 for a duplicate."""
        self.connection.send(self._write_receipt(sequence, highest, ledger, entry))

    def refuse_send(self, sequence: int, highest: int, refusal: Refused) -> None:
        """Send SEND_ERROR with the highest sequence id. If storage is full, all producers must reconnect."""
        if isinstance(refusal, StorageFull):
            self.topic.write_failed()
        error = pb.CommandSendError(
            producer_id=self.id,
            sequence_id=max(sequence, highest),
            error=pb.ServerError.ValueType(refusal.code),
            message=refusal.text,
        )
        self.connection.send_command(error)

    # -- joining ---------------------------------------------------------------------------------------------------

    def check_address(self) -> None:
        """Raise Refused (ProducerBusy) if the topic has too many producers from the address of the client."""
        topic, address = self.topic, self.connection.peer[0]
        limit = topic.broker.settings.maxSameAddressProducersPerTopic
        if limit <= 0 or topic.effective_policies.system:
            return
        if sum(one.connection.peer[0] == address for one in topic.producers.values()) >= limit:
            raise Refused(pb.ProducerBusy, f"Topic '{topic.full_name}' reached max same address producers limit")

    def answer_queued(self) -> None:
        """Send the first of two responses, which states that the producer waits for exclusive access."""
        self._send_success(ready=False)

    def attached(self) -> None:
        """Attach, and send PRODUCER_SUCCESS. It contains the topic epoch if the topic has an epoch."""
        self.ready = True
        self.fast_path = self.topic.fast_path
        if self.topic.ledger is not None:
            self._append, self._append_run = self.topic.ledger.append, self.topic.ledger.append_run
        self._send_success(ready=True)

    def refuse(self, refusal: Refused) -> None:
        """Send ERROR, which names the class of the exception, and free the producer id."""
        if self.closed:
            return
        self.closed = True
        self.connection.removed_producer(self.id, self)
        exception = refusal.exception or _EXCEPTIONS.get(refusal.code)
        text = service_exception(exception, refusal.text) if exception else refusal.text
        self.connection.answer_error(self.request_id, Refused(refusal.code, text))

    def answer_duplicate(self, request_id: int) -> None:
        """Respond to a second PRODUCER with the same id. The response contains only the name and the schema version."""
        self.connection.send_command(
            pb.CommandProducerSuccess(
                request_id=request_id,
                producer_name=self.name,
                last_sequence_id=-1,
                schema_version=self.schema_version,
                producer_ready=True,
            )
        )

    def _send_success(self, *, ready: bool) -> None:
        topic = self.topic
        answer = pb.CommandProducerSuccess(
            request_id=self.request_id,
            producer_name=self.name,
            last_sequence_id=topic.last_sequence_id(self.name),
            schema_version=self.schema_version,
            producer_ready=ready,
        )
        if ready and topic.producer_access.epoch is not None:
            answer.topic_epoch = topic.producer_access.epoch % (1 << 64)
        self.connection.send_command(answer)

    # -- leaving ---------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Remove the producer from its topic and connection without a command to the client (Producer.closeNow)."""
        if self.closed:
            return
        self.closed = True
        self.fast_path = False
        self.connection.removed_producer(self.id, self)
        if self.ready:
            self.ready = False
            self.topic.remove_producer(self)
        else:
            self.topic.producer_access.remove_waiting(self)

    def disconnect(self) -> None:
        """Close the producer with CLOSE_PRODUCER, or close the connection of clients below version 5."""
        connection = self.connection
        if connection.session.supports_close:
            connection.mark_producer_closed(self.id)
            connection.send_command(pb.CommandCloseProducer(producer_id=self.id, request_id=NOBODY))
        else:
            connection.close()
        self.leave()
