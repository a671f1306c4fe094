"""Requests, other than PRODUCER and SUBSCRIBE, that the broker refused.

## What it means

The response to a lookup, to a request for partition metadata, for the last message id or for a schema, to a seek or
unsubscribe, or to a request about a transaction, was an error. The application received an exception, or the client
library tries again. The most frequent errors are:

- *TopicNotFound*: the tenant, the namespace or the topic does not exist, or the broker may not create the topic.
- *MetadataError*, *ServiceNotReady*: the broker is starting, or the topic is being moved; clients retry.
- *TooManyRequests*: the broker limits the number of concurrent lookups.
- *SubscriptionNotFound*, *ConsumerNotFound*: the subscription or the consumer no longer exists.
- *NotAllowedError*, *UnsupportedVersionError*: the operation is not possible for this topic or client.
- *TransactionNotFound*, *InvalidTxnStatus*, *TransactionCoordinatorNotFound*: the transaction has ended, or its
  coordinator is not loaded.

A request for partition metadata without auto-creation checks whether a topic exists, and TopicNotFound is a regular
response. Missing permissions, refused schemas and the names of scalable topics have separate rules: auth-refused,
schema-refused, schema-refused-consumer and scalable-name-refused.

## On the wire

The request, and a response with its request id and an error code. The error message comes from the broker.

## What would disprove it

If a later request about the same topic succeeds on the connection, the finding is a note. Some client libraries first
request the metadata of a topic that does not exist, and then create it. If the state of the broker is the cause, the
finding is a warning, because the client may succeed on another connection.

## What to do

Read the error message. For TopicNotFound, check the spelling of the topic, and whether `allowAutoTopicCreation` is
enabled for the namespace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pcli.codec.observe.rules.connection_text import exchange_subject
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import count_of, error_message
from pcli.codec.observe.rules.refusals import cause_of_error
from pcli.codec.observe.text_format import short_topic
from pcli.codec.observe.tracking.records.connection_records import ExchangeRecord
from pcli.codec.observe.tracking.records.counters import Occurrences

_NAMED = 3
"""Maximum number of topics in the text."""


@rule(
    "exchange",
    facts=("refused", "accepted_later"),
    title="a lookup or another request to which the broker responded with an error",
    issue="apache/pulsar#4718",
    because_of=("scalable-name-refused", "broker-unavailable"),
    effect=("request was refused", "requests were refused"),
)
def evaluate(exchange: ExchangeRecord, _moment: Moment) -> Iterator[Finding]:
    """Return findings for each error: one about topics with a later success, and one about the other topics."""
    groups: dict[tuple[str, bool], dict[str, Occurrences]] = defaultdict(dict)
    for (error, topic), seen in exchange.refused.items():
        groups[error, topic in exchange.accepted_later][topic] = seen
    for (error, resolved), by_topic in groups.items():
        first = min(by_topic.values(), key=lambda seen: seen.first_ns)
        count = sum(seen.count for seen in by_topic.values())
        topics = [short_topic(topic) for topic in by_topic if topic]
        more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
        about = f" about {', '.join(topics[:_NAMED])}{more}" if topics else ""
        cause = Cause("application") if exchange.type == "UNSUBSCRIBE" else cause_of_error(error, first.sample)
        yield Finding(
            "note" if resolved else "warning" if cause.culprit == "broker" else "error",
            "certain",
            cause,
            exchange_subject(exchange),
            f"{count_of(count, f'{exchange.type} request')} on connection {exchange.stream}{about} "
            f"{'was' if count == 1 else 'were'} refused with {error}: {error_message(first.sample) or 'no message'}",
            first.first_ns,
            [frame for seen in by_topic.values() for frame in seen.frames],
            "A later request about the same topic succeeded."
            if resolved
            else "A later request about the same topic that succeeds would resolve this; there is none on the "
            "connection.",
            "The error message names the reason.",
            f"{error}-resolved" if resolved else error,
            count=count,
            until_ns=max(seen.last_ns for seen in by_topic.values()),
        )
