"""Messages that came again because the consumer that held them had gone, or the topic was opened anew.

## What it means

What a consumer has been sent and not acknowledged belongs to it only as long as it is attached. When it closes, when
its connection breaks, when the broker closes it (unload, restart, load balancing) or another one becomes the active
consumer of a Failover subscription, those messages are sent again, to whoever is there. Messages that were worked on
and whose ACK was not sent yet are worked on twice. This is the most frequent source of duplicates, and no fault.

## On the wire

The end of a consumer or connection (CLOSE_CONSUMER, FIN, RST, ACTIVE_CONSUMER_CHANGE), then MESSAGE with the ids that
were open, often with redelivery count 0: leaving does not count as redelivery.

## What speaks for the opposite

An ACK for the message before the end: then the ACK was lost, see ack-lost.

## What to do

Applications must bear it. Fewer messages are affected with a smaller receiver queue and shorter grouping of
acknowledgements. If it happens all the time find out who closes: reconnect-loop, and the broker's load balancer.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.again import Cause, redelivery_rule

__all__ = ["RULE"]

_CAUSES: Final = {
    "left": Cause(
        "application",
        "after the consumer that held them had closed",
        "An ACK before it closed would show that they were done.",
        "Acknowledge what is done before the consumer is closed; the rest is meant to go to the others.",
    ),
    "lost": Cause(
        "",
        "after the connection of the consumer that held them had broken",
        "An ACK before the connection broke would show that they were done.",
        "Make the application bear messages that come twice; find out why the connection broke.",
        "likely",
    ),
    "unload": Cause(
        "broker",
        "after the broker had closed their consumer, which came back (unload, restart, deletion)",
        "An ACK before the CLOSE_CONSUMER would show that they were done.",
        "Make the application bear it. If topics are moved often look at the load balancer of the brokers.",
    ),
    "takeover": Cause(
        "broker",
        "after another consumer had become the active one",
        "An ACK of the consumer before it would show that they were done.",
        "Make the application bear it: the new active consumer begins at the first message not acknowledged.",
    ),
    "reopened": Cause(
        "application",
        "after the subscription had been without a consumer and was opened again",
        "An ACK of the consumer before it would show that they were done.",
        "Acknowledge what is done before the last consumer leaves.",
    ),
}

RULE = redelivery_rule(
    "redelivered-after-reconnect",
    "messages that came again because who held them had gone, or the topic was moved",
    "apache/pulsar#23056",
    _CAUSES,
)
