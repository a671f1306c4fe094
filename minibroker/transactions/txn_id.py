"""The id of a transaction, and the markers that end a transaction in a topic.

Sources: TxnID, Markers.
"""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.constants import MINUS_ONE
from pcli.codec.wire.message_id import signed

TxnId = tuple[int, int]
"""The most and least significant bits, as Java longs: the coordinator's id and a number of this coordinator."""

TXN_COMMIT: Final = 21
"""``marker_type`` of a marker that commits a transaction (MarkerType.TXN_COMMIT)."""
TXN_ABORT: Final = 22
"""``marker_type`` of a marker that aborts a transaction (MarkerType.TXN_ABORT)."""

_PRODUCER: Final = "pulsar.txn.marker"


def txn_of(message: Any) -> TxnId:
    """Return the transaction id in the fields of a command or of a message's metadata."""
    return signed(message.txnid_most_bits), signed(message.txnid_least_bits)


def text_of(txn: TxnId) -> str:
    """Return a transaction id as in the texts of the real broker, ``(0,7)``."""
    return f"({txn[0]},{txn[1]})"


def marker(txn: TxnId, kind: int, now: int) -> bytes:
    """Return the bytes of a marker entry. ``kind`` is TXN_COMMIT or TXN_ABORT."""
    metadata = pb.MessageMetadata(
        publish_time=now,
        producer_name=_PRODUCER,
        sequence_id=MINUS_ONE,
        marker_type=kind,
        txnid_most_bits=txn[0] & MINUS_ONE,
        txnid_least_bits=txn[1] & MINUS_ONE,
    )
    return push_entry(metadata, b"")
