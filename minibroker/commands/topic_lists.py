"""GET_TOPICS_OF_NAMESPACE, WATCH_TOPIC_LIST and WATCH_TOPIC_LIST_CLOSE.

Rules of this file (ServerCnx, TopicListService; 4.2.4)
1. An invalid namespace name closes the connection. For a namespace that does not exist, the list is empty.
2. The broker filters a list if the length of the pattern is at most ``subscriptionPatternMaxLength``. Otherwise the
   list is complete, with filtered = false, and a watcher is refused. The length includes the scheme for a list, but not
   for a watcher.
3. If the client already has the current hash, a list has changed = false and contains no topics, and a watcher receives
   an empty list.
4. The error for an invalid pattern is MetadataError for a list and InvalidTopicName for a watcher. The error for an
   unknown scheme is MetadataError for a list and AuthorizationError for a watcher.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.minibroker.commands.lookup import check_pending_lookups
from pcli.minibroker.commands.permission_checks import require_list
from pcli.minibroker.errors import Refused
from pcli.minibroker.topic_names import check_namespace
from pcli.minibroker.topics.topic_list_watchers import (
    TopicListWatcher,
    compile_pattern,
    matching,
    topics_hash,
    without_scheme,
)

if TYPE_CHECKING:
    from pcli.codec.wire.frame import Frame
    from pcli.minibroker.connection import Connection, Handler, PulsarService

_KINDS: Final = {
    pb.CommandGetTopicsOfNamespace.PERSISTENT: (True,),
    pb.CommandGetTopicsOfNamespace.NON_PERSISTENT: (False,),
    pb.CommandGetTopicsOfNamespace.ALL: (True, False),
}


def _list(connection: Connection, command: pb.CommandGetTopicsOfNamespace, frame: Frame) -> None:
    broker = connection.broker
    namespace = check_namespace(command.namespace)
    check_pending_lookups(connection)
    require_list(connection, namespace, "Client is not authorized to GetTopicsOfNamespace")
    kinds = _KINDS[command.mode]
    names = [name for kind in kinds for name in broker.topic_registry.names(namespace, persistent=kind)]
    filtered = command.HasField("topics_pattern") and _may_filter(broker, command.topics_pattern)
    if filtered:
        try:
            names = matching(names, compile_pattern(command.topics_pattern))
        except (re.error, ValueError) as fault:
            raise Refused(pb.MetadataError, str(fault)) from None
    digest = topics_hash(names)
    changed = command.topics_hash != digest
    connection.send_command(
        pb.CommandGetTopicsOfNamespaceResponse(
            request_id=command.request_id,
            topics=names if changed else [],
            filtered=filtered,
            topics_hash=digest,
            changed=changed,
        )
    )


def _may_filter(broker: PulsarService, pattern: str) -> bool:
    settings = broker.settings
    return (
        settings.enableBrokerSideSubscriptionPatternEvaluation and len(pattern) <= settings.subscriptionPatternMaxLength
    )


def _watch(connection: Connection, command: pb.CommandWatchTopicList, frame: Frame) -> None:
    broker = connection.broker
    namespace = check_namespace(command.namespace)
    check_pending_lookups(connection)
    require_list(connection, namespace, "Proxy Client is not authorized to watchTopicList")
    try:
        pattern = without_scheme(command.topics_pattern)
    except ValueError as fault:
        raise Refused(pb.AuthorizationError, str(fault)) from None
    if not broker.settings.enableBrokerTopicListWatcher or not _may_filter(broker, pattern):
        limit = broker.settings.subscriptionPatternMaxLength
        raise Refused(pb.NotAllowedError, f"Unable to create topic list watcher: Pattern longer than maximum: {limit}")
    try:
        found = matching(broker.topic_registry.names(namespace), compile_pattern(command.topics_pattern))
    except re.error as fault:
        raise Refused(pb.InvalidTopicName, f"Invalid topics pattern: {fault}") from None
    broker.watchers.add(TopicListWatcher(connection, command, set(found)))
    digest = topics_hash(found)
    connection.send_command(
        pb.CommandWatchTopicListSuccess(
            request_id=command.request_id,
            watcher_id=command.watcher_id,
            topic=[] if command.topics_hash == digest else found,
            topics_hash=digest,
        )
    )


def _watch_close(connection: Connection, command: pb.CommandWatchTopicListClose, frame: Frame) -> None:
    watcher = connection.watchers.get(command.watcher_id)
    if watcher is not None:
        connection.broker.watchers.remove(watcher)
    connection.answer_success(command.request_id)


HANDLERS: Final[dict[str, Handler]] = {
    "GET_TOPICS_OF_NAMESPACE": _list,
    "WATCH_TOPIC_LIST": _watch,
    "WATCH_TOPIC_LIST_CLOSE": _watch_close,
}
