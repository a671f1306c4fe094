"""TransactionBufferClientImpl: ends the transactions of the coordinators on topics and subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.topics import acknowledgements

if TYPE_CHECKING:
    from pcli.minibroker.topics.topic import Topic
    from pcli.minibroker.topics.topic_registry import TopicRegistry
    from pcli.minibroker.transactions.txn_id import TxnId


class TransactionBufferClientImpl:
    """The topics on which coordinators and clients end transactions."""

    def __init__(self, registry: TopicRegistry) -> None:
        self._registry = registry

    def end_on_topic(self, topic: str, txn: TxnId, low_water_mark: int, *, commit: bool) -> None:
        """End a transaction on a topic. Nothing happens if the topic does not exist. Raises Refused."""
        found = self._existing(topic)
        if found is not None:
            found.end_transaction(txn, low_water_mark, commit=commit)

    def end_on_subscription(
        self, topic: str, subscription: str, txn: TxnId, low_water_mark: int, *, commit: bool
    ) -> None:
        """End a transaction on a subscription. Nothing happens if the subscription does not exist. Raises Refused."""
        found = self._existing(topic)
        one = None if found is None else found.subscriptions.get(subscription)
        if one is not None:
            acknowledgements.end_transaction(one, txn, low_water_mark, commit=commit)

    def _existing(self, topic: str) -> Topic | None:
        """Return a topic, or None if it does not exist. Raises Refused (UnknownError) if the name is invalid."""
        try:
            name = self._registry.topic_name(topic)
        except Refused as refused:
            raise Refused(pb.UnknownError, refused.text) from None
        if not self._registry.exists(name):
            return None
        self._registry.look_up(name)
        return self._registry.load(name)
