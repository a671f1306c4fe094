"""Rules for the receiver and the number of deliveries and notifications: timing, and the end of the capture."""

from __future__ import annotations

from typing import Final

from pcli.codec.observe import Consumer
from pcli.replay.player.comparison.compare_responses import EXTRA, MISSING, Difference, Outcome
from pcli.replay.player.comparison.rule_evidence import Evidence

__all__ = ["choice", "crossed", "end_of_capture", "left_over", "overshoot", "told_again", "unanswered"]

_SOON_MS: Final = 500
"""How much slower the captured broker may have been than the live one, in milliseconds."""
_WHOM: Final = ("consumer", "consumer_id")


def choice(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """A Shared subscription gives an entry to any of its consumers.

    How many entries a reading gives to one consumer depends on how many there are at that moment.
    """
    consumer = outcome.pair.consumer
    if outcome.name != "MESSAGE" or consumer is None or consumer.type != "Shared":
        return False
    deliveries = evidence.deliveries
    shared = len(deliveries.consumers[deliveries.subscription_of(consumer)]) > 1
    return shared and difference.field in _WHOM


def left_over(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """What a consumer held when it left comes again; how much that is, and to whom, is a matter of moments.

    Missing: who had it in the capture had left, who has it live had not. Too much: the other way round; or who got it
    live left, or acknowledged it, before the captured broker came to it.
    """
    line, deliveries = outcome.line, evidence.deliveries
    if outcome.name != "MESSAGE":
        return False
    if difference.field == MISSING and line is not None:
        return not deliveries.is_lost(line)
    consumer = outcome.pair.consumer
    if consumer is None:
        return False
    if difference.field in _WHOM and line is not None:
        return deliveries.has_left(consumer, line.index) and _was_too_late(outcome, consumer, evidence)
    if difference.field != EXTRA or not deliveries.is_founded(outcome):
        return False
    again = deliveries.counts(outcome)[1] > 1
    return again or _was_too_late(outcome, consumer, evidence)


def _was_too_late(outcome: Outcome, consumer: Consumer, evidence: Evidence) -> bool:
    """Return whether the captured consumer left, or acknowledged the entry, soon after this index of the script."""
    lines, said = evidence.script.lines, outcome.pair.said
    start = lines[said].time_ms if said >= 0 else 0.0
    leave = evidence.deliveries.leaves.get(consumer)
    if leave is not None and leave.index >= said and leave.time_ms - start < _SOON_MS:
        return True
    assert outcome.frame is not None
    live = outcome.frame.command.message.message_id
    place = evidence.ids.live_places.get((live.ledgerId, live.entryId))
    acks = (line for line in lines[said + 1 :] if line.name == "ACK" and line.peer is consumer)
    return any(
        place == (one.ledgerId, one.entryId)
        for line in acks
        if line.frame is not None and line.time_ms - start < _SOON_MS
        for one in line.frame.command.ack.message_id
    )


def overshoot(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """Permits decide otherwise: one dispatcher gave more than there were, or gave them to others than the other one.

    A dispatcher goes beyond the permits by a batch, and by what one reading found. What is missing may have gone to
    nobody of the subscription: all their permits are used up.
    """
    line = outcome.line
    if outcome.name == "MESSAGE" and difference.field == EXTRA:
        return evidence.deliveries.is_beyond(outcome)
    if outcome.name != "MESSAGE" or line is None or not isinstance(line.peer, Consumer):
        return False
    if difference.field == MISSING:
        return evidence.deliveries.is_starved(line, line.peer)
    return difference.field in _WHOM and evidence.deliveries.permits.get(line.index, 1) <= 0


def told_again(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """Who was told that it is not active, or that the topic has ended, is told so again at a matter of moments."""
    line = outcome.line
    if outcome.name == "ACTIVE_CONSUMER_CHANGE" and line is not None and line.frame is not None:
        again = evidence.last_told.get(line.index) == line.frame.command.active_consumer_change.is_active
        return difference.field == MISSING and again
    if outcome.name != "REACHED_END_OF_TOPIC" or difference.field != EXTRA or evidence.is_repeated(outcome):
        return False
    return evidence.deliveries.subscription_of(outcome.pair.consumer) in evidence.told_end


def crossed(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The broker closes a producer or consumer whose connection its client closes at that moment."""
    if difference.field != EXTRA or outcome.name not in ("CLOSE_PRODUCER", "CLOSE_CONSUMER"):
        return False
    lines, said = evidence.script.lines, max(outcome.pair.said, 0)
    own = (line for line in lines[said:] if line.part == outcome.pair.part and line.frame is None)
    return any(line.time_ms - lines[said].time_ms < _SOON_MS for line in own) and not evidence.is_repeated(outcome)


def unanswered(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The live broker answers what the captured one did not: its connection, or the capture, had ended before."""
    if difference.field != EXTRA or outcome.frame is None or evidence.is_repeated(outcome):
        return False
    if outcome.name in ("SEND_RECEIPT", "SEND_ERROR"):
        return any(line.index not in evidence.received for line in evidence.send_of(outcome))
    request = evidence.request_of(outcome)
    return request is not None and request.frame is not None and request.frame.number not in evidence.answered


def end_of_capture(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The capture ended, or had a hole, before the broker came to it."""
    if difference.field != EXTRA or outcome.name != "MESSAGE" or not evidence.deliveries.is_founded(outcome):
        return False
    lines = evidence.script.lines
    ended = any(line.frame is None and line.part == outcome.pair.part for line in lines)
    return not ended and evidence.last_ms - lines[max(outcome.pair.said, 0)].time_ms < _SOON_MS
