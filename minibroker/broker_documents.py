"""The documents of a broker: its ids, policies, schemas, topics and transactions.

Rules of this file
1. The restored broker continues the ids of ledgers, and gets a new instance number, which is part of generated producer
   names.
2. Topics are restored when they are used first.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from pcli.codec.errors import LocalError
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.errors import decoding
from pcli.minibroker.policies.policy_documents import ADMIN, PolicyDocuments
from pcli.minibroker.scalable.scalable_topic_documents import TOPICS, ScalableTopicDocuments
from pcli.minibroker.schema.registry import SCHEMAS, SchemaDocuments
from pcli.minibroker.storage.broker_storage import Document
from pcli.minibroker.transactions.transaction_documents import COORDINATORS, SCALABLE_COORDINATORS, CoordinatorDocuments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pcli.minibroker.policies.policy_store import Policies
    from pcli.minibroker.scalable.scalable_topic_service import ScalableTopicService
    from pcli.minibroker.schema.registry import SchemaRegistry
    from pcli.minibroker.settings import Settings
    from pcli.minibroker.storage.broker_storage import BrokerStorage
    from pcli.minibroker.topics.topic_registry import TopicRegistry
    from pcli.minibroker.transactions.metadata_store_service import TransactionMetadataStoreService
    from pcli.minibroker.transactions.scalable_transactions import ScalableTransactions

_BROKER: Final = "/broker"


class BrokerDocuments:
    """The documents of one broker."""

    def __init__(
        self,
        storage: BrokerStorage,
        settings: Settings,
        policies: Policies,
        schemas: SchemaRegistry,
        registry: TopicRegistry,
        scalable_topics: ScalableTopicService,
        transactions: TransactionMetadataStoreService,
        scalable_transactions: ScalableTransactions,
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._broker = Document(storage, _BROKER, self._encode)
        self.policies = PolicyDocuments(policies, lambda: storage.changed(self.policies))
        value = storage.document(_BROKER)
        if value is None and not any(storage.paths("/")):
            value = {"instance": -1, "next_ledger_id": 0}
        with decoding(_BROKER):
            self.instance: int = value["instance"] + 1
            """Number of this start of the broker."""
            self._next_ledger_id: int = value["next_ledger_id"]
        self._broker.changed()
        self.policies.restore(storage.documents(ADMIN))
        policies.on_partitions_change = self.policies.changed
        for name, text in policies.dynamic.items():
            with suppress(LocalError):  # the value is stored, but invalid or without effect, as on the real broker
                settings.put(name, text)
        self._schemas = SchemaDocuments(schemas, lambda: storage.changed(self._schemas))
        self._schemas.restore(storage.documents(SCHEMAS))
        self._coordinators = CoordinatorDocuments(transactions, lambda: storage.changed(self._coordinators))
        self._coordinators.restore(storage.documents(COORDINATORS))
        self._scalable_coordinators = CoordinatorDocuments(
            scalable_transactions, lambda: storage.changed(self._scalable_coordinators), SCALABLE_COORDINATORS
        )
        self._scalable_coordinators.restore(storage.documents(SCALABLE_COORDINATORS))
        registry.restore()
        self._scalable_topics = ScalableTopicDocuments(scalable_topics, lambda: storage.changed(self._scalable_topics))
        self._scalable_topics.restore(storage.documents(TOPICS))

    def _encode(self) -> Any:
        return {"instance": self.instance, "next_ledger_id": self._next_ledger_id}

    def next_ledger_id(self) -> int:
        """Return the id of a new ledger."""
        self._next_ledger_id += 1
        self._broker.changed()
        return self._next_ledger_id - 1

    def changed_by_request(self, path: Mapping[str, str]) -> None:
        """Record that a REST request with these parts of its path can have changed values, which are required."""
        space = unquote(f"{path['tenant']}/{path['namespace']}") if "namespace" in path and "tenant" in path else ""
        name = None
        if space and "topic" in path:
            with suppress(LocalError):
                name = TopicName.decoded(path["domain"] or "persistent", space, path["topic"])
        self.policies.changed_by_request(space, name)
        if name is not None:
            for topic in self._registry.loaded_with_base(str(name)):
                if topic.documents is not None:
                    topic.documents.changed_by_request()
        self._storage.require()
