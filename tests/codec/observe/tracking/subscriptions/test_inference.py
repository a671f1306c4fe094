"""A request for records or statistics changes no state: the results at the end are those without the request."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.capture import CapturedFrame, Note, ReadOptions, StreamEnd, read_capture
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.tracking.statistics.broker_statistics import figures
from pcli.codec.observe.tracking.statistics.key_statistics import key_figures
from pcli.codec.observe.tracking.statistics.message_balance import balances
from pcli.codec.observe.tracking.tracker import Tracker
from tests.codec.observe.tracking.subscriptions.test_permit_ledger_property import (
    KINDS,
    MANY,
    NON_PERSISTENT,
    STEPS,
    TOPIC,
    Application,
)

CAPTURES = ("python/10-shared-redelivery", "java/key-shared-out-of-order", "java/txn-commit", "java/unacked-limit")

SECOND = 1_000_000_000


def answers(diagnosis: Diagnosis, now_ns: int) -> list[Any]:
    """Return all that can be requested at a time."""
    tracker = diagnosis.subscriptions
    return [figures(tracker, now_ns), balances(tracker, now_ns), key_figures(tracker, now_ns)]


def results(data: bytes, every: int) -> Any:
    """Return the lifecycles, findings, records and statistics of a capture.

    After every so many frames (never if 0), everything is requested twice, at a time long after the frame.
    """
    lifecycles: list[Any] = []
    records: list[Any] = []
    options: dict[str, Any] = {}

    def make(**others: Any) -> Tracker:
        return Tracker(on_lifecycle=lambda one: lifecycles.append(one.copy()), **others)

    diagnosis, observer = Diagnosis(tracker=make, on_record=lambda *one: records.append(one), **options), Observer()
    for item in read_capture([("", io.BytesIO(data))], ReadOptions(ends=True)):
        if isinstance(item, Note):
            diagnosis.note(item)
        elif isinstance(item, StreamEnd):
            diagnosis.ended(item)
            observer.close(item.stream.number)
        else:
            assert isinstance(item, CapturedFrame)
            diagnosis.see(observer.see(item))
            if every and not item.number % every:
                now_ns = item.time_ns + 5 * SECOND
                diagnosis.poll(now_ns)
                assert answers(diagnosis, now_ns) == answers(diagnosis, now_ns)
    last = answers(diagnosis, diagnosis.capture.last_ns)
    diagnosis.finish()
    return [list(map(repr, part)) for part in (lifecycles, diagnosis.findings(), records, last)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@MANY
@given(steps=STEPS, every=st.integers(1, 7))
def test_requests_change_nothing_in_random_applications(
    make_scene: Callable[..., Any], tmp_path: Path, kind: str, steps: list[tuple[str, int, int]], every: int
) -> None:
    type_, broker_settings, fields = KINDS[kind]
    play = make_scene(**broker_settings)
    application = Application(play, NON_PERSISTENT if "non-persistent" in kind else TOPIC, type_, fields)
    for verb, who, what in steps:
        getattr(application, verb)(who, what)
    data = play.write(tmp_path / "scene.pcapng").read_bytes()
    assert results(data, every) == results(data, 0)


@pytest.mark.parametrize("name", CAPTURES)
def test_requests_change_nothing_in_captures(corpus: Any, name: str) -> None:
    data = corpus.data(name)
    assert results(data, 5) == results(data, 0)
