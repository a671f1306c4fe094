"""The commands of scalable topics: sessions, registered consumers, and watchers of namespaces (5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.errors import LocalError, RemoteError
from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.commands.permission_checks import require_consume, require_list, require_lookup
from pcli.minibroker.errors import Refused
from pcli.minibroker.topic_names import check_namespace

if TYPE_CHECKING:
    from pcli.codec.wire.frame import Frame
    from pcli.minibroker.connection import Connection, Handler


def _look_up(connection: Connection, command: pb.CommandScalableTopicLookup, frame: Frame) -> None:
    name = _name(command.topic)
    if name is not None:
        require_lookup(connection, name, "ScalableTopicLookup")
    topics = connection.broker.scalable_topics
    topics.look_up(connection, command.session_id, command.topic, create=command.create_if_missing)


def _name(text: str) -> TopicName | None:
    """Return a topic name, or None if it is invalid."""
    try:
        return TopicName.parse(text)
    except LocalError:
        return None


def _close(connection: Connection, command: pb.CommandScalableTopicClose, frame: Frame) -> None:
    connection.broker.scalable_topics.close_session(connection, command.session_id)


def _subscribe(connection: Connection, command: pb.CommandScalableTopicSubscribe, frame: Frame) -> None:
    name = _name(command.topic)
    if name is not None:
        require_consume(connection, name, command.subscription, "ScalableTopicSubscribe")
    connection.broker.scalable_topics.register(connection, command)


def _unsubscribe(connection: Connection, command: pb.CommandScalableTopicUnsubscribe, frame: Frame) -> None:
    connection.broker.scalable_topics.unregister(connection, command.consumer_id)
    connection.answer_success(command.request_id)


def _watch(connection: Connection, command: pb.CommandWatchScalableTopics, frame: Frame) -> None:
    require_list(connection, command.namespace, "Client is not authorized to WatchScalableTopics")
    watchers = connection.broker.scalable_topics.watchers
    try:
        namespace = check_namespace(command.namespace)
    except RemoteError:
        raise Refused(pb.InvalidTopicName, f"Invalid namespace: {command.namespace}") from None
    filters = {pair.key: pair.value for pair in command.property_filters}
    watchers.add(connection, command.watch_id, namespace, filters)


def _watch_close(connection: Connection, command: pb.CommandWatchScalableTopicsClose, frame: Frame) -> None:
    connection.broker.scalable_topics.watchers.remove(connection, command.watch_id)


HANDLERS: Final[dict[str, Handler]] = {
    "SCALABLE_TOPIC_LOOKUP": _look_up,
    "SCALABLE_TOPIC_CLOSE": _close,
    "SCALABLE_TOPIC_SUBSCRIBE": _subscribe,
    "SCALABLE_TOPIC_UNSUBSCRIBE": _unsubscribe,
    "WATCH_SCALABLE_TOPICS": _watch,
    "WATCH_SCALABLE_TOPICS_CLOSE": _watch_close,
}
