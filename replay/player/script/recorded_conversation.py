"""The script from the broker's side: requests with their responses, and the steps that each MESSAGE depends on.

Rules of this file
1. A response is the broker's first step that matches an open request on its connection (keys of response_matching.py).
   A step that matches no open request is unrequested.
2. A producer, consumer or watcher is identified by the step that created it, because ids are reused.
3. A client's step is identified by its command and its topic, subscription, namespace, transaction, producer or
   consumer. An ACK is also identified by its message ids. The generated subscription name of a reader is ignored.
4. A MESSAGE depends on the SEND of its entry and on the last change of the subscription's consumers. A redelivery also
   depends on the last redelivery request, and a transactional message also depends on the last END_TXN.
5. A command that changes no state of the broker is a query.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable
from typing import Final

from pcli.codec.wire.commands import COMMANDS
from pcli.codec.wire.frame import Frame
from pcli.replay.player.id_translation import Position, position_of
from pcli.replay.player.response_matching import KEEP_ALIVE, key_of
from pcli.replay.player.script.recorded_exchanges import stored
from pcli.replay.player.script.script import Script, Step

OWNERS: Final = {"consumer_id": "SUBSCRIBE", "producer_id": "PRODUCER", "watcher_id": "WATCH_TOPIC_LIST"}
"""Ids that are unique on a connection, and the command that creates the object."""
QUERIES: Final = frozenset(
    {"CONNECT", "LOOKUP", "PARTITIONED_METADATA", "GET_SCHEMA", "GET_TOPICS_OF_NAMESPACE", "CONSUMER_STATS"}
    | {"GET_LAST_MESSAGE_ID", "TC_CLIENT_CONNECT_REQUEST"}
)
_FREE: Final = QUERIES | {"ACK", "FLOW", "REDELIVER_UNACKNOWLEDGED_MESSAGES", "AUTH_RESPONSE"}
"""Commands whose time depends on the client's timers. No unrequested step waits for these commands."""
_CONSUMER_CHANGES: Final = ("SUBSCRIBE", "UNSUBSCRIBE", "CLOSE_CONSUMER", "SEEK")
_ABOUT: Final = ("topic", "namespace", "topics_pattern", "txnid_most_bits", "txnid_least_bits")

Owners = dict[tuple[int, str, int], Step]
"""The captured step that created an object, by connection, field name of the id, and id."""


def subject_of(frame: Frame, owner: Step | None) -> Hashable:
    """Return the key that equivalent client steps have in common."""
    body, row = frame.body, COMMANDS.get(frame.type)
    if body is None or row is None:
        return frame.data
    if row.name == "ACK":
        return row.name, owner, body.ack_type, frozenset(one.SerializePartialToString() for one in body.message_id)
    if row.name in OWNERS.values() or owner is None:
        named = [str(getattr(body, name, "")) for name in _ABOUT]
        return row.name, *named, body.subscription if row.name == "SUBSCRIBE" and body.durable else ""
    return row.name, owner


class RecordedConversation:
    """A script, indexed for the broker's side."""

    def __init__(self, script: Script) -> None:
        """Index all steps in one pass."""
        self.owners: dict[Step, Step] = {}
        """For each step of a producer, consumer or watcher, the step that created it."""
        self.responses: dict[Step, Step] = {}
        """Responses by request."""
        self.messages: dict[Step, deque[Step]] = defaultdict(deque)
        """MESSAGEs by consumer, in order."""
        self.unrequested: dict[int, deque[Step]] = defaultdict(deque)
        """Unrequested steps by connection."""
        self.remaining: dict[int, deque[Step]] = defaultdict(deque)
        """All steps of the broker, by connection."""
        self.needs: dict[Step, set[Step]] = {}
        """Steps that must have occurred in the replay before a MESSAGE is delivered."""
        self.open: dict[Hashable, list[Step]] = defaultdict(list)
        """Client steps that have not been received yet, by the key of `subject_of`."""
        self.bound: deque[Step] = deque()
        """Client steps that unrequested steps wait for."""
        self._causes = _Causes(script)
        waiting: dict[Hashable, list[Step]] = defaultdict(list)
        at: Owners = {}
        for step in script.steps:
            if step.type in KEEP_ALIVE:
                continue
            owner = self._owner(step, at)
            if step.from_client:
                self._read_client(step, owner, waiting)
            else:
                self._read_broker(step, owner, waiting)

    def _owner(self, step: Step, at: Owners) -> Step | None:
        body = step.frame.body if step.frame is not None else None
        for name, maker in OWNERS.items():
            if body is not None and name in body.DESCRIPTOR.fields_by_name:
                key = step.stream, name, getattr(body, name)
                if step.name == maker:
                    at[key] = step
                if key in at:
                    self.owners[step] = at[key]
        return self.owners.get(step)

    def _read_client(self, step: Step, owner: Step | None, waiting: dict[Hashable, list[Step]]) -> None:
        self._causes.record_step(step, owner)
        if step.name not in _FREE:
            self.bound.append(step)
        if step.frame is None:
            self.open["END", step.stream].append(step)
            return
        self.open[subject_of(step.frame, owner)].append(step)
        body = step.frame.body
        if step.name == "SEND":
            waiting[step.stream, "send", body.producer_id, body.sequence_id].append(step)
        elif step.name in ("CONNECT", "AUTH_RESPONSE"):
            waiting[step.stream, "login"] = [step]
        elif body is not None and "request_id" in body.DESCRIPTOR.fields_by_name and body.HasField("request_id"):
            waiting[step.stream, "request", body.request_id].append(step)

    def _read_broker(self, step: Step, owner: Step | None, waiting: dict[Hashable, list[Step]]) -> None:
        self.remaining[step.stream].append(step)
        requests = waiting.get(key_of(step.stream, step.frame)) if step.frame is not None else None
        if step.name == "MESSAGE" and owner is not None and step.frame is not None:
            self.messages[owner].append(step)
            self.needs[step] = self._causes.of_message(step.frame, owner)
        elif requests:
            self.responses[requests.pop(0)] = step
        else:
            self.unrequested[step.stream].append(step)


class _Causes:
    """The steps that each MESSAGE depends on (rule 4)."""

    def __init__(self, script: Script) -> None:
        self._sends: dict[Position, Step] = {position: send for send, _, position in stored(script.steps)}
        self._consumer_changes: dict[Hashable, Step] = {}
        self._redelivers: dict[Hashable, Step] = {}
        self._streams: dict[int, set[Hashable]] = defaultdict(set)
        self._delivered: set[Hashable] = set()
        self._transaction: Step | None = None

    def record_step(self, step: Step, owner: Step | None) -> None:
        """Record a client's step."""
        key = _subscription(owner)
        if step.name in _CONSUMER_CHANGES and owner is not None:
            self._consumer_changes[key] = step
            self._streams[step.stream].add(key)
        elif step.name == "REDELIVER_UNACKNOWLEDGED_MESSAGES":
            self._redelivers[key] = step
        elif step.name == "END_TXN":
            self._transaction = step
        elif step.name == "END":
            self._consumer_changes.update(dict.fromkeys(self._streams[step.stream], step))

    def of_message(self, frame: Frame, owner: Step) -> set[Step]:
        """Return the client steps that a MESSAGE depends on."""
        key, position = _subscription(owner), position_of(frame.command.message.message_id)
        again, metadata = (key, position) in self._delivered, frame.metadata
        self._delivered.add((key, position))
        found = {
            self._sends.get(position),
            self._consumer_changes.get(key),
            self._redelivers.get(key) if again else None,
        }
        if metadata is not None and metadata.HasField("txnid_least_bits"):
            found.add(self._transaction)
        return {step for step in found if step is not None}


def _subscription(owner: Step | None) -> Hashable:
    body = owner.frame.command.subscribe if owner is not None and owner.frame is not None else None
    return (body.topic, body.subscription) if body is not None else None
