"""Browsers of captures: their index, and the application with simulated keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual", reason="the extra pulsar-pcli[tui] is not installed")


@pytest.fixture
def indexed(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Return the frames of captures from a new index that is complete."""
    from pcli.cli.browse.index_build import IndexBuild
    from pcli.cli.browse.stored_frames import StoredFrames
    from pcli.cli.common.capture_reading import CaptureReading

    builds = []

    def make(*files: Path) -> StoredFrames:
        build = IndexBuild(CaptureReading(files=[str(file) for file in files]), None)
        builds.append(build)
        build.join()
        build.wait()
        build.refresh()
        return StoredFrames(build.index)

    yield make
    for build in builds:
        build.stop()


@pytest.fixture
def browser(indexed: Callable[..., Any]) -> Callable[..., None]:
    """Run a script, a coroutine that takes the pilot and the application, on the frames of a capture."""
    from pcli.cli.browse.browse_app import BrowseApp
    from pcli.cli.browse.frame_views import BrowseOptions
    from pcli.cli.browse.inputs import Inputs

    def play(capture: Path, script: Any, size: tuple[int, int] = (100, 40), **options: Any) -> None:
        frames = indexed(capture)
        inputs = Inputs([str(capture)])

        async def main() -> None:
            app = BrowseApp(frames, BrowseOptions(capture.name, **options), None, inputs)
            async with app.run_test(size=size) as pilot:
                await script(pilot, app)

        asyncio.run(main())

    return play


def rows_of(app: Any) -> list[str]:
    """Return the lines of the list on the screen."""
    lines = [app.list.render_line(y).text for y in range(1, app.list.size.height)]
    return [line.rstrip() for line in lines if line.strip()]


def status_of(app: Any) -> str:
    """Return the status line."""
    return str(app.status.render())


async def finished(pilot: Any, app: Any) -> None:
    """Wait until filters and searches have ended, and show their results."""
    for job in (app._filtered, app._search, app._report):
        while job is not None and job.running:
            await pilot.pause(0.01)
    app.tick()
    await pilot.pause()
