"""A producer, or one of its messages, that the broker refused.

## What it means

The response to PRODUCER was ERROR, or the response to SEND was SEND_ERROR. The most frequent errors are:

- *ProducerBusy*: a producer with that name already exists, the topic has the maximum number of producers, or a producer
  has exclusive access. After a broken connection the broker may still consider the old producer alive.
- *ProducerFenced*: another producer has exclusive access, or obtained exclusive access by fencing this producer.
- *ProducerBlockedQuotaExceededError*, *ProducerBlockedQuotaExceededException*: the backlog quota is exceeded, because
  the consumers of a subscription do not acknowledge messages.
- *TopicTerminatedError*: the topic was terminated permanently. If the topic is a segment of a scalable topic
  (``segment://``), the segment was split or merged, and the client continues with the new segments: a note.
- *NotAllowedError*: the message exceeds the topic's limit, a policy forbids the operation, or transactions are not
  enabled.
- *PersistenceError*, *ServiceNotReady*: the broker's storage has a problem, or the topic is being moved; clients retry.

## On the wire

PRODUCER, ERROR with its request id; SEND, SEND_ERROR with its sequence id. The error message comes from the broker and
identifies the case.

## What would disprove it

If a later PRODUCER succeeds, or a later SEND of the same message has a receipt, the finding is a note.

## What to do

Read the error message. For ProducerBusy, `topics stats` lists the address and the name of each publisher; set no
producer name, so that the broker assigns a unique name. For an exceeded quota, never-acked lists the consumers that
hold the backlog. If a message is too large, use chunking, or raise the topic's `maxMessageSize`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.error_causes import cause_of_error, succeeded_later
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Rule
from pcli.codec.observe.rules.finding_text import error_message, frames_text, times
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.tracking.records.client_records import ProducerRecord
from pcli.codec.observe.tracking.records.counters import Occurrences

__all__ = ["RULE"]

_ADVICE: Final[dict[str, str]] = {
    "ProducerBusy": "`topics stats` lists the publishers with address and name: close the other producer, or let the "
    "broker assign names.",
    "ProducerFenced": "Another producer has exclusive access: close that producer, or use WaitForExclusive.",
    "ProducerBlockedQuotaExceededError": "The backlog quota is exceeded: find the subscription that does not "
    "acknowledge, or raise the quota.",
    "ProducerBlockedQuotaExceededException": "The backlog quota is exceeded: find the subscription that does not "
    "acknowledge, or raise the quota.",
    "TopicTerminatedError": "A terminated topic accepts no messages: use another topic.",
    "ChecksumError": "The bytes changed in transit: before the point of capture if wrong-crc is reported too, "
    "otherwise after it.",
}


_SEALED: Final = "The segment was split or merged, and the client continues with the new segments."


def evaluate(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for each error except schema errors."""
    for error, seen in producer.refused.items():
        if error == "IncompatibleSchema":
            continue
        yield _finding(
            producer,
            error,
            seen,
            "was refused",
            succeeded_later(producer, seen),
            "A later PRODUCER of the same producer that succeeds would resolve this; there is none.",
            error,
        )
    for error, seen in producer.send_errors.items():
        if error == "IncompatibleSchema":
            continue
        again = producer.resent.count >= seen.count and not producer.lost.count
        yield _finding(
            producer,
            error,
            seen,
            "had messages refused",
            f"It has resent them ({frames_text(producer.resent.frames)})." if again else "",
            "If all of these messages were resent, this would be resolved; the capture does not show this.",
            f"send-{error}",
        )


def _finding(
    producer: ProducerRecord, error: str, seen: Occurrences, what: str, recovered: str, missing: str, cause: str
) -> Finding:
    sealed = error == "TopicTerminatedError" and producer.topic.startswith("segment://")
    recovered = _SEALED if sealed else recovered
    return Finding(
        "producer-refused",
        "note" if recovered else "error",
        "certain",
        Cause("broker") if sealed else cause_of_error(error),
        producer_subject(producer),
        f"{about_producer(producer)} {what} {times(seen.count)} with {error} ({frames_text(seen.frames)}): "
        f"{error_message(seen.sample)}",
        seen.first_ns,
        seen.frames,
        recovered or missing,
        "Nothing." if sealed else _advice(error, seen.sample),
        cause,
        count=seen.count,
        until_ns=seen.last_ns,
    )


def _advice(error: str, message: str) -> str:
    """Return what to do. Brokers send ProducerBusy for both a used name and exclusive access of another producer."""
    if error == "ProducerBusy" and "exclusive producer" in message:
        error = "ProducerFenced"
    return _ADVICE.get(error, "The error message names the reason.")


RULE = Rule(
    name="producer-refused",
    group="producer",
    facts=("refused", "send_errors", "resent", "lost", "session.ready_ns"),
    title="a PRODUCER or SEND to which the broker responded with an error",
    issue="apache/pulsar-client-go#638",
    evaluate=evaluate,
    because_of=(
        "broker-unavailable",
        "producer-waiting",
        "wrong-crc",
    ),
    effect=("request of a producer was refused", "requests of producers were refused"),
)
