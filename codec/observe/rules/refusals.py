"""Refused producers, messages and consumers: the rules with their pages, and the causes of errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import (
    about_consumer,
    at,
    consumer_subject,
    count_of,
    error_message,
    frames_text,
    times,
)
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.rules.segment_text import is_classic_client, is_controlled, sealed_segment
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord
from pcli.codec.observe.tracking.records.counters import Occurrences

_BROKERS: Final = frozenset(("PersistenceError", "TooManyRequests", "UnknownError"))
"""Errors caused by the broker's state rather than by the request."""

_NOT_READY: Final = frozenset(("ServiceNotReady", "MetadataError"))
"""Errors of a broker that starts, shuts down or moves a topic."""

_NETWORK: Final = Cause(
    "network", "likely", ("a client that computes a wrong checksum",), "A capture on the client's host."
)
_BROKER: Final = Cause(
    "broker", "likely", ("a limit or a policy that the request exceeds",), "The broker's log at that time."
)
_UNREADY: Final = Cause(
    "broker",
    "likely",
    ("a metadata store that is not available",),
    "The broker's log at that time, and whether its process was restarted.",
)
_NO_CONSUMER: Final = Cause(
    "client",
    "likely",
    ("a consumer that the broker had closed",),
    "The SUBSCRIBE and its response, and a CLOSE_CONSUMER, before the request.",
)
"""The cause if the broker does not know the consumer: usually the client did not wait for the response to SUBSCRIBE."""

_MIGRATED: Final = Cause(
    "application",
    "likely",
    ("a V5 client that has the layout on another connection",),
    "The version of the client, and who migrated the topic to a scalable topic.",
)
"""The cause if a topic was migrated to a scalable topic while a classic client had a producer."""

_APPLICATION: Final = Cause(
    "application",
    "likely",
    ("a limit or a policy of the broker",),
    "The error message, and the policies of the topic and its namespace.",
)


def cause_of_error(error: str, message: str = "") -> Cause:
    """Return the application as cause, unless the client, the broker's state or damage in transit caused the error."""
    if error == "ChecksumError":
        return _NETWORK
    if message == "Consumer not found":
        return _NO_CONSUMER
    if error in _NOT_READY:
        return _UNREADY
    return _BROKER if error in _BROKERS else _APPLICATION


def succeeded_later(peer: ConsumerRecord | ProducerRecord, refused: Occurrences) -> str:
    """Return ``It succeeded later, in frame 9.``, or an empty string."""
    session = peer.session
    if session is None or session.ready_ns <= refused.last_ns:
        return ""
    return f"It succeeded later, in {at(session.ready_frame)}."


_OTHERS: Final = frozenset(("IncompatibleSchema", "AuthenticationError", "AuthorizationError"))
"""Errors of a SUBSCRIBE that have separate rules."""

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

_SEALED: Final = frozenset(("TopicTerminatedError", "PersistenceError"))
"""The errors of SENDs to a segment that is being sealed."""

_SHARED: Final = "type of 'Shared'"
"""In the message for a stream consumer: queue consumers have the subscription, and no hand-over will end this."""

_HANDED_OVER: Final = (
    "The controller moved the segment between consumers; segment-not-released reports a hand-over that does not end."
)

_CONSUMER_BUSY: Final = "`topics stats` lists the attached consumers: close the other one, or use another subscription."
_MESSAGE: Final = "The error message names the reason."
_SCHEMA: Final = "because its schema is incompatible with the topic's"
_NO_PRODUCER: Final = "A PRODUCER that succeeds later would resolve this; there is none."
_NO_SUBSCRIBE: Final = "A SUBSCRIBE that succeeds later would resolve this; there is none."


def _refusal(
    subject: dict[str, Any],
    about: str,
    seen: Occurrences,
    why: str,
    resolved: str,
    missing: str,
    cause: Cause,
    advice: str,
    variant: str = "",
) -> Finding:
    """Return a finding about a refused peer or its messages. ``resolved`` states how it was resolved, if it was."""
    return Finding(
        "note" if resolved else "error",
        "certain",
        cause,
        subject,
        f"{about} {times(seen.count)} {why} ({frames_text(seen.frames)}): {error_message(seen.sample)}",
        opposite=resolved or missing,
        advice=advice,
        variant=variant,
        seen=seen,
        until_ns=0 if why == _SCHEMA else seen.last_ns,
    )


def _advice(error: str, message: str) -> str:
    """Return what to do. Brokers send ProducerBusy for both a used name and exclusive access of another producer."""
    if error == "ProducerBusy" and "exclusive producer" in message:
        error = "ProducerFenced"
    return _ADVICE.get(error, _MESSAGE)


@rule(
    "producer",
    facts=(
        "refused",
        "send_errors",
        "resent",
        "lost",
        "session.ready_ns",
        "topic_record.segment",
        "sent_on_child",
        "on_segment",
    ),
    title="a PRODUCER or SEND to which the broker responded with an error",
    issue="apache/pulsar-client-go#638",
    because_of=("broker-unavailable", "producer-waiting", "wrong-crc"),
    effect=("request of a producer was refused", "requests of producers were refused"),
    name="producer-refused",
    page="""
A producer, or one of its messages, that the broker refused.

## What it means

The response to PRODUCER was ERROR, or the response to SEND was SEND_ERROR. The most frequent errors are:

- *ProducerBusy*: a producer with that name already exists, the topic has the maximum number of producers, or a producer
  has exclusive access. After a broken connection the broker may still consider the old producer alive.
- *ProducerFenced*: another producer has exclusive access, or obtained exclusive access by fencing this producer.
- *ProducerBlockedQuotaExceededError*, *ProducerBlockedQuotaExceededException*: the backlog quota is exceeded, because
  the consumers of a subscription do not acknowledge messages.
- *TopicTerminatedError*: the topic was terminated permanently. If the topic is a segment of a scalable topic
  (``segment://``), the segment was split or merged, and the client continues with the new segments: a note. If a
  classic topic was migrated to a scalable topic, classic clients cannot continue.
- *NotAllowedError*: the message exceeds the topic's limit, a policy forbids the operation, or transactions are not
  enabled.
- *PersistenceError*, *ServiceNotReady*: the broker's storage has a problem, or the topic is being moved; clients retry.
  A segment that is being sealed also refuses messages with PersistenceError: a note.

## On the wire

PRODUCER, ERROR with its request id; SEND, SEND_ERROR with its sequence id. The error message comes from the broker and
identifies the case.

## What would disprove it

If a later PRODUCER succeeds, or a later SEND of the same message has a receipt, the finding is a note.

## What to do

Read the error message. For ProducerBusy, `topics stats` lists the address and the name of each publisher; set no
producer name, so that the broker assigns a unique name. For an exceeded quota, never-acked lists the consumers that
hold the backlog. If a message is too large, use chunking, or raise the topic's `maxMessageSize`.
""",
)
def _producer_refused(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for each error except schema errors."""
    resent, moved, subject = producer.resent, producer.sent_on_child, producer_subject(producer)
    for send, errors in (("", producer.refused), ("send-", producer.send_errors)):
        for error, seen in errors.items():
            if error == "IncompatibleSchema":
                continue
            what, resolved = "was refused", succeeded_later(producer, seen)
            missing = "A later PRODUCER of the same producer that succeeds would resolve this; there is none."
            if send:
                again = resent.count >= seen.count and not producer.lost.count
                what, resolved = "had messages refused", f"It has resent them ({frames_text(resent.frames)})." * again
                missing = (
                    "If all of these messages were resent, this would be resolved; the capture does not show this."
                )
            cause, advice = cause_of_error(error), _advice(error, seen.sample)
            terminated = error == "TopicTerminatedError" and producer.topic.startswith("segment://")
            # a segment whose name is not in the capture
            sealed = producer.on_segment and "TopicTerminatedError" in errors
            closed = terminated or (error in _SEALED and (sealed or sealed_segment(producer, seen.first_ns)))
            if closed and is_classic_client(producer):
                resolved, cause, advice = "", _MIGRATED, "Use the V5 API of a client 5.0 or newer for this topic."
            elif closed:
                resolved = "The segment was split or merged, and the client continues with the new segments."
                if moved.count:
                    what_again = f"sent {count_of(moved.count, 'message')} without a receipt again"
                    resolved = (
                        f"The segment was split or merged, and the client {what_again} ({frames_text(moved.frames)})."
                    )
                cause, advice = Cause("broker"), "Nothing."
            about, why = f"{about_producer(producer)} {what}", f"with {error}"
            yield _refusal(subject, about, seen, why, resolved, missing, cause, advice, send + error)


@rule(
    "producer",
    facts=("refused", "send_errors", "session.ready_ns"),
    title="a producer that was refused because of its schema",
    issue="apache/pulsar#5003",
    name="schema-refused",
    page="""
A producer whose schema is incompatible with the topic.

## What it means

The broker compares the schema in PRODUCER (or in GET_OR_CREATE_SCHEMA, for a message with a new schema) with the
schemas of the topic, according to the namespace's compatibility strategy. The default is FULL: readers with the old
schema and readers with the new schema must be able to read all data. The broker refused the schema. Usual reasons are
that a field was added without a default value, a type was changed, the schema type differs (JSON instead of Avro), or a
producer without a schema was created on a topic that requires a schema (`schemaValidationEnforced`).

## On the wire

PRODUCER with `schema`, ERROR IncompatibleSchema with its request id. `pcli dissect -V` shows the schema. The topic's
schema is in the PRODUCER or SUBSCRIBE that succeeded before.

## What would disprove it

If a later PRODUCER with the same name succeeds, the finding is a note.

## What to do

`pulsar-admin schemas get` and `schemas compatibility` show what is compatible. Give new fields a default value. Do not
loosen the strategy before you know all readers.
""",
)
def _schema_refused(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for IncompatibleSchema in response to a PRODUCER or a SEND."""
    advice = (
        "`pulsar-admin schemas get` and `schemas compatibility` show what is compatible. Give new fields a default."
    )
    for variant, errors in (("producer", producer.refused), ("send", producer.send_errors)):
        if seen := errors.get("IncompatibleSchema"):
            about, cause = f"{about_producer(producer)} was refused", Cause("application")
            later = succeeded_later(producer, seen)
            yield _refusal(
                producer_subject(producer), about, seen, _SCHEMA, later, _NO_PRODUCER, cause, advice, variant
            )


@rule(
    "consumer",
    facts=("refused", "session.ready_ns", "subscription.topic.segment"),
    title="a SUBSCRIBE to which the broker responded with an error",
    issue="apache/pulsar#13920",
    because_of=("broker-unavailable",),
    effect=("SUBSCRIBE was refused", "SUBSCRIBEs were refused"),
    name="subscribe-refused",
    page="""
A consumer that the broker refused.

## What it means

The response to SUBSCRIBE was an error. The most frequent errors are:

- *ConsumerBusy*: an Exclusive subscription already has a consumer, the subscription has consumers of another type, or
  the maximum number of consumers is reached. After a broken connection the broker may still consider the old consumer
  alive. If the controller of a scalable topic moves a segment, the new consumer is refused until the old one has closed
  its own: a note.
- *ConsumerAssignError*: the key ranges of a STICKY Key_Shared consumer overlap with the ranges of another consumer.
- *SubscriptionNotFound*, *TopicNotFound*: the subscription or topic does not exist, and the broker may not create it
  automatically.
- *NotAllowedError*: the topic's policies forbid a type or setting, or there were too many subscribe calls.
- *ServiceNotReady*: the topic is being moved; clients retry.

Refused schemas and missing permissions have separate rules: schema-refused-consumer and auth-refused.

## On the wire

SUBSCRIBE, ERROR with its request id. The error message comes from the broker and identifies the case.

## What would disprove it

If a later SUBSCRIBE of the same consumer succeeds, the finding is a note.

## What to do

For ConsumerBusy, find the attached consumer with `topics stats`, or use another subscription name or the type Shared.
After a connection breaks, wait for the keep-alive timeout, or upgrade: since 2.10.6, 2.11.4 and 3.0.3, brokers check
whether the old consumer is alive.
""",
)
def _subscribe_refused(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for each error."""
    for error, seen in consumer.refused.items():
        if error not in _OTHERS:
            later, cause = succeeded_later(consumer, seen), cause_of_error(error)
            if error == "ConsumerBusy" and is_controlled(consumer) and _SHARED not in seen.sample:
                later = later or _HANDED_OVER
            advice = _CONSUMER_BUSY if error == "ConsumerBusy" else _MESSAGE
            subject, about = consumer_subject(consumer), f"{about_consumer(consumer)} was refused"
            yield _refusal(subject, about, seen, f"with {error}", later, _NO_SUBSCRIBE, cause, advice, error)


@rule(
    "consumer",
    facts=("refused", "session.ready_ns"),
    title="a consumer that was refused because of its schema",
    issue="apache/pulsar#13419",
    name="schema-refused-consumer",
    page="""
A consumer whose schema is incompatible with the topic.

## What it means

The broker compares the schema in SUBSCRIBE with the schemas of the topic: according to the namespace's compatibility
strategy, the consumer must be able to read the existing messages. The broker refused the schema. A broker also refuses
a reader or table view with a schema on a topic that is in use without a schema, because a consumer may not add the
first schema to such a topic.

## On the wire

SUBSCRIBE with `schema`, ERROR IncompatibleSchema with its request id.

## What would disprove it

If a later SUBSCRIBE of the same consumer succeeds, the finding is a note.

## What to do

Use the topic's own schema (AUTO_CONSUME), or bytes. `pulsar-admin schemas get` shows the stored schemas. See also
schema-refused.
""",
)
def _schema_refused_consumer(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for IncompatibleSchema in response to a SUBSCRIBE."""
    if seen := consumer.refused.get("IncompatibleSchema"):
        later, cause = succeeded_later(consumer, seen), Cause("application")
        advice = (
            "Use the topic's own schema (AUTO_CONSUME), or bytes. `pulsar-admin schemas get` shows the stored schemas."
        )
        subject, about = consumer_subject(consumer), f"{about_consumer(consumer)} was refused"
        yield _refusal(subject, about, seen, _SCHEMA, later, _NO_SUBSCRIBE, cause, advice)
