"""Rules for the receivers and the number of deliveries, which depend on timing and on the end of the capture."""

from __future__ import annotations

from itertools import takewhile
from typing import Final

from pcli.codec.observe import Consumer
from pcli.replay.player.comparison.compare_responses import EXTRA, MISSING, Difference, Outcome
from pcli.replay.player.comparison.rule_evidence import Evidence
from pcli.replay.player.response_matching import KEEP_ALIVE
from pcli.replay.player.script.script import Step

_SOON_MS: Final = 500
"""Maximum time in milliseconds by which the captured broker may have been slower than the live broker."""
_EFFECTS: Final = (
    *("SCALABLE_TOPIC_UPDATE", "SCALABLE_TOPIC_ASSIGNMENT_UPDATE", "WATCH_SCALABLE_TOPICS_UPDATE"),
    *("REACHED_END_OF_TOPIC", "CLOSE_PRODUCER", "CLOSE_CONSUMER"),
)
"""What a broker sends to several clients after a change of a scalable topic."""
_CONSUMER_FIELDS: Final = ("consumer", "consumer_id")


def choice(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """A Shared subscription delivered the entry to a different consumer.

    The number of entries of one read that a consumer receives depends on the number of consumers at that moment.
    """
    consumer = outcome.pair.consumer
    if outcome.name != "MESSAGE" or consumer is None or consumer.type != "Shared":
        return False
    deliveries = evidence.deliveries
    shared = len(deliveries.consumers[deliveries.subscription_of(consumer)]) > 1
    return shared and difference.field in _CONSUMER_FIELDS


def redelivered(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """After a consumer left, timing determines whether its entry is redelivered, and to which consumer.

    A redelivery may be missing if the previous captured receiver had left and the live receiver had not. In the
    opposite case there may be an extra redelivery or a redelivery to a different consumer. The same applies if the
    captured consumer left or acknowledged the entry soon afterwards.
    """
    step, deliveries = outcome.step, evidence.deliveries
    if outcome.name != "MESSAGE":
        return False
    if difference.field == MISSING and step is not None:
        return not deliveries.is_lost(step)
    consumer = outcome.pair.consumer
    if consumer is None:
        return False
    if difference.field in _CONSUMER_FIELDS and step is not None:
        return deliveries.has_left(consumer, step.index) and _was_too_late(outcome, consumer, evidence)
    if difference.field != EXTRA or not deliveries.is_justified(outcome):
        return False
    again = deliveries.counts(outcome)[1] > 1
    return again or _was_too_late(outcome, consumer, evidence)


def _was_too_late(outcome: Outcome, consumer: Consumer, evidence: Evidence) -> bool:
    """Return whether the captured consumer left, or acknowledged the entry, soon after this index of the script."""
    steps, last_sent = evidence.script.steps, outcome.pair.last_sent
    start = steps[last_sent].time_ms if last_sent >= 0 else 0.0
    leave = evidence.deliveries.leaves.get(consumer)
    if leave is not None and leave.index >= last_sent and leave.time_ms - start < _SOON_MS:
        return True
    assert outcome.frame is not None
    live = outcome.frame.command.message.message_id
    position = evidence.ids.live_positions.get((live.ledgerId, live.entryId))
    acks = (step for step in steps[last_sent + 1 :] if step.name == "ACK" and step.peer is consumer)
    return any(
        position == (one.ledgerId, one.entryId)
        for step in acks
        if step.frame is not None and step.time_ms - start < _SOON_MS
        for one in step.frame.command.ack.message_id
    )


def overshoot(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """A dispatcher exceeded the permits, or had already used them for other entries.

    It may exceed the permits by one batch, or by the entries of one read. A delivery may be missing because no consumer
    of the subscription had permits left.
    """
    step = outcome.step
    if outcome.name == "MESSAGE" and difference.field == EXTRA:
        return evidence.deliveries.exceeds_permits(outcome)
    if outcome.name != "MESSAGE" or step is None or not isinstance(step.peer, Consumer):
        return False
    if difference.field == MISSING:
        return evidence.deliveries.is_starved(step, step.peer)
    return difference.field in _CONSUMER_FIELDS and evidence.deliveries.permits.get(step.index, 1) <= 0


def repeated_notification(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """Timing determines whether a consumer is notified repeatedly of the same state or of the end of the topic.

    Only a consumer of a segment is notified of the end twice without a change of its subscription (measured on 5.0.1).
    """
    step = outcome.step
    if outcome.name == "ACTIVE_CONSUMER_CHANGE" and step is not None and step.frame is not None:
        again = evidence.previous_state.get(step.index) == step.frame.command.active_consumer_change.is_active
        return difference.field == MISSING and again
    if outcome.name != "REACHED_END_OF_TOPIC":
        return False
    if difference.field == MISSING:
        return evidence.was_sent(outcome)
    subscription = evidence.deliveries.subscription_of(outcome.pair.consumer)
    if evidence.is_repeated(outcome) and subscription[0] not in evidence.scalable_updates.segments:
        return False
    return difference.field == EXTRA and subscription in evidence.notified_of_end


def crossed(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The broker closed a producer or consumer while its client closed it, or closed the connection."""
    if difference.field != EXTRA or outcome.name not in ("CLOSE_PRODUCER", "CLOSE_CONSUMER"):
        return False
    steps = evidence.script.steps[max(outcome.pair.last_sent, 0) :]
    # The cause can be an administrative operation between the commands of clients: its effects show its time.
    later = (step for step in steps[1:] if step.type not in KEEP_ALIVE)
    effects = takewhile(lambda step: step.frame is not None and not step.from_client, later)
    start = max((step.time_ms for step in effects), default=steps[0].time_ms)
    own = (step for step in steps if step.stream == outcome.pair.stream and _closes(step, outcome))
    return any(step.time_ms - start < _SOON_MS for step in own) and not evidence.is_repeated(outcome)


def _closes(step: Step, outcome: Outcome) -> bool:
    """Return whether a client closes the producer or consumer that the live broker also closed."""
    if step.frame is None:
        return True
    if not step.from_client or step.name != outcome.name or outcome.frame is None:
        return False
    name = "producer_id" if outcome.name == "CLOSE_PRODUCER" else "consumer_id"
    return bool(getattr(step.frame.body, name) == getattr(outcome.frame.body, name))


def unanswered(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The live broker responded to a request that had no response when the captured connection or the capture ended."""
    if difference.field != EXTRA or outcome.frame is None or evidence.is_repeated(outcome):
        return False
    if outcome.name in ("SEND_RECEIPT", "SEND_ERROR"):
        return any(step.index not in evidence.received for step in evidence.send_of(outcome))
    request = evidence.request_of(outcome)
    return request is not None and request.frame is not None and request.frame.number not in evidence.answered


def end_of_capture(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The capture ended, or has a gap, before the broker could deliver the entry, or all effects of a change."""
    steps, last_sent = evidence.script.steps, max(outcome.pair.last_sent, 0)
    if difference.field != EXTRA or any(step.frame is None and step.stream == outcome.pair.stream for step in steps):
        return False
    late = [step for step in steps if evidence.last_ms - step.time_ms < _SOON_MS]
    if outcome.name in _EFFECTS:  # other effects of the same change were captured
        after = any(step.from_client and step.type not in KEEP_ALIVE for step in steps[last_sent + 1 :])
        return not after and any(step.name in _EFFECTS and not step.from_client for step in late)
    return outcome.name == "MESSAGE" and evidence.deliveries.is_justified(outcome) and steps[last_sent] in late
