"""Rules for features and operations missing on the live side: administration, authentication, compaction, quotas."""

from __future__ import annotations

from typing import Final

from pcli.codec.proto import pb
from pcli.codec.wire.frame import Frame
from pcli.replay.player.comparison.compare_responses import EXTRA, MISSING, Difference, Outcome
from pcli.replay.player.comparison.rule_evidence import Evidence
from pcli.replay.player.id_translation import place_of
from pcli.replay.player.script.recorded_transactions import is_refusal
from pcli.replay.player.script.script import Line

__all__ = ["administrator", "authentication", "compaction", "quotas", "transactions"]

_DONE: Final = ("CLOSE_PRODUCER", "CLOSE_CONSUMER", "REACHED_END_OF_TOPIC")
_DENIED: Final = (pb.AuthenticationError, pb.AuthorizationError)


def administrator(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """Nobody unloads, terminates, deletes or restarts on the live side what was on the captured one."""
    line = outcome.line
    if difference.field != MISSING or line is None:
        return False
    if line.name == "END":
        return "" in evidence.deeds
    if line.name == "WATCH_TOPIC_UPDATE" and line.frame is not None:
        return bool(evidence.deeds.intersection(line.frame.command.watchTopicUpdate.deleted_topics))
    return line.name in _DONE and line.topic in evidence.deeds


def authentication(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The mini-broker takes everybody: no login is refused, nobody is asked who he is, nobody lacks a right."""
    line = outcome.line
    if not evidence.own_broker or line is None:
        return False
    if line.name == "AUTH_CHALLENGE":
        return difference.field == MISSING
    if line.frame is None:
        said = [one for one in evidence.script.lines[: line.index] if one.part == line.part]
        return difference.field == MISSING and any(map(_denies, said[-1:]))
    return _denies(line) and outcome.frame is not None and not _error_of(outcome.frame)


def _denies(line: Line) -> bool:
    return line.frame is not None and _error_of(line.frame) in _DENIED


def _error_of(frame: Frame) -> int:
    command = frame.command
    for field in ("error", "partitionMetadataResponse", "lookupTopicResponse"):
        if command.HasField(field):
            return int(getattr(command, field).error)
    return 0


def compaction(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """Nobody makes the live broker compact what the captured one compacted: who reads compacted reads everything.

    What is missing was written by the compaction: nobody sent it like that.
    """
    line = outcome.line
    if outcome.name != "MESSAGE" or difference.field not in (EXTRA, MISSING):
        return False
    consumer = outcome.pair.consumer or (line.peer if line is not None else None)
    compacted = any(
        one.peer is consumer and one.frame is not None and one.frame.command.subscribe.read_compacted
        for one in evidence.script.lines
        if one.name == "SUBSCRIBE"
    )
    if line is not None:
        return compacted and line.content not in evidence.deliveries.sent
    return compacted and evidence.deliveries.is_founded(outcome)


def quotas(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The live broker has no such backlog quota: it refuses no producer over one."""
    line, frame = outcome.line, outcome.frame
    if line is None:
        return False
    if line.name == "CLOSE_PRODUCER":
        return difference.field == MISSING and line.topic in evidence.over_quota
    made = frame is not None and frame.command.HasField("producer_success")
    return difference.field == "type" and line.index in evidence.refused_by_quota and made


def transactions(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The live broker has no transactions: it refuses them, does nothing in one, and holds nothing back behind one."""
    line, frame, found = outcome.line, outcome.frame, evidence.transactions
    if not found.refused:
        return False
    if outcome.name == "MESSAGE":
        return _message_of(difference, outcome, evidence)
    if outcome.name == "ACK_RESPONSE":
        return difference.field in ("error", "message") and frame is not None and is_refusal(frame)
    asks = line is not None and ("TXN" in line.name or line.name.startswith(("TC_CLIENT", "SEND_RECEIPT")))
    return asks and difference.field == "type" and frame is not None and is_refusal(frame)


def _message_of(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """Return whether transactional publishing or acknowledgement explains a missing or an extra MESSAGE."""
    line, frame, found = outcome.line, outcome.frame, evidence.transactions
    captured, live = evidence.deliveries.counts(outcome)
    if difference.field == MISSING and line is not None and line.frame is not None:
        again = place_of(line.frame.command.message.message_id) in found.acked and captured > live > 0
        return line.content in found.contents or again
    if difference.field != EXTRA or frame is None or not evidence.deliveries.is_founded(outcome):
        return False
    place = evidence.ids.live_places.get(place_of(frame.command.message.message_id))
    behind = outcome.pair.consumer is not None and outcome.pair.consumer.topic in found.topics and not captured
    return place in found.acked or behind
