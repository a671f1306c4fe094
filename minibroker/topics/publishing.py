"""The processing of a SEND until its response, with all checks in the order of the real broker.

Rules of this file (Producer.publishMessage, PersistentTopic.publishMessage, NonPersistentTopic.publishMessage)
1. The tables below define the order; the first check that fails determines the response. Rate limits are charged
   between the checks: a message rejected before that point is not charged, and a message rejected after it is charged.
2. The metadata is parsed only if a check needs it. Invalid metadata then closes the connection; otherwise the message
   is stored and confirmed like any other message.
3. A SEND with two sequence ids, of which the second is not below the first, is a batch: errors contain the higher id.
   If the highest id is below the lowest id, it is ignored.
4. Duplicates are detected by the ids in the command and the producer's name. A SEND with the marker flag is neither
   checked nor recorded, whatever its metadata contains (verified on 4.2.4).
5. On a non-persistent topic the broker responds first and delivers the entry afterwards; the id is always 0:0.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Final

import google_crc32c
from google.protobuf.message import DecodeError

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.wire.constants import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC
from pcli.codec.wire.message_id import signed
from pcli.minibroker.errors import Refused
from pcli.minibroker.storage.entry import Entry, metadata_bounds
from pcli.minibroker.storage.shadow_ledger import ShadowManagedLedger

if TYPE_CHECKING:
    from pcli.minibroker.topics.deduplication import MessageDeduplication
    from pcli.minibroker.topics.producer import Producer
    from pcli.minibroker.topics.topic import Topic
    from pcli.minibroker.transactions.txn_id import TxnId

_u16 = Struct(">H").unpack_from
_u32 = Struct(">I").unpack_from
_magic_and_size = Struct(">HI").pack
_crc32c = google_crc32c.value


class Publication:
    """One SEND."""

    __slots__ = ("_metadata", "block", "chunk", "count", "highest", "marker", "message_id", "sequence", "transaction")

    def __init__(self, sequence: int, highest: int, count: int, block: bytes) -> None:
        self.sequence = sequence
        self.highest = highest
        """The highest sequence id; -1 if absent."""
        self.count = count if count >= 0 else 1
        """Number of messages that the client declares; not verified."""
        self.block = block
        """The bytes after the command: [checksum block] metadata payload."""
        self.chunk = False
        self.marker = False
        self.message_id: tuple[int, int] | None = None
        """Ledger id and entry id, if the client sets them as the replicators of shadow topics do."""
        self.transaction: TxnId | None = None
        self._metadata: pb.MessageMetadata | None = None

    def metadata(self) -> pb.MessageMetadata:
        """Return the metadata of the message. Raises RemoteError if it does not parse."""
        if self._metadata is None:
            start, end = metadata_bounds(self.block)
            try:
                if start < 0:
                    raise DecodeError
                self._metadata = pb.MessageMetadata.FromString(self.block[start:end])
            except DecodeError:
                raise RemoteError("SEND with metadata that does not parse") from None
        return self._metadata


def publish(producer: Producer, publication: Publication) -> None:
    """Check a SEND, store the entry and respond."""
    persistent = producer.topic.persistent
    try:
        for check in _PERSISTENT if persistent else _NON_PERSISTENT:
            check(producer, publication)
        if persistent:
            _store(producer, publication)
        else:
            _pass_on(producer, publication)
    except Refused as refusal:
        producer.refuse_send(publication.sequence, publication.highest, refusal)


# -- checks ------------------------------------------------------------------------------------------------------------


def _transaction(producer: Producer, publication: Publication) -> None:
    """Reject transactions if they are disabled. Non-persistent topics do not support them."""
    if publication.transaction is None:
        return
    if not producer.topic.persistent:
        raise RemoteError("SEND with a transaction to a non-persistent topic")
    producer.topic.open_transaction_buffer()


def _source(producer: Producer, publication: Publication) -> None:
    """Check that only messages on a shadow topic have ids. The ids of messages in transactions are ignored."""
    has_id = publication.message_id is not None and publication.transaction is None
    if producer.topic.shadow_source is not None:
        if not has_id:
            raise Refused(pb.NotAllowedError, "Cannot send messages to a shadow topic")
    elif has_id:
        raise Refused(pb.NotAllowedError, "Only shadow topic supports sending messages with messageId")


def _checksum(_: Producer, publication: Publication) -> None:
    """Verify the checksum. The checksum block is optional; a truncated one makes the SEND invalid."""
    block = publication.block
    if len(block) < 2:
        raise RemoteError("SEND with one byte after the command")
    if _u16(block)[0] != CHECKSUM_MAGIC:
        return
    if len(block) < 6:
        raise RemoteError("SEND with a truncated checksum")
    if _u32(block, 2)[0] != _crc32c(block[6:]):
        raise Refused(pb.ChecksumError, "Checksum failed on the broker")


def _encryption(producer: Producer, publication: Publication) -> None:
    if producer.topic.effective_policies.encryption_required and not publication.metadata().encryption_keys:
        raise Refused(pb.MetadataError, "Messages must be encrypted")


def _count(producer: Producer, publication: Publication) -> None:
    """Count the messages, even if a later check refuses them (Producer.startPublishOperation)."""
    producer.count(publication)


def _rates(producer: Producer, publication: Publication) -> None:
    for throttle in producer.topic.effective_policies.throttles:
        throttle.charge(producer.connection, publication.count, len(publication.block))


def _fenced(producer: Producer, _: Publication) -> None:
    if producer.topic.fenced:
        raise Refused(pb.PersistenceError, "Topic is temporarily unavailable")


def _size(producer: Producer, publication: Publication) -> None:
    """Check the topic's size limit, which includes the checksum and the metadata. Chunks are not checked."""
    limit = producer.topic.effective_policies.max_message_size
    if limit and len(publication.block) > limit and not publication.chunk:
        raise Refused(pb.NotAllowedError, "Exceed maximum message size")


def _delay(producer: Producer, publication: Publication) -> None:
    limit = producer.topic.effective_policies.max_delay
    if not limit:
        return
    metadata = publication.metadata()
    if metadata.HasField("deliver_at_time") and metadata.deliver_at_time - metadata.publish_time > limit:
        raise Refused(pb.NotAllowedError, f"Exceeds max allowed delivery delay of {limit} milliseconds")


_Check = Callable[["Producer", Publication], None]

_PERSISTENT: Final[tuple[_Check, ...]] = (
    _source,
    _checksum,
    _encryption,
    _count,
    _rates,
    _fenced,
    _size,
    _delay,
    _transaction,
)
_NON_PERSISTENT: Final[tuple[_Check, ...]] = (_source, _checksum, _encryption, _count, _rates, _size, _transaction)


# -- storing -----------------------------------------------------------------------------------------------------------


def _store(producer: Producer, publication: Publication) -> None:
    topic = producer.topic
    if publication.message_id is not None and topic.shadow_source is not None:
        _add_to_shadow(producer, publication, publication.message_id)
        return
    txn = publication.transaction
    known = None if publication.marker else topic.deduplication
    if known is not None and _is_duplicate(known, producer.name, publication):
        producer.send_receipt(publication.sequence, publication.highest, -1, -1)
        return
    try:
        if txn is not None:
            topic.open_transaction_buffer().check_open(txn)
        # In a transaction, the index interceptor counts entries, not messages (verified on 4.2.4).
        entry = append(topic, publication.block, publication.count if txn is None else 1)
    except Refused:
        if known is not None:
            known.undo_last_check()
        raise
    if publication.marker:
        topic.last_dispatchable.flagged.add(entry.offset)
    if topic.deduplication_snapshot is not None:
        topic.deduplication_snapshot.entry_stored(topic.broker.now)
    if txn is not None:
        topic.open_transaction_buffer().message_appended(txn, entry.offset, topic.broker.now)
    producer.send_receipt(publication.sequence, publication.highest, entry.ledger_id, entry.entry_id)
    topic.announce_entries()


def _add_to_shadow(producer: Producer, publication: Publication, position: tuple[int, int]) -> None:
    """Add the entry of the source. If the source does not contain it, there is no response."""
    topic = producer.topic
    assert isinstance(topic.ledger, ShadowManagedLedger)
    if topic.ledger.add(position, len(publication.block), topic.broker.now):
        producer.send_receipt(publication.sequence, publication.highest, *position)
        topic.announce_entries()


def _is_duplicate(known: MessageDeduplication, producer_name: str, publication: Publication) -> bool:
    chunk = publication.metadata if publication.chunk else None
    sequence, highest = signed(publication.sequence), signed(publication.highest)
    return known.check(producer_name, sequence, highest, chunk)


def append(topic: Topic, block: bytes, count: int) -> Entry:
    """Store an entry with ``count`` messages, with broker entry metadata if an interceptor adds any. Raises Refused."""
    assert topic.ledger is not None
    if not topic.effective_policies.interceptors.any:
        return topic.ledger.append(block, topic.broker.now)
    metadata = pb.BrokerEntryMetadata()
    if topic.effective_policies.interceptors.timestamp:
        metadata.broker_timestamp = topic.broker.now
    if topic.effective_policies.interceptors.index:
        topic.message_index += count
        metadata.index = topic.message_index % (1 << 64)
    packed = metadata.SerializeToString()
    data = b"".join((_magic_and_size(BROKER_ENTRY_MAGIC, len(packed)), packed, block))
    return topic.ledger.append(data, topic.broker.now)


def _pass_on(producer: Producer, publication: Publication) -> None:
    producer.send_receipt(publication.sequence, publication.highest, 0, 0)
    producer.topic.entries_in += 1
    entry = Entry(0, 0, 0, publication.block)
    for subscription in list(producer.topic.subscriptions.values()):
        subscription.publish(entry)
