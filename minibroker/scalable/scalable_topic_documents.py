"""The documents of scalable topics: layouts, properties, policies, subscriptions and registered consumers.

After a restart, no controller is elected, and the registered consumers have no connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from pcli.codec.scalable import Layout, Segment
from pcli.minibroker.errors import decoding
from pcli.minibroker.scalable.scalable_topic import ScalableTopic

if TYPE_CHECKING:
    from pcli.minibroker.scalable.scalable_topic_service import ScalableTopicService

TOPICS: Final = "/topics/"
"""The start of the paths of all documents."""
_FIELDS: Final = ("properties", "policy", "subscription_types")


class ScalableTopicDocuments:
    """The documents of all scalable topics (class Documented)."""

    def __init__(self, service: ScalableTopicService, record: Callable[[], None]) -> None:
        """``record`` records that documents of this object have changed."""
        self._service = service
        self._record = record
        self._changed: set[str] = set()
        """Names of changed topics."""

    def restore(self, documents: Iterable[tuple[str, Any]]) -> None:
        """Add the stored topics, and record changes from now on."""
        for path, value in documents:
            with decoding(path):
                topic = ScalableTopic("topic://" + unquote(path.removeprefix(TOPICS)), _layout(value["layout"]))
                for name in _FIELDS:
                    setattr(topic, name, value[name])
                self._service.restore(topic, value["consumers"])
        self._service.on_change = self._topic_changed

    def _topic_changed(self, name: str) -> None:
        self._changed.add(name)
        self._record()

    def changed_documents(self) -> Iterator[tuple[str, Any]]:
        """Return the documents that have changed, as defined in Documented."""
        changed, self._changed = self._changed, set()
        for name in sorted(changed):
            topic = self._service.topics.get(name)
            yield TOPICS + quote(name.removeprefix("topic://")), None if topic is None else _encode(topic)


def _encode(topic: ScalableTopic) -> dict[str, Any]:
    layout = topic.layout
    return {
        "layout": {"epoch": layout.epoch, "segments": list(layout.segments.values())},
        **{name: getattr(topic, name) for name in _FIELDS},
        "consumers": {
            one.subscription: {name: consumer.kind for name, consumer in one.consumers.items()}
            for one in topic.coordinators.values()
        },
    }


def _layout(value: dict[str, Any]) -> Layout:
    rows = ([tuple(part) if isinstance(part, list) else part for part in row] for row in value["segments"])
    return Layout(value["epoch"], {one.id: one for one in map(Segment._make, rows)}, {})
