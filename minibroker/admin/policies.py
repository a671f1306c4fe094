"""Policies of namespaces and topics: endpoints for each row of the policy table, and for backlog quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, Reply, RestError
from pcli.minibroker.policies.backlog_quotas import AGE, SIZE, exceeds_retention, read_quota
from pcli.minibroker.policies.policy_table import POLICIES, Policy
from pcli.minibroker.policies.policy_types import BACKLOG_QUOTA
from pcli.minibroker.versions import WITH_REPLICATOR

if TYPE_CHECKING:
    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.broker import Broker
    from pcli.minibroker.policies.policy_store import Namespace

_SPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"


_NO_NAMESPACE: Final = "Namespace does not exist"
_NO_POLICIES: Final = "Namespace policies does not exist"
_MISSING: Final = {
    **dict.fromkeys(
        (
            "deduplicationSnapshotInterval",
            "delayedDelivery",
            "inactiveTopicPolicies",
            "maxSubscriptionsPerTopic",
            "maxTopicsPerNamespace",
            "retention",
        ),
        (_NO_NAMESPACE, _NO_POLICIES),
    ),
    "dispatcherPauseOnAckStatePersistent": (_NO_POLICIES, _NO_NAMESPACE),
    "persistence/bookieAffinity": ("Namespace not found", "Namespace not found"),
    "replicatorDispatchRate": (_NO_POLICIES, ""),
}
"""The errors for a missing namespace of requests that read, and that change, a policy."""


_REPLICATOR_QUERY: Final = "allowAutoUpdateSchemaWithReplicator"
"""The query parameter with which `isAllowAutoUpdateSchema` sets another policy, in some versions."""


def _given(value: Any, *, no_content: bool) -> Reply:
    """Return the value, or an empty response if it is None."""
    return Reply(204 if value is None and no_content else 200, value)


# -- namespaces --------------------------------------------------------------------------------------------------------


def _of_namespace(policy: Policy) -> Iterator[Endpoint]:
    path, what = f"{_SPACE}/{policy.name}", f"{policy.json}{' (stored only)' if policy.stored_only else ''}"
    missing = _MISSING.get(policy.name, (_NO_NAMESPACE, _NO_NAMESPACE))

    def read(call: Call) -> Reply:
        value = call.namespace(missing[0]).policies.get(policy.name, policy.unset)
        return _given(value, no_content=policy.name_no_content)

    def put(call: Call) -> None:
        value = policy.read(call.body, call.broker.settings)  # an error is reported before a missing namespace
        with_replicator = _with_replicator(call, value) if policy.name == "isAllowAutoUpdateSchema" else None
        space = call.namespace(missing[1])
        if with_replicator is not None:
            space.stored[WITH_REPLICATOR] = with_replicator
        if policy.name == "retention" and value is not None:
            _check_retention_of_namespace(call.broker, space, value)
        call.broker.policies.set_namespace(space.name, policy.name, value)

    def remove(call: Call) -> None:
        call.broker.policies.unset_namespace(call.namespace(missing[1]).name, policy.name)

    yield Endpoint("GET", path, read, f"policy {what}", setting=policy.setting)
    yield Endpoint(policy.verb, path, put, f"set policy {what}", policy.kind, setting=policy.setting)
    if not policy.keep:
        yield Endpoint("DELETE", path, remove, f"remove policy {what}", setting=policy.setting)


def _with_replicator(call: Call, value: bool) -> bool | None:
    """Return whether replicators may add schemas, or None if the request does not contain it. Raises 400."""
    if WITH_REPLICATOR not in call.broker.version.namespace_fields or _REPLICATOR_QUERY not in call.query:
        return None
    given = call.flag(_REPLICATOR_QUERY)
    if value and not given:
        raise RestError(400, "Can not enable for all producers but denies for replicators, which is meaningless")
    return given


# -- topics ------------------------------------------------------------------------------------------------------------


def _of_topic(policy: Policy) -> Iterator[Endpoint]:
    path, what = (
        f"{_TOPIC}/{policy.topic}",
        f"{policy.topic} of a topic{' (stored only)' if policy.stored_only else ''}",
    )

    def read(call: Call) -> Reply:
        name, policies = call.topic_with_policies(), call.broker.policies
        if call.flag("applied"):
            return _given(policies.policy(name, policy.topic), no_content=policy.no_content)
        values = policies.topics.get(str(name.base))
        value = None if values is None else values.get(policy.topic)
        if value is None and not (values is None and policy.no_content):
            value = policy.topic_unset
        return _given(value, no_content=policy.no_content)

    def put(call: Call) -> None:
        body = call.query_number(policy.topic) if policy.in_query else call.body
        name = call.topic_with_policies()
        if policy.topic == "retention" and body is not None:
            _check_retention_of_topic(call.broker, name, policy.read_topic(body, call.broker.settings))
        call.broker.policies.set_topic(name, policy.topic, body)

    def remove(call: Call) -> None:
        call.broker.policies.unset_topic(call.topic_with_policies(), policy.topic)

    yield Endpoint("GET", path, read, f"policy {what}")
    kind = None if policy.in_query else policy.topic_kind or policy.kind
    numbers = {policy.topic: 32} if policy.in_query else {}
    yield Endpoint(policy.topic_verb, path, put, f"set policy {what}", kind, numbers=numbers)
    if not policy.topic_keep:
        yield Endpoint("DELETE", path, remove, f"remove policy {what}")


def _all() -> Iterator[Endpoint]:
    ways: tuple[tuple[str, Callable[[Policy], Iterator[Endpoint]]], ...] = (
        ("name", _of_namespace),
        ("topic", _of_topic),
    )
    for level, make in ways:
        for policy in POLICIES:
            if getattr(policy, level):
                yield from make(policy)


_POLICIES: Final = tuple(_all())


_NO_RETENTION: Final = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}


def _type(call: Call) -> str:
    kind = call.query.get("backlogQuotaType") or SIZE
    if kind not in (SIZE, AGE):
        raise PageError(404)
    return kind


# -- namespaces --------------------------------------------------------------------------------------------------------


def _set_quota_of_namespace(call: Call) -> None:
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


def _unset_quota_of_namespace(call: Call) -> None:
    call.namespace("Namespace policies does not exist").quotas.pop(_type(call), None)


def _check_retention_of_namespace(broker: Broker, space: Namespace, retention: Any) -> None:
    """Raise 412 if the quota of a namespace exceeds a new retention."""
    quota = space.quotas.get(SIZE) or broker.policies.default_quota
    if space.quotas and exceeds_retention(quota, retention):
        raise RestError(412, "Retention Quota must exceed configured backlog quota for namespace.")


# -- topics ------------------------------------------------------------------------------------------------------------


def _quotas_of_topic(call: Call) -> Any:
    name, policies = call.topic_with_policies(), call.broker.policies
    quotas = policies.quotas.get(str(name.base), {})
    if quotas or not call.flag("applied"):
        return quotas
    space = call.namespace()
    # On a real broker, this request also stores the default as the quotas of the namespace.
    space.quotas = space.quotas or dict.fromkeys((SIZE, AGE), policies.default_quota)
    return space.quotas


def _set_quota_of_topic(call: Call) -> None:
    kind, name, policies = _type(call), call.topic_with_policies(), call.broker.policies
    if call.body is None:
        _unset_quota_of_topic(call)
        return
    quota = read_quota(call.body, call.namespace_name)
    if exceeds_retention(quota, policies.policy(name, "retention")):
        text = "Backlog Quota exceeds configured retention quota for topic. Please increase retention quota and retry"
        raise RestError(412, text)
    policies.quotas.setdefault(str(name.base), {})[kind] = quota


def _unset_quota_of_topic(call: Call) -> None:
    call.broker.policies.quotas.get(str(call.topic_with_policies().base), {}).pop(_type(call), None)


def _check_retention_of_topic(broker: Broker, name: TopicName, retention: Any) -> None:
    """Raise 412 if a quota of a topic exceeds a new retention."""
    if any(exceeds_retention(broker.policies.backlog_quota(name, kind), retention) for kind in (SIZE, AGE)):
        text = (
            "Retention Quota must exceed configured backlog quota for topic. Please increase retention quota and retry"
        )
        raise RestError(412, text)


_QUOTAS: Final = (
    Endpoint("GET", f"{_SPACE}/backlogQuotaMap", lambda call: call.namespace().quotas, "backlog quotas"),
    Endpoint("POST", f"{_SPACE}/backlogQuota", _set_quota_of_namespace, "set a backlog quota", BACKLOG_QUOTA),
    Endpoint("DELETE", f"{_SPACE}/backlogQuota", _unset_quota_of_namespace, "remove a backlog quota"),
    Endpoint("GET", f"{_TOPIC}/backlogQuotaMap", _quotas_of_topic, "backlog quotas of a topic"),
    Endpoint("POST", f"{_TOPIC}/backlogQuota", _set_quota_of_topic, "set a backlog quota of a topic", BACKLOG_QUOTA),
    Endpoint("DELETE", f"{_TOPIC}/backlogQuota", _unset_quota_of_topic, "remove a backlog quota of a topic"),
)

ENDPOINTS: Final = (*_POLICIES, *_QUOTAS)
