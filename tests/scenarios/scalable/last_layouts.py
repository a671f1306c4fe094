"""The layouts of scalable topics that do not depend on timing.

A broker sends a layout to its sessions for each write of the topic's metadata, and reads the layout afterwards. So the
number of layouts depends on timing, and so do the layouts between the first and the last of several changes.
"""

from __future__ import annotations

from dataclasses import replace

from scenarios.recording import Event, Recording

from pcli.codec.scalable import Layout
from pcli.codec.wire.commands import BY_NAME

_UPDATE = BY_NAME["SCALABLE_TOPIC_UPDATE"].number


def with_last_layouts(recording: Recording) -> Recording:
    """Return a recording with the last layout of each session in a step, if the step changed it."""
    last = {(*_session(one), one.step): one for one in recording.events if _has_layout(one)}
    known: dict[tuple[int, int], Layout] = {}
    events = []
    for event in recording.events:
        if _has_layout(event):
            session, layout = _session(event), Layout.of(event.frame.body.dag)
            if last[*session, event.step] is not event or known.get(session) == layout:
                continue
            known[session] = layout
        events.append(event)
    return replace(recording, events=events)


def _has_layout(event: Event) -> bool:
    return event.frame is not None and event.frame.type == _UPDATE and event.frame.body.HasField("dag")


def _session(event: Event) -> tuple[int, int]:
    return event.stream, event.frame.body.session_id
