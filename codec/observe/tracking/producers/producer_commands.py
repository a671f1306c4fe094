"""Opening and closing of producers: PRODUCER, its responses, CLOSE_PRODUCER from both sides, and ends of connections.

If a producer with the same name is attached to another connection, a new PRODUCER replaces it only if the broker
accepts the new PRODUCER. Usually the broker refuses it.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.observer_state import Facts, Producer
from pcli.codec.observe.tracking.producers.producer_registry import ProducerRegistry
from pcli.codec.observe.tracking.producers.producer_session import ProducerSession
from pcli.codec.observe.tracking.records.connection_records import LOST
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME

_CLOSE_PRODUCER: Final = BY_NAME["CLOSE_PRODUCER"].number
_PRODUCER: Final = BY_NAME["PRODUCER"].number


def producer_of(facts: Facts) -> ProducerSession | None:
    """Return the session of the producer of a frame, or None if it is unknown."""
    peer = facts.peer
    record = peer.record if isinstance(peer, Producer) else None
    return record if isinstance(record, ProducerSession) else None


class ProducerCommands:
    """A processor of the commands that open and close producers."""

    def __init__(self, registry: ProducerRegistry) -> None:
        self._registry = registry

    def producer(self, facts: Facts) -> None:
        """Process PRODUCER."""
        peer = facts.peer
        if isinstance(peer, Producer):
            producer = self._registry.begin(facts, peer, peer.name)
            producer.session.number = facts.frame.number
            command = facts.frame.command.producer
            producer.is_new = not command.epoch
            producer.record.access_mode = pb.ProducerAccessMode.Name(command.producer_access_mode)

    def producer_success(self, facts: Facts) -> None:
        """Process PRODUCER_SUCCESS: the producer is attached, or waits for exclusive access."""
        frame = facts.frame
        producer = producer_of(facts)
        if producer is None:
            return
        self._registry.rename(producer)
        self._registry.attach(producer, frame.time_ns)
        if producer.is_new:
            self._registry.contents.begin(producer)
        record, session = producer.record, producer.session
        record.sessions += session.ready_ns < 0 and record.waiting.since_ns < 0
        if frame.command.producer_success.producer_ready:
            record.waiting.end(frame.time_ns, frame.number)
            session.ready_ns, session.ready_frame = frame.time_ns, frame.number
        else:
            record.waiting.begin(frame.time_ns, frame.number)

    def error(self, facts: Facts) -> None:
        """Process ERROR if it answers a PRODUCER."""
        request, frame = facts.request, facts.frame
        producer = producer_of(facts)
        if request is None or request.type != _PRODUCER or producer is None:
            return
        error, text = facts.error
        refused = producer.record.refused.setdefault(error or "UnknownError", Occurrences())
        refused.add(frame.time_ns, request.number, frame.number, sample=text)
        self._registry.close(producer, "refused", frame.time_ns, frame.number)
        self._registry.give_up_open_sends(producer, frame.time_ns, frame.number)

    def close(self, facts: Facts) -> None:
        """Process CLOSE_PRODUCER: the session ends, but receipts may follow."""
        frame = facts.frame
        producer = producer_of(facts)
        if producer is not None:
            self._registry.close(producer, "closed" if frame.from_client else "broker", frame.time_ns, frame.number)

    def success(self, facts: Facts) -> None:
        """Process SUCCESS: if it answers CLOSE_PRODUCER, no more receipts follow."""
        request = facts.request
        producer = producer_of(facts)
        if request is not None and request.type == _CLOSE_PRODUCER and producer is not None:
            self._registry.give_up_open_sends(producer, facts.frame.time_ns, facts.frame.number)

    def end(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        """End the sessions of a connection that has ended."""
        connection = self._registry.connections.get(stream)
        for producer in list(connection.producers.values()) if connection is not None else ():
            attached = not producer.session.end
            self._registry.close(producer, end, time_ns, frame)
            self._registry.give_up_open_sends(producer, time_ns, frame)
            if attached and end in LOST and producer.topic is not None:
                self._registry.subscriptions.producer_lost(producer.topic.name)
        self._registry.forget(stream)
