"""Messages that came again because the transaction that had acknowledged them was rolled back.

## What it means

Acknowledgements in a transaction count when it is committed. When it is aborted, by the application or by its time-out,
the messages are as they were before, and are sent again. That is what transactions are for. When it happens often, the
work is done in vain: transactions that take longer than their time-out, or that conflict with each other.

## On the wire

ACK with `txnid_most_bits` and `txnid_least_bits`, END_TXN with ABORT (or none, when it was the time-out), then MESSAGE
with the ids of those ACKs.

## What speaks for the opposite

An END_TXN with COMMIT: then the messages must not come again, and ack-lost is the rule to look at.

## What to do

Look why transactions are aborted: the application's log, the errors of ADD_SUBSCRIPTION_TO_TXN and ACK_RESPONSE
(TransactionConflict). If it is the time-out make it longer than the work.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.again import Cause, redelivery_rule

__all__ = ["RULE"]

_CAUSES: Final = {
    "aborted": Cause(
        "application",
        "because the transaction that had acknowledged them was rolled back",
        "A commit of that transaction would show that they were done.",
        "Look why transactions are aborted; make their time-out longer than the work.",
    ),
}

RULE = redelivery_rule(
    "redelivered-after-abort",
    "messages that came again because a transaction was rolled back",
    "apache/pulsar#25107",
    _CAUSES,
)
