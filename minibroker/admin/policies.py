"""Policies of namespaces and topics: endpoints to read, set and remove each row of the policy table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pcli.minibroker.admin.backlog_quotas import check_retention_of_namespace, check_retention_of_topic
from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply
from pcli.minibroker.policies.policy_table import POLICIES, Policy

__all__ = ["ENDPOINTS"]

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
        space = call.namespace(missing[1])
        if policy.name == "retention" and value is not None:
            check_retention_of_namespace(call.broker, space, value)
        call.broker.policies.set_namespace(space.name, policy.name, value)

    def remove(call: Call) -> None:
        call.broker.policies.unset_namespace(call.namespace(missing[1]).name, policy.name)

    yield Endpoint("GET", path, read, f"policy {what}")
    yield Endpoint(policy.verb, path, put, f"set policy {what}", policy.kind)
    if not policy.keep:
        yield Endpoint("DELETE", path, remove, f"remove policy {what}")


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
            check_retention_of_topic(call.broker, name, policy.read_topic(body, call.broker.settings))
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


ENDPOINTS: Final = tuple(_all())
