"""A producer inside the broker: its checks and its responses (class Producer).

Rules of this file
1. A producer is joining, attached or closed. It is joining while it waits for exclusive access or for the liveness
   check of another producer with its name. Its id is then in use, and a SEND closes the connection.
2. Receipts are sent in the order of the entries. An error of a check is sent at once. The order is still kept, because
   an append is complete when it returns.
3. When the broker closes a producer, its id stays known for a while: SENDs in flight are dropped without a response.
   Clients below version 5 do not know CLOSE_PRODUCER; their connection is closed.
4. The fast path, with no check but the checksum, is the hot path of the whole broker. `fast_path` is True while it may
   be used; everything that enables a check clears it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

import google_crc32c

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.wire.constants import CHECKSUM_MAGIC
from pcli.codec.wire.message_id import signed
from pcli.minibroker.error_responses import NOBODY
from pcli.minibroker.errors import Refused
from pcli.minibroker.storage.spilling_storage import StorageFull
from pcli.minibroker.topics.publishing import Publication, publish
from pcli.minibroker.topics.send_receipts import SendReceiptWriter

if TYPE_CHECKING:
    from pcli.minibroker.topics.topic import Topic
    from pcli.minibroker.topics.transport_cnx import TransportCnx

__all__ = ["Producer"]

_head = Struct(">HI").unpack_from
_crc32c = google_crc32c.value
_HEAD: Final = 6


class Producer:
    """One producer of a topic."""

    __slots__ = (
        "_append",
        "_write_receipt",
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
        """Of its PRODUCER, to which it may owe two answers."""
        self.name = name
        self.access_mode = command.producer_access_mode
        self.topic_epoch = signed(command.topic_epoch) if command.HasField("topic_epoch") else None
        """The epoch that it claims; None: any."""
        self.encrypted = command.encrypted
        self.metadata = {pair.key: pair.value for pair in command.metadata}
        self.schema_version = schema_version
        """As on the wire; empty: none."""
        self.connected_since = topic.broker.now
        self._write_receipt = SendReceiptWriter(self.id).write
        self.ready = False
        """Attached to the topic."""
        self.closed = False
        self.fast_path = False
        """Whether the plain way may be taken: it is attached, and the topic checks nothing."""
        self.chunked = False
        """Whether it ever sent a chunk."""
        self.messages_in = self.bytes_in = 0

    # -- SEND ------------------------------------------------------------------------------------------------------

    def publish(self, sequence: int, highest: int, count: int, data: bytes, start: int, end: int) -> None:
        """Store the entry data[start:end] and answer it. ``highest`` and ``count`` -1: not given.

        A SEND with anything else in its command goes through `publish_command`.
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

    def publish_command(self, command: pb.CommandSend, block: bytes) -> None:
        """The same for a SEND with anything in it."""
        highest = command.highest_sequence_id if command.HasField("highest_sequence_id") else -1
        publication = Publication(command.sequence_id, highest, command.num_messages, block)
        publication.chunk, publication.marker = command.is_chunk, command.marker
        publication.has_id = command.HasField("message_id")
        publication.in_transaction = command.HasField("txnid_most_bits") and command.HasField("txnid_least_bits")
        self._publish(publication)

    def _publish(self, publication: Publication) -> None:
        if not self.ready:
            raise RemoteError(f"SEND of producer {self.id}, which is not ready")
        publish(self, publication)

    def count(self, publication: Publication) -> None:
        """One more entry is taken."""
        self.messages_in += publication.count
        self.bytes_in += len(publication.block)
        self.chunked = self.chunked or publication.chunk

    def send_receipt(self, sequence: int, highest: int, ledger: int, entry: int) -> None:
        """SEND_RECEIPT; ledger and entry -1: a duplicate."""
        self.connection.send(self._write_receipt(sequence, highest, ledger, entry))

    def refuse_send(self, sequence: int, highest: int, refusal: Refused) -> None:
        """SEND_ERROR, under the highest of the sequence ids. If there was no room, all producers connect anew."""
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

    def answer_queued(self) -> None:
        """It has to wait until it is the only one: the first of two answers."""
        self._send_success(ready=False)

    def attached(self) -> None:
        """It is in: PRODUCER_SUCCESS with the topic's epoch, if the topic has one."""
        self.ready = True
        self.fast_path = self.topic.fast_path
        if self.topic.ledger is not None:
            self._append = self.topic.ledger.append
        self._send_success(ready=True)

    def refuse(self, refusal: Refused) -> None:
        """It does not get in: ERROR, and its id is free again."""
        if self.closed:
            return
        self.closed = True
        self.connection.removed_producer(self.id, self)
        self.connection.answer_error(self.request_id, refusal)

    def answer_duplicate(self, request_id: int) -> None:
        """A second PRODUCER with the id of a living producer: name and schema version, nothing else."""
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
        """Take it from its topic and its connection, without a word to the client (Producer.closeNow)."""
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
        """The broker closes it: CLOSE_PRODUCER, or for old clients (below version 5) the whole connection."""
        connection = self.connection
        if connection.session.knows_close:
            connection.mark_producer_closed(self.id)
            connection.send_command(pb.CommandCloseProducer(producer_id=self.id, request_id=NOBODY))
        else:
            connection.close()
        self.leave()
