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

from typing import Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.subscriptions.acks import Acks
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import end_transaction_waits
from pcli.codec.observe.tracking.subscriptions.message_counting import count_aborted
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState
from pcli.codec.proto import pb

_Txn = tuple[int, int]
_MAX_REQUESTS: Final = 10_000


class TransactionEnd:
    """A processor of the ends of transactions."""

    def __init__(self, lifecycles: OpenLifecycles, acks: Acks) -> None:
        self._lifecycles = lifecycles
        self._acks = acks
        self._requests: BoundedDict[int, tuple[_Txn, bool]] = BoundedDict(_MAX_REQUESTS)
        """The transaction of each open request by frame number, and whether it commits."""

    def request(self, facts: Facts) -> None:
        """Process END_TXN, END_TXN_ON_PARTITION or END_TXN_ON_SUBSCRIPTION."""
        body = facts.frame.body
        txn, commit = (body.txnid_most_bits, body.txnid_least_bits), body.txn_action == pb.COMMIT
        self._requests[facts.frame.number] = txn, commit
        for topic in self._lifecycles.topics.values() if not commit else ():
            for subscription in topic.subscriptions.values():
                if txn in subscription.transaction_acks:
                    subscription.aborting.setdefault(txn, facts.frame.number)

    def response(self, facts: Facts) -> None:
        """Process the response to one of these commands."""
        request, known = facts.request, self._requests.pop(facts.request_number, None)
        if request is None or known is None or facts.error[0]:
            return
        (txn, commit), name, subscription_name = known, request.topic, request.subscription
        topics = [self._lifecycles.topic(str(name))] if name else list(self._lifecycles.topics.values())
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
