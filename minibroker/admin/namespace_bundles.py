"""Bundles of a namespace: unsubscribe, clear the backlog, list topics, split (NamespacesBase and others of 4.2.4).

Rules of this file
1. At first, the bundles of a namespace are equal parts of the hash range. A split divides a bundle. A deleted bundle is
   served again after the next lookup.
2. The algorithms other than range_equally_divide split a bundle with at least two topics. flow_or_qps_equally_divide
   requires a load that this broker does not measure, so it never splits a bundle.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.admin.endpoint import Call, Endpoint, PageError, Reply, RestError, unexpected
from pcli.minibroker.policies.java_types import LONG_LIST

if TYPE_CHECKING:
    from pcli.minibroker.policies.policy_store import Namespace
    from pcli.minibroker.topics.topic import Topic

_SPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_BUNDLE: Final = f"{_SPACE}/{{bundle}}"
_SPECIFIED: Final = "specified_positions_divide"
_BY_TOPICS: Final = "topic_count_equally_divide"
_ALGORITHMS: Final = ("range_equally_divide", _BY_TOPICS, _SPECIFIED, "flow_or_qps_equally_divide")
_RANGE: Final = re.compile(r"0x([0-9a-fA-F]{1,8})_0x([0-9a-fA-F]{1,8})")


def bundle_in_path(call: Call) -> str:
    """Return the bundle in the path. Raises 412 if the namespace has no such bundle."""
    space = call.owned_namespace()
    return existing_bundle(call, space.boundaries)


def existing_bundle(call: Call, boundaries: list[str]) -> str:
    """Return the bundle in the path. Raises 412 if it is not between two of the namespace's boundaries."""
    name, text = call.namespace_name, call.path_text("bundle")
    found = _RANGE.fullmatch(text)
    if found is None:
        raise RestError(412, f"Invalid bundle range: {text}")
    low, high = (int(edge, 16) for edge in found.groups())
    if low > high:
        raise RestError(412, f"Invalid range: [{low}..{high})")
    ends = dict(pairwise(boundaries))
    bundle = f"0x{low:08x}_0x{high:08x}"
    end = ends.get(f"0x{low:08x}")
    if end is None:
        raise RestError(412, f"Cannot find bundle {name}/{bundle} in the bundles list")
    if end != f"0x{high:08x}":
        expected = f"Expected upper boundary of {name}/0x{low:08x}_{end}"
        raise RestError(412, f"Invalid upper boundary for bundle {name}/{bundle}. {expected}")
    return bundle


def _topics(call: Call) -> list[Topic]:
    """Return the loaded topics of the namespace in the path, or of its bundle if the path contains one."""
    return _topics_of_bundle(call, bundle_in_path(call)) if "bundle" in call.path else call.loaded_topics()


def _topics_of_bundle(call: Call, bundle: str) -> list[Topic]:
    space = call.namespace()
    return [topic for topic in call.loaded_topics() if space.bundle(topic.full_name) == bundle]


def _unsubscribe(call: Call) -> None:
    name = call.path_text("subscription")
    for topic in _topics(call):
        if (subscription := topic.subscriptions.get(name)) is not None:
            if subscription.consumers:
                raise RestError(412, "Subscription has active connected consumers")
            topic.remove_subscription(subscription)


def _clear(call: Call) -> None:
    wanted = call.path.get("subscription")
    for topic in _topics(call):
        for subscription in list(topic.subscriptions.values()):
            if wanted is None or subscription.name == call.path_text("subscription"):
                subscription.skip_all()


def _clear_subscription(call: Call) -> None:
    if not call.broker.version.clears_subscription_backlog:
        raise PageError(404)
    if call.path_text("subscription").startswith(call.broker.settings.replicatorPrefix):
        raise RestError(403, "Clearing the backlog of a replicator cursor is not allowed for this request")
    _clear(call)


def _names(call: Call) -> Any:
    """Return the non-persistent topics of a bundle. The response is a 204 if the bundle was never looked up."""
    topics = _topics(call)
    if f"{call.namespace_name}/{bundle_in_path(call)}" not in call.broker.topic_registry.served_bundles:
        return Reply(204)
    return [topic.full_name for topic in topics if not topic.name.persistent]


def check_deletable(call: Call, space: Namespace, reason: str = "") -> None:
    """Raise 307 if a different cluster deletes a namespace or bundle.

    Raises 412 if the namespace has several clusters, and 404 if the cluster does not exist.
    """
    if len(space.clusters) != 1 or len(space.allowed_clusters) > 1:
        text = f"Cannot delete the global namespace {space.name}. There are still more than one replication clusters"
        raise RestError(412, f"{text} configured{reason}.")
    name = space.clusters[0]
    if name == call.broker.settings.clusterName:
        return
    cluster = call.broker.policies.clusters.get(name)
    if cluster is None:
        raise RestError(404, f"Cluster {name} does not exist")
    if not cluster.data.get("serviceUrl"):
        text = 'Cannot invoke "String.length()" because "spec" is null'
        raise unexpected(text, "java.net.MalformedURLException")
    raise call.redirection(cluster, "authoritative=false")


def _delete(call: Call) -> None:
    space, registry = call.namespace(), call.broker.topic_registry
    check_deletable(call, space)
    bundle = bundle_in_path(call)
    if f"{space.name}/{bundle}" not in registry.served_bundles:
        raise RestError(412, f"Failed to find ownership for ServiceUnit:{space.name}/{bundle}")
    if any(space.bundle(name) == bundle for name in registry.names(space.name, system=True)):
        raise RestError(409, "Cannot delete non empty bundle")
    registry.forget_namespace(space.name, bundle)


def _split(call: Call) -> None:
    space = call.owned_namespace()
    algorithm = call.query.get("splitAlgorithmName", "").strip()
    if algorithm and algorithm not in _ALGORITHMS:
        supported = f"[{', '.join(_ALGORITHMS)}]"
        raise RestError(412, f"Unsupported namespace bundle split algorithm, supported algorithms are {supported}")
    if algorithm == _SPECIFIED and not call.body:
        raise RestError(412, f"With {_SPECIFIED} split algorithm, splitBoundaries must not be empty")
    bundle = _busiest(call, space) if call.path_text("bundle") in ("LARGEST", "HOT") else bundle_in_path(call)
    low, high = (int(edge, 16) for edge in bundle.split("_"))
    topics = _topics_of_bundle(call, bundle)
    hashes = sorted(zlib.crc32(topic.full_name.encode()) for topic in topics)
    edges = _new_edges(algorithm or _ALGORITHMS[0], low, high, hashes, call.body or [])
    if call.flag("unload"):
        for topic in topics:
            call.broker.unload(topic)
    space.edges = sorted({*space.edges, *edges})
    parts = pairwise(f"0x{edge:08x}" for edge in sorted({low, *edges, high}))
    call.broker.topic_registry.serve(space.name, [f"{start}_{end}" for start, end in parts])


def _busiest(call: Call, space: Namespace) -> str:
    """Return the bundle with the most topics. Raises 404 if there are none, or for a load that is not measured."""
    wanted, names = call.path_text("bundle"), [one.full_name for one in call.loaded_topics() if one.persistent]
    if wanted == "HOT" or not names:
        raise RestError(404, f"Bundle range {wanted} not found")
    return Counter(map(space.bundle, names)).most_common(1)[0][0]


def _new_edges(algorithm: str, low: int, high: int, hashes: list[int], given: list[int]) -> list[int]:
    """Return the edges inside a bundle (NamespaceBundleSplitAlgorithm). ``hashes`` are those of its topics, sorted."""
    if algorithm == _ALGORITHMS[0]:
        return [low + (high - low) // 2]
    if len(hashes) < 2 or algorithm not in (_SPECIFIED, _BY_TOPICS):
        return []
    if algorithm == _SPECIFIED:
        return [edge for edge in given if low < edge < high]
    start = len(hashes) // 2 - 1
    return [hashes[start] + (hashes[start + 1] - hashes[start]) // 2]


def _hash_positions(call: Call) -> Any:
    """Return the hashes of the persistent topics of a bundle, or of the given topic and its partitions."""
    bundle, space, wanted = bundle_in_path(call), call.namespace(), unquote(call.query.get("topics", ""))
    names = [name for name in call.broker.topic_registry.names(space.name) if space.bundle(name) == bundle]
    found = {
        name: zlib.crc32(name.encode())
        for name in names
        if wanted in ("", name) or str(TopicName.parse(name).base) == wanted
    }
    return {"namespace": space.name, "bundle": bundle, "topicHashPositions": found}


ENDPOINTS: Final = (
    Endpoint("PUT", f"{_BUNDLE}/split", _split, "split a bundle", LONG_LIST),
    Endpoint("GET", f"{_BUNDLE}/topicHashPositions", _hash_positions, "the hashes of the topics of a bundle"),
    Endpoint("POST", f"{_SPACE}/unsubscribe/{{subscription}}", _unsubscribe, "delete the subscriptions with a name"),
    Endpoint("POST", f"{_BUNDLE}/unsubscribe/{{subscription}}", _unsubscribe, "delete subscriptions in a bundle"),
    Endpoint("POST", f"{_BUNDLE}/clearBacklog", _clear, "acknowledge all messages in a bundle"),
    Endpoint("POST", f"{_BUNDLE}/clearBacklog/{{subscription}}", _clear, "acknowledge messages in a bundle"),
    Endpoint(
        "POST",
        f"{_BUNDLE}/clearSubscriptionBacklog/{{subscription}}",
        _clear_subscription,
        "acknowledge messages of a subscription in a bundle (in some versions)",
    ),
    Endpoint("DELETE", _BUNDLE, _delete, "stop serving a bundle without topics"),
    Endpoint("GET", "/admin/v2/non-persistent/{tenant}/{namespace}/{bundle}", _names, "topics of a bundle"),
)
