"""Messages that were redelivered because the transaction that acknowledged them was aborted.

## What it means

Acknowledgements in a transaction take effect when it is committed. When the application aborts the transaction, or when
the timeout of the transaction expires, the messages become unacknowledged again and are redelivered. On Exclusive and
Failover subscriptions, all unacknowledged messages are redelivered with them. This is the purpose of transactions.
Frequent aborts waste work. They occur if transactions exceed their timeout or conflict with each other.

## On the wire

ACK with `txnid_most_bits` and `txnid_least_bits`, END_TXN with ABORT (or no END_TXN, if the timeout expired), then
MESSAGE with the ids of those ACKs and, on Exclusive and Failover subscriptions, with all later ids.

## What would disprove it

If the END_TXN contains COMMIT, the messages must not be redelivered, and ack-lost applies instead.

## What to do

Find out why transactions are aborted: check the application's log and the errors of ADD_SUBSCRIPTION_TO_TXN and
ACK_RESPONSE (TransactionConflict). If the timeout is the cause, make it longer than the processing time.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.finding import Cause
from pcli.codec.observe.rules.redelivery_rule_factory import Redelivery, redelivery_rule

__all__ = ["RULE"]

_REDELIVERIES: Final = {
    "aborted": Redelivery(
        Cause("application"),
        "because a transaction that acknowledged messages of the subscription was aborted",
        "A commit of that transaction would disprove the finding.",
        "Find out why the application aborts transactions: its log, and TransactionConflict in ACK_RESPONSE.",
    ),
    "expired": Redelivery(
        Cause(
            "application",
            "likely",
            ("an END_TXN on a connection that was not captured", "a broker that aborted the transaction"),
            "The log of the application, and `pulsar-admin transactions` while a transaction is open.",
        ),
        "because a transaction that acknowledged messages of the subscription ended without END_TXN: its timeout "
        "expired",
        "A commit of that transaction would disprove the finding.",
        "Make the timeout of transactions longer than the processing time.",
        "likely",
    ),
}

RULE = redelivery_rule(
    "redelivered-after-abort",
    "messages redelivered because a transaction was aborted",
    "apache/pulsar#25107",
    _REDELIVERIES,
    because_of=("transaction-open",),
)
