"""A producer, or a message of it, that the broker did not take.

## What it means

PRODUCER was answered with ERROR, or SEND with SEND_ERROR. The most frequent ones:

- *ProducerBusy*: a producer of that name is there already, the topic has as many as are allowed, or one is there that
  wants to be alone. After a broken connection the broker may still believe in the old one.
- *ProducerFenced*: exclusive access is taken, or was taken away by a producer that asked for it with fencing.
- *ProducerBlockedQuotaExceededError*, *…Exception*: the backlog quota is reached: a subscription does not acknowledge.
- *TopicTerminatedError*: the topic was terminated, for good.
- *NotAllowedError*: a message larger than the topic takes, a policy, or no transactions there.
- *PersistenceError*, *ServiceNotReady*: the broker's storage, or a topic that is being moved; clients try again.

## On the wire

PRODUCER, ERROR with its request id; SEND, SEND_ERROR with its sequence id. The text is the broker's own.

## What speaks for the opposite

A later PRODUCER that succeeds, a later SEND of the same message with a receipt: then it is only a note.

## What to do

Read the text of the error. ProducerBusy: `topics stats` lists the publishers with address and name; let the broker give
names. Quota: never-acked names who holds the backlog. Too large: chunking, or `maxMessageSize` of the topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.production import about_producer, producer_subject
from pcli.codec.observe.rules.refusals import succeeded_later, whose_error
from pcli.codec.observe.rules.wording import frames_text, said, times
from pcli.codec.observe.tracking.records.client_records import ProducerRecord
from pcli.codec.observe.tracking.records.counters import Tally

__all__ = ["RULE"]

_ADVICE: Final[dict[str, str]] = {
    "ProducerBusy": "`topics stats` lists the publishers with address and name: close the other, or let the broker "
    "give names.",
    "ProducerFenced": "Another producer has exclusive access: close this one, or take WaitForExclusive.",
    "ProducerBlockedQuotaExceededError": "The backlog quota is reached: find the subscription that does not "
    "acknowledge, or raise the quota.",
    "ProducerBlockedQuotaExceededException": "The backlog quota is reached: find the subscription that does not "
    "acknowledge, or raise the quota.",
    "TopicTerminatedError": "Terminated topics take no more messages: write to another one.",
    "ChecksumError": "The bytes changed on their way: in front of the point of capture if wrong-crc is found too, else "
    "behind it.",
}


def look(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Each kind of error, but for those of schemas."""
    for error, seen in producer.refused.items():
        if error == "IncompatibleSchema":
            continue
        yield _finding(
            producer,
            error,
            seen,
            "was refused",
            succeeded_later(producer, seen),
            "A PRODUCER of it that succeeds later: there is none.",
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
            "had its messages refused",
            f"It has sent them again ({frames_text(producer.resent.frames)})." if again else "",
            "The same message, sent again: there is none, or not of all.",
            f"send-{error}",
        )


def _finding(
    producer: ProducerRecord, error: str, seen: Tally, what: str, mended: str, missing: str, cause: str
) -> Finding:
    return Finding(
        "producer-refused",
        "note" if mended else "error",
        whose_error(error),
        "certain",
        producer_subject(producer),
        f"{about_producer(producer)} {what} {times(seen.count)} with {error} ({frames_text(seen.frames)}): "
        f"{said(seen.sample)}",
        seen.first_ns,
        seen.frames,
        mended or missing,
        _ADVICE.get(error, "The text of the error says what is in the way."),
        cause,
    )


RULE = Rule(
    name="producer-refused",
    group="producer",
    facts=("refused", "send_errors", "resent", "lost", "session.ready_ns"),
    title="a PRODUCER or SEND that was answered with an error",
    issue="apache/pulsar-client-go#638",
    look=look,
)
