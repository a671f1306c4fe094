"""The JSON value of the pending acknowledgements of a subscription (the log of MLPendingAckStore).

Acknowledgements outside transactions are not stored: `PendingAckHandle.reload` removes them, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcli.minibroker.transactions.pending_ack_handle import PendingAckHandle, Place
    from pcli.minibroker.transactions.txn_id import TxnId

__all__ = ["encode_pending_acks", "restore_pending_acks"]


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
