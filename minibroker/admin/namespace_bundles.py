"""Bundles of a namespace: unsubscribe, clear the backlog, list topics (NamespacesBase, NonPersistentTopics of 4.2.4).

The bundles of a namespace are equal parts of the hash range. They cannot be split or deleted.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply, RestError
from pcli.minibroker.topic_names import namespace_of

if TYPE_CHECKING:
    from pcli.minibroker.topics.topic import Topic

__all__ = ["ENDPOINTS", "bundle_in_path"]

_SPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_BUNDLE: Final = f"{_SPACE}/{{bundle}}"
_RANGE: Final = re.compile(r"0x([0-9a-fA-F]{1,8})_0x([0-9a-fA-F]{1,8})")


def bundle_in_path(call: Call) -> str:
    """Return the bundle in the path. Raises 412 if the namespace has no such bundle."""
    space, text = call.namespace("Namespace not found"), call.path_text("bundle")
    found = _RANGE.fullmatch(text)
    if found is None:
        raise RestError(412, f"Invalid bundle range: {text}")
    low, high = (int(edge, 16) for edge in found.groups())
    if low > high:
        raise RestError(412, f"Invalid range: [{low}..{high})")
    ends = dict(pairwise(space.boundaries))
    bundle = f"0x{low:08x}_0x{high:08x}"
    end = ends.get(f"0x{low:08x}")
    if end is None:
        raise RestError(412, f"Cannot find bundle {space.name}/{bundle} in the bundles list")
    if end != f"0x{high:08x}":
        expected = f"Expected upper boundary of {space.name}/0x{low:08x}_{end}"
        raise RestError(412, f"Invalid upper boundary for bundle {space.name}/{bundle}. {expected}")
    return bundle


def _topics(call: Call) -> list[Topic]:
    """Return the loaded topics of the namespace in the path, or of its bundle if the path contains one."""
    space = call.namespace("Namespace not found")
    bundle = bundle_in_path(call) if "bundle" in call.path else None
    loaded = [topic for topic in list(call.broker.topics.values()) if namespace_of(topic.name) == space.name]
    return [topic for topic in loaded if bundle is None or space.bundle(topic.full_name) == bundle]


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


def _names(call: Call) -> Any:
    names = [topic.full_name for topic in _topics(call) if not topic.name.persistent]
    return names or Reply(204)


def _delete(call: Call) -> None:
    bundle = bundle_in_path(call)
    raise RestError(412, f"Failed to find ownership for ServiceUnit:{call.namespace_name}/{bundle}")


ENDPOINTS: Final = (
    Endpoint("POST", f"{_SPACE}/unsubscribe/{{subscription}}", _unsubscribe, "delete the subscriptions with a name"),
    Endpoint("POST", f"{_BUNDLE}/unsubscribe/{{subscription}}", _unsubscribe, "delete subscriptions in a bundle"),
    Endpoint("POST", f"{_BUNDLE}/clearBacklog", _clear, "acknowledge all messages in a bundle"),
    Endpoint("POST", f"{_BUNDLE}/clearBacklog/{{subscription}}", _clear, "acknowledge messages in a bundle"),
    Endpoint("DELETE", _BUNDLE, _delete, "rejected: bundles cannot be deleted"),
    Endpoint("GET", "/admin/v2/non-persistent/{tenant}/{namespace}/{bundle}", _names, "topics of a bundle"),
)
