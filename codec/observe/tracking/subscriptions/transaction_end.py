"""What the end of a transaction does to topics and subscriptions.

Rules of this file
1. The coordinator tells the brokers of the topics (END_TXN_ON_PARTITION) and of the subscriptions
   (END_TXN_ON_SUBSCRIPTION), on the broker's own connection; only then it answers the client. So the client's answer
   is looked at, too: it does what those have not done, for a capture that lacks them.
2. Messages of an open transaction hide themselves and what is behind them. Its end is an entry of its own behind them,
   a marker, which nobody is shown; an abort of a transaction without messages writes none.
3. Acknowledgements count from the commit on. An abort gives the messages back.
"""

from __future__ import annotations

from typing import Any

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.subscriptions.acks import Acks
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.topic_state import TopicState

__all__ = ["TransactionEnd"]

_Txn = tuple[int, int]


class TransactionEnd:
    """Transactions that end."""

    def __init__(self, lifecycles: OpenLifecycles, acks: Acks) -> None:
        self._lifecycles = lifecycles
        self._acks = acks
        self._asked: dict[tuple[int, int], tuple[_Txn, bool, str, str]] = {}

    def request(self, facts: Facts) -> None:
        """END_TXN, END_TXN_ON_PARTITION or END_TXN_ON_SUBSCRIPTION."""
        values = facts.command
        words: dict[str, Any] = {name.rpartition(".")[2]: value for name, value in values.items()}
        txn = (words.get("txnid_most_bits", 0), words.get("txnid_least_bits", 0))
        commit = words.get("txn_action") == "COMMIT"
        key = (facts.frame.stream.number, words.get("request_id", -1))
        if len(self._asked) > 10_000:
            del self._asked[next(iter(self._asked))]
        self._asked[key] = (txn, commit, words.get("topic", ""), words.get("subscription", ""))

    def response(self, facts: Facts) -> None:
        """The answer to one of them."""
        words: dict[str, Any] = {name.rpartition(".")[2]: value for name, value in facts.command.items()}
        asked = self._asked.pop((facts.frame.stream.number, words.get("request_id", -1)), None)
        if asked is None or words.get("error"):
            return
        txn, commit, name, subscription_name = asked
        topics = [self._lifecycles.topic(name)] if name else list(self._lifecycles.topics.values())
        now, number = facts.frame.time_ns, facts.frame.number
        for topic in topics:
            if not subscription_name:
                self._published(topic, txn, commit=commit)
            if subscription_name or not name:
                for subscription in list(topic.subscriptions.values()):
                    if txn in subscription.transaction_acks and subscription_name in ("", subscription.record.name):
                        self._acks.transaction(subscription, txn, now, number, commit=commit)

    def _published(self, topic: TopicState, txn: _Txn, *, commit: bool) -> None:
        places = topic.uncommitted.pop(txn, None)
        if places is None:
            return
        if not commit:
            topic.aborted.update(places)
        ledger = topic.last[0]
        marker = (ledger, topic.ledgers[ledger] + 1)
        topic.markers.add(marker)
        topic.grow(marker, written=True)
