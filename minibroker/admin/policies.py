"""Policies of namespaces and topics: endpoints to read, set and remove each row of the policy table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pcli.minibroker.admin.backlog_quotas import check_retention_of_namespace, check_retention_of_topic
from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, empty_body
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
        space = call.namespace("Namespace policies does not exist")
        if policy.name == "retention":
            check_retention_of_namespace(call.broker, space, policy.read(policy.name, _body(call)))
        call.broker.policies.set_namespace(space.name, policy.name, _body(call))

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


def _of_topic(policy: Policy) -> Iterator[Endpoint]:
    path, what = f"{_TOPIC}/{policy.topic}", f"{policy.topic} of a topic{'' if policy.settings else ' (stored only)'}"

    def read(call: Call) -> Reply:
        name, policies = call.topic_with_policies(), call.broker.policies
        if call.flag("applied"):
            return _given(policies.policy(name, policy.topic), policy)
        value = policies.topics.get(str(name.base), {}).get(policy.topic)
        return _given(False if value is None and policy.either else value, policy)

    def put(call: Call) -> None:
        value = call.query_number(policy.topic) if policy.in_query else _body(call)
        if value is None:
            remove(call)
        else:
            name = call.topic_with_policies()
            if policy.topic == "retention":
                check_retention_of_topic(call.broker, name, policy.read(policy.topic, value))
            call.broker.policies.set_topic(name, policy.topic, value)

    def remove(call: Call) -> None:
        call.broker.policies.unset_topic(call.topic_with_policies(), policy.topic)

    yield Endpoint("GET", path, read, f"policy {what}")
    yield Endpoint(policy.topic_verb, path, put, f"set policy {what}")
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
