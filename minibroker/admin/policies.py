"""Policies of namespaces and topics: endpoints to read, set and remove each row of the policy table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, RestError, empty_body
from pcli.minibroker.admin.namespace_quotas_and_permissions import quota
from pcli.minibroker.policies.policy_table import POLICIES, Policy

__all__ = ["ENDPOINTS"]

_SPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"


def _given(value: Any, policy: Policy | None = None) -> Reply:
    """Return the value, or an empty response if it is None."""
    empty = 204 if policy is not None and policy.no_content else 200
    return Reply(200 if value is not None else empty, value)


# -- namespaces --------------------------------------------------------------------------------------------------------


def _of_namespace(policy: Policy) -> Iterator[Endpoint]:
    path, what = f"{_SPACE}/{policy.name}", f"{policy.json}{'' if policy.settings else ' (stored only)'}"

    def read(call: Call) -> Reply:
        return _given(call.namespace().policies.get(policy.name, policy.unset))

    def put(call: Call) -> None:
        name = call.namespace("Namespace policies does not exist").name
        call.broker.policies.set_namespace(name, policy.name, _body(call))

    def remove(call: Call) -> None:
        call.broker.policies.unset_namespace(call.namespace("Namespace policies does not exist").name, policy.name)

    yield Endpoint("GET", path, read, f"policy {what}")
    yield Endpoint(policy.verb, path, put, f"set policy {what}")
    if not policy.keep:
        yield Endpoint("DELETE", path, remove, f"remove policy {what}")


def _body(call: Call) -> Any:
    if call.body is None:
        raise empty_body()
    return call.body


# -- topics ------------------------------------------------------------------------------------------------------------


def _topic(call: Call) -> TopicName:
    """Return the name of an existing topic that can have policies. Raises 405 if topic policies are disabled."""
    if not call.broker.settings.topicLevelPoliciesEnabled:
        raise RestError(405, "Topic level policies is disabled, to enable the topic level policy and retry.")
    name = call.topic_name
    if name.partition >= 0 and call.broker.topic_registry.partitions(name.base):
        raise RestError(412, "Not allowed to set/get topic policy for a partition")
    if not call.broker.topic_registry.exists(name):
        raise RestError(404, f"Topic {name} not found")
    return name


def _of_topic(policy: Policy) -> Iterator[Endpoint]:
    path, what = f"{_TOPIC}/{policy.topic}", f"{policy.topic} of a topic{'' if policy.settings else ' (stored only)'}"

    def read(call: Call) -> Reply:
        name, policies = _topic(call), call.broker.policies
        if call.flag("applied"):
            return _given(policies.policy(name, policy.topic), policy)
        value = policies.topics.get(str(name.base), {}).get(policy.topic)
        return _given(False if value is None and policy.either else value, policy)

    def put(call: Call) -> None:
        value = call.query_number(policy.topic) if policy.in_query else _body(call)
        if value is None:
            remove(call)
        else:
            call.broker.policies.set_topic(_topic(call), policy.topic, value)

    def remove(call: Call) -> None:
        call.broker.policies.unset_topic(_topic(call), policy.topic)

    yield Endpoint("GET", path, read, f"policy {what}")
    yield Endpoint(policy.topic_verb, path, put, f"set policy {what}")
    yield Endpoint("DELETE", path, remove, f"remove policy {what}")


def _quotas(call: Call) -> Any:
    return call.broker.policies.quotas.get(str(_topic(call).base), {})


def _set_quota(call: Call) -> None:
    quotas = call.broker.policies.quotas.setdefault(str(_topic(call).base), {})
    quotas[call.query.get("backlogQuotaType", "destination_storage")] = quota(call.body)


def _unset_quota(call: Call) -> None:
    quotas = call.broker.policies.quotas.get(str(_topic(call).base), {})
    quotas.pop(call.query.get("backlogQuotaType", "destination_storage"), None)


def _all() -> Iterator[Endpoint]:
    ways: tuple[tuple[str, Callable[[Policy], Iterator[Endpoint]]], ...] = (
        ("name", _of_namespace),
        ("topic", _of_topic),
    )
    for level, make in ways:
        for policy in POLICIES:
            if getattr(policy, level):
                yield from make(policy)


ENDPOINTS: Final = (
    *_all(),
    Endpoint("GET", f"{_TOPIC}/backlogQuotaMap", _quotas, "backlog quotas of a topic (stored only)"),
    Endpoint("POST", f"{_TOPIC}/backlogQuota", _set_quota, "set a backlog quota of a topic (stored only)"),
    Endpoint("DELETE", f"{_TOPIC}/backlogQuota", _unset_quota, "remove a backlog quota of a topic"),
)
