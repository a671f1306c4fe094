"""The spans of a scene or a capture."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pcli.codec.capture import CapturedFrame, ReadOptions, StreamEnd, read_capture
from pcli.codec.observe import Observer
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.telemetry.message_spans import MessageSpans
from pcli.codec.observe.telemetry.spans import Span
from pcli.codec.observe.tracking.tracker import Tracker, process_events

Export = Callable[..., list[Span]]


def export(data: bytes, messages: MessageSpans | None = None, *, findings: bool = False) -> list[Span]:
    """Return the spans of the capture in these bytes; with ``findings`` if a first pass collects them."""
    messages, spans = messages or MessageSpans(), []
    if findings:
        diagnosis = Diagnosis()
        process_events(read_capture([("", io.BytesIO(data))], ReadOptions(ends=True)), diagnosis)
        for one in diagnosis.findings():
            messages.findings.add(one)
    tracker, observer = Tracker(on_lifecycle=lambda one: spans.extend(messages.spans(one))), Observer()
    for event in read_capture([("", io.BytesIO(data))], ReadOptions(ends=True)):
        if isinstance(event, CapturedFrame):
            facts = observer.see(event)
            messages.see(facts)
            tracker.see(facts)
        elif isinstance(event, StreamEnd):
            tracker.ended(event)
        else:
            tracker.note(event)
    tracker.finish()
    return sorted(spans, key=lambda span: (span.start_ns, span.name))


@pytest.fixture
def export_data() -> Export:
    return export


@pytest.fixture
def export_scene(tmp_path: Path) -> Export:
    """The spans of a scene, in the order of their starts."""

    def of(scene: Any, messages: MessageSpans | None = None, **more: Any) -> list[Span]:
        return export(scene.write(tmp_path / "scene.pcapng").read_bytes(), messages, **more)

    return of
