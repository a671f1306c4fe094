"""The coordinators of transactions on scalable topics, which keep their transactions in the metadata store (5.0).

Rules of this file (measured on 5.0.1)
1. NEW_TXN does not require a connected coordinator, and accepts any coordinator id. Only TC_CLIENT_CONNECT_REQUEST
   checks that the coordinator is one of ``transactionCoordinatorScalableTopicsParallelism``.
2. Ended transactions are remembered for the retention time. A repeated end succeeds, and so does the addition of topics
   and subscriptions; the opposite end is refused. A repeated end applies to the acknowledgements since the last end.
3. A transaction ends on its segments and their subscriptions. It never ends on a classic topic, although its messages
   are accepted there: they stay invisible, as on the real broker.
4. Expired transactions are aborted by a sweep at an interval. Until then they can be committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.scheduler import Interval
from pcli.minibroker.transactions.metadata_store import MLTransactionMetadataStore, TxnMeta, TxnStatus, not_owned
from pcli.minibroker.transactions.txn_id import TxnId, text_of

if TYPE_CHECKING:
    from pcli.minibroker.scheduler import Scheduler
    from pcli.minibroker.settings import Settings
    from pcli.minibroker.transactions.metadata_store_service import TransactionBufferClient

_ENDED: Final = (TxnStatus.COMMITTED, TxnStatus.ABORTED)


class ScalableTransactions:
    """All transactions on scalable topics."""

    def __init__(self, scheduler: Scheduler, settings: Settings, client: TransactionBufferClient) -> None:
        self._scheduler = scheduler
        self._settings = settings
        self._client = client
        self._stores: dict[int, MLTransactionMetadataStore] = {}
        """The coordinators by id."""
        self.on_change: Callable[[TxnMeta], None] = lambda _: None
        """A function that is called with each transaction that was opened, changed or removed."""
        if self.enabled:
            sweep = settings.transactionCoordinatorScalableTopicsTimeoutSweepIntervalSeconds
            Interval(scheduler, sweep * 1000, self._sweep)
            Interval(scheduler, settings.transactionCoordinatorScalableTopicsGcIntervalSeconds * 1000, self._forget)

    @property
    def enabled(self) -> bool:
        """Whether these coordinators exist."""
        settings = self._settings
        return settings.scalableTopicsEnabled and settings.transactionCoordinatorScalableTopicsEnabled

    def known_store(self, coordinator: int) -> MLTransactionMetadataStore:
        """Return a coordinator, which is created if it does not exist."""
        store = self._stores.get(coordinator)
        if store is None:
            store = self._stores[coordinator] = MLTransactionMetadataStore(
                coordinator, lambda meta: self.on_change(meta)
            )
        return store

    def new_transaction(self, coordinator: int, timeout_ms: int, owner: str) -> TxnId:
        """Open a transaction."""
        return self.known_store(coordinator).new(timeout_ms, self._scheduler.now, owner).id

    def meta(self, txn: TxnId, principal: str) -> TxnMeta:
        """Return a transaction. Raises Refused (TransactionNotFound), with the principal of the client."""
        meta = self.known_store(txn[0]).metas.get(txn[1])
        if meta is None:
            raise not_owned(txn, principal)
        return meta

    def check_open(self, txn: TxnId) -> None:
        """Raise Refused (NotAllowedError) if a transaction has ended or is unknown."""
        meta = self.known_store(txn[0]).metas.get(txn[1])
        status = TxnStatus.ABORTED if meta is None else meta.status
        if status is not TxnStatus.OPEN:
            raise Refused(pb.NotAllowedError, f"Transaction {text_of(txn)} is already {status.name} — TxnConflict")

    def used(self, txn: TxnId, topic: str, subscription: str = "") -> None:
        """Add a segment with a message of a transaction, or a subscription with an acknowledgement.

        Clients need not add them.
        """
        meta = self.known_store(txn[0]).metas.get(txn[1])
        if meta is None:
            return
        known = (topic, subscription) in meta.subscriptions if subscription else topic in meta.topics
        if not known:
            self.add(meta, () if subscription else (topic,), ((topic, subscription),) if subscription else ())

    def add(self, meta: TxnMeta, topics: Iterable[str] = (), subscriptions: Iterable[tuple[str, str]] = ()) -> None:
        """Add topics and subscriptions to a transaction."""
        meta.topics.update(topics)
        meta.subscriptions.update(subscriptions)
        self.on_change(meta)

    def end_transaction(self, meta: TxnMeta, *, commit: bool) -> None:
        """Commit or abort a transaction. Raises Refused (InvalidTxnStatus) if it has ended in the other way."""
        status = TxnStatus.COMMITTED if commit else TxnStatus.ABORTED
        ended = meta.status is status
        if not ended:
            if meta.status in _ENDED:
                text = f"Transaction {text_of(meta.id)} is {meta.status.name}, cannot transition to {status.name}"
                raise Refused(pb.InvalidTxnStatus, text)
            meta.status, meta.ended_ms = status, self._scheduler.now
            self.on_change(meta)
        for topic, name in sorted(meta.subscriptions):
            with suppress(Refused):  # a name that is no topic is accepted and ignored
                self._client.end_on_subscription(topic, name, meta.id, -1, commit=commit)
        for topic in sorted(meta.topics):
            if not ended and topic.startswith("segment://"):  # an ended transaction accepts no more messages
                with suppress(Refused):
                    self._client.end_on_topic(topic, meta.id, -1, commit=commit)

    def _sweep(self) -> None:
        """Abort the expired transactions."""
        now = self._scheduler.now
        for meta in [one for store in self._stores.values() for one in store.metas.values()]:
            if meta.status is TxnStatus.OPEN and meta.opened_ms + meta.timeout_ms <= now:
                self.end_transaction(meta, commit=False)

    def _forget(self) -> None:
        """Forget transactions that ended long ago."""
        retention = self._settings.transactionCoordinatorScalableTopicsGcRetentionSeconds * 1000
        for store in self._stores.values():
            for meta in list(store.metas.values()):
                if meta.status in _ENDED and meta.ended_ms + retention <= self._scheduler.now:
                    store.remove(meta)
