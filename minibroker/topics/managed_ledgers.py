"""The ledgers of new topics (ManagedLedgerFactoryImpl)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.storage.ledger import ManagedLedger
from pcli.minibroker.storage.shadow_ledger import ShadowManagedLedger
from pcli.minibroker.storage.spilling_storage import SpillingStorage

if TYPE_CHECKING:
    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.topics.broker_service import BrokerService

__all__ = ["open_ledger"]


def open_ledger(broker: BrokerService, name: TopicName, source: TopicName | None) -> ManagedLedger:
    """Return the ledger of a topic. Raises Refused (PersistenceError) if the source of a shadow topic is missing."""
    if source is None:
        storage = SpillingStorage(broker.pool)
        return ManagedLedger(str(name), storage, broker.next_ledger_id, broker.settings, broker.now, cache=broker.cache)
    topic = broker.load_topic(source)
    if topic is None or topic.ledger is None:
        raise Refused(pb.PersistenceError, "Managed ledger not found")
    return ShadowManagedLedger(str(name), topic.ledger, broker.now)
