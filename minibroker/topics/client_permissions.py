"""Disconnects clients whose role lost its permission (checkPermissionsAsync of Consumer and Producer)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.minibroker.errors import Refused

if TYPE_CHECKING:
    from pcli.minibroker.security.authorization import AuthorizationService
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.producer import Producer
    from pcli.minibroker.topics.topic import Topic


def disconnect_unauthorized(topic: Topic, authorization: AuthorizationService) -> None:
    """Disconnect the consumers and producers of a topic that may not use it any more.

    Policies of the namespace or the topic have changed. The roles are those of the connections; original principals of
    a proxy's clients are not checked.
    """
    if topic.persistent:
        _check_consumers(topic, authorization)
        _check_producers(topic, authorization)
    else:
        _check_producers(topic, authorization)
        _check_consumers(topic, authorization)


def _check_consumers(topic: Topic, authorization: AuthorizationService) -> None:
    for consumer in topic.consumers:
        if not _may_consume(consumer, topic, authorization):
            consumer.disconnect()


def _check_producers(topic: Topic, authorization: AuthorizationService) -> None:
    for producer in list(topic.producers.values()):
        if not _may_produce(producer, topic, authorization):
            producer.disconnect()


def _may_consume(consumer: Consumer, topic: Topic, authorization: AuthorizationService) -> bool:
    try:
        return authorization.may_consume((consumer.connection.role,), topic.name, consumer.subscription.name)
    except Refused:  # the subscription's name lacks the prefix that the namespace requires
        return False


def _may_produce(producer: Producer, topic: Topic, authorization: AuthorizationService) -> bool:
    return authorization.may_produce((producer.connection.role,), topic.name)
