"""Registration of a producer at its broker, on every connection, and the handling of failures.

Rules of this file (Commands.newProducer, ProducerImpl.connectionOpened; 4.2.4)
1. The first PRODUCER contains a name only if the application set a name. Later PRODUCERs contain the name that the
   broker assigned, marked as not provided by the user. ``topic_epoch`` is the value of the last PRODUCER_SUCCESS, even
   for shared producers.
2. A schema of plain bytes (type None) is not sent.
3. If the topic is terminated or the producer is fenced, the failure is final at any time. A topic that does not exist
   closes the producer.
4. After other failures, a producer that was ready before retries without limit. A new producer retries while the
   failure is retriable and the operation timeout, counted from the first PRODUCER, has not passed.
5. PRODUCER and GET_OR_CREATE_SCHEMA contain the topic name that the application specified, short or long; a partition
   always has its full name. Lookups use the full name.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pcli.codec.proto import pb
from pcli.codec.session import Event
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.connection.connection_handler import ConnectionHandler, Kind, State
from pcli.replay.client.connection.errors import ClientFailure

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext
    from pcli.replay.client.settings import ProducerSettings


class FailureKind(Enum):
    """The effect of a failure on the producer."""

    TERMINATED = "the topic accepts no more messages"
    FENCED = "another producer has fenced this producer"
    GONE = "there is no such topic"
    FAILED = "the producer was never created"
    AGAIN = "try again"


_FINAL: Final = {
    "TopicTerminatedError": FailureKind.TERMINATED,
    "ProducerFenced": FailureKind.FENCED,
    "TopicNotFound": FailureKind.GONE,
    "NotFound": FailureKind.GONE,
}


_STATES: Final = {
    FailureKind.TERMINATED: State.TERMINATED,
    FailureKind.FENCED: State.PRODUCER_FENCED,
    FailureKind.GONE: State.CLOSED,
    FailureKind.FAILED: State.FAILED,
}


def classify_failure(failure: ClientFailure, *, created: bool, in_time: bool) -> FailureKind:
    """Classify a failure.

    ``created`` states whether the producer was ready before, and ``in_time`` whether there is time to retry.
    """
    if failure.error in _FINAL:
        return _FINAL[failure.error]
    return FailureKind.AGAIN if created or (failure.retriable and in_time) else FailureKind.FAILED


def producer_command(
    number: int, topic: str, name: str, settings: ProducerSettings, *, epoch: int, topic_epoch: int | None
) -> pb.CommandProducer:
    """Return the PRODUCER command. ``name`` is empty until the broker has assigned a name."""
    body = pb.CommandProducer(
        topic=topic,
        producer_id=number,
        producer_name=name or None,
        encrypted=bool(settings.encryptionKeys),
        metadata=[pb.KeyValue(key=key, value=value) for key, value in sorted(settings.properties.items())],
        epoch=epoch,
        user_provided_producer_name=bool(settings.producerName),
        producer_access_mode=pb.ProducerAccessMode.Value(settings.accessMode),
        topic_epoch=topic_epoch,
        txn_enabled=False,
        initial_subscription_name=settings.initialSubscriptionName or None,
    )
    schema = settings.schema
    if schema is not None and schema.type != pb.Schema.Type.Value("None"):
        body.schema.CopyFrom(schema)
    return body


class ProducerRegistration(ConnectionHandler):
    """Base class of `Producer`. ``created`` is called once, with the producer or the ClientFailure."""

    kind: ClassVar[Kind] = "producer"

    def __init__(
        self, engine: ClientContext, topic: str, settings: ProducerSettings, created: Callable[[Any], None]
    ) -> None:
        super().__init__(engine, str(TopicName.parse(topic)), stop_ms=max(100, settings.sendTimeoutMs - 100))
        self.settings = settings
        self._given_topic = topic
        self._created: Callable[[Any], None] | None = created
        self._topic_epoch: int | None = None
        self._lookup_deadline = engine.now + engine.settings.lookupTimeoutMs
        self._deadline: int | None = None

    # -- for the subclass to implement -----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The producer's name; empty until the broker has assigned it."""
        raise NotImplementedError

    def prepare(self, connection: ClientConnection) -> None:
        """Prepare for the registration on a new connection."""
        raise NotImplementedError

    def begin(self, connection: ClientConnection, body: pb.CommandProducerSuccess) -> None:
        """Start sending, because the producer is registered."""
        raise NotImplementedError

    def fail_pending(self, failure: ClientFailure) -> None:
        """Fail all waiting messages."""
        raise NotImplementedError

    def end(self, state: State, failure: ClientFailure) -> None:
        """Enter a final state and report it to the creator."""
        raise NotImplementedError

    # -- registration ------------------------------------------------------------------------------------------------

    def opened(self, connection: ClientConnection) -> None:
        """Send PRODUCER, on each new connection."""
        self.prepare(connection)
        if self._deadline is None:
            self._deadline = self.engine.now + self.engine.settings.operationTimeoutMs
        connection.request(self.command(), lambda response: self._on_response(connection, response))

    def command(self) -> pb.CommandProducer:
        """Return PRODUCER for the current state of this producer."""
        return producer_command(
            self.number, self._given_topic, self.name, self.settings, epoch=self.epoch, topic_epoch=self._topic_epoch
        )

    def not_opened(self, failure: ClientFailure) -> bool:
        """Handle a failed lookup or connection attempt (connectionFailed)."""
        late = self.engine.now > self._lookup_deadline
        if failure.retriable and not late:
            return False
        if self._created is not None:
            self.end(State.FAILED, failure)
            return True
        if classify_failure(failure, created=True, in_time=True) is FailureKind.GONE:
            self.end(State.CLOSED, failure)
            return True
        return False

    def finish_creation(self, result: ProducerRegistration | ClientFailure) -> None:
        """Call the creation callback unless it was already called."""
        created, self._created = self._created, None
        if created is not None:
            created(result)

    def _on_response(self, connection: ClientConnection, response: Event | ClientFailure) -> None:
        if self.state is not State.CONNECTING:
            # The producer has been closed. Only the end of the connection reliably removes it from the broker.
            connection.close(ClientFailure("Disconnected", "a producer was closed before it was ready"))
        elif self.connection is not connection:
            return  # the broker has already closed the producer, and a new attempt is in progress
        elif isinstance(response, ClientFailure):
            self._refused(connection, response)
        else:
            body = response.body
            self._topic_epoch = body.topic_epoch if body.HasField("topic_epoch") else None
            self.ready()
            self.begin(connection, body)
            self.finish_creation(self)

    def _refused(self, connection: ClientConnection, failure: ClientFailure) -> None:
        connection.detach(self)
        self.connection = None
        if failure.error == "TimeOut":
            # The broker may have created the producer. It would then refuse the next PRODUCER with the same name.
            connection.request(pb.CommandCloseProducer(producer_id=self.number), lambda _: None)
        if failure.error == "ProducerBlockedQuotaExceededException":
            self.fail_pending(failure)
        in_time = self._deadline is not None and self.engine.now < self._deadline
        verdict = classify_failure(failure, created=self._created is None, in_time=in_time)
        if verdict is not FailureKind.AGAIN:
            self.end(_STATES[verdict], failure)
        elif not self.not_opened(failure):
            self.reconnect()
