"""Invariants of the layouts of scalable topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.invariants.violation import Violation, at
from simulation.scalable_step_kinds import is_scalable

from pcli.codec.scalable import Layout, SegmentName, contradictions, key_hashes

if TYPE_CHECKING:
    from simulation.execution import Run
    from simulation.history import History, WireFrame


def seen_layouts(history: History) -> Iterator[tuple[WireFrame, str, Layout]]:
    """Yield each layout that the broker sent to a session: its frame, the topic and the layout."""
    for frame in history.frames:
        if frame.name == "SCALABLE_TOPIC_UPDATE" and not frame.body.HasField("error"):
            yield frame, frame.body.resolved_topic_name, Layout.of(frame.body.dag)


def every_key_has_one_active_segment(run: Run) -> Iterator[Violation]:
    """In each layout, the active segments have all hashes, without a gap or an overlap.

    The children of a sealed segment have its hashes.
    """
    name = "every_key_has_one_active_segment"
    for frame, topic, layout in seen_layouts(run.history):
        run.checks[name] += 1
        for wrong in (*contradictions(layout), *_lost_hashes(layout)):
            yield at(name, frame, f"{topic}, epoch {layout.epoch}: {wrong}")
            return


def _lost_hashes(layout: Layout) -> Iterator[str]:
    for one in layout.sealed:
        expected = one.start
        for child in sorted((layout.segments[number] for number in one.children), key=lambda child: child.start):
            if child.start > expected:
                break
            expected = max(expected, child.end + 1)
        if expected <= one.end:
            yield f"no child of segment {one.id} has the hash {expected}"


def segments_store_their_keys_until_they_are_sealed(run: Run) -> Iterator[Violation]:
    """A segment stores only messages whose keys are in its range, and none after a session has seen it sealed."""
    name, history = "segments_store_their_keys_until_they_are_sealed", run.history
    sealed: dict[str, WireFrame] = {}
    for frame, topic, layout in seen_layouts(history):
        for one in layout.sealed:
            sealed.setdefault(one.name(topic), frame)
    for entry in history.entries():
        if not entry.topic.startswith("segment:"):
            continue
        segment = SegmentName.parse(entry.topic)
        assert segment is not None
        end = sealed.get(entry.topic)
        if end is not None and entry.turn > end.turn and not entry.contents.marker:
            text = f"{entry.position} of {entry.topic} is stored after frame {end.index} has shown that it is sealed"
            yield Violation(name, history.step, text)
            return
        for key in filter(None, entry.contents.keys):
            run.checks[name] += 1
            if not segment.start <= key_hashes(key.encode())[0] <= segment.end:
                text = (
                    f"{entry.position} of {entry.topic} has the key {key!r} with the hash {key_hashes(key.encode())[0]}"
                )
                yield Violation(name, history.step, text)
                return


def layouts_advance_and_survive_restarts(run: Run) -> Iterator[Violation]:
    """The epochs in a session never decrease, nor do those over kills of the broker, and an epoch has one layout.

    A layout that a session has received is stored. One that a killed broker was about to send can be lost.
    """
    if not is_scalable(run.plan):
        return
    name = "layouts_advance_and_survive_restarts"
    newest: dict[str, Layout] = {}
    known: dict[tuple[str, int], Layout] = {}
    sessions: dict[tuple[int, int], int] = {}
    for frame in run.history.frames:
        if frame.name == "SCALABLE_TOPIC_UPDATE" and not frame.body.HasField("error"):
            topic, layout = frame.body.resolved_topic_name, Layout.of(frame.body.dag)
            session = frame.link, frame.body.session_id
            before = sessions.get(session, -1)
            sessions[session] = layout.epoch
            if topic not in newest or newest[topic].epoch < layout.epoch:
                newest[topic] = layout
            found = {topic: (before, layout)}
        elif frame.name == "started":
            found = {topic: (layout.epoch, frame.body.layouts.get(topic)) for topic, layout in newest.items()}
        else:
            continue
        for topic, (epoch, layout) in found.items():
            run.checks[name] += 1
            same = None if layout is None else known.setdefault((topic, layout.epoch), layout)
            if wrong := _contradiction(epoch, layout, same):
                yield at(name, frame, f"{topic}: {wrong}")
                return


def _contradiction(before: int, layout: Layout | None, same: Layout | None) -> str:
    """Return why a layout may not follow an epoch and the layout that was first seen with its own epoch."""
    if layout is None or same is None:
        return "the topic is lost"
    if layout.epoch < before:
        return f"epoch {layout.epoch} follows epoch {before}"
    if layout.segments != same.segments:
        return f"epoch {layout.epoch} has another layout than before"
    return ""
