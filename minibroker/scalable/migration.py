"""The migration of a classic topic to a scalable topic.

Rules of this file (measured on 5.0.1)
1. The partitions, or the topic itself, become sealed segments. New segments, one for each, are their children. The
   sealed segments keep their messages and subscriptions; the new segments have none.
2. Connected producers and consumers of old clients prevent the migration, unless it is forced. V5 clients mark their
   producers and consumers on classic topics in the metadata.
3. Sessions of the name get the new layout. Then the classic topics are terminated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.codec.scalable.segment_name import classic_namesake
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.errors import Refused
from pcli.minibroker.scalable import layout_changes
from pcli.minibroker.scalable.scalable_topic import ScalableTopic

if TYPE_CHECKING:
    from pcli.minibroker.scalable.scalable_broker import ScalableBroker
    from pcli.minibroker.scalable.scalable_topic_service import ScalableTopicService

_MARK: Final = "__pulsar.v5.managed"
"""The key in the metadata of producers and consumers of V5 clients."""


def migrate(service: ScalableTopicService, broker: ScalableBroker, name: str, *, force: bool = False) -> None:
    """Migrate the classic topic with the name of a scalable topic (``topic://…``).

    Raises Refused: TopicNotFound if there is no classic topic, and NotAllowedError if the topic is scalable already or
    has clients.
    """
    if name in service.topics:
        raise Refused(pb.NotAllowedError, f"Topic is already scalable: {name}")
    classic, registry = TopicName.parse(classic_namesake(name)), broker.topic_registry
    if not registry.exists(classic):
        raise Refused(pb.TopicNotFound, f"Topic does not exist: {classic}")
    names = service.classic_topics(name)
    topics = [registry.load(one) or registry.create(one) for one in map(TopicName.parse, names)]
    metadata = [one.metadata for topic in topics for one in topic.producers.values()]
    metadata += [one.metadata for topic in topics for one in topic.consumers]
    old = sum(one.get(_MARK) != "true" for one in metadata)
    if old and not force:
        clients = f"{old} legacy v4 client connection(s) still attached to {classic}"
        remedy = "disconnect them (or all clients are V5) before migrating, or retry with force=true"
        raise Refused(pb.NotAllowedError, f"{clients}; {remedy}")
    layout = layout_changes.migrated(names, broker.settings.scalableTopicEntryBucketBudget, broker.now)
    service.add(ScalableTopic(name, layout))
    for topic in topics:
        broker.terminate(topic)
