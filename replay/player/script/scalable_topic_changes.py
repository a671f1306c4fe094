"""The creation, changes and deletion of scalable topics on the captured broker, inferred from what clients received.

Rules of this file
1. The first layout of a topic shows how it was created and changed before: the same requests are made before the
   replay. Messages from before the capture are published in a segment before it is replaced. A later layout shows what
   has changed since.
2. A topic is not created if the lookup that received its first layout created it. If a watcher was notified of a new
   or removed topic, the topic is created or deleted at this notification. The changes in the first layout of a new
   topic are made directly after its creation.
3. A change is made before the first captured step that it can have caused: the end of a replaced segment, an assignment
   or a layout with its epoch. If this step responds to a request, the change is made before the request. Otherwise it
   is made only if the live broker does not send the step without it, because brokers also change layouts themselves.
4. A filter of a watcher shows properties of the topics that match.
5. A prune is not repeated: a broker makes it itself.
6. If a topic has a controller although no consumer registered, a REST request was made for it. Its statistics are then
   requested, which has no other effect.
7. If no lookup of the partitions of a classic topic finds it, although the lookup may create it, a scalable topic has
   its name.
8. If no layout of a topic was captured, the segments that clients use are created without the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.proto import pb
from pcli.codec.scalable import Change, Layout, Segment, SegmentName, changes, scalable_topic, selected_topic
from pcli.codec.scalable.segment_name import initial_starts, scalable_namesake
from pcli.codec.wire.texts import as_text
from pcli.codec.wire.topic_name import split_partition
from pcli.replay.player.script.script import SEED_STREAM, TOGETHER_MS, Rename, RestCall, Script, Step, topic_path

_ENDS: Final = ("CLOSE_PRODUCER", "CLOSE_CONSUMER", "REACHED_END_OF_TOPIC")


@dataclass(frozen=True, slots=True)
class TopicChange:
    """One creation, change or deletion during the capture."""

    step: Step
    """The first captured step that it can have caused, or the request before which it is made."""
    topic: str
    call: RestCall
    replaced: tuple[str, ...] = ()
    """The names of the segments that it sealed or deleted."""


@dataclass(slots=True)
class ScalableTopicChanges:
    """All that the capture shows."""

    calls: list[RestCall] = field(default_factory=list)
    """The calls before the replay."""
    changes: list[TopicChange] = field(default_factory=list)


def find_changes(script: Script, rename: Rename = str) -> ScalableTopicChanges:
    """Return the changes of scalable topics. ``rename`` maps captured topic names to the names in the calls."""
    return _Reader(script, rename).read()


class _Reader:
    def __init__(self, script: Script, rename: Rename) -> None:
        self._script, self._rename = script, rename
        self._found = ScalableTopicChanges()
        self._last: dict[str, Layout] = {}
        """The last layout of each topic so far."""
        self._layouts = _layouts(script)
        self._properties = _properties(script)
        self._requests = {step.frame.number: step for step in script.steps if step.frame is not None}
        self._existing: set[str] = set()
        self._controlled: set[str] = set()
        """The topics with a controller."""

    def read(self) -> ScalableTopicChanges:
        for step in self._script.steps:
            if step.layout is not None:
                self._layout(step, selected_topic(step.layout.topic), step.layout.after)
            elif step.frame is not None and step.name in _READERS:
                _READERS[step.name](self, step, step.frame.body)
        segments = list(_used_segments(self._script))
        if self._existing or segments:
            for topic in _taken_names(self._script):
                self._create_topic(topic)
        for name in segments:
            if scalable_topic(name) not in self._layouts:
                self._found.calls.append(RestCall("PUT", self._path(name), []))
        return self._found

    # -- layouts -------------------------------------------------------------------------------------------------------

    def _layout(self, step: Step, topic: str, layout: Layout) -> None:
        before = self._last.get(topic)
        if before is None and not self._created_by(step, layout):
            self._create_topic(topic)
        self._existing.add(topic)
        if before is None or layout.order > before.order:
            self._last[topic] = layout
            for change in changes(before, layout) if before is not None else ():
                replaced = _names(topic, layout, change.before)
                call = self._call(topic, change, layout, change.before, replaced)
                if call is not None:
                    self._add(step, topic, call, replaced, change.epoch)
        if layout.controller and topic not in self._controlled:
            self._controlled.add(topic)
            self._add(step, topic, RestCall("GET", f"{self._path(topic)}/stats"), (), None)

    def _registration(self, _step: Step, command: Any) -> None:
        self._controlled.add(selected_topic(as_text(command.topic)))

    def _registered(self, step: Step, command: Any) -> None:
        if command.HasField("error") and step.request is not None:
            self._controlled.discard(selected_topic(str(step.request.topic)))

    def _created_by(self, step: Step, layout: Layout) -> bool:
        """Return whether the topic was created by the lookup of this response."""
        request = self._requests.get(step.request.number) if step.request is not None else None
        if request is None or request.frame is None or len(layout.segments) != 1 or layout.classic:
            return False
        made = min(one.created_ms for one in layout.segments.values())
        return request.frame.command.scalableTopicLookup.create_if_missing and made + 1 > request.time_ms

    def _creation(self, topic: str, layout: Layout | None) -> RestCall:
        """Return the call that creates a topic as it was before the changes in its first layout."""
        if layout is None:
            return self._create(topic, 1)
        roots = _roots(layout)
        legacy = [one.legacy_topic for one in roots if one.legacy_topic]
        if legacy:
            return self._classic(legacy)
        if [one.start for one in roots] != initial_starts(len(roots)):
            self._script.left_out["layouts whose first segments had been removed"] += 1
        return self._create(topic, max(1, len(roots)))

    def _create(self, topic: str, segments: int) -> RestCall:
        path = f"{self._path(topic)}?numInitialSegments={segments}"
        return RestCall("PUT", path, self._properties.get(topic) or None)

    def _classic(self, names: list[str]) -> RestCall:
        """Return the call that creates a classic topic with these partitions."""
        base, partition = split_partition(self._rename(names[0]))
        path = topic_path(base)
        return RestCall("PUT", path) if partition < 0 else RestCall("PUT", f"{path}/partitions", len(names))

    def _call(
        self, topic: str, change: Change, layout: Layout, ids: Iterable[int], names: tuple[str, ...] = ()
    ) -> RestCall | None:
        """Return the call that makes a change; None if no call does.

        ``ids`` are those of the replaced segments, and ``names`` their names if the live topic may have other ids.
        """
        path = self._path(topic)
        if change.kind == "migrate":
            return RestCall("POST", f"{path}/migrate?force=true")
        if change.kind not in ("split", "merge", "rebucket"):
            return None
        self._controlled.add(topic)  # a migration elects no controller
        query = ""
        if change.kind == "rebucket":
            query = f"?bucketCount={len(layout.segments[change.after[0]].bucket_starts) + 1}"
        return RestCall("POST", f"{path}/{change.kind}/{'/'.join(map(str, ids))}{query}", segments=names)

    def _path(self, topic: str) -> str:
        return topic_path(self._rename(topic))

    # -- watchers ------------------------------------------------------------------------------------------------------

    def _create_topic(self, topic: str, step: Step | None = None) -> None:
        """Create a topic unless it exists: before the replay, or at a step."""
        if topic in self._existing:
            return
        self._existing.add(topic)
        start = step.index if step is not None else 0
        layout = next((layout for index, layout in self._layouts.get(topic, ()) if index >= start), None)
        call = self._creation(topic, layout)
        if step is None:
            self._found.calls.append(call)
        else:
            self._add(step, topic, call, (), None)
        if layout is not None:
            self._earlier_changes(topic, layout, step)

    def _earlier_changes(self, topic: str, layout: Layout, step: Step | None) -> None:
        """Repeat the changes in the first layout of a topic that was created before the replay, or at a step.

        Before the replay, earlier messages are published between the changes. The ids are those of a new topic: they
        differ from the captured ids if the captured broker had removed segments.
        """
        ids = {one.id: number for number, one in enumerate(_roots(layout))}
        for change in changes(None, layout):
            call = self._call(topic, change, layout, (ids.get(one, one) for one in change.before))
            for one in change.after:
                ids.setdefault(one, len(ids))
            if call is not None and step is not None:
                self._add(step, topic, call, (), None)
            elif call is not None:
                start = _first_use(self._script, _names(topic, layout, change.after))
                self._found.changes.append(TopicChange(start, topic, call))

    def _watched(self, step: Step, update: Any) -> None:
        for topic in map(as_text, update.snapshot.topics):
            self._create_topic(topic)
        for topic in map(as_text, update.diff.added):
            self._create_topic(topic, step)
        for topic in map(as_text, update.diff.removed):
            if topic in self._existing:
                self._delete_topic(topic, step)

    def _delete_topic(self, topic: str, step: Step) -> None:
        self._existing.remove(topic)
        self._controlled.discard(topic)
        layout = self._last.pop(topic, None)
        segments = () if layout is None else _names(topic, layout, layout.segments)
        start = _first_effect(self._script, step, topic, segments, None)
        query = "?force=true" if start.name in _ENDS else ""  # otherwise the clients of segments remain
        self._found.changes.append(TopicChange(start, topic, RestCall("DELETE", self._path(topic) + query), segments))

    def _add(self, shown: Step, topic: str, call: RestCall, replaced: tuple[str, ...], epoch: int | None) -> None:
        start = _first_effect(self._script, shown, topic, replaced, epoch)
        if start.request is not None:
            start = self._requests.get(start.request.number, start)
        self._found.changes.append(TopicChange(start, topic, call, replaced))


_READERS: Final[dict[str, Callable[[_Reader, Step, Any], None]]] = {
    "WATCH_SCALABLE_TOPICS_UPDATE": _Reader._watched,
    "SCALABLE_TOPIC_SUBSCRIBE": _Reader._registration,
    "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE": _Reader._registered,
}


def _first_use(script: Script, segments: Collection[str]) -> Step:
    """Return the first lookup of one of these segments to publish earlier messages, or the first captured command."""
    return next(
        step
        for step in script.steps
        if step.from_client
        and step.frame is not None
        and (step.stream != SEED_STREAM or step.frame.command.lookupTopic.topic in segments)
    )


def _first_effect(script: Script, shown: Step, topic: str, segments: tuple[str, ...], epoch: int | None) -> Step:
    """Return the first step, shortly before ``shown``, that shows the same change."""
    found = shown
    for step in reversed(script.steps[: shown.index]):
        if shown.time_ms - step.time_ms > TOGETHER_MS:
            break
        if not step.from_client and step.request is None and _shows(step, topic, segments, epoch):
            found = step
    return found


def _shows(step: Step, topic: str, segments: tuple[str, ...], epoch: int | None) -> bool:
    """Return whether a step is the end of one of these segments, or an assignment with this epoch."""
    if step.name in _ENDS:
        return step.topic in segments
    if epoch is None or step.name != "SCALABLE_TOPIC_ASSIGNMENT_UPDATE" or step.frame is None:
        return False
    assignment = step.frame.command.scalableTopicAssignmentUpdate.assignment
    return scalable_topic(step.topic) == topic and assignment.layout_epoch >= epoch


def _layouts(script: Script) -> dict[str, list[tuple[int, Layout]]]:
    """Return the layouts of each topic, with the index of the step that contains it."""
    found: dict[str, list[tuple[int, Layout]]] = {}
    for step in script.steps:
        if step.layout is not None:
            found.setdefault(selected_topic(step.layout.topic), []).append((step.index, step.layout.after))
    return found


def _roots(layout: Layout) -> list[Segment]:
    """Return the segments without parents, in the order of the ids that they have in a new topic."""
    return sorted((one for one in layout.segments.values() if not one.parents), key=lambda one: (one.start, one.id))


def _names(topic: str, layout: Layout, ids: Iterable[int]) -> tuple[str, ...]:
    """Return the names of segments. A damaged layout can lack a parent."""
    return tuple(layout.segments[one].name(topic) for one in ids if one in layout.segments)


def _used_segments(script: Script) -> Iterator[str]:
    """Yield the segments that producers and consumers in the capture use, without repetitions."""
    topics = {step.topic for step in script.steps if step.name in ("PRODUCER", "SUBSCRIBE")}
    names = (SegmentName.parse(topic) for topic in topics)
    yield from map(str, sorted(name for name in names if name is not None))


def _properties(script: Script) -> dict[str, dict[str, str]]:
    """Return the properties of each topic that the filters of watchers show."""
    filters: dict[tuple[int, int], dict[str, str]] = {}
    found: dict[str, dict[str, str]] = {}
    for step in script.steps:
        if step.frame is None:
            continue
        if step.name == "WATCH_SCALABLE_TOPICS":
            watch = step.frame.command.watchScalableTopics
            wanted = {as_text(one.key): as_text(one.value) for one in watch.property_filters}
            filters[step.stream, watch.watch_id] = wanted
        elif step.name == "WATCH_SCALABLE_TOPICS_UPDATE":
            update = step.frame.command.watchScalableTopicsUpdate
            for topic in map(as_text, [*update.snapshot.topics, *update.diff.added]):
                found.setdefault(topic, {}).update(filters.get((step.stream, update.watch_id), {}))
    return found


def _taken_names(script: Script) -> Iterator[str]:
    """Yield the scalable topics whose names a lookup of classic partitions showed to be taken (rule 7)."""
    found: dict[str, bool] = {}
    lookups = {step.frame.number: step for step in script.steps if step.name == "PARTITIONED_METADATA" and step.frame}
    for step in script.steps:
        request = lookups.get(step.request.number) if step.request is not None else None
        if step.frame is None or request is None or request.frame is None:
            continue
        lookup, response = request.frame.command.partitionMetadata, step.frame.command.partitionMetadataResponse
        missing = lookup.metadata_auto_creation_enabled and response.error == pb.TopicNotFound
        topic = as_text(lookup.topic)
        found[topic] = missing and found.get(topic, True)
    yield from (scalable_namesake(name) for name, missing in found.items() if missing and scalable_namesake(name))
