"""Why a live answer may differ from the captured one. A difference that no rule explains is one.

Rules of this file
1. A rule is one function: of one difference it says yes or no. It looks at the field, and at evidence that only its own
   reason leaves; a fault of the broker that merely looks alike must stay unexplained, and has a test.
2. Kinds: ``timing`` (both brokers are right, one was faster), ``policy`` (the live broker is set up, addressed or
   limited otherwise), ``capture`` (the capture does not have it).
3. Few: what playing or preparing better would do away with is no rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.constants import MINUS_ONE
from pcli.replay.player.compare import EXTRA, MISSING, Difference, Outcome
from pcli.replay.player.evidence import Evidence
from pcli.replay.player.ids import place_of

__all__ = ["RULES", "Rule", "explain"]

_Explains = Callable[[Difference, Outcome, Evidence], bool]

_SOON_MS: Final = 500
"""How much slower than the live one the captured broker may have been, milliseconds."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A reason with a name."""

    name: str
    kind: str
    explains: _Explains

    @property
    def text(self) -> str:
        """The reason, one sentence."""
        return (self.explains.__doc__ or "").partition("\n")[0]


def explain(outcomes: Iterable[Outcome], evidence: Evidence) -> None:
    """Note for every difference the first rule that explains it."""
    for outcome in outcomes:
        for difference in outcome.differences:
            rule = next((rule for rule in RULES if rule.explains(difference, outcome, evidence)), None)
            if rule is not None:
                outcome.rules[difference.field] = rule.name


def _address(difference: Difference, outcome: Outcome, _evidence: Evidence) -> bool:
    """The live broker has an address of its own, and says so in lookups, closes and statistics."""
    field = difference.field
    if outcome.name == "LOOKUP_RESPONSE":
        return field in ("brokerServiceUrl", "brokerServiceUrlTls", "proxy_through_service_url")
    if outcome.name in ("CLOSE_PRODUCER", "CLOSE_CONSUMER"):
        return field in ("assignedBrokerServiceUrl", "assignedBrokerServiceUrlTls")
    return outcome.name == "CONSUMER_STATS_RESPONSE" and field == "address"


def _clock(difference: Difference, outcome: Outcome, _evidence: Evidence) -> bool:
    """The live broker stamps entries and statistics with its own time, and measures its own rates."""
    if outcome.name == "MESSAGE":
        stamped = None not in (difference.captured, difference.live)
        return stamped and difference.field == "broker_entry.broker_timestamp"
    if outcome.name == "CONSUMER_STATS_RESPONSE":
        return difference.field == "connectedSince" or difference.field.startswith("msgRate")
    return False


def _wording(difference: Difference, _outcome: Outcome, evidence: Evidence) -> bool:
    """An error says the same in other words: its code is compared, of its text the first sentence without ids.

    A Java broker puts the exception's class in front, and objects and schemas as Java prints them behind.
    """
    if difference.field not in ("message", "error_message"):
        return False
    told = str(difference.live or "")
    for live_topic, topic in evidence.ids.mapped.items():
        told = told.replace(live_topic, topic)
    captured, live = _sentence(difference.captured), _sentence(told)
    return bool(live) and (captured.startswith(live) or live.startswith(captured)) and bool(captured)


_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:\$\w+)?: ")
_BEHIND: Final = re.compile(r" caused by |: org\.apache|: \S+: not written|Consumer\{|\. Active subscription")
_IDS: Final = re.compile(r"\(\d+,\d+\)|\b\d+:\d+\b")
_NAMED: Final = re.compile(r"(with consumer) \S+$")


def _sentence(text: Any) -> str:
    """What an error says, without class, cause and printed objects."""
    plain = _CLASS.sub("", str(text or ""))
    plain = _IDS.sub("", plain)
    end = _BEHIND.search(plain)
    return _NAMED.sub(r"\1", (plain[: end.start()] if end else plain).strip(" .:"))


def _recycled(difference: Difference, outcome: Outcome, _evidence: Evidence) -> bool:
    """SEND_RECEIPT says 0 or -1 for a highest sequence id that nobody gave.

    MessagePublishContext of the Java broker is used again: a new one holds 0, one that was used -1.
    """
    if outcome.name != "SEND_RECEIPT" or difference.field != "highest_sequence_id":
        return False
    return {difference.captured, difference.live} == {0, MINUS_ONE}


def _choice(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """A Shared subscription gives an entry to any of its consumers, and promises no order.

    How many entries a reading gives to one consumer depends on how many there are at that moment.
    """
    consumer = outcome.pair.consumer
    if outcome.name != "MESSAGE" or consumer is None or consumer.type != "Shared":
        return False
    if difference.field == "order":
        return True
    shared = len(evidence.consumers[evidence.subscription_of(consumer)]) > 1
    return shared and difference.field in ("consumer", "consumer_id", "consumer_epoch")


def _left_over(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """What a consumer held when it left comes again; how much that is, and to whom, is a matter of moments.

    Somebody of the subscription had left, and either it is Shared, was given out otherwise, and the entry was delivered
    on both sides; or the one that got it live left, or acknowledged it, before the captured broker came to it.
    """
    line, pair = outcome.line, outcome.pair
    consumer = pair.consumer if pair.consumer is not None else (line.peer if line is not None else None)
    if outcome.name != "MESSAGE" or not isinstance(consumer, Consumer):
        return False
    if difference.field in ("consumer", "consumer_id") and outcome.frame is not None:
        return _was_too_late(outcome, consumer, evidence)
    if difference.field not in (EXTRA, MISSING):
        return False
    if not evidence.somebody_left(consumer, pair.said):
        return False
    several = len(evidence.consumers[evidence.subscription_of(consumer)]) > 1
    if consumer.type == "Shared" and several and all(evidence.deliveries(outcome)):
        return True
    return difference.field == EXTRA and _was_too_late(outcome, consumer, evidence)


def _was_too_late(outcome: Outcome, consumer: Consumer, evidence: Evidence) -> bool:
    """Whether the captured consumer left, or acknowledged the entry, soon after this place of the play."""
    lines, said = evidence.script.lines, outcome.pair.said
    start = lines[said].time_ms if said >= 0 else 0.0
    leave = evidence.leaves.get(consumer)
    if leave is not None and abs(leave.time_ms - start) < _SOON_MS:
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


def _overshoot(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """Permits decide otherwise: the captured dispatcher gave more than there were, or the live one gave them to others.

    A dispatcher goes beyond the permits by a batch, and by what one reading found. Of a Shared subscription nobody who
    is there may have any left.
    """
    line = outcome.line
    if outcome.name != "MESSAGE" or difference.field not in (MISSING, "consumer", "consumer_id") or line is None:
        return False
    consumer = line.peer
    shared = isinstance(consumer, Consumer) and consumer.type == "Shared" and evidence.starved(consumer, line.index)
    return evidence.permits.get(line.index, 1) <= 0 or (shared and difference.field == MISSING)


def _told_again(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """Who was told that it is not active, or that the topic has ended, is told so again at a matter of moments."""
    line = outcome.line
    if outcome.name == "ACTIVE_CONSUMER_CHANGE" and line is not None and line.frame is not None:
        again = evidence.last_told.get(line.index) == line.frame.command.active_consumer_change.is_active
        return difference.field == MISSING and again
    told = evidence.subscription_of(outcome.pair.consumer) in evidence.told_end
    return outcome.name == "REACHED_END_OF_TOPIC" and difference.field == EXTRA and told


def _crossed(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The broker closes a producer or consumer whose connection its client closes at that moment."""
    if difference.field != EXTRA or outcome.name not in ("CLOSE_PRODUCER", "CLOSE_CONSUMER"):
        return False
    lines, said = evidence.script.lines, max(outcome.pair.said, 0)
    own = (line for line in lines[said:] if line.part == outcome.pair.part and line.frame is None)
    return any(line.time_ms - lines[said].time_ms < _SOON_MS for line in own)


def _version(difference: Difference, outcome: Outcome, _evidence: Evidence) -> bool:
    """The live broker is of another version, and says so."""
    line, frame = outcome.line, outcome.frame
    if outcome.name != "CONNECTED" or line is None or line.frame is None or frame is None:
        return False
    told = "server_version", "protocol_version"
    other = line.frame.command.connected.server_version != frame.command.connected.server_version
    return other and (difference.field in told or difference.field.startswith("feature_flags."))


def _unanswered(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The live broker answers what the captured one did not: its connection, or the capture, had ended before."""
    if difference.field != EXTRA or outcome.frame is None:
        return False
    if outcome.name in ("SEND_RECEIPT", "SEND_ERROR"):
        return any(line.index not in evidence.received for line in evidence.send_of(outcome))
    request = evidence.request_of(outcome)
    return request is not None and request.frame is not None and request.frame.number not in evidence.answered


def _end_of_capture(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The capture ended, or had a hole, before the broker came to it."""
    if difference.field != EXTRA or outcome.name != "MESSAGE":
        return False
    lines = evidence.script.lines
    ended = any(line.frame is None and line.part == outcome.pair.part for line in lines)
    return not ended and evidence.last_ms - lines[max(outcome.pair.said, 0)].time_ms < _SOON_MS


def _no_administrator(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """Nobody unloads, terminates or deletes on the live broker what was on the captured one: it closes nothing."""
    line = outcome.line
    done = ("CLOSE_PRODUCER", "CLOSE_CONSUMER", "REACHED_END_OF_TOPIC", "WATCH_TOPIC_UPDATE", "END")
    if difference.field != MISSING or line is None or line.name not in done:
        return False
    return "" in evidence.deeds or (line.peer is not None and line.peer.topic in evidence.deeds)


def _authentication(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
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


_DENIED: Final = (pb.AuthenticationError, pb.AuthorizationError)


def _denies(line: Any) -> bool:
    return line.frame is not None and _error_of(line.frame) in _DENIED


def _error_of(frame: Any) -> int:
    command = frame.command
    for field in ("error", "partitionMetadataResponse", "lookupTopicResponse"):
        if command.HasField(field):
            return int(getattr(command, field).error)
    return 0


def _no_compaction(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """Nobody makes the live broker compact what the captured one compacted: who reads compacted reads everything."""
    if outcome.name != "MESSAGE" or difference.field not in (EXTRA, MISSING):
        return False
    consumer = outcome.pair.consumer or (outcome.line.peer if outcome.line is not None else None)
    return any(
        line.peer is consumer and line.frame is not None and line.frame.command.subscribe.read_compacted
        for line in evidence.script.lines
        if line.name == "SUBSCRIBE"
    )


def _no_quotas(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The live broker has no such backlog quota: it refuses no producer over one."""
    line = outcome.line
    if line is None:
        return False
    if line.name == "CLOSE_PRODUCER" and line.peer is not None:
        return difference.field == MISSING and line.peer.topic in evidence.over_quota
    return difference.field == "type" and line.index in evidence.refused_by_quota


def _no_transactions(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The live broker has no transactions: it refuses them, does nothing in one, and holds nothing back behind one."""
    if not evidence.transactions.refused:
        return False
    line = outcome.line
    if line is not None and ("TXN" in line.name or line.name.startswith("TC_CLIENT")):
        return difference.field == "type" or difference.live is None
    if outcome.name == "ACK_RESPONSE":
        return difference.field in ("error", "message") and outcome.frame is not None and _refused_txn(outcome.frame)
    if outcome.name == "SEND_RECEIPT":
        return difference.field == "type" and outcome.frame is not None and _refused_txn(outcome.frame)
    if outcome.name != "MESSAGE" or difference.field not in (EXTRA, MISSING):
        return False
    frame = outcome.frame or (line.frame if line is not None else None)
    assert frame is not None
    place = place_of(frame.command.message.message_id)
    captured = place if outcome.frame is None else evidence.ids.live_places.get(place)
    counts = evidence.deliveries(outcome)
    if evidence.ids.content(frame) in evidence.transactions.contents:
        return True
    if captured in evidence.transactions.acked and all(counts):
        return True
    behind = outcome.pair.consumer is not None and outcome.pair.consumer.topic in evidence.transactions.topics
    return behind and not counts[0]


def _refused_txn(frame: Any) -> bool:
    command = frame.command
    texts = (command.ackResponse.message, command.send_error.message)
    return any("ransaction" in text for text in texts)


def _other_topics(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """A namespace has topics that nobody in the play works on, captured or live: the others are compared."""
    if outcome.name != "GET_TOPICS_OF_NAMESPACE_RESPONSE" or outcome.line is None or outcome.frame is None:
        return False
    if difference.field == "topics_hash":
        return True
    if difference.field != "topics" or outcome.line.frame is None:
        return False
    captured = set(outcome.line.frame.command.getTopicsOfNamespaceResponse.topics)
    live = set(evidence.ids.captured_topics(outcome.frame.command.getTopicsOfNamespaceResponse.topics))
    return not (captured ^ live) & {line.topic for line in evidence.script.lines}


RULES: Final = (
    Rule("address", "policy", _address),
    Rule("version", "policy", _version),
    Rule("clock", "timing", _clock),
    Rule("wording", "policy", _wording),
    Rule("recycled receipt", "policy", _recycled),
    Rule("choice of Shared", "timing", _choice),
    Rule("left over", "timing", _left_over),
    Rule("overshoot", "timing", _overshoot),
    Rule("told again", "timing", _told_again),
    Rule("crossed", "timing", _crossed),
    Rule("unanswered", "capture", _unanswered),
    Rule("end of capture", "capture", _end_of_capture),
    Rule("other topics", "capture", _other_topics),
    Rule("no administrator", "policy", _no_administrator),
    Rule("no authentication", "policy", _authentication),
    Rule("no compaction", "policy", _no_compaction),
    Rule("no quotas", "policy", _no_quotas),
    Rule("no transactions", "policy", _no_transactions),
)
"""The first that explains a difference is named."""
