"""The shadow topics of a topic (PersistentTopicsBase)."""

from __future__ import annotations

from typing import Final

from pcli.codec.errors import LocalError
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, RestError
from pcli.minibroker.policies.java_types import STRING_LIST

__all__ = ["ENDPOINTS"]

_SHADOWS: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/shadowTopics"


def _get(call: Call) -> Reply:
    return Reply(200, call.broker.policies.values_of(call.topic_with_policies()).shadow_topics)


def _set(call: Call) -> None:
    name = call.topic_with_policies()
    if not name.persistent:
        raise RestError(412, "Only persistent source topic is supported with shadow topics.")
    if not call.body:
        raise RestError(412, "Cannot specify empty shadow topics, please use remove command instead.")
    for shadow in call.body:
        _check(call, shadow)
    call.broker.policies.values_of(name).shadow_topics = list(dict.fromkeys(call.body))
    call.broker.policies.on_change(str(name.base))


def _check(call: Call, text: str) -> None:
    """Raise 403 or 412 if a topic cannot be a shadow topic."""
    try:
        name = TopicName.parse(text)
    except LocalError:
        raise RestError(403, f"Invalid shadow topic name: {text}") from None
    if not name.persistent:
        raise RestError(412, "Only persistent topic can be set as shadow topic")
    if not call.broker.topic_registry.exists(name):
        raise RestError(412, f"Shadow topic [{text}] not exists.")


def _remove(call: Call) -> None:
    call.broker.policies.values_of(call.topic_with_policies()).shadow_topics = None


ENDPOINTS: Final = (
    Endpoint("GET", _SHADOWS, _get, "shadow topics of a topic"),
    Endpoint("PUT", _SHADOWS, _set, "set the shadow topics", STRING_LIST),
    Endpoint("DELETE", _SHADOWS, _remove, "remove the shadow topics"),
)
