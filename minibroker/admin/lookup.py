"""Lookups over HTTP (TopicLookup): the URLs of the broker that serves a topic, and the topic's bundle."""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.scalable import SegmentName
from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, Reply, RestError, unexpected
from pcli.minibroker.policies.policy_store import Namespace

_TOPIC: Final = "/{domain}/{tenant}/{namespace}/{topic}"
_SCALABLE: Final = "/{scalable_domain}/{tenant}/{namespace}/{topic}"
_SETTING: Final = "scalableTopicsEnabled"
_PACKAGE: Final = "org.apache.pulsar.broker"


def _lookup(call: Call) -> Any:
    name = call.topic_name
    if name.domain == "segment" and SegmentName.parse(str(name)) is None:
        raise PageError(500)
    if call.broker.settings.maxConcurrentLookupRequest <= 0:
        raise PageError(503)
    call.owned_namespace()
    registry = call.broker.topic_registry
    settings = call.broker.settings
    if not (settings.enablePersistentTopics if name.persistent else settings.enableNonPersistentTopics):
        raise PageError(503)
    listener = call.headers.get("x-pulsar-listenername") or call.query.get("listenerName", "")
    if listener:
        raise unexpected(f"the broker do not have {listener} listener", f"{_PACKAGE}.PulsarServerException")
    broker = call.broker
    checked = name.persistent or broker.version.rest_lookup_checks_non_persistent
    exists = registry.exists(name) or str(name) in broker.scalable_topics.topics
    if checked and not exists and not registry.may_create(name):
        raise RestError(404, broker.version.rest_lookup_of_missing_topic.format(name))
    registry.look_up(name)
    urls = {
        "brokerUrl": broker.service_url,
        "brokerUrlTls": broker.service_url_tls,
        "httpUrl": broker.http_url,
        "httpUrlTls": broker.http_url_tls,
    }
    return {
        **({"brokerId": broker.address} if broker.version.names_broker_in_lookup else {}),
        **{name: url for name, url in urls.items() if url},
        "nativeUrl": broker.service_url,
        "brokerUrlSsl": "",
    }


def _bundle(call: Call) -> Reply:
    namespace = call.broker.policies.namespaces.get(call.namespace_name) or Namespace(call.namespace_name, bundles=1)
    return Reply(200, namespace.bundle(str(call.topic_name)).encode())


ENDPOINTS: Final = (
    Endpoint("GET", f"/lookup/v2/topic{_TOPIC}", _lookup, "the URLs of the broker that serves a topic"),
    Endpoint("GET", f"/lookup/v2/topic{_TOPIC}/bundle", _bundle, "the bundle of a topic"),
    Endpoint(
        "GET",
        f"/lookup/v2/topic{_SCALABLE}",
        _lookup,
        "the URLs of the broker that serves a scalable topic or segment",
        setting=_SETTING,
    ),
    Endpoint(
        "GET",
        f"/lookup/v2/topic{_SCALABLE}/bundle",
        _bundle,
        "the bundle of a scalable topic or segment",
        setting=_SETTING,
    ),
)
