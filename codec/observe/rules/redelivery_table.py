"""The rules about redelivered messages: for each rule its page, and the causes that it reports."""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.finding import Cause
from pcli.codec.observe.rules.finding_text import span
from pcli.codec.observe.rules.redeliveries import Redelivery, define
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

_NACK_DELAY_NS: Final = 60_000_000_000
_LATE_NS: Final = 1_000_000_000


def _ages(subscription: SubscriptionRecord) -> str:
    """Return the ages of the messages at the requests, and what they indicate."""
    ages = [age for consumer in subscription.consumers.values() for age in consumer.asked_all_ages]
    if not ages:
        return ""
    text = f" The youngest unacknowledged message was {span(min(ages))}"
    text += " old" if max(ages) - min(ages) < _LATE_NS // 10 else f" to {span(max(ages))} old"
    if all(0 <= age - _NACK_DELAY_NS < _LATE_NS for age in ages):
        return f"{text}: 60 s is the default delay of negative acknowledgements."
    return f"{text}."


define(
    "redelivered-after-reconnect",
    "messages redelivered because the consumer that held them left, or the topic was unloaded",
    "apache/pulsar#23056",
    """
Messages that were redelivered because the consumer that held them left, or the topic was unloaded.

## What it means

Delivered, unacknowledged messages are assigned to a consumer only while it is attached. When the client closes the
consumer, when its connection breaks, when the broker closes the consumer (unload, restart, load balancing), or when
another consumer of a Failover subscription becomes active, these messages are redelivered to the attached consumers.
Messages that were processed but whose ACK was not yet sent are processed twice. This is the most frequent source of
duplicates and is not a fault.

## On the wire

The end of a consumer or connection (CLOSE_CONSUMER, FIN, RST, ACTIVE_CONSUMER_CHANGE), then MESSAGE with the
unacknowledged ids, often with redelivery count 0: a disconnect does not increase the count.

## What would disprove it

If the message was acknowledged before the consumer left, the ACK was lost: see ack-lost.

## What to do

Applications must tolerate these duplicates. A smaller receiver queue and a shorter grouping time for acknowledgements
reduce the number of affected messages. If such duplicates are frequent, find out which side closes the connection: see
reconnect-loop and the broker's load balancer.
    """,
    Redelivery(
        "left",
        Cause("application"),
        "after the consumer that held them was closed",
        "An ACK before the consumer was closed would disprove the finding.",
        "Acknowledge processed messages before closing the consumer. The remaining messages are delivered to "
        "other consumers.",
    ),
    Redelivery(
        "lost",
        None,
        "after the connection of the consumer that held them broke",
        "An ACK before the connection broke would disprove the finding.",
        "Make the application tolerate duplicates. Find out why the connection broke.",
    ),
    Redelivery(
        "unload",
        Cause("broker"),
        "after the broker closed their consumer and the consumer resubscribed (unload, restart, deletion)",
        "An ACK before the CLOSE_CONSUMER would disprove the finding.",
        "Make the application tolerate duplicates. If topics are moved often, check the load balancer of the brokers.",
    ),
    Redelivery(
        "takeover",
        Cause("broker"),
        "after another consumer became the active one",
        "An ACK from the previous consumer would disprove the finding.",
        "Make the application tolerate duplicates: the new active consumer starts at the first unacknowledged message.",
    ),
    Redelivery(
        "reopened",
        Cause("application"),
        "after the subscription had no consumer and a consumer subscribed again",
        "An ACK from the previous consumer would disprove the finding.",
        "Acknowledge processed messages before the last consumer leaves.",
    ),
    because_of=("broker-unavailable", "keep-alive-missed", "auth-expired"),
)

define(
    "redelivered-after-ack-timeout",
    "messages redelivered because the consumer's acknowledgement timeout expired, or may have expired",
    "apache/pulsar#3185",
    """
Messages whose redelivery the consumer requested because its acknowledgement timeout expired, or may have expired.

## What it means

If `ackTimeout` is set, a client tracks every message that it receives and requests redelivery of messages that are not
acknowledged in time. The timer runs in the client; the broker has none. The message is processed a second time,
possibly while another consumer is still processing it.

## On the wire

REDELIVER_UNACKNOWLEDGED_MESSAGES with ids, always about the same time after their MESSAGE (slightly more than the
timeout, because the client checks at intervals), in bursts. There are two cases:

- *ack_timeout*: the consumer acknowledged both deliveries of an entry, the first one after the request. An application
  does not acknowledge a message that it has rejected.
- *requested*: the request is certain, but the cause may also be a negative acknowledgement. The client sends the same
  frame after the delay of the negative acknowledgement (60 s by default) or after its back-off. If the application
  rejects all messages that it does not acknowledge, and without a delay, then the ages are similar too.

An acknowledgement timeout is excluded if the messages are younger than the minimum timeout of the client library (1 s,
and 10 s for C++ and Python), if the ages differ by more than a second in one round, or if an older unacknowledged
message is not in the request: see redelivered-after-nack.

## What would disprove it

If the ages differ widely, the application rejects messages: see redelivered-after-nack. For *requested*, the
configuration of the consumer decides.

## What to do

If processing takes longer than the timeout, raise the timeout: see ack-timeout-too-short. If messages are never
acknowledged, find them with never-acked. Negative acknowledgements are more explicit, and a redelivery back-off
prevents storms.

docs/clients.md lists which clients have an acknowledgement timeout, and the form of their requests.
    """,
    Redelivery(
        "ack_timeout",
        Cause(
            "application",
            "likely",
            ("negative acknowledgements of messages that are acknowledged nevertheless",),
            "The configuration of the consumer: ackTimeout and negativeAckRedeliveryDelay.",
        ),
        "because they were not acknowledged within the consumer's acknowledgement timeout",
        "Widely differing ages at the redelivery requests would indicate negative acknowledgements; the ages are "
        "similar, and the consumer acknowledged both deliveries of an entry.",
        "Raise the acknowledgement timeout above the processing time, or find out which messages are not acknowledged.",
        "likely",
        "",
    ),
    Redelivery(
        "requested",
        Cause(
            "application",
            "possible",
            ("an acknowledgement timeout", "negative acknowledgements with a delay or a back-off"),
            "The configuration of the consumer (ackTimeout, negativeAckRedeliveryDelay), or the application's log.",
        ),
        "because the consumer requested it: its acknowledgement timeout expired, or its application rejected them",
        "Two ACKs of a redelivered entry would indicate an acknowledgement timeout; widely differing ages at the "
        "requests would indicate negative acknowledgements.",
        "Find out which of the two the consumer uses. Raise the timeout, or check why messages are rejected.",
        severity="",
    ),
    because_of=("ack-timeout-too-short", "poison-message"),
)

define(
    "redelivered-after-nack",
    "messages redelivered because the consumer rejected them",
    "apache/pulsar#23436",
    """
Messages that were redelivered because the consumer rejected them.

## What it means

The application called `negativeAcknowledge` (or the client did, before it moved a message to the retry or dead letter
topic). After a delay the client requests redelivery of those messages by their ids. One or two such requests are
normal. If most deliveries are redeliveries, a downstream system may be unavailable, and the consumer makes no progress.

## On the wire

REDELIVER_UNACKNOWLEDGED_MESSAGES with ids, then MESSAGE with these ids and a redelivery count that is higher by one. On
Exclusive and Failover subscriptions brokers redeliver all unacknowledged messages, regardless of the ids.

## What would disprove it

If all messages have a similar age at the redelivery request, an acknowledgement timeout expired: see
redelivered-after-ack-timeout. An exception are ages from 60 s on, the default delay of negative acknowledgements; a
client that checks at intervals (Go, older Java and C++ clients) adds up to 20 s.

## What to do

Check the application's log for the reason. Configure a dead letter policy for messages that can never be processed
(poison-message). A redelivery back-off gives an unavailable dependency time to recover.

docs/clients.md lists the delay and the form of the requests of each client.
    """,
    Redelivery(
        "nack",
        Cause(
            "application",
            "likely",
            ("an acknowledgement timeout",),
            "The configuration of the consumer: ackTimeout and negativeAckRedeliveryDelay.",
        ),
        "because the consumer requested redelivery (negative acknowledgement)",
        "An acknowledgement timeout requests all messages of the same age, at least 1 s old (10 s with C++ and "
        "Python; Go has none); these requests differ, or their age is the default delay of negative "
        "acknowledgements.",
        "Check the application's log for the reason. A back-off and a dead letter policy limit the redeliveries.",
        "likely",
        "",
    ),
    because_of=("poison-message",),
)

define(
    "redelivered-after-abort",
    "messages redelivered because a transaction was aborted",
    "apache/pulsar#25107",
    """
Messages that were redelivered because the transaction that acknowledged them was aborted.

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
    """,
    Redelivery(
        "aborted",
        Cause("application"),
        "because a transaction that acknowledged messages of the subscription was aborted",
        "A commit of that transaction would disprove the finding.",
        "Find out why the application aborts transactions: its log, and TransactionConflict in ACK_RESPONSE.",
    ),
    Redelivery(
        "expired",
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
    because_of=("transaction-open",),
)

define(
    "rewound",
    "redelivery of all unacknowledged messages at the consumer's request",
    "apache/pulsar#4118",
    """
All unacknowledged messages were redelivered because the consumer requested redelivery.

## What it means

REDELIVER_UNACKNOWLEDGED_MESSAGES without ids requests redelivery of all unacknowledged messages. On Shared
subscriptions the broker redelivers everything that this consumer holds. On Exclusive and Failover subscriptions it
restarts at the first unacknowledged message: individually acknowledged messages are skipped, but all other messages are
redelivered, including those that are being processed. Clients send this command for
`redeliverUnacknowledgedMessages()`, and on Exclusive and Failover subscriptions also for an acknowledgement timeout or
a negative acknowledgement of a single message.

## On the wire

REDELIVER_UNACKNOWLEDGED_MESSAGES without ids (newer clients add a `consumer_epoch`), then MESSAGEs starting at an
earlier id.

## What would disprove it

A SEEK (see after-seek) or a new SUBSCRIBE (see redelivered-after-reconnect).

## What to do

If one late message causes hundreds of redeliveries, use a Shared or Key_Shared subscription, where single messages can
be redelivered, or find out why the application rejects the message or does not acknowledge it in time.
    """,
    Redelivery(
        "rewind",
        Cause("application"),
        "because the consumer requested all its unacknowledged messages",
        "A SEEK or a new SUBSCRIBE in between would be another cause; there is none.",
        "On Exclusive and Failover subscriptions, clients send this request for an expired acknowledgement timeout and "
        "for a negative acknowledgement. Check which of them the application uses. With Shared, only the message "
        "is redelivered.",
        severity="",
        more=_ages,
    ),
    facts=("consumers.asked_all_ages",),
)

define(
    "after-seek",
    "messages redelivered because the cursor was moved back",
    "apache/pulsar#11825",
    """
Messages that were redelivered because the cursor was moved back on purpose.

## What it means

The application (`seek`) or an administrator (`reset-cursor`) moved the cursor. All messages after the new position are
delivered again, including acknowledged messages. These are not faulty duplicates.

## On the wire

SEEK, CLOSE_CONSUMER from the broker, SUCCESS; then the client subscribes again with the same consumer id. After a reset
through the admin API the capture contains only the CLOSE_CONSUMER of this subscription's consumers and messages with
earlier ids; producers and other subscriptions stay connected. Messages that were in transit at that moment can still
arrive first.

## What would disprove it

For a SEEK, nothing. For a reset, an unload of the topic, which closes all its producers and consumers: see
redelivered-after-reconnect. If an administrator deletes a subscription with connected consumers, which then subscribe
at the earliest message, the frames are the same as after a reset. A reset is therefore never certain.

## What to do

Nothing, if the seek was intended. Otherwise the broker's log and the connection of the SEEK show the address of the
client that requested the seek.
    """,
    Redelivery(
        "seek",
        Cause("application"),
        "because a SEEK moved the cursor back",
        "Nothing: the broker confirmed the SEEK.",
        "Nothing, if the seek was intended. The connection of the SEEK shows which client sent it.",
    ),
    Redelivery(
        "reset",
        Cause(
            "broker",
            "likely",
            ("an unload of the topic whose other CLOSE frames were not captured",),
            "The broker's log: it contains the request.",
        ),
        "because an administrator reset the cursor or deleted the subscription: the broker closed the consumers of "
        "this subscription only",
        "A producer or another subscription that the broker closed at the same time would indicate an unload.",
        "Nothing, if this was intended. The broker's log shows the request.",
        "likely",
    ),
)

define(
    "redelivered-without-cause",
    "messages that were delivered twice without a cause on the wire",
    "apache/pulsar#150",
    """
Messages that the same consumer received twice without a cause on the wire.

## What it means

There was no negative acknowledgement, timeout, reconnect, seek or other consumer: the broker resent an entry that its
consumer still held or had acknowledged. This should not happen. Known causes are races in the broker: a rewind during a
replay read, delayed messages that were tracked twice, or two reads of the same entry.

## On the wire

MESSAGE, MESSAGE with the same ledger and entry to the same consumer id, on one connection, without a
REDELIVER_UNACKNOWLEDGED_MESSAGES in between.

## What would disprove it

Events that the capture does not contain: another consumer on a connection that was not captured may have joined and
left; an administrator may have reset the cursor or unloaded the topic. The finding is therefore likely, never certain.

## What to do

Check the broker's log at the time of the second MESSAGE. Report the problem to the developers of the broker. State its
version and attach this capture.
    """,
    Redelivery(
        "twice",
        Cause(
            "broker",
            "likely",
            ("a redelivery request, a SEEK or a consumer that was not captured",),
            "The broker's log at that time, and `topics stats`.",
        ),
        "to the same consumer without a cause on the wire",
        "A redelivery request, a SEEK, a reconnect or another consumer in between would disprove the finding; there is "
        "none.",
        "Check the broker's log at that time, and report the problem with the broker's version.",
        "likely",
        "warning",
    ),
)
