"""The recording as its broker has it: what answers what, whom a command speaks of, and what a MESSAGE waits for.

Rules of this file
1. An answer is the first line of the broker for a request that is open on its connection (book.py's keys). What comes
   without one, or again for the same request, is unasked.
2. A producer, consumer or watcher is the line that made it: ids are used again, lines are not.
3. A client's line is told by its command and by what it is about: topic, subscription, namespace, transaction, or its
   producer or consumer. ACKs also by their ids. A reader's subscription is a name that nobody chose: not looked at.
4. A MESSAGE waits for the SEND of its entry; for whoever left or joined its subscription before; one that comes again
   for the request to redeliver before it; one of a transaction for the end of one.
5. What changes nothing at a broker is a question.
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
"""Ids that live on a connection, and the command that makes them."""
QUESTIONS: Final = frozenset(
    {"CONNECT", "LOOKUP", "PARTITIONED_METADATA", "GET_SCHEMA", "GET_TOPICS_OF_NAMESPACE", "CONSUMER_STATS"}
    | {"GET_LAST_MESSAGE_ID", "TC_CLIENT_CONNECT_REQUEST"}
)
_FREE: Final = QUESTIONS | {"ACK", "FLOW", "REDELIVER_UNACKNOWLEDGED_MESSAGES", "AUTH_RESPONSE"}
"""When a client says these is a matter of its timers: nothing unasked waits for them."""
_TURNS: Final = ("SUBSCRIBE", "UNSUBSCRIBE", "CLOSE_CONSUMER", "SEEK")
_ABOUT: Final = ("topic", "namespace", "topics_pattern", "txnid_most_bits", "txnid_least_bits")

Owners = dict[tuple[int, str, int], Line]
"""By connection, name of the id, and id: the captured line that made whom it means."""


def about(frame: Frame, owner: Line | None) -> Hashable:
    """What two lines of clients have in common that mean the same."""
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
    """A script, read for the broker's side."""

    def __init__(self, script: Script) -> None:
        """Read it once, from front to back."""
        self.owners: dict[Line, Line] = {}
        """Of lines that speak of a producer, consumer or watcher: the line that made it."""
        self.answers: dict[Line, Line] = {}
        """Of requests that were answered."""
        self.messages: dict[Line, deque[Line]] = defaultdict(deque)
        """By consumer, in order."""
        self.unasked: dict[int, deque[Line]] = defaultdict(deque)
        """By connection."""
        self.said: dict[int, deque[Line]] = defaultdict(deque)
        """By connection: everything that the broker said."""
        self.needs: dict[Line, set[Line]] = {}
        """What must have happened live before a MESSAGE is given."""
        self.open: dict[Hashable, list[Line]] = defaultdict(list)
        """Lines of clients by what they are about; who hears one takes it out."""
        self.bound: deque[Line] = deque()
        """Lines of clients for which unasked ones wait."""
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
    """What a MESSAGE waits for: rule 4."""

    def __init__(self, script: Script) -> None:
        self._sends: dict[Place, Line] = {place: send for send, _, place in stored(script.lines)}
        self._turns: dict[Hashable, Line] = {}
        self._redelivers: dict[Hashable, Line] = {}
        self._parts: dict[int, set[Hashable]] = defaultdict(set)
        self._given: set[Hashable] = set()
        self._transaction: Line | None = None

    def turn(self, line: Line, owner: Line | None) -> None:
        """A client did something."""
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
        """Lines of clients."""
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
