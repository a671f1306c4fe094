"""MLTransactionMetadataStore: the transactions of one coordinator.

Rules of this file
1. A transaction is OPEN, then COMMITTING or ABORTING until all its topics and subscriptions have ended it. Then it
   is removed.
2. Topics and subscriptions can be added only to an OPEN transaction.
3. The low water mark is the number before the oldest transaction; 0 if there are no transactions.

Source of the rules: MLTransactionMetadataStore, TxnMetaImpl, TransactionUtil.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.transactions.txn_id import TxnId, text_of

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer

OnEnd = Callable[[Refused | None], None]
"""The type of a function that is called when a transaction has ended, or with the error if it cannot be ended."""


class TxnStatus(Enum):
    """The states of a transaction that the coordinator has not forgotten.

    Only coordinators of transactions on scalable topics remember COMMITTED and ABORTED ones.
    """

    OPEN = "OPEN"
    COMMITTING = "COMMITTING"
    ABORTING = "ABORTING"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"


@dataclass(slots=True, eq=False)
class TxnMeta:
    """One transaction."""

    id: TxnId
    opened_ms: int
    """Time of NEW_TXN, in ms since 1970."""
    timeout_ms: int
    status: TxnStatus = TxnStatus.OPEN
    topics: set[str] = field(default_factory=set)
    """Topics with messages of the transaction, as the client named them."""
    subscriptions: set[tuple[str, str]] = field(default_factory=set)
    """Topics and names of subscriptions with acknowledgements of the transaction."""
    owner: str = ""
    """The role that opened the transaction; empty without authentication."""
    ended_ms: int = 0
    """Time of its end, in ms since 1970; 0 if it has not ended."""
    waiting: list[OnEnd] = field(default_factory=list)
    """The clients that wait for the end."""
    timer: Timer | None = None
    """The timer of the timeout, or of the next try to end the transaction."""

    def check_open(self) -> None:
        """Raise Refused (InvalidTxnStatus) if the transaction is not OPEN."""
        if self.status is not TxnStatus.OPEN:
            raise invalid_status(self, TxnStatus.OPEN)

    def cancel_timer(self) -> None:
        """Cancel the timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def invalid_status(meta: TxnMeta, expected: TxnStatus) -> Refused:
    """Return the error for a transaction that is not in the expected state."""
    text = f"Expect Txn `{text_of(meta.id)}` to be in {expected.name} status but it is in {meta.status.name} status."
    return Refused(pb.InvalidTxnStatus, text)


def not_owned(txn: TxnId, principal: str) -> Refused:
    """Return the error for a client that does not own a transaction; an empty principal is no principal."""
    text = f"Client ({principal or 'null'}) is neither the owner of the transaction {text_of(txn)} nor a super user"
    return Refused(pb.TransactionNotFound, text)


class MLTransactionMetadataStore:
    """The transactions of one coordinator."""

    def __init__(self, coordinator: int, on_change: Callable[[TxnMeta], None] = lambda _: None) -> None:
        """``on_change`` is called with each transaction that was opened, changed or removed."""
        self.coordinator = coordinator
        self.on_change = on_change
        self.metas: dict[int, TxnMeta] = {}
        """Transactions by their least significant bits, in ascending order."""
        self.sequence_id = -1
        """The number of the last transaction, or -1."""
        self.opened_ms = 0
        """Time at which a client connected to the coordinator first since the broker started."""
        self.committed = self.aborted = self.timed_out = 0
        """Number of ended transactions; a transaction that timed out is also aborted."""
        self.updates = 0
        """Number of changes that a real broker writes to the transaction log."""

    def new(self, timeout_ms: int, now: int, owner: str) -> TxnMeta:
        """Open a transaction."""
        self.sequence_id += 1
        meta = TxnMeta((self.coordinator, self.sequence_id), now, timeout_ms, owner=owner)
        self.metas[self.sequence_id] = meta
        self.updates += 1
        self.on_change(meta)
        return meta

    def meta(self, txn: TxnId) -> TxnMeta:
        """Return a transaction. Raises Refused (TransactionNotFound)."""
        meta = self.metas.get(txn[1])
        if meta is None:
            raise Refused(pb.TransactionNotFound, f"The transaction with this txdID `{text_of(txn)}`not found ")
        return meta

    def add_topics(self, txn: TxnId, topics: Iterable[str]) -> None:
        """Add topics to an OPEN transaction. Raises Refused."""
        meta = self.meta(txn)
        meta.check_open()
        meta.topics.update(topics)
        self.updates += 1
        self.on_change(meta)

    def add_subscriptions(self, txn: TxnId, subscriptions: Iterable[tuple[str, str]]) -> None:
        """Add subscriptions to an OPEN transaction. Raises Refused."""
        meta = self.meta(txn)
        meta.check_open()
        meta.subscriptions.update(subscriptions)
        self.updates += 1
        self.on_change(meta)

    def set_status(self, meta: TxnMeta, status: TxnStatus) -> None:
        """Start to end a transaction."""
        meta.status = status
        self.on_change(meta)

    def remove(self, meta: TxnMeta) -> None:
        """Remove a transaction that has ended."""
        del self.metas[meta.id[1]]
        self.on_change(meta)
        self.updates += 2  # the states that precede and follow the end
        if meta.status is TxnStatus.COMMITTING:
            self.committed += 1
        else:
            self.aborted += 1

    @property
    def low_water_mark(self) -> int:
        """The highest number up to which all transactions have ended, or 0 if there are no transactions."""
        return next(iter(self.metas), 1) - 1
