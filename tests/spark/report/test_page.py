"""The page: well-formed, without scripts or external resources, with escaped text from the wire."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.image
import pyarrow as pa
import pytest

from pcli.codec.capture import PcapngWriter
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.report import page_of
from pcli.spark.report.other_sections import findings, gaps
from pcli.spark.request import Request
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.stored_tables import StoredTables

CHROMIUM = shutil.which("chromium")


class Page(HTMLParser):
    """Record the tags that open and close, ids, and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.links += [found[name] or "" for name in ("href", "src", "xlink:href") if name in found]


def test_it_needs_nothing_else(stored: StoredTables) -> None:
    page = Page(page_of(stored))
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert all(link.startswith("#") for link in page.links)
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)


def test_charts_have_descriptions_for_screen_readers(stored: StoredTables) -> None:
    text = page_of(stored)
    charts = re.findall(r"<svg [^>]*>", text)
    assert len(charts) >= 6
    assert all('role="img"' in chart and 'aria-label="' in chart for chart in charts)


@pytest.mark.slow
def test_the_same_tables_give_the_same_page(stored: StoredTables) -> None:
    assert page_of(stored) == page_of(stored)


@pytest.mark.slow
def test_findings_include_advice(stored: StoredTables) -> None:
    text = page_of(stored)
    rows = stored.read("findings").to_pylist()
    assert rows
    for row in rows:
        assert row["rule"] in text


def test_names_of_the_wire_are_escaped(stored: StoredTables, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "<script>alert(1)</script>\x1b[31m `<b>`"
    read = stored.read("findings").slice(0, 1).to_pylist()
    table = pa.Table.from_pylist([read[0] | {"what": evil, "consumer": evil}], TABLES["findings"].schema)
    original = StoredTables.read

    def altered(self: StoredTables, name: str, *rest: object, **more: object) -> pa.Table:
        return table if name == "findings" else original(self, name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(StoredTables, "read", altered)
    text = page_of(stored)
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "<code>&lt;b&gt;</code>" in text  # text in backticks is code and is escaped


def test_empty_sections_are_explained() -> None:
    assert findings(TABLES["findings"].schema.empty_table()).texts == ["No problems were found."]
    none, captures = TABLES["gaps"].schema.empty_table(), TABLES["captures"].schema
    read = {"cluster": "c", "path": "a.pcap", "status": "read"}
    assert "The captures contain every byte" in gaps(none, pa.Table.from_pylist([read], captures)).texts[0]
    unread = {"cluster": "c", "path": "b.pcap", "status": "unreadable", "error": "permission denied"}
    printable = gaps(none, pa.Table.from_pylist([read, unread], captures)).texts
    assert printable == ["1 file could not be read to the end: see the section Captures."]


def test_without_packets_all_sections_are_omitted(tmp_path: Path) -> None:
    with (tmp_path / "empty.pcapng").open("wb") as file:
        PcapngWriter(file)
    analyze(Request((str(tmp_path / "empty.pcapng"),), str(tmp_path / "out")), InProcess())
    text = page_of(StoredTables(str(tmp_path / "out")))
    assert "no packets were read" in text
    assert "empty.pcapng" in text
    for wrong in ("1970", "No problems were found", "The captures contain every byte"):
        assert wrong not in text


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
@pytest.mark.parametrize("width", [400, 1200])
def test_a_browser_shows_it(stored: StoredTables, tmp_path: Path, width: int) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    page.write_text(page_of(stored))
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--no-first-run", "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path}/profile",
        "--hide-scrollbars", f"--window-size={width},1500", f"--screenshot={picture}", page.as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    shown = matplotlib.image.imread(picture)
    assert shown.shape[:2] == (1500, width)
    dark = shown[..., :3].mean(axis=2) < 0.6
    assert 0.005 < dark.mean() < 0.3  # text and lines, on white
    assert dark[:, -8:].mean() < 0.01  # nothing is cut off at the right
