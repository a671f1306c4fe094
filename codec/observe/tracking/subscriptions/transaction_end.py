"""Effects of the end of a transaction on topics and subscriptions.

Rules of this file
1. The coordinator sends END_TXN_ON_PARTITION and END_TXN_ON_SUBSCRIPTION to the brokers on the broker's own connection,
   and then responds to the client. The response to the client is also processed, because a capture may not contain the
   broker's connection.
2. Messages of an open transaction, and all later messages, are not delivered. When the transaction ends, the broker
   writes a marker after these messages and does not deliver it. An abort of a transaction without messages writes no
   marker.
3. Acknowledgements take effect at the commit. After an abort the messages are redelivered.
"""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.subscriptions.acks import Acks
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import end_transaction_waits
from pcli.codec.observe.tracking.subscriptions.message_counts import count_aborted
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState

__all__ = ["TransactionEnd", "end_by_delivery"]

_Txn = tuple[int, int]
_MAX_REQUESTS: Final = 10_000


class TransactionEnd:
    """A processor of the ends of transactions."""

    def __init__(self, lifecycles: OpenLifecycles, acks: Acks) -> None:
        self._lifecycles = lifecycles
        self._acks = acks
        self._requests: BoundedDict[tuple[int, int], tuple[_Txn, bool, str, str]] = BoundedDict(_MAX_REQUESTS)

    def request(self, facts: Facts) -> None:
        """Process END_TXN, END_TXN_ON_PARTITION or END_TXN_ON_SUBSCRIPTION."""
        values = facts.command
        words: dict[str, Any] = {name.rpartition(".")[2]: value for name, value in values.items()}
        txn = (words.get("txnid_most_bits", 0), words.get("txnid_least_bits", 0))
        commit = words.get("txn_action") == "COMMIT"
        key = (facts.frame.stream.number, words.get("request_id", -1))
        self._requests[key] = (txn, commit, words.get("topic", ""), words.get("subscription", ""))
        for topic in self._lifecycles.topics.values() if not commit else ():
            for subscription in topic.subscriptions.values():
                if txn in subscription.transaction_acks:
                    subscription.aborting.setdefault(txn, facts.frame.number)

    def response(self, facts: Facts) -> None:
        """Process the response to one of these commands."""
        words: dict[str, Any] = {name.rpartition(".")[2]: value for name, value in facts.command.items()}
        request = self._requests.pop((facts.frame.stream.number, words.get("request_id", -1)), None)
        if request is None or words.get("error"):
            return
        txn, commit, name, subscription_name = request
        topics = [self._lifecycles.topic(name)] if name else list(self._lifecycles.topics.values())
        now, number = facts.frame.time_ns, facts.frame.number
        for topic in topics:
            if not subscription_name and txn in topic.uncommitted:
                _end_messages(topic, txn, now, number, commit=commit)
                ledger = topic.last[0]
                marker = (ledger, topic.ledgers[ledger] + 1)
                topic.markers.add(marker)
                topic.grow(marker, written=True)
            if subscription_name or not name:
                for subscription in list(topic.subscriptions.values()):
                    if txn in subscription.transaction_acks and subscription_name in ("", subscription.record.name):
                        self._acks.transaction(subscription, txn, now, number, commit=commit)


def end_by_delivery(topic: TopicState, at: Position, time_ns: int, frame: int) -> None:
    """End the transactions that an entry follows when it is delivered for the first time.

    The capture lacks their end: the coordinator aborts a transaction after its timeout without a frame to the client.
    The marker is one of the entries that no frame contains.
    """
    over = [(txn, at in places) for txn, places in topic.uncommitted.items() if places and min(places) <= at]
    for txn, commit in over:
        _end_messages(topic, txn, time_ns, frame, commit=commit)


def _end_messages(topic: TopicState, txn: _Txn, time_ns: int, frame: int, *, commit: bool) -> None:
    """End a transaction on a topic that contains messages of it."""
    for subscription in topic.subscriptions.values():
        end_transaction_waits(subscription, time_ns, frame)
    places = topic.uncommitted.pop(txn)
    found = [one for at in places if (one := topic.lifecycles.get(at)) is not None]
    messages = sum(one.messages for one in found if one.receipt_ns >= 0)
    topic.record.messages.uncommitted -= messages
    if not commit:
        topic.aborted.update(places)
        topic.record.messages.aborted += messages
        for one in found:
            count_aborted(topic, one)
