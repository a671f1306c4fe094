"""The script from the broker's side: requests with their responses, and what each MESSAGE depends on.

Rules of this file
1. A response is the broker's first line for a request that is open on its connection (keys of response_matching.py). A
   line without an open request is unrequested.
2. A producer, consumer or watcher is identified by the line that created it: ids are reused, lines are not.
3. A client's line is identified by its command and subject: topic, subscription, namespace, transaction, or its
   producer or consumer. ACKs are also identified by their message ids. A reader's generated subscription name is
   ignored.
4. A MESSAGE depends on the SEND of its entry, and on the last change of its subscription's consumers. A redelivery
   depends on the last redelivery request; a transactional message depends on the last END_TXN.
5. A command that changes no state of the broker is a query.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable
from typing import Final

from pcli.codec.wire.commands import COMMANDS
from pcli.codec.wire.frame import Frame
from pcli.replay.player.id_translation import Place, place_of
from pcli.replay.player.response_matching import KEEP_ALIVE, key_of
from pcli.replay.player.script.recorded_sends import stored
from pcli.replay.player.script.script import Line, Script

__all__ = ["OWNERS", "QUESTIONS", "Owners", "Recorded", "about"]

OWNERS: Final = {"consumer_id": "SUBSCRIBE", "producer_id": "PRODUCER", "watcher_id": "WATCH_TOPIC_LIST"}
"""Ids with the scope of a connection, and the command that creates them."""
QUESTIONS: Final = frozenset(
    {"CONNECT", "LOOKUP", "PARTITIONED_METADATA", "GET_SCHEMA", "GET_TOPICS_OF_NAMESPACE", "CONSUMER_STATS"}
    | {"GET_LAST_MESSAGE_ID", "TC_CLIENT_CONNECT_REQUEST"}
)
_FREE: Final = QUESTIONS | {"ACK", "FLOW", "REDELIVER_UNACKNOWLEDGED_MESSAGES", "AUTH_RESPONSE"}
"""Commands whose time depends on the client's timers: no unrequested line waits for them."""
_TURNS: Final = ("SUBSCRIBE", "UNSUBSCRIBE", "CLOSE_CONSUMER", "SEEK")
_ABOUT: Final = ("topic", "namespace", "topics_pattern", "txnid_most_bits", "txnid_least_bits")

Owners = dict[tuple[int, str, int], Line]
"""By connection, field name of the id, and id: the captured line that created the object."""


def about(frame: Frame, owner: Line | None) -> Hashable:
    """Return the key that equivalent client lines have in common."""
    body, row = frame.body, COMMANDS.get(frame.type)
    if body is None or row is None:
        return frame.data
    if row.name == "ACK":
        return row.name, owner, body.ack_type, frozenset(one.SerializePartialToString() for one in body.message_id)
    if row.name in OWNERS.values() or owner is None:
        named = [str(getattr(body, name, "")) for name in _ABOUT]
        return row.name, *named, body.subscription if row.name == "SUBSCRIBE" and body.durable else ""
    return row.name, owner


class Recorded:
    """A script, indexed for the broker's side."""

    def __init__(self, script: Script) -> None:
        """Index all lines in one pass."""
        self.owners: dict[Line, Line] = {}
        """For lines of a producer, consumer or watcher: the line that created it."""
        self.answers: dict[Line, Line] = {}
        """Request to response."""
        self.messages: dict[Line, deque[Line]] = defaultdict(deque)
        """By consumer, in order."""
        self.unasked: dict[int, deque[Line]] = defaultdict(deque)
        """By connection."""
        self.said: dict[int, deque[Line]] = defaultdict(deque)
        """All lines of the broker, by connection."""
        self.needs: dict[Line, set[Line]] = {}
        """Lines that must have occurred live before a MESSAGE is delivered."""
        self.open: dict[Hashable, list[Line]] = defaultdict(list)
        """Client lines not yet received, by the key of `about`; a received line is removed."""
        self.bound: deque[Line] = deque()
        """Client lines that unrequested lines wait for."""
        self._causes = _Causes(script)
        waiting: dict[Hashable, list[Line]] = defaultdict(list)
        at: Owners = {}
        for line in script.lines:
            if line.type in KEEP_ALIVE:
                continue
            owner = self._owner(line, at)
            if line.from_client:
                self._read_client(line, owner, waiting)
            else:
                self._read_broker(line, owner, waiting)

    def _owner(self, line: Line, at: Owners) -> Line | None:
        body = line.frame.body if line.frame is not None else None
        for name, maker in OWNERS.items():
            if body is not None and name in body.DESCRIPTOR.fields_by_name:
                key = line.part, name, getattr(body, name)
                if line.name == maker:
                    at[key] = line
                if key in at:
                    self.owners[line] = at[key]
        return self.owners.get(line)

    def _read_client(self, line: Line, owner: Line | None, waiting: dict[Hashable, list[Line]]) -> None:
        self._causes.turn(line, owner)
        if line.name not in _FREE:
            self.bound.append(line)
        if line.frame is None:
            self.open["END", line.part].append(line)
            return
        self.open[about(line.frame, owner)].append(line)
        body = line.frame.body
        if line.name == "SEND":
            waiting[line.part, "send", body.producer_id, body.sequence_id].append(line)
        elif line.name in ("CONNECT", "AUTH_RESPONSE"):
            waiting[line.part, "login"] = [line]
        elif body is not None and "request_id" in body.DESCRIPTOR.fields_by_name and body.HasField("request_id"):
            waiting[line.part, "request", body.request_id].append(line)

    def _read_broker(self, line: Line, owner: Line | None, waiting: dict[Hashable, list[Line]]) -> None:
        self.said[line.part].append(line)
        asked = waiting.get(key_of(line.part, line.frame)) if line.frame is not None else None
        if line.name == "MESSAGE" and owner is not None and line.frame is not None:
            self.messages[owner].append(line)
            self.needs[line] = self._causes.of_message(line.frame, owner)
        elif asked:
            self.answers[asked.pop(0)] = line
        else:
            self.unasked[line.part].append(line)


class _Causes:
    """The lines that each MESSAGE depends on (rule 4)."""

    def __init__(self, script: Script) -> None:
        self._sends: dict[Place, Line] = {place: send for send, _, place in stored(script.lines)}
        self._turns: dict[Hashable, Line] = {}
        self._redelivers: dict[Hashable, Line] = {}
        self._parts: dict[int, set[Hashable]] = defaultdict(set)
        self._given: set[Hashable] = set()
        self._transaction: Line | None = None

    def turn(self, line: Line, owner: Line | None) -> None:
        """Record a client's line."""
        key = _subscription(owner)
        if line.name in _TURNS and owner is not None:
            self._turns[key] = line
            self._parts[line.part].add(key)
        elif line.name == "REDELIVER_UNACKNOWLEDGED_MESSAGES":
            self._redelivers[key] = line
        elif line.name == "END_TXN":
            self._transaction = line
        elif line.name == "END":
            self._turns.update(dict.fromkeys(self._parts[line.part], line))

    def of_message(self, frame: Frame, owner: Line) -> set[Line]:
        """Return the client lines that a MESSAGE depends on."""
        key, place = _subscription(owner), place_of(frame.command.message.message_id)
        again, metadata = (key, place) in self._given, frame.metadata
        self._given.add((key, place))
        found = {self._sends.get(place), self._turns.get(key), self._redelivers.get(key) if again else None}
        if metadata is not None and metadata.HasField("txnid_least_bits"):
            found.add(self._transaction)
        return {line for line in found if line is not None}


def _subscription(owner: Line | None) -> Hashable:
    body = owner.frame.command.subscribe if owner is not None and owner.frame is not None else None
    return (body.topic, body.subscription) if body is not None else None
