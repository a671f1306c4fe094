"""Scalable topics: create, delete, list and migrate them, change their layouts, and access their values (5.0.1).

Rules of this file
1. The name in a path is decoded only by a creation and a migration, as on the real broker. All other requests use the
   text of the path: they do not find a topic whose name contains percent-encoded characters.
2. Requests to the controller of a missing topic result in a 500, other requests in a 404.
3. A creation that fails on the real broker after it has stored a part of the topic has no effect here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, Reply, RestError, unexpected
from pcli.minibroker.errors import Refused
from pcli.minibroker.policies.auto_scale_policy import AUTO_SCALE_POLICY, effective_policy
from pcli.minibroker.policies.java_types import STRING_MAP
from pcli.minibroker.policies.policy_types import AUTH_ACTIONS, AUTO_SCALE
from pcli.minibroker.scalable import subscriptions
from pcli.minibroker.scalable.layout_changes import LayoutError
from pcli.minibroker.scalable.migration import migrate
from pcli.minibroker.scalable.scalable_topic_stats import scalable_topic_stats, segment_stats
from pcli.minibroker.scalable.scalable_topic_watchers import matches

if TYPE_CHECKING:
    from pcli.codec.scalable import Segment
    from pcli.minibroker.scalable.scalable_topic import ScalableTopic
    from pcli.minibroker.scalable.scalable_topic_service import ScalableTopicService

_SPACE: Final = "/admin/v2/scalable/{tenant}/{namespace}"
_TOPIC: Final = f"{_SPACE}/{{topic}}"
_SUBSCRIPTION: Final = f"{_TOPIC}/subscriptions/{{subscription}}"
_ARGUMENT: Final = "java.lang.IllegalArgumentException"
_TYPES: Final = ("STREAM", "QUEUE")


# -- names -------------------------------------------------------------------------------------------------------------


def _service(call: Call) -> ScalableTopicService:
    return call.broker.scalable_topics


def _topic(call: Call) -> ScalableTopic:
    """Return the topic in the path. Raises Refused (404) if it does not exist."""
    return _service(call).find(f"topic://{call.namespace_name}/{call.path['topic']}")


def _controlled(call: Call) -> ScalableTopic:
    """Return the topic in the path with its controller. Raises 500 if it does not exist."""
    try:
        return _service(call).controlled(f"topic://{call.namespace_name}/{call.path['topic']}")
    except Refused as refused:
        raise unexpected(refused.text, "java.lang.RuntimeException") from None


def _decoded_name(call: Call) -> str:
    """Return the decoded name of a topic to create or migrate. Raises 500 if it has no letters."""
    namespace, local = call.namespace_name, unquote(call.path["topic"].replace("+", " "))
    if not local.strip():
        raise PageError(500)
    return f"topic://{namespace}/{local}"


def _check_new_name(name: str) -> None:
    """Raise 412 or 404 if a new topic cannot have a name."""
    local = name.split("/", 4)[4]
    if local != local.strip():
        text = "Topic name must not have leading or trailing whitespace."
        raise RestError(412, f"Invalid topic name: '{name}'. {text}")
    if "/" in local or local in (".", ".."):
        raise RestError(404, "HTTP 404 Not Found")


# -- topics ------------------------------------------------------------------------------------------------------------


def _list(call: Call) -> Any:
    service, filters = _service(call), {}
    for text in call.query_texts("property"):
        key, separator, value = text.partition("=")
        if text and not (key and separator and value):
            raise RestError(412, f"property filter must be in the form key=value, got: {text}")
        if text:
            filters[key] = value
    return [name for name in service.names(call.namespace_name) if matches(service.topics[name].properties, filters)]


def _create(call: Call) -> None:
    name, count = _decoded_name(call), call.query_number("numInitialSegments")
    if count is not None and count < 1:
        raise RestError(412, "numInitialSegments must be >= 1")
    _check_new_name(name)
    properties = {key: value for key, value in (call.body or {}).items() if value is not None}
    with _layout_errors():
        _service(call).create(name, 1 if count is None else count, properties)


def _delete(call: Call) -> None:
    _service(call).delete(_topic(call).name, force=call.flag("force"))


def _migrate(call: Call) -> None:
    name = _decoded_name(call)
    if name.count("/") > 4:
        raise PageError(500)
    with _layout_errors():
        migrate(_service(call), call.broker, name, force=call.flag("force"))


def _metadata(call: Call) -> Any:
    topic = _topic(call)
    segments = topic.layout.segments
    return {
        "epoch": topic.layout.epoch,
        "nextSegmentId": max(segments) + 1,
        "segments": {str(number): _segment(one) for number, one in segments.items()},
        "properties": topic.properties,
        **({} if topic.policy is None else {"autoScalePolicy": topic.policy}),
        "deleted": False,
    }


def _segment(one: Segment) -> Any:
    return {
        "segmentId": one.id,
        "hashRange": {"start": one.start, "end": one.end},
        "state": "ACTIVE" if one.active else "SEALED",
        "parentIds": list(one.parents),
        "childIds": list(one.children),
        "createdAtEpoch": one.created_epoch,
        "sealedAtEpoch": one.sealed_epoch,
        "createdAtMs": one.created_ms,
        "sealedAtMs": one.sealed_ms,
        **({"legacyTopicName": one.legacy_topic} if one.legacy_topic else {}),
        "entryBucketSplits": list(one.bucket_starts),
        "sealed": not one.active,
        "active": one.active,
        "root": not one.parents,
        "leaf": not one.children,
        "legacy": bool(one.legacy_topic),
    }


def _stats(call: Call) -> Any:
    topic, broker, service = _controlled(call), call.broker, _service(call)
    stored = {number: service.segment_topic(topic, one) for number, one in topic.layout.segments.items()}
    found = {number: one for number, one in stored.items() if one is not None}
    return scalable_topic_stats(topic, found, service.policy(topic), broker.address, broker.now)


def _segment_stats(call: Call) -> Any:
    topic, number = _topic(call), call.path_number("segment")
    segment = topic.layout.segments.get(number)
    if segment is None:
        raise RestError(404, f"Segment {number} not found in scalable topic {topic.name}")
    return segment_stats(_service(call).existing_segment_topic(topic, segment))


# -- the layout --------------------------------------------------------------------------------------------------------


@contextmanager
def _layout_errors(status: int = 500) -> Iterator[None]:
    """Convert a LayoutError to the error of a request."""
    try:
        yield
    except LayoutError as error:
        raise unexpected(str(error), _ARGUMENT) if status == 500 else RestError(status, str(error)) from None


def _split(call: Call) -> None:
    topic = _controlled(call)
    with _layout_errors():
        _service(call).split(topic, call.path_number("segment"))


def _merge(call: Call) -> None:
    topic = _controlled(call)
    with _layout_errors():
        _service(call).merge(topic, call.path_number("segment"), call.path_number("other"))


def _rebucket(call: Call) -> None:
    topic = _controlled(call)
    with _layout_errors(412):
        _service(call).rebucket(topic, call.path_number("segment"), call.query_number("bucketCount") or 0)


# -- subscriptions -----------------------------------------------------------------------------------------------------


def _create_subscription(call: Call) -> None:
    kind, name = call.query.get("type") or _TYPES[0], call.path_text("subscription")
    if kind not in _TYPES:
        raise PageError(404)
    topic = _controlled(call)
    if "/" in name:
        raise RestError(404, "HTTP 404 Not Found")
    subscriptions.create_subscription(_service(call), topic, name, kind)


def _on_subscription(operation: Callable[[ScalableTopicService, ScalableTopic, str], None]) -> Callable[[Call], None]:
    """Return an endpoint that applies an operation to the subscription in the path."""

    def do(call: Call) -> None:
        operation(_service(call), _controlled(call), call.path_text("subscription"))

    return do


def _seek(call: Call) -> None:
    timestamp = call.query_number("timestamp") or 0
    subscriptions.seek(_service(call), _controlled(call), call.path_text("subscription"), timestamp)


# -- values ------------------------------------------------------------------------------------------------------------


def _set_policy(call: Call) -> None:
    namespace = call.broker.policies.namespaces.get(call.namespace_name)
    of_namespace = None if namespace is None else namespace.policies.get(AUTO_SCALE_POLICY)
    effective_policy(call.broker.settings, of_namespace, call.body).check()
    topic = _topic(call)
    topic.policy = call.body
    _service(call).publish(topic)


def _remove_policy(call: Call) -> None:
    topic = _topic(call)
    topic.policy = None
    _service(call).publish(topic)


def _permissions(call: Call) -> Any:
    found: dict[str, list[str | None]] = {}
    namespace = call.broker.policies.namespaces.get(call.namespace_name)
    of_topic = call.broker.policies.topic_permissions.get(_topic(call).name, {})
    for table in (of_topic, {} if namespace is None else namespace.permissions):
        for role, actions in table.items():
            found[role] = list(dict.fromkeys([*found.get(role, ()), *actions]))
    return found


def _grant(call: Call) -> None:
    _set_permission(call, call.body)


def _revoke(call: Call) -> None:
    _set_permission(call, None)


def _set_permission(call: Call, actions: list[str | None] | None) -> None:
    """Set the actions of the role in the path, or remove them, and check the connected clients."""
    name, policies = _topic(call).name, call.broker.policies
    permissions = policies.topic_permissions.setdefault(name, {})
    if actions is None:
        permissions.pop(call.path_text("role"), None)
    else:
        permissions[call.path_text("role")] = actions
    policies.on_change(name)
    policies.on_change(call.namespace_name)


def _endpoint(method: str, path: str, function: Callable[[Call], Any], text: str, **more: Any) -> Endpoint:
    return Endpoint(method, path, function, text, setting="scalableTopicsEnabled", **more)


_SEGMENT: Final = {"segment": 64}

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    _endpoint("GET", _SPACE, _list, "names of the scalable topics of a namespace, with all given properties"),
    _endpoint("GET", _TOPIC, _metadata, "layout and properties of a scalable topic"),
    _endpoint("PUT", _TOPIC, _create, "create a scalable topic", body=STRING_MAP, numbers={"numInitialSegments": 32}),
    _endpoint("DELETE", _TOPIC, _delete, "delete a scalable topic and its segments"),
    _endpoint("POST", f"{_TOPIC}/migrate", _migrate, "make a classic topic scalable"),
    _endpoint("GET", f"{_TOPIC}/stats", _stats, "statistics of a scalable topic"),
    _endpoint(
        "GET", f"{_TOPIC}/segments/{{segment}}/stats", _segment_stats, "statistics of a segment", numbers=_SEGMENT
    ),
    _endpoint("POST", f"{_TOPIC}/split/{{segment}}", _split, "split a segment", numbers=_SEGMENT),
    _endpoint(
        "POST",
        f"{_TOPIC}/merge/{{segment}}/{{other}}",
        _merge,
        "merge two segments",
        numbers={"segment": 64, "other": 64},
    ),
    _endpoint(
        "POST",
        f"{_TOPIC}/rebucket/{{segment}}",
        _rebucket,
        "change the number of entry buckets of a segment",
        numbers={"segment": 64, "bucketCount": 32},
    ),
    _endpoint("PUT", _SUBSCRIPTION, _create_subscription, "create a subscription on all active segments"),
    _endpoint("DELETE", _SUBSCRIPTION, _on_subscription(subscriptions.delete_subscription), "delete a subscription"),
    _endpoint(
        "POST", f"{_SUBSCRIPTION}/seek", _seek, "move a subscription to a publish time", numbers={"timestamp": 64}
    ),
    _endpoint(
        "POST",
        f"{_SUBSCRIPTION}/skip-all",
        _on_subscription(subscriptions.skip_all),
        "acknowledge all messages on a subscription",
    ),
    _endpoint(
        "GET",
        f"{_TOPIC}/autoScalePolicy",
        lambda call: Reply(200, _topic(call).policy),
        "values of a topic for automatic changes of its layout",
    ),
    _endpoint("POST", f"{_TOPIC}/autoScalePolicy", _set_policy, "set these values", body=AUTO_SCALE),
    _endpoint("DELETE", f"{_TOPIC}/autoScalePolicy", _remove_policy, "remove these values"),
    _endpoint("GET", f"{_TOPIC}/permissions", _permissions, "permissions by role, of the topic and its namespace"),
    _endpoint(
        "POST",
        f"{_TOPIC}/permissions/{{role}}",
        _grant,
        "set the permissions of a role on a scalable topic",
        body=AUTH_ACTIONS,
    ),
    _endpoint("DELETE", f"{_TOPIC}/permissions/{{role}}", _revoke, "remove the permissions of a role"),
)
