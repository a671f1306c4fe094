"""PRODUCER, SEND and CLOSE_PRODUCER (ServerCnx.handleProducer, handleSend, handleCloseProducer).

PRODUCER runs its checks in the real broker's order. SENDs have unusual fields here: the connection decodes all others
in place and calls the producer directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.minibroker.commands.permission_checks import require_produce
from pcli.minibroker.errors import Refused
from pcli.minibroker.topics.producer import Producer
from pcli.minibroker.topics.schema_checks import add_producer_schema

if TYPE_CHECKING:
    from pcli.codec.wire.frame import Frame
    from pcli.minibroker.connection import Connection, Handler


def open_producer(connection: Connection, command: pb.CommandProducer, _: Frame) -> None:
    """Handle PRODUCER. Raises Refused; the response may be sent later, or in two parts."""
    broker = connection.broker
    topic_of = broker.topic_registry.topic_name(command.topic)
    require_produce(connection, topic_of, command.initial_subscription_name)
    name = command.producer_name if command.HasField("producer_name") else broker.next_producer_name()
    existing = connection.producers.get(command.producer_id)
    if existing is not None:
        if not existing.ready:
            raise Refused(pb.ServiceNotReady, "Producer is already present on the connection")
        existing.answer_duplicate(command.request_id)
        return
    topic = broker.get_or_create(topic_of)
    topic.check_limits(name)
    if topic.backlog_quota is not None:
        topic.backlog_quota.check_producer()
    if topic.effective_policies.encryption_required and not command.encrypted:
        raise Refused(pb.MetadataError, f"Encryption is required in {topic.full_name}")
    version = add_producer_schema(topic, command.schema if command.HasField("schema") else None)
    if command.initial_subscription_name:
        topic.create_initial_subscription(command.initial_subscription_name)
    producer = Producer(topic, connection, command, name, version)
    connection.producers[command.producer_id] = producer
    connection.recently_closed.pop(command.producer_id, None)
    topic.add_producer(producer)


def close_producer(connection: Connection, command: pb.CommandCloseProducer, _: Frame) -> None:
    """Handle CLOSE_PRODUCER. SUCCESS follows the responses to waiting producers, and is sent even for an unknown id."""
    producer = connection.producers.get(command.producer_id)
    if producer is not None:
        producer.leave()
    connection.answer_success(command.request_id)


def send(connection: Connection, command: pb.CommandSend, frame: Frame) -> None:
    """Handle SEND.

    If the broker closed the producer recently, the SEND is dropped. Any other unknown producer is an error.
    """
    producer = connection.producers.get(command.producer_id)
    if producer is not None:
        connection.sends += 1
        producer.publish_command(command, frame.data[frame.parts.command_end :])
    elif not connection.is_recently_closed(command.producer_id):
        raise RemoteError(f"SEND of the unknown producer {command.producer_id}")


HANDLERS: Final[dict[str, Handler]] = {"PRODUCER": open_producer, "SEND": send, "CLOSE_PRODUCER": close_producer}
