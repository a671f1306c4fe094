"""Backlog quotas of namespaces and topics (NamespacesBase, PersistentTopicsBase of 4.2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, RestError
from pcli.minibroker.policies.backlog_quotas import AGE, SIZE, exceeds_retention, read_quota
from pcli.minibroker.policies.policy_types import BACKLOG_QUOTA

if TYPE_CHECKING:
    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.broker import Broker
    from pcli.minibroker.policies.policy_store import Namespace

__all__ = ["ENDPOINTS", "check_retention_of_namespace", "check_retention_of_topic"]

_SPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"

_NO_RETENTION: Final = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}


def _type(call: Call) -> str:
    kind = call.query.get("backlogQuotaType") or SIZE
    if kind not in (SIZE, AGE):
        raise PageError(404)
    return kind


# -- namespaces --------------------------------------------------------------------------------------------------------


def _set_of_namespace(call: Call) -> None:
    """Set a quota. Only the quota by size is compared with the retention, as on the real broker."""
    kind, space = _type(call), call.namespace("Namespace policies does not exist")
    quota = read_quota(call.body, space.name)
    compared = quota if kind == SIZE else call.broker.policies.default_quota
    if exceeds_retention(compared, space.policies.get("retention", _NO_RETENTION)):
        text = (
            "Backlog Quota exceeds configured retention quota for namespace. Please increase retention quota and retry"
        )
        raise RestError(412, text)
    space.quotas[kind] = quota


def _unset_of_namespace(call: Call) -> None:
    call.namespace("Namespace policies does not exist").quotas.pop(_type(call), None)


def check_retention_of_namespace(broker: Broker, space: Namespace, retention: Any) -> None:
    """Raise 412 if the quota of a namespace exceeds a new retention."""
    quota = space.quotas.get(SIZE) or broker.policies.default_quota
    if space.quotas and exceeds_retention(quota, retention):
        raise RestError(412, "Retention Quota must exceed configured backlog quota for namespace.")


# -- topics ------------------------------------------------------------------------------------------------------------


def _of_topic(call: Call) -> Any:
    name, policies = call.topic_with_policies(), call.broker.policies
    quotas = policies.quotas.get(str(name.base), {})
    if quotas or not call.flag("applied"):
        return quotas
    space = call.namespace()
    # On a real broker, this request also stores the default as the quotas of the namespace.
    space.quotas = space.quotas or dict.fromkeys((SIZE, AGE), policies.default_quota)
    return space.quotas


def _set_of_topic(call: Call) -> None:
    kind, name, policies = _type(call), call.topic_with_policies(), call.broker.policies
    if call.body is None:
        _unset_of_topic(call)
        return
    quota = read_quota(call.body, call.namespace_name)
    if exceeds_retention(quota, policies.policy(name, "retention")):
        text = "Backlog Quota exceeds configured retention quota for topic. Please increase retention quota and retry"
        raise RestError(412, text)
    policies.quotas.setdefault(str(name.base), {})[kind] = quota


def _unset_of_topic(call: Call) -> None:
    call.broker.policies.quotas.get(str(call.topic_with_policies().base), {}).pop(_type(call), None)


def check_retention_of_topic(broker: Broker, name: TopicName, retention: Any) -> None:
    """Raise 412 if a quota of a topic exceeds a new retention."""
    if any(exceeds_retention(broker.policies.backlog_quota(name, kind), retention) for kind in (SIZE, AGE)):
        text = (
            "Retention Quota must exceed configured backlog quota for topic. Please increase retention quota and retry"
        )
        raise RestError(412, text)


ENDPOINTS: Final = (
    Endpoint("GET", f"{_SPACE}/backlogQuotaMap", lambda call: call.namespace().quotas, "backlog quotas"),
    Endpoint("POST", f"{_SPACE}/backlogQuota", _set_of_namespace, "set a backlog quota", BACKLOG_QUOTA),
    Endpoint("DELETE", f"{_SPACE}/backlogQuota", _unset_of_namespace, "remove a backlog quota"),
    Endpoint("GET", f"{_TOPIC}/backlogQuotaMap", _of_topic, "backlog quotas of a topic"),
    Endpoint("POST", f"{_TOPIC}/backlogQuota", _set_of_topic, "set a backlog quota of a topic", BACKLOG_QUOTA),
    Endpoint("DELETE", f"{_TOPIC}/backlogQuota", _unset_of_topic, "remove a backlog quota of a topic"),
)
