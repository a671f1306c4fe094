"""The documents of coordinators and of pending acknowledgements.

Rules of this file
1. Each coordinator has a document with the number of its last transaction, so that no id is used again. A transaction
   that has not ended has a document of its own.
2. A restored coordinator is closed until a client connects to it. Then transactions whose end was interrupted end, and
   the timeouts of the others continue.
3. Counters are not stored.
4. Of the pending acknowledgements of a subscription (the log of MLPendingAckStore), those outside transactions are not
   stored: `PendingAckHandle.reload` removes them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from pcli.minibroker.errors import decoding
from pcli.minibroker.transactions.metadata_store import MLTransactionMetadataStore, TxnMeta, TxnStatus

if TYPE_CHECKING:
    from pcli.minibroker.transactions.pending_ack_handle import PendingAckHandle, Place
    from pcli.minibroker.transactions.txn_id import TxnId

COORDINATORS: Final = "/transaction-coordinators/"
"""Start of the paths of these documents."""
SCALABLE_COORDINATORS: Final = "/scalable-transaction-coordinators/"
"""The same for transactions on scalable topics."""


class Coordinators(Protocol):
    """The coordinators of a broker."""

    on_change: Callable[[TxnMeta], None]
    """A function that is called with each transaction that was opened, changed or removed."""

    def known_store(self, coordinator: int) -> MLTransactionMetadataStore:
        """Return a coordinator, which is created if it does not exist."""


class CoordinatorDocuments:
    """The documents of all coordinators (class Documented)."""

    def __init__(self, service: Coordinators, record: Callable[[], None], prefix: str = COORDINATORS) -> None:
        """``record`` records that documents of this object have changed; ``prefix`` is the start of their paths."""
        self._prefix = prefix
        self._service = service
        self._record = record
        self._changed: dict[TxnMeta, None] = {}

    def restore(self, documents: Iterable[tuple[str, Any]]) -> None:
        """Add the stored coordinators, and record changes from now on."""
        self._service.on_change = self._meta_changed
        metas: list[TxnMeta] = []
        for path, value in documents:
            with decoding(path):
                coordinator, _, sequence = path.removeprefix(self._prefix).partition("/")
                store = self._service.known_store(int(coordinator))
                if sequence:
                    metas.append(decode_transaction((int(coordinator), int(sequence)), value))
                else:
                    store.sequence_id = value["sequence_id"]
        for meta in sorted(metas, key=lambda meta: meta.id):
            self._service.known_store(meta.id[0]).metas[meta.id[1]] = meta

    def _meta_changed(self, meta: TxnMeta) -> None:
        self._changed[meta] = None
        self._record()

    def changed_documents(self) -> Iterator[tuple[str, Any]]:
        """Return the documents that have changed, as defined in Documented."""
        changed, self._changed = self._changed, {}
        for number in {meta.id[0] for meta in changed}:
            yield f"{self._prefix}{number}", {"sequence_id": self._service.known_store(number).sequence_id}
        for meta in changed:
            number, sequence = meta.id
            ended = sequence not in self._service.known_store(number).metas
            yield f"{self._prefix}{number}/{sequence}", None if ended else encode_transaction(meta)


def encode_transaction(meta: TxnMeta) -> dict[str, Any]:
    """Return the document of a transaction. Its timer and the clients that wait for its end are not stored."""
    return {
        "opened_ms": meta.opened_ms,
        "timeout_ms": meta.timeout_ms,
        "status": meta.status.value,
        "topics": sorted(meta.topics),
        "subscriptions": sorted(meta.subscriptions),
        "owner": meta.owner,
        "ended_ms": meta.ended_ms,
    }


def decode_transaction(txn: tuple[int, int], value: dict[str, Any]) -> TxnMeta:
    """Return the transaction of a document."""
    return TxnMeta(
        txn,
        value["opened_ms"],
        value["timeout_ms"],
        TxnStatus(value["status"]),
        set(value["topics"]),
        {(topic, name) for topic, name in value["subscriptions"]},
        value["owner"],
        value["ended_ms"],
    )


def encode_pending_acks(handle: PendingAckHandle) -> dict[str, Any] | None:
    """Return the acknowledgements of all transactions; None if no transaction used the subscription."""
    if not handle.initialized_ms:
        return None
    places = handle.places
    transactions = [
        [*txn, [[*place, _text(bits), places.get(place, (None, 0))[1]] for place, bits in acks.items()]]
        for txn, acks in handle.transactions.items()
    ]
    whole = handle.cumulative
    cumulative = None if whole is None else [*whole[0], *whole[1], _text(whole[2])]
    return {"transactions": transactions, "cumulative": cumulative}


def restore_pending_acks(handle: PendingAckHandle, value: dict[str, Any], now: int) -> None:
    """Add the acknowledgements of a document."""
    transactions: dict[TxnId, dict[Place, tuple[int | None, int]]] = {
        (most, least): {(ledger, entry): (_bits(text), size) for ledger, entry, text, size in acks}
        for most, least, acks in value["transactions"]
    }
    whole = value["cumulative"]
    cumulative = None if whole is None else ((whole[0], whole[1]), (whole[2], whole[3]), _bits(whole[4]))
    handle.restore(transactions, cumulative, now)


def _text(bits: int | None) -> str | None:
    return None if bits is None else f"{bits:x}"


def _bits(text: str | None) -> int | None:
    return None if text is None else int(text, 16)
