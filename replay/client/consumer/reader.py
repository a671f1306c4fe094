"""A reader: a consumer with a temporary, exclusive subscription.

Rules of this file (ReaderImpl, ReaderBuilderImpl, MultiTopicsReaderImpl, PulsarClientImpl.createReaderAsync; 4.2.4)
1. The subscription is Exclusive and NonDurable, with a random name: ``reader-`` and ten hexadecimal digits. Key ranges
   are nevertheless sent as a STICKY Key_Shared policy.
2. A reader starts either after an id (such as ``EARLIEST`` or ``LATEST``) or at a time in the past.
3. Each message is acknowledged cumulatively when it is read.
4. On a partitioned topic, a reader reads all partitions and can start only at the beginning or the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pcli.codec.errors import LocalError
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.consumer.consumer import Consumer
from pcli.replay.client.consumer.consumer_factory import open_unchecked
from pcli.replay.client.consumer.cursor_requests import SeekDone
from pcli.replay.client.consumer.incoming_entry import IncomingMessage
from pcli.replay.client.consumer.multi_topics_consumer import MultiTopicsConsumer
from pcli.replay.client.consumer.settings_checks import ranges_fault
from pcli.replay.client.message_ids import EARLIEST, ClientMessageId
from pcli.replay.client.random_names import hexadecimal
from pcli.replay.client.settings import ConsumerSettings, KeySharedPolicy, ReaderSettings

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext


class Reader:
    """A reader of one topic from a start position."""

    def __init__(self, consumer: Consumer | MultiTopicsConsumer) -> None:
        self.consumer = consumer
        """The underlying consumer. Its `on_message` is called when there is a message to read."""

    def read_next(self) -> IncomingMessage | None:
        """Return the next message, or None."""
        message = self.consumer.receive()
        if message is not None:
            self.consumer.acknowledge_cumulative(message.id)
        return message

    def has_message_available(self, done: Callable[[bool | ClientFailure], None]) -> None:
        """Call ``done`` with True if there is a message after the last message that was read, or else with False."""
        self.consumer.has_message_available(done)

    def last_message_ids(self, done: Callable[[list[ClientMessageId] | ClientFailure], None]) -> None:
        """Pass ``done`` the last message id of the topic, or of each partition."""
        self.consumer.last_message_ids(done)

    def seek(self, target: ClientMessageId | int, done: SeekDone) -> None:
        """Move the position to an id or to a publish time (ms since 1970)."""
        self.consumer.seek(target, done)

    def close(self, done: SeekDone) -> None:
        """Close the reader."""
        self.consumer.close(done)


def open_reader(
    engine: ClientContext, settings: ReaderSettings, done: Callable[[Reader | ClientFailure], None]
) -> None:
    """Create a reader of one topic."""
    fault = _fault(settings)
    if fault is not None:
        done(fault)
        return

    def opened(consumer: Consumer | MultiTopicsConsumer | ClientFailure) -> None:
        done(consumer if isinstance(consumer, ClientFailure) else Reader(consumer))

    open_unchecked(engine, _consumer_settings(engine, settings), opened)


def _fault(settings: ReaderSettings) -> ClientFailure | None:
    start, rollback = settings.startMessageId, settings.startMessageFromRollbackDurationInSec
    try:
        TopicName.parse(settings.topicName)
    except LocalError as fault:
        return ClientFailure("InvalidTopicName", fault.text)
    both, neither = start not in (None, EARLIEST) and rollback > 0, start is None and rollback <= 0
    if both or neither:
        return ClientFailure("InvalidConfiguration", "a reader requires a start id or a start time")
    if settings.receiverQueueSize < 0:
        return ClientFailure("InvalidConfiguration", "receiverQueueSize must be 0 or more")
    return ranges_fault(settings.keyHashRanges)


def _consumer_settings(engine: ClientContext, settings: ReaderSettings) -> ConsumerSettings:
    name = settings.subscriptionName
    if not name:
        prefix = f"{settings.subscriptionRolePrefix}-" if settings.subscriptionRolePrefix else ""
        name = f"{prefix}reader-{hexadecimal(engine.random)}"
    rollback = settings.startMessageFromRollbackDurationInSec
    return ConsumerSettings(
        topicNames=(settings.topicName,),
        subscriptionName=name,
        subscriptionMode="NonDurable",
        consumerName=settings.readerName,
        startMessageId=EARLIEST if rollback > 0 else settings.startMessageId,
        startMessageRollbackDurationSec=rollback,
        resetIncludeHead=settings.resetIncludeHead,
        keySharedPolicy=KeySharedPolicy(settings.keyHashRanges) if settings.keyHashRanges else None,
        receiverQueueSize=settings.receiverQueueSize,
        readCompacted=settings.readCompacted,
        schema=settings.schema,
        maxPendingChunkedMessage=settings.maxPendingChunkedMessage,
        autoAckOldestChunkedMessageOnQueueFull=settings.autoAckOldestChunkedMessageOnQueueFull,
        expireTimeOfIncompleteChunkedMessageMillis=settings.expireTimeOfIncompleteChunkedMessageMillis,
        cryptoKeys=settings.cryptoKeys,
        cryptoFailureAction=settings.cryptoFailureAction,
        autoUpdatePartitions=settings.autoUpdatePartitions,
        autoUpdatePartitionsIntervalSeconds=settings.autoUpdatePartitionsIntervalSeconds,
    )
