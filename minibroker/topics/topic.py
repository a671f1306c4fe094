"""A topic: its ledger, producers and subscriptions (PersistentTopic and NonPersistentTopic).

Rules of this file
1. A persistent topic has a ledger. A non-persistent topic has none: its ids are always 0:0, nothing is stored, and only
   connected consumers receive messages. Everything else is the same, so there is one class.
2. An unload closes the clients and the current ledger; stored entries remain. Producers are closed before consumers.
   The topic epoch and the sequence ids of deduplication also remain; the counters restart. A non-persistent topic is
   removed; the next client creates it again.
3. A topic is fenced while it is unloaded or deleted. A producer that would get exclusive access at that moment is
   refused. The producers after it in the queue get no response (as on 4.2.4), and their clients keep waiting.
4. Policies are looked up when they change, not for every message. `fast_path` is True if none of them affects SEND.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.storage.cursor import ManagedCursor
from pcli.minibroker.topics.backlog_quota_manager import BacklogQuotaManager
from pcli.minibroker.topics.deduplication import DeduplicationSnapshot, MessageDeduplication
from pcli.minibroker.topics.effective_policies import EffectivePolicies
from pcli.minibroker.topics.producer_access import ProducerAccess
from pcli.minibroker.topics.publishing import append
from pcli.minibroker.topics.shadow_replicators import ShadowReplicators, shadow_source
from pcli.minibroker.topics.subscription import Subscription
from pcli.minibroker.topics.topic_compaction import COMPACTION, TopicCompaction
from pcli.minibroker.topics.topic_documents import TopicDocuments
from pcli.minibroker.topics.topic_ledger import LastDispatchableEntry, LedgerTrimming, open_ledger
from pcli.minibroker.transactions.transaction_buffer import SegmentTransactionBuffer, TopicTransactionBuffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.broker_service import BrokerService
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.dispatcher import DispatcherFactory
    from pcli.minibroker.topics.producer import Producer
    from pcli.minibroker.transactions.txn_id import TxnId


class Topic:
    """A loaded topic."""

    __slots__ = (
        "_bytes_in_removed",
        "_messages_in_removed",
        "_trimming",
        "backlog_quota",
        "broker",
        "bytes_out_removed",
        "chunk_published",
        "compaction",
        "created",
        "deduplication",
        "deduplication_snapshot",
        "detached_cursors",
        "documents",
        "effective_policies",
        "entries_announced",
        "entries_in",
        "fast_path",
        "fenced",
        "full_name",
        "last_active",
        "last_dispatchable",
        "ledger",
        "load_topic",
        "make_dispatcher",
        "message_index",
        "messages_out_removed",
        "name",
        "partition",
        "persistent",
        "producer_access",
        "producers",
        "schema_id",
        "shadow_replicators",
        "shadow_source",
        "subscriptions",
        "transaction_buffer",
        "transactions_enabled",
    )

    def __init__(
        self,
        broker: BrokerService,
        name: TopicName,
        make_dispatcher: DispatcherFactory,
        load_topic: Callable[[TopicName], Topic | None],
        *,
        stored: bool = False,
    ) -> None:
        """``stored`` means that the topic was stored before the broker started and is not loaded yet."""
        self.broker = broker
        self.make_dispatcher = make_dispatcher
        self.load_topic = load_topic
        """A function that returns a topic, or None if it does not exist."""
        self.name = name
        self.full_name = str(name)
        self.partition = name.partition
        """Index of the partition; -1 if the topic is not a partition."""
        self.persistent = name.persistent
        self.shadow_source = shadow_source(name, broker.policies.properties.get(str(name.base), {}))
        """The topic whose messages this topic contains, or None if it is not a shadow topic."""
        self.schema_id = (self.shadow_source or name).schema_id
        durable = self.persistent and broker.storage.durable
        self.documents = TopicDocuments(self, stored=stored) if durable else None
        """The documents of the topic; None without durable storage and on a non-persistent topic."""
        self.ledger = open_ledger(self) if self.persistent else None
        self._trimming = LedgerTrimming(self, self.ledger) if self.ledger is not None else None
        self.subscriptions: dict[str, Subscription] = {}
        self.producers: dict[str, Producer] = {}
        """Attached producers by name."""
        self.producer_access = ProducerAccess(self.producers)
        self.entries_announced = False
        """Whether the subscriptions will be notified of new entries at the end of this turn."""
        self.fenced = False
        self.deduplication: MessageDeduplication | None = None
        """The recorded sequence ids, or None if deduplication is disabled."""
        self.deduplication_snapshot: DeduplicationSnapshot | None = None
        self.effective_policies = EffectivePolicies(broker, name)
        enabled = broker.settings.transactionCoordinatorEnabled
        self.transactions_enabled = enabled and self.persistent and not self.effective_policies.system
        """Whether clients may use transactions with this topic."""
        self.transaction_buffer: TopicTransactionBuffer | None = None
        """The transactions of the topic, or None before the first one."""
        self.last_dispatchable = LastDispatchableEntry(
            0 if self.ledger is None else self.ledger.next, segment=name.domain == "segment"
        )
        self.message_index = -1
        """Index of the last message, as counted by the index interceptor."""
        self.created = broker.now
        self.last_active = broker.now
        """The last time (ms) at which the topic certainly had producers or subscriptions (lastActive)."""
        self._messages_in_removed = self._bytes_in_removed = 0
        self.detached_cursors: dict[str, ManagedCursor] = {}
        """The cursors of non-durable subscriptions that a reset has removed, by name."""
        self.messages_out_removed = self.bytes_out_removed = 0
        """Messages and bytes sent to subscriptions that were removed."""
        self.chunk_published = False
        """Whether a measurement of rates has counted a chunk since the topic was loaded (msgChunkPublished)."""
        self.entries_in = 0
        """Number of entries published on a non-persistent topic (entriesAddedCounter)."""
        self.compaction = TopicCompaction(self, self.ledger) if self.ledger is not None else None
        """The compaction; None on a non-persistent topic."""
        self.backlog_quota = BacklogQuotaManager(self, self.ledger) if self.ledger is not None else None
        """The backlog quotas; None on a non-persistent topic."""
        self.shadow_replicators = ShadowReplicators(self)
        if self.documents is not None:
            self.documents.restore()
        self._apply_policies()
        if self.documents is not None:
            self.documents.loaded()
        if stored and self._trimming is not None:
            self._trimming.unloaded()

    # -- policies ------------------------------------------------------------------------------------------------------

    def effective(self, setting: str) -> Any:
        """Return the effective value of a setting from the topic, its namespace or the broker."""
        return self.effective_policies.effective(setting)

    def policies_changed(self) -> None:
        """Apply changed policies."""
        self.effective_policies.refresh()
        self._apply_policies()
        for subscription in self.subscriptions.values():
            subscription.policies_changed()
        self.shadow_replicators.check()

    def _apply_policies(self) -> None:
        """Apply the policies. If they enable deduplication, it starts without recorded ids."""
        policies = self.effective_policies
        if not policies.deduplication:
            if self.documents is not None:
                self.documents.close_deduplication()
            self.deduplication = self.deduplication_snapshot = None
        elif self.deduplication is None and self.ledger is not None:
            self.deduplication = MessageDeduplication(self.broker.settings)
            if self.documents is not None:
                self.deduplication_snapshot = self.documents.open_deduplication(self.deduplication)
            else:
                self.deduplication_snapshot = DeduplicationSnapshot(self.broker.settings, self.ledger)
        self._update_fast_path()
        if policies.encryption_required:
            for producer in [one for one in self.producers.values() if not one.encrypted]:
                producer.disconnect()
        if self.compaction is not None:
            self.compaction.create_subscription()

    def _update_fast_path(self) -> None:
        stores = self.persistent and self.shadow_source is None
        self.fast_path = stores and not self.fenced and not self.effective_policies.affects_send
        for producer in self.producers.values():
            producer.fast_path = self.fast_path

    # -- transactions --------------------------------------------------------------------------------------------------

    def open_transaction_buffer(self) -> TopicTransactionBuffer:
        """Return the transaction buffer; create it if there is none. Raises Refused (NotAllowedError) if disabled."""
        if self.ledger is None or not self.transactions_enabled:
            raise Refused(pb.NotAllowedError, "Transaction buffer disable!")
        if self.transaction_buffer is None:
            if self.name.domain == "segment":
                transactions = self.broker.scalable_transactions
                self.transaction_buffer = SegmentTransactionBuffer(self.ledger, self.full_name, transactions)
            else:
                self.transaction_buffer = TopicTransactionBuffer(self.ledger, lambda marker: append(self, marker, 1))
            if self.documents is not None:
                self.transaction_buffer.on_change = self.documents.transactions_changed
            for subscription in self.subscriptions.values():
                subscription.use_transactions()
        return self.transaction_buffer

    def end_transaction(self, txn: TxnId, low_water_mark: int, *, commit: bool) -> None:
        """Commit or abort a transaction on this topic. Raises Refused. Without transactions, a commit does nothing."""
        if not self.persistent:
            raise Refused(pb.UnknownError, "Unsupported operation endTxn in non-persistent topic.")
        if commit and not self.transactions_enabled:
            return
        buffer = self.open_transaction_buffer()
        end = buffer.commit if commit else buffer.abort
        end(txn, low_water_mark, self.broker.now)
        assert self.ledger is not None
        self.last_dispatchable.reset(self.ledger.next)
        self.announce_entries()

    def announce_entries(self) -> None:
        """Notify the subscriptions of new readable entries at the end of this turn."""
        self.entries_announced = True
        self.broker.schedule(self)

    # -- producers -------------------------------------------------------------------------------------------------

    def check_limits(self, producer_name: str) -> None:
        """Raise Refused if the topic accepts no more producers. Replicators and system topics are exempt."""
        limit = self.effective("maxProducersPerTopic")
        prefix = self.broker.settings.replicatorPrefix
        if limit <= 0 or self.effective_policies.system or producer_name.startswith(prefix):
            return
        if sum(not name.startswith(prefix) for name in self.producers) >= limit:
            raise Refused(pb.ProducerBusy, f"Topic '{self.full_name}' reached max producers limit")

    def add_producer(self, producer: Producer) -> None:
        """Admit, queue or refuse a producer, and respond to its client."""
        try:
            if self.producer_access.admit(producer):
                self._attach(producer)
            else:
                producer.answer_queued()
            if self.documents is not None:
                self.documents.check()
        except Refused as refusal:
            producer.refuse(refusal)

    def _attach(self, producer: Producer) -> None:
        """Attach an admitted producer if the topic is open and the name is free.

        If a producer on a different connection has the name, check whether that connection is alive.

        A second producer with the same id on the same connection already has its response and does not reach this
        method.
        """
        if self.fenced:
            raise Refused(pb.ServiceNotReady, "Topic is temporarily unavailable")
        if self.ledger is not None and self.ledger.terminated:
            raise Refused(pb.TopicTerminatedError, "Topic was already terminated")
        producer.check_address()
        holder = self.producers.get(producer.name)
        if holder is None:
            self.producers[producer.name] = producer
            if self.deduplication is not None:
                self.deduplication.purge(self.broker.now)
                self.deduplication.producer_added(producer.name)
            producer.attached()
        elif holder.connection is producer.connection:
            raise self._name_in_use(producer)
        else:
            holder.connection.check_liveness(lambda alive: self._holder_checked(holder, producer, alive=alive))

    def _holder_checked(self, holder: Producer, producer: Producer, *, alive: bool) -> None:
        if not alive:
            holder.leave()
        if producer.closed:
            return
        try:
            if alive:
                raise self._name_in_use(producer)
            self._attach(producer)
        except Refused as refusal:
            producer.refuse(refusal)

    def _name_in_use(self, producer: Producer) -> Refused:
        text = f"Producer with name '{producer.name}' is already connected to topic '{self.full_name}'"
        return Refused(pb.ProducerBusy, text, "NamingException")

    def remove_producer(self, producer: Producer) -> None:
        """Remove an attached producer; a waiting producer may get exclusive access."""
        if self.producers.get(producer.name) is not producer:
            return
        del self.producers[producer.name]
        self.last_active = self.broker.now
        self._messages_in_removed += producer.messages_in
        self._bytes_in_removed += producer.bytes_in
        if self.deduplication is not None:
            self.deduplication.producer_removed(producer.name, self.broker.now)
        promoted = self.producer_access.next_holder()
        if self.documents is not None:
            self.documents.check()
        if promoted is not None:
            try:
                self._attach(promoted)
            except Refused as refusal:
                promoted.refuse(refusal)

    def last_sequence_id(self, producer_name: str) -> int:
        """Return the highest recorded sequence id of a producer name, or -1."""
        return -1 if self.deduplication is None else self.deduplication.last_sequence_id(producer_name)

    # -- subscriptions ---------------------------------------------------------------------------------------------

    def add_subscription(self, subscription: Subscription) -> Subscription:
        """Add a new subscription."""
        self.subscriptions[subscription.name] = subscription
        if self.documents is not None:
            self.documents.add_subscription(subscription)
        return subscription

    def remove_subscription(self, subscription: Subscription) -> None:
        """Remove a subscription and trim ledgers."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            if self.documents is not None:
                self.documents.remove_subscription(subscription)
            self.messages_out_removed += subscription.messages_out_removed
            self.bytes_out_removed += subscription.bytes_out_removed
            self.last_active = self.broker.now
            if subscription.name == COMPACTION and self.compaction is not None:
                self.compaction.subscription_removed()
            self.trim()

    def create_subscription(self, name: str, next_offset: int) -> Subscription:
        """Create a durable subscription of a persistent topic that reads ``next_offset`` first."""
        assert self.ledger is not None
        cursor = ManagedCursor(self.ledger, name, next_offset - 1, durable=True)
        return self.add_subscription(Subscription(self, name, cursor))

    def create_initial_subscription(self, name: str) -> None:
        """Create the durable subscription that a producer requests. It starts at the first message. Raises Refused."""
        if self.ledger is None or name in self.subscriptions:
            return
        if not self.effective("allowAutoSubscriptionCreation"):
            text = "Could not create the initial subscription due to the auto subscription creation is not allowed."
            raise Refused(pb.NotAllowedError, text)
        self.check_subscription_limit()
        self.create_subscription(name, self.ledger.first)

    def check_subscription_limit(self) -> None:
        """Raise Refused (NotAllowedError) if a persistent topic has reached its limit of subscriptions."""
        limit = self.effective("maxSubscriptionsPerTopic")
        if 0 < limit <= len(self.subscriptions) and not self.effective_policies.system:
            raise Refused(
                pb.NotAllowedError, f"Exceed the maximum number of subscriptions of the topic: {self.full_name}"
            )

    def run(self) -> None:
        """Notify subscriptions of new entries at the end of a turn; trim ledgers after their reads."""
        announced, self.entries_announced = self.entries_announced, False
        if announced:
            for subscription in self.subscriptions.values():
                subscription.entries_available()
            self.shadow_replicators.run()
            if self.documents is not None:
                self.documents.check()
        if self._trimming is not None and self._trimming.due:
            if announced:
                self.broker.schedule(self)
            else:
                self._trimming.ledger_closed()

    def trim(self, *, all_closed: bool = False) -> None:
        """Delete closed ledgers that are not needed. ``all_closed`` ignores retention."""
        if self._trimming is not None:
            self._trimming.trim(all_closed=all_closed)

    # -- unload, terminate, delete -------------------------------------------------------------------------------------

    @property
    def consumers(self) -> list[Consumer]:
        """The consumers of all subscriptions."""
        return [consumer for subscription in self.subscriptions.values() for consumer in subscription.consumers]

    @property
    def terminated(self) -> bool:
        """Whether the topic accepts no more messages."""
        return self.ledger is not None and self.ledger.terminated

    def last_dispatchable_entry(self) -> Entry | None:
        """Return the last readable entry that is neither a marker nor aborted, or None."""
        return None if self.ledger is None else self.last_dispatchable.find(self.ledger, self.transaction_buffer)

    def unload(self) -> None:
        """Close the clients and the ledger, and remove the topic if it is non-persistent."""
        self._fence()
        self.shadow_replicators.close()
        self.disconnect_producers()
        self._disconnect_consumers()
        self._messages_in_removed = self._bytes_in_removed = self.messages_out_removed = self.bytes_out_removed = 0
        self.chunk_published = False
        if self.ledger is None or self.compaction is None or self._trimming is None:
            self.broker.remove_topic(self.full_name)
            return
        self.compaction.unload()
        self.detached_cursors.clear()
        for subscription in self.subscriptions.values():
            subscription.reload()
        if self.transaction_buffer is not None:
            self.transaction_buffer.reload()
        self.ledger.roll(self.broker.now)
        self._trimming.unloaded()
        self.last_dispatchable.loaded(self.ledger.next)
        self.last_active = self.broker.now
        self.compaction.create_subscription()
        self._unfence()
        self.shadow_replicators.check()

    def terminate(self) -> tuple[int, int]:
        """Accept no more messages.

        Return the ledger id and entry id of the last message. Raises Refused on non-persistent topics.
        """
        if self.ledger is None:
            raise Refused(pb.NotAllowedError, "Termination of a non-persistent topic is not allowed")
        last = self.ledger.terminate(self.broker.now)
        self.disconnect_producers()
        for subscription in list(self.subscriptions.values()):
            subscription.topic_terminated()
        return last

    def delete(self, *, force: bool) -> None:
        """Close the clients and release the storage. Raises Refused if one is connected and ``force`` is not set."""
        connected = len(self.producers) + len(self.consumers)
        if connected and not force:
            raise Refused(pb.UnknownError, f"Topic has {connected} connected producers/consumers")
        self._fence()
        self.shadow_replicators.close()
        self._disconnect_consumers()
        self.disconnect_producers()
        if self.documents is not None:
            self.documents.delete()
        self.subscriptions.clear()
        if self.compaction is not None:
            self.compaction.delete()
        self.effective_policies.release()
        if self.ledger is not None:
            self.ledger.close()

    def write_failed(self) -> None:
        """Disconnect the producers after an entry could not be stored (PersistentTopic.addFailed)."""
        self.disconnect_producers()

    def _fence(self) -> None:
        self.fenced = True
        self._update_fast_path()

    def _unfence(self) -> None:
        self.fenced = False
        self.producer_access.reset()
        self._update_fast_path()

    def disconnect_producers(self) -> None:
        """Close all producers."""
        for producer in list(self.producers.values()):
            producer.disconnect()

    def _disconnect_consumers(self) -> None:
        for subscription in list(self.subscriptions.values()):
            subscription.disconnect()

    # -- counters --------------------------------------------------------------------------------------------------

    @property
    def messages_in(self) -> int:
        """Number of published messages (msgInCounter)."""
        return self._messages_in_removed + sum(one.messages_in for one in self.producers.values())

    @property
    def bytes_in(self) -> int:
        """Number of published bytes (bytesInCounter)."""
        return self._bytes_in_removed + sum(one.bytes_in for one in self.producers.values())
