"""The clusters and shadow topics of a topic, and values of its subscriptions (PersistentTopicsBase of 4.2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, RestError
from pcli.minibroker.admin.topics.topics import SHADOW_TOPICS_DISABLED
from pcli.minibroker.policies.java_types import BOOLEAN, STRING_LIST
from pcli.minibroker.policies.policy_types import DISPATCH_RATE

if TYPE_CHECKING:
    from pcli.minibroker.policies.policy_store import TopicValues

_TOPIC: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
_REPLICATED: Final = f"{_TOPIC}/subscription/{{subscription}}/replicatedSubscriptionStatus"
_RATE: Final = f"{_TOPIC}/{{subscription}}/dispatchRate"


def _values(call: Call) -> TopicValues:
    return call.broker.policies.values_of(call.topic_with_policies())


def _clusters(call: Call) -> Reply:
    clusters = _values(call).clusters
    if clusters is None and call.flag("applied"):
        clusters = call.namespace().clusters
    return Reply(200, clusters)


def _set_clusters(call: Call) -> None:
    values, clusters = _values(call), call.broker.policies
    if not call.body:
        raise RestError(412, "ClusterIds should not be null or empty")
    if clusters.settings.clusterName not in call.body:
        text = "Can not remove local cluster from the local topic-level replication clusters policy"
        raise RestError(412, text)
    for cluster in call.body:
        if cluster not in clusters.clusters:
            raise RestError(403, f"Invalid cluster id: {'null' if cluster is None else cluster}")
    values.clusters = list(dict.fromkeys(call.body))


def _unset_clusters(call: Call) -> None:
    _values(call).clusters = None


def _rate(call: Call) -> Reply:
    name = call.path_text("subscription")
    found = _values(call).dispatch_rates.get(name)
    if call.flag("applied"):
        found = call.broker.policies.subscription_dispatch_rate(call.topic_name, name)
    return Reply(200, found)


def _set_rate(call: Call) -> None:
    """Set the rate. A rate without limits, and null, have no effect, as on the real broker."""
    values = _values(call)
    rate = call.body or {}
    if any(rate.get(f"dispatchThrottlingRateIn{unit}", 0) > 0 for unit in ("Msg", "Byte")):
        values.dispatch_rates[call.path_text("subscription")] = call.body
        call.broker.policies.on_change(str(call.topic_name.base))


def _unset_rate(call: Call) -> None:
    _values(call).dispatch_rates.pop(call.path_text("subscription"), None)
    call.broker.policies.on_change(str(call.topic_name.base))


def _replicated(call: Call) -> Any:
    if not call.topic_name.persistent:
        raise RestError(405, "Cannot get replicated subscriptions on non-persistent topics")
    name, topics = call.path_text("subscription"), call.topics()
    having = [topic for topic in topics if name in topic.subscriptions]
    if not having:
        raise RestError(404, f"Subscription {name} not found for topic {call.topic_name}")
    return {topic.full_name: topic.subscriptions[name].replicated for topic in having}


def _set_replicated(call: Call) -> None:
    if not call.topic_name.persistent:
        raise RestError(405, "Cannot enable/disable replicated subscriptions on non-persistent topics")
    for topic in call.topics():
        call.subscription(topic).replicated = call.body


_VALUES: Final = (
    Endpoint("GET", f"{_TOPIC}/replication", _clusters, "the clusters of a topic (stored only)"),
    Endpoint("POST", f"{_TOPIC}/replication", _set_clusters, "set the clusters of a topic", STRING_LIST),
    Endpoint("DELETE", f"{_TOPIC}/replication", _unset_clusters, "remove the clusters of a topic"),
    Endpoint("GET", _RATE, _rate, "the dispatch rate of a subscription"),
    Endpoint("POST", _RATE, _set_rate, "set the dispatch rate of a subscription", DISPATCH_RATE),
    Endpoint("DELETE", _RATE, _unset_rate, "remove the dispatch rate of a subscription"),
    Endpoint("GET", _REPLICATED, _replicated, "whether a subscription is replicated (stored only)"),
    Endpoint("POST", _REPLICATED, _set_replicated, "set whether a subscription is replicated", BOOLEAN),
)


_SHADOWS: Final = f"{_TOPIC}/shadowTopics"


def _shadow_topics(call: Call) -> Reply:
    return Reply(200, call.broker.policies.values_of(call.topic_with_policies()).shadow_topics)


def _set_shadow_topics(call: Call) -> None:
    name = call.topic_with_policies()
    if not call.broker.settings.enableShadowTopics:
        raise RestError(405, SHADOW_TOPICS_DISABLED)
    if not name.persistent:
        raise RestError(412, "Only persistent source topic is supported with shadow topics.")
    if not call.body:
        raise RestError(412, "Cannot specify empty shadow topics, please use remove command instead.")
    for shadow in call.body:
        _check_shadow_topic(call, shadow)
    call.broker.policies.values_of(name).shadow_topics = list(dict.fromkeys(call.body))
    call.broker.policies.on_change(str(name.base))


def _check_shadow_topic(call: Call, text: str) -> None:
    """Raise 403 or 412 if a topic cannot be a shadow topic."""
    try:
        name = TopicName.parse(text)
    except LocalError:
        raise RestError(403, f"Invalid shadow topic name: {text}") from None
    if not name.persistent:
        raise RestError(412, "Only persistent topic can be set as shadow topic")
    if not call.broker.topic_registry.exists(name):
        raise RestError(412, f"Shadow topic [{text}] not exists.")


def _remove_shadow_topics(call: Call) -> None:
    call.broker.policies.values_of(call.topic_with_policies()).shadow_topics = None


_SHADOW_TOPICS: Final = (
    Endpoint("GET", _SHADOWS, _shadow_topics, "shadow topics of a topic"),
    Endpoint("PUT", _SHADOWS, _set_shadow_topics, "set the shadow topics", STRING_LIST),
    Endpoint("DELETE", _SHADOWS, _remove_shadow_topics, "remove the shadow topics"),
)

ENDPOINTS: Final = (*_VALUES, *_SHADOW_TOPICS)
