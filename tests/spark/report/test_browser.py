"""The report in Chromium: all charts are drawn, axe-core reports no violations, and no script of a capture runs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.report import page_of
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables
from tests.cli.test_hostile_text import conversation
from tests.cli.test_planted_secrets import record
from tests.interop.building import MissingError, digest, fetch, is_current, lock_folder, require_tools

HERE = Path(__file__).parent / "browser"
VIEWS = [
    {"width": 1400, "scheme": "light", "media": ""},
    {"width": 1400, "scheme": "dark", "media": ""},
    {"width": 600, "scheme": "light", "media": ""},
    {"width": 600, "scheme": "dark", "media": ""},
    {"width": 1400, "scheme": "dark", "media": "print"},
]

pytestmark = pytest.mark.slow
Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest) -> Run:
    """Run a script of the folder browser with the path of Chromium and these arguments; return its output."""
    try:
        require_tools("chromium", "node", "npm")
        with lock_folder(Path(request.config.cache.mkdir("report-browser"))) as cache:
            sources = [HERE / "package.json", HERE / "package-lock.json"]
            if not is_current(cache / "made-of", *sources):
                for source in sources:
                    shutil.copy(source, cache)
                fetch("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=cache)
                (cache / "made-of").write_text(digest(*sources))
            for script in HERE.glob("*.js"):
                shutil.copy(script, cache)
    except MissingError as reason:
        pytest.skip(f"no browser with axe-core: {reason}")

    def start(script: str, *arguments: str) -> list[dict[str, Any]]:
        command = ["node", str(cache / script), str(shutil.which("chromium")), *arguments]
        found = subprocess.run(command, cwd=cache, capture_output=True, text=True, timeout=600)
        assert found.returncode == 0, found.stderr
        return [json.loads(line) for line in found.stdout.splitlines()]

    return start


def look(run: Run, page: Path, views: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the browser reports about a page in each view."""
    return run("check.js", json.dumps([view | {"url": page.as_uri()} for view in views]))


@pytest.fixture(scope="module")
def page(stored: StoredTables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page_of(stored))
    return path


def test_charts_are_drawn_and_axe_reports_no_violations(run: Run, page: Path) -> None:
    results = look(run, page, VIEWS)
    assert len(results) == len(VIEWS)
    for view, result in zip(VIEWS, results):
        assert result["violations"] == [], view
        assert result["told"] == [], view
        assert result["charts"] == result["drawn"] > 20
        assert result["shown"] >= result["charts"] - 2, view  # the static charts in print; a chart of one row is low
        assert result["wider"] <= 0, view


def test_no_script_of_a_capture_runs(run: Run, tmp_path: Path) -> None:
    """Names of topics, consumers and producers, and messages of errors, are scripts that open a dialog."""
    capture = record(tmp_path / "talk.pcapng", conversation(), [])
    analyze(Request((str(capture),), str(tmp_path / "out")), InProcess())
    page = tmp_path / "report.html"
    page.write_text(page_of(StoredTables(str(tmp_path / "out"))))
    assert "alert(1)" in page.read_text()
    [result] = look(run, page, VIEWS[:1])
    assert result["told"] == []
    assert result["charts"] == result["drawn"] > 5


def test_the_range_of_all_charts_tooltips_search_and_sorting(run: Run, page: Path, stored: StoredTables) -> None:
    [rule, *others] = sorted(set(stored.read("findings", ["rule"])["rule"].to_pylist()))
    assert others
    [shown] = run("use.js", page.as_uri(), rule)
    assert len(shown["whole"]) == 3
    assert all(axis[0] == 0 and axis[-1] > 20 for axis in shown["whole"])
    assert all(axis[0] == 10 and axis[-1] == 15 for axis in shown["part"])
    assert shown["reset"] == shown["whole"]
    assert [line.partition(":")[0] for line in shown["tip"][1:]] == ["published", "delivered", "acknowledged"]
    assert shown["tip"][0].endswith(" UTC")
    assert all(axis[0] > 0 for axis in shown["zoomed"])
    assert shown["scrolled"] == 0
    assert shown["found"] == 1
    assert shown["groups"] == 1 + len(others)
    down, up = shown["sorted"]
    assert down == sorted(down, reverse=True)
    assert up == sorted(up) != down
    assert shown["open"]
