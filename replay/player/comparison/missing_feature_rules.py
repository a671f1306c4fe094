"""Rules for features and operations that the live broker lacks: administration, authentication, compaction, quotas."""

from __future__ import annotations

from typing import Final

from pcli.codec.proto import pb
from pcli.codec.wire.frame import Frame
from pcli.replay.player.comparison.compare_responses import EXTRA, MISSING, Difference, Outcome
from pcli.replay.player.comparison.rule_evidence import Evidence
from pcli.replay.player.id_translation import position_of
from pcli.replay.player.script.recorded_exchanges import is_refusal
from pcli.replay.player.script.script import Step

_UNREQUESTED_CLOSES: Final = ("CLOSE_PRODUCER", "CLOSE_CONSUMER", "REACHED_END_OF_TOPIC")
_ACCESS_ERRORS: Final = (pb.AuthenticationError, pb.AuthorizationError)


def administrator(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """An administrative operation or a restart of the captured broker was not repeated on the live broker."""
    step = outcome.step
    if difference.field != MISSING or step is None:
        return False
    if step.name == "END":
        return "" in evidence.intervention_topics
    if step.name == "WATCH_TOPIC_UPDATE" and step.frame is not None:
        return bool(evidence.intervention_topics.intersection(step.frame.command.watchTopicUpdate.deleted_topics))
    return step.name in _UNREQUESTED_CLOSES and step.topic in evidence.intervention_topics


def authentication(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The mini-broker of a replay runs without authentication: it sends no challenge and refuses no login or access."""
    step = outcome.step
    if not evidence.own_broker or step is None:
        return False
    if step.name == "AUTH_CHALLENGE":
        return difference.field == MISSING
    if step.frame is None:
        earlier = [one for one in evidence.script.steps[: step.index] if one.stream == step.stream]
        return difference.field == MISSING and any(map(_denies, earlier[-1:]))
    return _denies(step) and outcome.frame is not None and not _error_of(outcome.frame)


def _denies(step: Step) -> bool:
    return step.frame is not None and _error_of(step.frame) in _ACCESS_ERRORS


def _error_of(frame: Frame) -> int:
    command = frame.command
    for field in ("error", "partitionMetadataResponse", "lookupTopicResponse"):
        if command.HasField(field):
            return int(getattr(command, field).error)
    return 0


def compaction(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The captured topic was compacted but the live topic was not, so a compacted reader receives all messages.

    If a message is missing from the replay, the compaction wrote it: no client sent it in this form.
    """
    step = outcome.step
    if outcome.name != "MESSAGE" or difference.field not in (EXTRA, MISSING):
        return False
    consumer = outcome.pair.consumer or (step.peer if step is not None else None)
    compacted = any(
        one.peer is consumer and one.frame is not None and one.frame.command.subscribe.read_compacted
        for one in evidence.script.steps
        if one.name == "SUBSCRIBE"
    )
    if step is not None:
        return compacted and step.content not in evidence.deliveries.sent
    return compacted and evidence.deliveries.is_justified(outcome)


def quotas(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The live broker lacks the captured broker's backlog quota, so it refuses no producer because of a quota."""
    step, frame = outcome.step, outcome.frame
    if step is None:
        return False
    if step.name == "CLOSE_PRODUCER":
        return difference.field == MISSING and step.topic in evidence.over_quota
    made = frame is not None and frame.command.HasField("producer_success")
    return difference.field == "type" and step.index in evidence.refused_by_quota and made


def transactions(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The live broker has no transactions: it refuses their commands and delivers their messages immediately."""
    step, frame, found = outcome.step, outcome.frame, evidence.transactions
    if not found.refused:
        return False
    if outcome.name == "MESSAGE":
        return _message_of(difference, outcome, evidence)
    if outcome.name == "ACK_RESPONSE":
        return difference.field in ("error", "message") and frame is not None and is_refusal(frame)
    if outcome.name == "WATCH_TC_ASSIGNMENTS_UPDATE":
        return difference.field in ("error", "message", "snapshot") and frame is not None and is_refusal(frame)
    is_request = step is not None and ("TXN" in step.name or step.name.startswith(("TC_CLIENT", "SEND_RECEIPT")))
    return is_request and difference.field == "type" and frame is not None and is_refusal(frame)


def _message_of(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """Return whether transactional publishing or acknowledgement explains a missing or an extra MESSAGE."""
    step, frame, found = outcome.step, outcome.frame, evidence.transactions
    captured, live = evidence.deliveries.counts(outcome)
    if difference.field == MISSING and step is not None and step.frame is not None:
        again = position_of(step.frame.command.message.message_id) in found.acked and captured > live > 0
        return step.content in found.contents or again
    if difference.field != EXTRA or frame is None or not evidence.deliveries.is_justified(outcome):
        return False
    position = evidence.ids.live_positions.get(position_of(frame.command.message.message_id))
    after = outcome.pair.consumer is not None and outcome.pair.consumer.topic in found.topics and not captured
    return position in found.acked or after
