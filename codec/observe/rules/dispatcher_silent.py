"""A consumer that has permits and waiting entries and is not blocked, but receives nothing.

## What it means

The consumer has done everything that is required, but the broker sends nothing. Bug reports call this a stuck
dispatcher. Known causes are reads from storage that fail or hang, a lost wake-up after an unload or a change of the
active consumer, and a wrong total of permits.

## On the wire

SUBSCRIBE, FLOW, receipts for published messages, and no MESSAGE for seconds. The last FLOW precedes the silence, the
permit balance is positive, and the number of unacknowledged messages is far below any limit.

## What would disprove it

A dispatch rate limit (messages arrive at intervals of a second), delayed messages that are not due yet, a subscription
that starts after the published messages, an entry filter, or messages of an open transaction. Of these causes, only the
delay is visible on the wire, so the finding is never certain.

## What to do

Run `topics stats` and `stats-internal` while the problem lasts, and check whether `waitingReadOp` is true,
`availablePermits` is above 0, and `blockedSubscriptionOnUnackedMsgs` is false. Search the broker's log for read errors.
Unloading the topic restarts the dispatcher, but destroys the evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumer_state import FACTS, Stop, attached, doubts_of, how_long, stop_of, waiting
from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, Threshold, certainty, rule, why_unsure
from pcli.codec.observe.rules.finding_text import about_consumer, at, consumer_subject, count_of, span
from pcli.codec.observe.rules.network_losses import ADVICE, connection_at, loss_of, silence_of
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_DURATION: Final = Threshold("dispatcher-silent.duration", 5_000_000_000, "minimum time without a message")
"""Rate limits cause intervals of a second; changes of the active consumer and read retries take a few seconds."""

_ALTERNATIVES: Final = (
    "a dispatch rate limit",
    "a transaction that was not captured",
    "an entry filter",
    "a broker that pauses its dispatchers (dispatcherPauseOnAckStatePersistentEnabled)",
)
_OTHER_CONSUMER: Final = "another consumer of the subscription that was not captured"

_HELD: Final = "the limit on unacknowledged messages"

_DECIDE: Final = (
    "`topics stats` and `stats-internal` while the problem lasts, and the policies of the topic and its namespace."
)


@rule(
    "consumer",
    facts=("silent", "blocked", "active", "permits.balance", "permits.unspent", "session", "connections", *FACTS),
    title="a consumer that has permits and a backlog but receives nothing from the broker",
    issue="apache/pulsar#26164",
    because_of=("transaction-open", "broker-unavailable"),
    thresholds=(_DURATION,),
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for the current silence, or for the longest silence."""
    stop, silence = _stop(consumer, moment)
    if stop is None or stop.lasted_ns < moment.value(_DURATION) or consumer.active is False:
        return
    doubts = doubts_of(consumer)
    others = () if consumer.type in ("Exclusive", "Failover") else (_OTHER_CONSUMER,)
    permits_lost = consumer.permits.unspent >= consumer.permits.balance
    flow = consumer.permits.last_flow_frame if permits_lost else 0
    loss = silence if stop.over_frame else loss_of(moment, connection_at(consumer, flow), flow) or silence
    cause, delivered = loss or (Cause("broker", "possible", _ALTERNATIVES + others, _DECIDE), "")
    permits = count_of(consumer.permits.balance, "permit")
    left = waiting(consumer)
    backlog = "at least " + count_of(left, "entry", "entries") if left else "entries"
    what = (
        f"{about_consumer(consumer)} received nothing for {span(stop.lasted_ns)}, from {at(stop.frame)} to "
        f"{at(stop.over_frame)}, although it had permits and entries were waiting."
        if stop.over_frame
        else f"{about_consumer(consumer)} {'has received' if attached(consumer) else 'received'} nothing "
        f"{how_long(stop, consumer, moment)}, although it had {permits} and was not blocked, and although {backlog} "
        f"{'was' if left == 1 else 'were'} waiting."
    )
    yield Finding(
        "warning" if stop.over_frame else "error",
        certainty(doubts - EDGES) if loss else certainty(doubts, "likely"),
        cause,
        consumer_subject(consumer),
        what + delivered,
        stop.since_ns,
        [stop.frame, stop.over_frame, consumer.permits.last_flow_frame, consumer.last_message_frame],
        "A MESSAGE to this consumer in that time would disprove the finding; there is none." + why_unsure(doubts),
        ADVICE
        if loss
        else "Run `topics stats` and `stats-internal` while the problem lasts, and search the broker's log for failed "
        "reads before you unload the topic.",
        until_ns=stop.until_ns,
    )


def _stop(consumer: ConsumerRecord, moment: Moment) -> tuple[Stop | None, tuple[Cause, str] | None]:
    """Return the silence, and its cause and a sentence if TCP delivers nothing. A block then is a silence, too."""
    for duration in (consumer.silent, consumer.blocked):
        stop = stop_of(duration, consumer, moment)
        if stop is not None and not stop.over_frame:
            found = silence_of(moment, consumer, stop.since_ns, (stop.frame, 0), _HELD)
            if found is not None:
                return stop, found
    return stop_of(consumer.silent, consumer, moment), None
