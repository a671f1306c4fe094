"""The lifecycles of `pcli trace` compared with the logs of the applications.

Rules of this file
1. Entries are compared. A message that an application sent to a persistent topic has one lifecycle with its id.
2. A client receives messages before its application does. An entry was therefore delivered to a consumer at least as
   often as the application received one of its messages before the end of the capture.
3. An entry is acknowledged if the application acknowledged all of its messages, and not acknowledged if it acknowledged
   none. Clients send acknowledgements up to 100 ms later, and a fault or the end of a process can lose them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from scenarios.diagnosis.log import Log
from scenarios.diagnosis.plan import Plan

Key = tuple[str, int]
"""Producer and number of a message."""

_LOSES_ACKS = {"kill", "pause", "cut", "drop", "reorder", "delay", "corrupt", "outage", "crash", "unload"}
_LOSES_ACKS |= {"delete", "transaction", "redeliver_all", "ack_timeout_ms", "skip", "expire", "resetcursor", "seek"}
_ACKED_BY_CLIENT = {"corrupt", "dead_letter", "transaction", "skip", "expire", "unsubscribe", "retry"}


def differences(plan: Plan, log: Log, messages: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the differences by what was compared; a comparison without differences has an empty list.

    Nothing is compared if no application sent a message to a persistent topic.
    """
    lifecycles = {one["message_id"]: one for one in messages if one["message_id"]}
    lifecycles |= {chunk["message_id"]: one for one in messages for chunk in one["chunks"] if "message_id" in chunk}
    sent = _sent(log)
    if not sent:
        return {}
    return {
        "trace messages": list(_missing(messages, lifecycles, sent)),
        "trace deliveries": list(_deliveries(log, lifecycles, sent)),
        "trace acks": list(_acks(plan, log, lifecycles, sent)),
    }


def _entry(message_id: str) -> str:
    """Return ``ledger:entry``."""
    return ":".join(message_id.split(":")[:2])


def _sent(log: Log) -> dict[str, set[Key]]:
    """Return the messages of each entry on a persistent topic."""
    found: dict[str, set[Key]] = defaultdict(set)
    for event in log.of("produced"):
        entry = _entry(event["message_id"])
        if not entry.startswith(("-1:", "0:")):
            found[entry].add((event["producer"], event["n"]))
    return found


def _missing(
    messages: list[dict[str, Any]], lifecycles: dict[str, dict[str, Any]], sent: dict[str, set[Key]]
) -> Iterator[str]:
    counts = Counter(one["message_id"] for one in messages)
    for entry in sent:
        if entry not in lifecycles:
            yield f"{entry}: sent by an application, but without a lifecycle"
        elif counts[entry] > 1:
            yield f"{entry}: {counts[entry]} lifecycles"


def _application(consumer: str) -> str:
    """Return the consumer of the application behind that of a segment."""
    return consumer.partition("-seg-")[0]


def _received(log: Log, sent: dict[str, set[Key]], until: float = math.inf) -> Counter[tuple[str, str, Key]]:
    """Return how often each consumer received each message until a time, by consumer, entry and message."""
    received = ((event, _entry(event["message_id"])) for event in log.of("received") if event["t"] <= until)
    return Counter(
        (event["consumer"], entry, (event["producer"], event["n"])) for event, entry in received if entry in sent
    )


def _deliveries(log: Log, lifecycles: dict[str, dict[str, Any]], sent: dict[str, set[Key]]) -> Iterator[str]:
    expected: dict[tuple[str, str], int] = {}
    steps = (step for one in lifecycles.values() for step in one.get("steps", ()))
    last = max((float(step["time"]) for step in steps if step["time"]), default=math.inf)
    for (consumer, entry, _), count in _received(log, sent, last).items():
        expected[consumer, entry] = max(count, expected.get((consumer, entry), 0))
    for (consumer, entry), count in expected.items():
        traced = [
            one for one in lifecycles.get(entry, {}).get("deliveries", ()) if _application(one["consumer"]) == consumer
        ]
        if len(traced) < count:
            yield f"{entry}: {consumer} received it {count} times, but the trace contains {len(traced)} deliveries"


def _acks(plan: Plan, log: Log, lifecycles: dict[str, dict[str, Any]], sent: dict[str, set[Key]]) -> Iterator[str]:
    entries: dict[tuple[str, int], set[str]] = defaultdict(set)
    producers: dict[tuple[str, int], set[str]] = defaultdict(set)
    for consumer, entry, (producer, number) in _received(log, sent):
        entries[consumer, number].add(entry)
        producers[consumer, number].add(producer)
    acked: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for event in log.of("acked"):
        if event.get("cumulative"):
            return  # the positions before it are not compared
        for entry in entries[event["consumer"], event["n"]]:
            acked[entry].add((event["consumer"], event["n"]))
    # The event does not contain the producer of the message.
    unclear = {entry for which, found in entries.items() if len(producers[which]) > 1 for entry in found}
    for entry, members in sent.items():
        one = lifecycles.get(entry)
        if entry in unclear or one is None or not one["deliveries"] or one["doubts"] or one["chunks"]:
            continue
        track = next((track for track in plan.tracks if f"://{track.namespace}/" in one["topic"]), None)
        if track is None or len(one["unacked"]) != 1:
            continue
        [left] = one["unacked"].values()
        numbers = {number for _, number in acked[entry]}
        if left and numbers >= {number for _, number in members} and not track.features & _LOSES_ACKS:
            yield f"{entry}: acknowledged by the application, but not in the trace"
        if not left and not numbers and not track.features & (_ACKED_BY_CLIENT | {"raw"}):
            yield f"{entry}: acknowledged in the trace, but not by the application"
