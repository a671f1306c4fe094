"""Run the conformance tool with the commands of Pulsar 5.0.1.

    python tests/conform/conform5.py [--tool TOOL] check|record|show|list ... --dir tests/conform/scalable

The tool itself knows the commands of Pulsar 4.2.4. This module replaces its message classes by those of
``pcli.codec.proto`` and adds to its scenarios what they need for scalable topics. In a transcript,

- a SCALABLE_TOPIC_UPDATE that is equal to the one before it in the same session is left out, because the number of
  these repetitions depends on timing,
- times, addresses, rates and the order of ``segment_brokers`` are not compared,
- ledger ids are not compared by size, because the segments of a topic are created at the same time,
- the name of a transaction stands for both of its numbers,
- the reason of an internal error over REST ends before the stack trace.
"""

from __future__ import annotations

import sys
from typing import Any

from error_texts import REST_OF_LINE, conform, play, wire

from pcli.codec.proto import pb

TIMES = {"createdAtMs", "sealedAtMs", "createdAt", "sealedAt", "at", "lastSplitAt", "lastMergeAt", "lastRebucketAt"}
TIMES |= {"connectedSince", "topicCreationTime", "lastAckedTime", "lastConsumedTime", "ageSeconds"}
PLACES = {"address", "controllerBroker", "ownerBroker", "brokerId", "brokerUrl", "httpUrl", "nativeUrl"}
PLACES |= {"broker_url", "controller_broker_url", "broker_service_url"}
RATES = {"msgRateIn", "msgRateOut", "byteRateIn", "byteRateOut", "messageAckRate", "msgRateRedeliver", "averageMsgSize"}

_types = pb.BaseCommand.DESCRIPTOR.enum_types_by_name["Type"].values_by_number
wire.PB = vars(pb)
wire.BaseCommand, wire.MessageIdData, wire.MessageMetadata = pb.BaseCommand, pb.MessageIdData, pb.MessageMetadata
wire._types = _types
wire.FIELD = {v.name: pb.BaseCommand.DESCRIPTOR.fields_by_number[n] for n, v in _types.items()}
play.ANSWERED |= {"SCALABLE_TOPIC_LOOKUP", "SCALABLE_TOPIC_SUBSCRIBE", "SCALABLE_TOPIC_UNSUBSCRIBE"}
play.ANSWERED |= {"WATCH_SCALABLE_TOPICS", "WATCH_TC_ASSIGNMENTS"}

_fields, _is_answer = wire.fields, play.is_answer


def neutral(message: Any) -> Any:
    """Return a copy of a message of the broker without the values that differ from run to run."""
    copy = type(message)()
    copy.CopyFrom(message)
    for fd, value in copy.ListFields():
        if fd.name in ("created_at_ms", "sealed_at_ms"):
            setattr(copy, fd.name, min(value, 1))
        elif fd.name in PLACES and value.startswith("pulsar"):
            setattr(copy, fd.name, "URL")
        elif fd.name == "segment_brokers":
            brokers = sorted(value, key=lambda broker: broker.segment_id)
            copy.ClearField(fd.name)
            copy.segment_brokers.extend(brokers)
    return copy


def fields(message: Any, namer: Any, learn: bool, notes: list[str]) -> str:
    """Replace ``wire.fields``: write the fields of a message as text."""
    message = neutral(message)
    names = message.DESCRIPTOR.fields_by_name
    if "txnid_most_bits" in names:
        pair = (message.txnid_most_bits, message.txnid_least_bits)
        if message.DESCRIPTOR.name == "CommandNewTxnResponse" and not message.HasField("error"):
            namer.pairs.setdefault(pair, 2**62 + len(namer.pairs))
        if pair in namer.pairs:
            message.txnid_least_bits = namer.pairs[pair]
            namer.txns.setdefault(namer.pairs[pair], f"X{namer.pairs[pair] - 2**62 + 1}")
    return str(_fields(message, namer, learn, notes))


def is_answer(frame: Any) -> bool:
    """Replace ``play.is_answer``: an assignment update answers nothing."""
    kind = pb.BaseCommand.FromString(frame[0])
    return bool(_is_answer(frame)) and not kind.HasField("scalableTopicAssignmentUpdate")


class Namer(wire.Namer):  # type: ignore[misc]
    """Names of ledgers without a mark for their order, and of transactions by both numbers."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.pairs: dict[tuple[int, int], int] = {}

    def ledger(self, number: int, learn: bool) -> str:
        text = super().ledger(number, learn).rstrip("v")
        if number in self.ledgers:
            self.ledgers[number] = text
        return str(text)


class Conn(play.Conn):  # type: ignore[misc]
    """A connection with shorthands for the commands of scalable topics."""

    def send_command(self, kind: str, f: dict[str, Any], *entry: Any) -> None:
        if kind == "SCALABLE_TOPIC_LOOKUP":  # its answer is no repetition, also if the session is open
            self.run.updates = {k: v for k, v in self.run.updates.items() if k[:2] != (self.name, f.get("session_id"))}
        super().send_command(kind, f, *entry)

    def dag(self, topic: str, session: int = 1, **fields: Any) -> None:
        """Open a session."""
        self.SCALABLE_TOPIC_LOOKUP(session_id=session, topic=topic, **fields)

    def join(
        self, topic: str, name: str | None = None, sub: str = "sub", consumer: int = 1, kind: str = "STREAM"
    ) -> None:
        """Register a stream or checkpoint consumer."""
        self.SCALABLE_TOPIC_SUBSCRIBE(
            topic=topic, subscription=sub, consumer_name=name or self.name, consumer_id=consumer, consumer_type=kind
        )

    def leave(self, consumer: int = 1) -> None:
        """Take the registration of a stream or checkpoint consumer back."""
        self.SCALABLE_TOPIC_UNSUBSCRIBE(consumer_id=consumer)


class Run(play.Run):  # type: ignore[misc]
    """A play that knows scalable topics."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.updates: dict[tuple[str, int, str], Any] = {}

    def mutator(self, conn: Any, frame: Any) -> list[Any]:
        """Leave a SCALABLE_TOPIC_UPDATE out that repeats the one before it in its session."""
        if frame is not play.CLOSED:
            update = pb.BaseCommand.FromString(frame[0]).scalableTopicUpdate
            if update.HasField("dag"):
                update.dag.CopyFrom(neutral(update.dag))
                key = (conn.name, update.session_id, update.resolved_topic_name)
                if self.updates.get(key) == update:
                    return []
                self.updates[key] = update
        return [frame]

    def path(self, topic: str, rest: str = "") -> str:
        """Return the REST path of a topic or a segment."""
        for domain, place in (("topic://", "scalable/"), ("segment://", "segments/")):
            topic = topic.replace(domain, place)
        return str(super().path(topic, rest))

    def http(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        status, answer = super().http(method, path, body)
        return status, tidy(answer)

    def scalable(self, segments: int = 1, label: str = "t", ns: str = "public/default", **properties: str) -> str:
        """Create a scalable topic over REST and return its name."""
        topic = str(self.topic(label, ns, "topic"))
        self.admin("PUT", self.path(topic, f"?numInitialSegments={segments}"), properties)
        return topic

    def segment(self, topic: str, number: int) -> str:
        """Return the name of a segment. Look the topic and the segment up first, both without a trace."""
        _, metadata = self.http("GET", self.path(topic))
        try:
            entry = metadata["segments"][str(number)]
            start, end = entry["hashRange"]["start"], entry["hashRange"]["end"]
        except (KeyError, TypeError):
            raise play.Stop(f"no segment {number}: {metadata}") from None
        name = f"{topic.replace('topic://', 'segment://')}/{start:04x}-{end:04x}-{number}"
        self.look_up(name)
        return name


def tidy(value: Any, key: str = "") -> Any:
    """Replace the values of a REST response that differ from run to run."""
    if isinstance(value, dict):
        return {name: tidy(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [tidy(inner, key) for inner in value]
    if key in TIMES and value and value != -1:
        return "T"
    if key in PLACES and value:
        return "PLACE"
    if key in RATES:
        return "R"
    if key == "reason" and isinstance(value, str):
        return " ".join(value.partition("Stacktrace:")[0].split())
    return value


wire.fields, wire.Namer, play.is_answer, play.Conn, conform.Run = fields, Namer, is_answer, Conn, Run

if __name__ == "__main__":
    sys.argv[1:] = REST_OF_LINE
    sys.exit(conform.main())
