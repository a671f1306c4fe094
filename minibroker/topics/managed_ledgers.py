"""The ledgers of new topics (ManagedLedgerFactoryImpl)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.storage.ledger import ManagedLedger
from pcli.minibroker.storage.shadow_ledger import ShadowManagedLedger

if TYPE_CHECKING:
    from pcli.minibroker.topics.topic import Topic

__all__ = ["open_ledger"]


def open_ledger(topic: Topic) -> ManagedLedger:
    """Return the ledger of a topic. Raises Refused (PersistenceError) if the source of a shadow topic is missing."""
    broker, name = topic.broker, topic.name
    if topic.shadow_source is not None:
        source = broker.load_topic(topic.shadow_source)
        if source is None or source.ledger is None:
            raise Refused(pb.PersistenceError, "Managed ledger not found")
        return ShadowManagedLedger(str(name), source.ledger, broker.now)
    if topic.documents is not None:
        return topic.documents.open_ledger(broker, name)
    storage = broker.storage.open(0)
    return ManagedLedger(str(name), storage, broker.next_ledger_id, broker.settings, broker.now, cache=broker.cache)
