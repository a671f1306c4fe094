"""Segments of scalable topics, as the brokers of a cluster manage them among each other (Segments of 5.0.1).

A segment need not be part of a layout, and its scalable topic need not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.scalable import SegmentName
from pcli.codec.wire.topic_name import TopicName, split_partition
from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, RestError, unexpected
from pcli.minibroker.admin.topics.topics import clients_text
from pcli.minibroker.errors import SERVICE_EXCEPTION
from pcli.minibroker.policies.java_types import STRING_LIST
from pcli.minibroker.topic_names import invalid_segment_name

if TYPE_CHECKING:
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.topic import Topic

_SEGMENT: Final = "/admin/v2/segments/{tenant}/{namespace}/{topic}/{descriptor}"
_SUBSCRIPTION: Final = f"{_SEGMENT}/subscription/{{subscription}}"
_DESCRIPTOR: Final = re.compile(r"([0-9a-fA-F]{1,4})-([0-9a-fA-F]{1,4})-([0-9]{1,18})")

_Operation = Callable[[Call, TopicName], Any]


def _on_segment(operation: _Operation) -> Callable[[Call], Any]:
    """Return an endpoint that applies an operation to the segment in the path. An invalid descriptor is a 500."""

    def do(call: Call) -> Any:
        found = _DESCRIPTOR.fullmatch(call.path_text("descriptor"))
        place = f"{call.namespace_name}/{call.path['topic']}"
        if found is None or int(found[1], 16) > int(found[2], 16):
            raise PageError(500)
        base, partition = split_partition(place)
        if partition >= 0:
            raise unexpected(invalid_segment_name(f"segment://{base}"), "java.lang.IllegalArgumentException")
        name = SegmentName(f"topic://{place}", int(found[1], 16), int(found[2], 16), int(found[3]))
        return operation(call, TopicName.parse(str(name)))

    return do


def _loaded(call: Call, name: TopicName, status: int) -> Topic:
    topic = call.broker.topic_registry.load(name)
    if topic is None:
        raise RestError(status, f"Segment topic not loaded: {name}")
    return topic


def _subscription(call: Call, name: TopicName, status: int) -> Subscription:
    topic = _loaded(call, name, status)
    subscription = topic.subscriptions.get(call.path_text("subscription"))
    if subscription is None:
        raise RestError(404, f"Subscription not found on segment: {call.path_text('subscription')}")
    return subscription


# -- segments ----------------------------------------------------------------------------------------------------------


def _create(call: Call, name: TopicName) -> None:
    subscriptions = call.body or []
    if None in subscriptions:
        raise unexpected('Cannot invoke "Object.hashCode()" because "key" is null')
    call.broker.scalable_topics.open_segment(str(name), subscriptions)


def _terminate(call: Call, name: TopicName) -> None:
    topic = call.broker.topic_registry.load(name)
    if topic is None:
        raise RestError(404, f"Segment topic not found: {name}")
    call.broker.terminate(topic)


def _delete(call: Call, name: TopicName) -> None:
    topic = call.broker.topic_registry.load(name)
    if topic is None:
        return
    consumers, producers = len(topic.consumers), len(topic.producers)
    if (consumers or producers) and not call.flag("force"):
        raise unexpected(clients_text(consumers, producers), f"{SERVICE_EXCEPTION}$TopicBusyException")
    call.broker.delete_topic(name, force=True)


# -- subscriptions -----------------------------------------------------------------------------------------------------


def _create_subscription(call: Call, name: TopicName) -> None:
    if call.broker.topic_registry.load(name) is None:
        raise unexpected("No value present", "java.util.NoSuchElementException")
    call.broker.scalable_topics.open_segment(str(name), [call.path_text("subscription")])


def _delete_subscription(call: Call, name: TopicName) -> None:
    topic = call.broker.topic_registry.load(name)
    subscription = None if topic is None else topic.subscriptions.get(call.path_text("subscription"))
    if topic is None or subscription is None:
        return
    if subscription.consumers:
        raise unexpected("Subscription has active consumers", f"{SERVICE_EXCEPTION}$SubscriptionBusyException")
    topic.remove_subscription(subscription)


def _seek(call: Call, name: TopicName) -> None:
    subscription = _subscription(call, name, 503)
    subscription.reset(subscription.offset_at(call.query_number("timestamp") or 0))


def _endpoint(method: str, path: str, operation: _Operation, text: str, **more: Any) -> Endpoint:
    return Endpoint(method, path, _on_segment(operation), text, setting="scalableTopicsEnabled", **more)


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    _endpoint("PUT", _SEGMENT, _create, "create a segment with subscriptions", body=STRING_LIST),
    _endpoint("DELETE", _SEGMENT, _delete, "delete a segment"),
    _endpoint("POST", f"{_SEGMENT}/terminate", _terminate, "terminate a segment"),
    _endpoint("PUT", _SUBSCRIPTION, _create_subscription, "create a subscription on a segment"),
    _endpoint("DELETE", _SUBSCRIPTION, _delete_subscription, "delete a subscription on a segment"),
    _endpoint(
        "GET",
        f"{_SUBSCRIPTION}/backlog",
        lambda call, name: _subscription(call, name, 404).backlog,
        "number of messages that a subscription has not acknowledged",
    ),
    _endpoint(
        "POST",
        f"{_SUBSCRIPTION}/seek",
        _seek,
        "move a subscription of a segment to a publish time",
        numbers={"timestamp": 64},
    ),
    _endpoint(
        "POST",
        f"{_SUBSCRIPTION}/skip-all",
        lambda call, name: _subscription(call, name, 503).skip_all(),
        "acknowledge all messages on a subscription of a segment",
    ),
)
