"""TransactionMetadataStoreService: the coordinators of the broker.

Rules of this file
1. A coordinator exists from the first TC_CLIENT_CONNECT_REQUEST on. Coordinators are the partitions of
   ``transaction_coordinator_assign``. The bundle of the partition must be served, but the partition need not exist.
2. END_TXN ends the transaction on its subscriptions, then on its topics. When all of them have responded, the
   transaction is forgotten and the client gets a response. After an error that can be temporary, all of them are
   repeated after a second, and there is no response until then.
3. A transaction that is OPEN at its timeout is aborted. A timeout below 100 ms aborts it at once.
4. At ``maxActiveTransactionsPerCoordinator`` there is no response to NEW_TXN.
5. A restart of the broker keeps the transactions and their timeouts. Ends that were not complete continue when a client
   connects to the coordinator again.

Source of the rules: TransactionMetadataStoreService, TransactionTimeoutTrackerImpl, TransactionRecoverTrackerImpl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.errors import Refused
from pcli.minibroker.transactions.metadata_store import (
    MLTransactionMetadataStore,
    OnEnd,
    TxnMeta,
    TxnStatus,
    invalid_status,
)
from pcli.minibroker.transactions.txn_id import TxnId

if TYPE_CHECKING:
    from pcli.minibroker.scheduler import Scheduler
    from pcli.minibroker.settings import Settings

ASSIGN: Final = "persistent://pulsar/system/transaction_coordinator_assign"
"""The topic whose partitions are the coordinators. It has no messages."""


def assign_topic(coordinator: int) -> TopicName:
    """Return the partition that assigns a coordinator to a broker. Only the lower 32 bits of the id are used."""
    return TopicName.parse(f"{ASSIGN}-partition-{coordinator % (1 << 32)}")


_TICK: Final = 100
"""Shortest timeout in milliseconds."""

_RETRY: Final = 1000
"""Milliseconds between two tries to end a transaction."""

_RETRYABLE: Final = (pb.ServiceNotReady, pb.PersistenceError)


class TransactionBufferClient(Protocol):
    """Ends transactions on topics and subscriptions. Both methods raise Refused."""

    def end_on_topic(self, topic: str, txn: TxnId, low_water_mark: int, *, commit: bool) -> None:
        """End a transaction on a topic. Nothing happens if the topic does not exist."""

    def end_on_subscription(
        self, topic: str, subscription: str, txn: TxnId, low_water_mark: int, *, commit: bool
    ) -> None:
        """End a transaction on a subscription. Nothing happens if the subscription does not exist."""


class TransactionMetadataStoreService:
    """All coordinators."""

    def __init__(self, scheduler: Scheduler, settings: Settings, client: TransactionBufferClient) -> None:
        self._scheduler = scheduler
        self._settings = settings
        self._client = client
        self.stores: dict[int, MLTransactionMetadataStore] = {}
        """The coordinators to which a client has connected since the broker started, by id."""
        self._stored: dict[int, MLTransactionMetadataStore] = {}
        """The other coordinators, which a restart has closed."""
        self.on_change: Callable[[TxnMeta], None] = lambda _: None
        """A function that is called with each transaction that was opened, changed or removed."""

    # -- coordinators --------------------------------------------------------------------------------------------------

    def connect(self, coordinator: int) -> None:
        """Open a coordinator. The caller must check that its bundle is served."""
        if coordinator in self.stores:
            return
        store = self._stored.pop(coordinator, None) or MLTransactionMetadataStore(coordinator, self.on_change)
        self.stores[coordinator] = store
        store.opened_ms = self._scheduler.now
        for meta in list(store.metas.values()):
            if meta.status is TxnStatus.OPEN:
                self._start_timeout(meta)
            else:
                self._end(meta)

    def close(self, coordinators: Iterable[int]) -> None:
        """Close coordinators, as a restart of the broker or an unload of their bundles does."""
        for number in coordinators:
            store = self._stored[number] = self.stores.pop(number)
            for meta in store.metas.values():
                meta.cancel_timer()
                meta.waiting.clear()

    def known_store(self, coordinator: int) -> MLTransactionMetadataStore:
        """Return a coordinator, which can be closed. If it does not exist, it is created and closed."""
        store = self.stores.get(coordinator) or self._stored.get(coordinator)
        if store is None:
            store = self._stored[coordinator] = MLTransactionMetadataStore(coordinator, self.on_change)
        return store

    def store(self, coordinator: int) -> MLTransactionMetadataStore:
        """Return a coordinator. Raises Refused (TransactionCoordinatorNotFound)."""
        store = self.stores.get(coordinator)
        if store is None:
            text = f"Transaction coordinator with id {coordinator} not found!"
            raise Refused(pb.TransactionCoordinatorNotFound, text)
        return store

    # -- transactions --------------------------------------------------------------------------------------------------

    def new_transaction(self, coordinator: int, timeout_ms: int, owner: str = "") -> TxnId | None:
        """Open a transaction. Return None at the limit of active transactions. Raises Refused."""
        store = self.store(coordinator)
        if 0 < self._settings.maxActiveTransactionsPerCoordinator <= len(store.metas):
            return None
        meta = store.new(timeout_ms, self._scheduler.now, owner)
        self._start_timeout(meta)
        return meta.id

    def _start_timeout(self, meta: TxnMeta) -> None:
        if meta.timeout_ms < _TICK:
            self._time_out(meta)
        else:
            meta.timer = self._scheduler.call_at(meta.opened_ms + meta.timeout_ms, partial(self._time_out, meta))

    def _time_out(self, meta: TxnMeta) -> None:
        store = self.stores[meta.id[0]]
        store.set_status(meta, TxnStatus.ABORTING)
        store.timed_out += 1
        self._end(meta)

    def end_transaction(self, txn: TxnId, on_end: OnEnd, *, commit: bool) -> None:
        """Commit or abort a transaction; call ``on_end`` when all topics and subscriptions have ended it.

        Raises Refused if the transaction is unknown, or if it is ending in the other way.
        """
        store = self.store(txn[0])
        meta = store.meta(txn)
        status = TxnStatus.COMMITTING if commit else TxnStatus.ABORTING
        if meta.status not in (TxnStatus.OPEN, status):
            raise invalid_status(meta, status)
        store.set_status(meta, status)
        meta.waiting.append(on_end)
        self._end(meta)

    def _end(self, meta: TxnMeta) -> None:
        """End a transaction on its subscriptions and topics, or try again later."""
        meta.cancel_timer()
        store = self.stores[meta.id[0]]
        refused = self._end_everywhere(meta, store.low_water_mark)
        if refused is not None and refused.code in _RETRYABLE:
            meta.timer = self._scheduler.call_later(_RETRY, partial(self._end, meta))
            return
        if refused is None:
            store.remove(meta)
        waiting, meta.waiting = meta.waiting, []
        for on_end in waiting:
            on_end(refused)

    def _end_everywhere(self, meta: TxnMeta, low_water_mark: int) -> Refused | None:
        """End a transaction on all its subscriptions and topics, in order of their names. Return the first error."""
        commit = meta.status is TxnStatus.COMMITTING
        first: Refused | None = None
        for topic, name in sorted(meta.subscriptions):
            try:
                self._client.end_on_subscription(topic, name, meta.id, low_water_mark, commit=commit)
            except Refused as refused:
                first = first or refused
        for topic in sorted(meta.topics):
            try:
                self._client.end_on_topic(topic, meta.id, low_water_mark, commit=commit)
            except Refused as refused:
                first = first or refused
        return first
