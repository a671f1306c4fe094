"""The creation, changes and deletion of scalable topics on the captured broker, inferred from what clients received.

Rules of this file
1. The first layout of a topic shows how it was created and changed before: the same requests are made before the
   replay. Messages from before the capture are published in a segment before it is replaced. A later layout shows what
   has changed since.
2. A topic is not created if the lookup that received its first layout created it. A topic that a watcher was told of
   later is created then, and a topic that it was told of as removed is deleted then.
3. A change is made before the first captured step that it can have caused: the end of a replaced segment, an assignment
   or a layout with its epoch. If this step responds to a request, the change is made before the request. Otherwise it
   is made only if the live broker does not send the step without it, because brokers also change layouts themselves.
4. A filter of a watcher shows properties of the topics that match.
5. A prune is not repeated: a broker makes it itself.
6. If a topic has a controller although no consumer registered, a REST request was made for it. Its statistics are then
   requested, which has no other effect.
7. If no lookup of the partitions of a classic topic finds it, although the lookup may create it, a scalable topic has
   its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.proto import pb
from pcli.codec.scalable import Change, Layout, changes, scalable_topic, selected_topic
from pcli.codec.scalable.segment_name import HASHES, scalable_namesake
from pcli.codec.wire.topic_name import split_partition
from pcli.replay.player.script.script import SEED_STREAM, Rename, RestCall, Script, Step, topic_path

__all__ = ["ScalableTopicChanges", "TopicChange", "find_changes"]

_TOGETHER_MS: Final = 2000
"""Maximum time in milliseconds between the effects of one change."""
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
        self._first = _first_layouts(script)
        self._properties = _properties(script)
        self._requests = {step.frame.number: step for step in script.steps if step.frame is not None}
        self._listed: set[str] = set()
        """The topics that exist."""
        self._controlled: set[str] = set()
        """The topics with a controller."""

    def read(self) -> ScalableTopicChanges:
        for step in self._script.steps:
            if step.layout is not None:
                self._layout(step, selected_topic(step.layout.topic), step.layout.after)
            elif step.frame is not None and step.name in _READERS:
                _READERS[step.name](self, step, step.frame.body)
        if self._first:
            for topic in _taken_names(self._script):
                self._list(topic)
        return self._found

    # -- layouts -------------------------------------------------------------------------------------------------------

    def _layout(self, step: Step, topic: str, layout: Layout) -> None:
        before = self._last.get(topic)
        if before is None and not self._created_by(step, layout):
            self._list(topic)
        self._listed.add(topic)
        if before is None or layout.order > before.order:
            self._last[topic] = layout
            for change in changes(before, layout) if before is not None else ():
                call = self._call(topic, change, layout)
                if call is not None:
                    replaced = tuple(layout.segments[one].name(topic) for one in change.before)
                    self._add(step, topic, call, replaced, change.epoch)
        if layout.controller and topic not in self._controlled:
            self._controlled.add(topic)
            self._add(step, topic, RestCall("GET", f"{self._path(topic)}/stats"), (), None)

    def _registration(self, _step: Step, command: Any) -> None:
        self._controlled.add(selected_topic(str(command.topic)))

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

    def _creation(self, topic: str) -> RestCall:
        """Yield the call that creates a topic as it was before the changes in its first layout."""
        layout = self._first.get(topic)
        if layout is None:
            return self._create(topic, 1)
        roots = sorted((one for one in layout.segments.values() if not one.parents), key=lambda one: one.start)
        legacy = [one.legacy_topic for one in roots if one.legacy_topic]
        if legacy:
            return self._classic(legacy)
        if [one.start for one in roots] != [HASHES // len(roots) * index for index in range(len(roots))]:
            self._script.left_out["layouts whose first segments had been removed"] += 1
        return self._create(topic, len(roots))

    def _create(self, topic: str, segments: int) -> RestCall:
        path = f"{self._path(topic)}?numInitialSegments={segments}"
        return RestCall("PUT", path, self._properties.get(topic) or None)

    def _classic(self, names: list[str]) -> RestCall:
        """Return the call that creates a classic topic with these partitions."""
        base, partition = split_partition(self._rename(names[0]))
        path = topic_path(base)
        return RestCall("PUT", path) if partition < 0 else RestCall("PUT", f"{path}/partitions", len(names))

    def _call(self, topic: str, change: Change, layout: Layout) -> RestCall | None:
        """Return the call that makes a change; None if no call does."""
        path = self._path(topic)
        if change.kind == "migrate":
            return RestCall("POST", f"{path}/migrate?force=true")
        if change.kind not in ("split", "merge", "rebucket"):
            return None
        self._controlled.add(topic)  # a migration elects no controller
        end = "/".join(map(str, change.before))
        query = ""
        if change.kind == "rebucket":
            query = f"?bucketCount={len(layout.segments[change.after[0]].bucket_starts) + 1}"
        names = tuple(layout.segments[one].name(topic) for one in change.before)
        return RestCall("POST", f"{path}/{change.kind}/{end}{query}", segments=names)

    def _path(self, topic: str) -> str:
        return topic_path(self._rename(topic))

    # -- watchers ------------------------------------------------------------------------------------------------------

    def _list(self, topic: str, step: Step | None = None) -> None:
        """Create a topic unless it exists: before the replay, or at a step."""
        if topic not in self._listed:
            self._listed.add(topic)
            call = self._creation(topic)
            if step is None:
                self._found.calls.append(call)
            else:
                self._add(step, topic, call, (), None)
            self._earlier_changes(topic)

    def _earlier_changes(self, topic: str) -> None:
        """Repeat the changes in the first layout. Messages from before the replay are published in between."""
        layout = self._first.get(topic)
        if layout is None:
            return
        for change in changes(None, layout):
            call, names = self._call(topic, change, layout), {layout.segments[one].name(topic) for one in change.after}
            if call is not None:
                self._found.changes.append(TopicChange(_first_use(self._script, names), topic, call))

    def _watched(self, step: Step, update: Any) -> None:
        for topic in update.snapshot.topics:
            self._list(topic)
        for topic in update.diff.added:
            self._list(topic, step)
        for topic in self._listed.intersection(update.diff.removed):
            self._listed.remove(topic)
            layout = self._last.pop(topic, None)
            segments = () if layout is None else tuple(one.name(topic) for one in layout.segments.values())
            start = _first_effect(self._script, step, topic, segments, None)
            query = "?force=true" if start.name in _ENDS else ""  # otherwise the clients of segments remain
            self._found.changes.append(
                TopicChange(start, topic, RestCall("DELETE", self._path(topic) + query), segments)
            )

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
        if shown.time_ms - step.time_ms > _TOGETHER_MS:
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


def _first_layouts(script: Script) -> dict[str, Layout]:
    found: dict[str, Layout] = {}
    for step in script.steps:
        if step.layout is not None:
            found.setdefault(selected_topic(step.layout.topic), step.layout.after)
    return found


def _properties(script: Script) -> dict[str, dict[str, str]]:
    """Return the properties of each topic that the filters of watchers show."""
    filters: dict[tuple[int, int], dict[str, str]] = {}
    found: dict[str, dict[str, str]] = {}
    for step in script.steps:
        if step.frame is None:
            continue
        if step.name == "WATCH_SCALABLE_TOPICS":
            watch = step.frame.command.watchScalableTopics
            filters[step.stream, watch.watch_id] = {one.key: one.value for one in watch.property_filters}
        elif step.name == "WATCH_SCALABLE_TOPICS_UPDATE":
            update = step.frame.command.watchScalableTopicsUpdate
            for topic in [*update.snapshot.topics, *update.diff.added]:
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
        found[lookup.topic] = missing and found.get(lookup.topic, True)
    yield from (scalable_namesake(name) for name, missing in found.items() if missing and scalable_namesake(name))
