"""WATCH_SCALABLE_TOPICS: the names of scalable topics in a namespace, and their changes.

Rules of this file (measured on 5.0.1)
1. The first update has all names (an empty snapshot if there are none, also for a namespace that does not exist); later
   updates have the names that were added or removed.
2. A topic matches filters if it has all given properties with the same values.
3. A second watcher with the same id is another watcher: each change is sent twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from pcli.codec.proto import pb

if TYPE_CHECKING:
    from pcli.minibroker.scalable.scalable_topic import ScalableTopic
    from pcli.minibroker.scalable.subscription_coordinator import Client


def matches(properties: Mapping[str, str], filters: Mapping[str, str]) -> bool:
    """Return whether properties contain all filters."""
    return filters.items() <= properties.items()


class _Watcher(NamedTuple):
    client: Client
    id: int
    prefix: str
    """``topic://tenant/namespace/``."""
    filters: Mapping[str, str]


class ScalableTopicWatchers:
    """All watchers of a broker."""

    def __init__(self, topics: Mapping[str, ScalableTopic]) -> None:
        self._topics = topics
        self._watchers: list[_Watcher] = []

    def add(self, client: Client, watch_id: int, namespace: str, filters: Mapping[str, str]) -> None:
        """Add a watcher of a namespace (``tenant/namespace``), and send the names."""
        watcher = _Watcher(client, watch_id, f"topic://{namespace}/", filters)
        self._watchers.append(watcher)
        found = [
            name
            for name, topic in self._topics.items()
            if name.startswith(watcher.prefix) and matches(topic.properties, filters)
        ]
        snapshot = pb.ScalableTopicsSnapshot(topics=sorted(found))
        client.send_command(pb.CommandWatchScalableTopicsUpdate(watch_id=watch_id, snapshot=snapshot))

    def remove(self, client: Client, watch_id: int) -> None:
        """Remove a watcher with an id. An unknown id has no effect."""
        found = next((one for one in self._watchers if one.client is client and one.id == watch_id), None)
        if found is not None:
            self._watchers.remove(found)

    def connection_closed(self, client: Client) -> None:
        """Remove the watchers of a connection."""
        self._watchers = [one for one in self._watchers if one.client is not client]

    def changed(self, name: str, properties: Mapping[str, str], *, deleted: bool = False) -> None:
        """Notify the watchers of a new or deleted topic."""
        for one in self._watchers:
            if name.startswith(one.prefix) and matches(properties, one.filters):
                change = pb.ScalableTopicsDiff(removed=[name]) if deleted else pb.ScalableTopicsDiff(added=[name])
                one.client.send_command(pb.CommandWatchScalableTopicsUpdate(watch_id=one.id, diff=change))
