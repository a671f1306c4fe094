"""The documents of the transaction coordinators.

Rules of this file
1. Each coordinator has a document with the number of its last transaction, so that no id is used again. A transaction
   that has not ended has a document of its own.
2. A restored coordinator is closed until a client connects to it. Then transactions whose end was interrupted end, and
   the timeouts of the others continue.
3. Counters are not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from pcli.minibroker.errors import decoding
from pcli.minibroker.transactions.metadata_store import TxnMeta, TxnStatus
from pcli.minibroker.transactions.metadata_store_service import TransactionMetadataStoreService

__all__ = ["COORDINATORS", "CoordinatorDocuments"]

COORDINATORS: Final = "/transaction-coordinators/"
"""Start of the paths of these documents."""


class CoordinatorDocuments:
    """The documents of all coordinators (class Documented)."""

    def __init__(self, service: TransactionMetadataStoreService, record: Callable[[], None]) -> None:
        """``record`` records that documents of this object have changed."""
        self._service = service
        self._record = record
        self._changed: dict[TxnMeta, None] = {}

    def restore(self, documents: Iterable[tuple[str, Any]]) -> None:
        """Add the stored coordinators, and record changes from now on."""
        self._service.on_change = self._meta_changed
        metas: list[TxnMeta] = []
        for path, value in documents:
            with decoding(path):
                coordinator, _, sequence = path.removeprefix(COORDINATORS).partition("/")
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
            yield f"{COORDINATORS}{number}", {"sequence_id": self._service.known_store(number).sequence_id}
        for meta in changed:
            number, sequence = meta.id
            ended = sequence not in self._service.known_store(number).metas
            yield f"{COORDINATORS}{number}/{sequence}", None if ended else encode_transaction(meta)


def encode_transaction(meta: TxnMeta) -> dict[str, Any]:
    """Return the document of a transaction. Its timer and the clients that wait for its end are not stored."""
    return {
        "opened_ms": meta.opened_ms,
        "timeout_ms": meta.timeout_ms,
        "status": meta.status.value,
        "topics": sorted(meta.topics),
        "subscriptions": sorted(meta.subscriptions),
        "owner": meta.owner,
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
    )
