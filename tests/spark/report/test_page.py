"""The page: well-formed, with the scripts that its policy allows and without external resources, with escaped text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

from pcli.codec.capture import PcapngWriter
from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.report import page_of
from pcli.spark.report.capture_sections import gaps
from pcli.spark.request import Request
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.stored_tables import StoredTables


class Page(HTMLParser):
    """Record the tags that open, ids, addresses, the policy, and the texts of scripts by their type."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts: dict[str, list[str]] = {"": [], "application/json": []}
        self.policy = ""
        self._type: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.links += [found[name] or "" for name in ("href", "src", "xlink:href") if name in found]
        assert not any(name.startswith("on") for name in found)
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""
        self._type = (found.get("type") or "") if tag == "script" else None
        if self._type is not None:
            self.scripts[self._type].append("")

    def handle_endtag(self, tag: str) -> None:
        self._type = None

    def handle_data(self, data: str) -> None:
        if self._type is not None:
            self.scripts[self._type][-1] += data


@pytest.fixture(scope="module")
def text(stored: StoredTables) -> str:
    """The page of a capture."""
    return page_of(stored)


def test_it_needs_nothing_else(text: str) -> None:
    page = Page(text)
    assert "link" not in page.tags
    assert "iframe" not in page.tags
    assert all(link.startswith("#") for link in page.links)
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)


def test_the_policy_allows_only_the_scripts_of_the_page(text: str) -> None:
    page = Page(text)
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in page.scripts[""]
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in page.policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"].split() == hashes
    assert "connect-src" not in rules
    assert [len(one) > 100_000 for one in page.scripts[""]] == [True, False]  # Vega once, and the script of the page


def test_a_chart_has_a_description_a_table_and_a_form_without_scripts(text: str) -> None:
    page = Page(text)
    charts = len(page.scripts["application/json"])
    assert charts >= 8
    assert len(re.findall(r'class="chart" role="img" aria-label="[^"]{10,}"', text)) == charts
    assert text.count('class="still"><svg') == charts
    assert text.count('<details class="data">') == charts
    for one in page.scripts["application/json"]:
        assert json.loads(one)["spec"]["width"] == "container"


def test_the_answer_is_first(text: str) -> None:
    titles = re.findall(r"<h2 [^>]*>([^<]*)<", text)
    assert titles[:3] == ["Incidents", "Unhealthy topics and subscriptions", "Traffic over time"]
    assert titles[-1] == "Captures"


def test_the_same_tables_give_the_same_page(stored: StoredTables, text: str) -> None:
    assert page_of(stored) == text


def test_findings_include_advice(stored: StoredTables, text: str) -> None:
    rows = stored.read("findings").to_pylist()
    assert rows
    for row in rows:
        assert row["rule"] in text
        assert f"pcli diagnose --explain {row['rule']}" in text


EVIL = "<script>alert(1)</script></style>\x1b[31m`<b>`\u202e\"'&lt;--><!--{{ title }}"


def test_all_text_of_the_tables_is_escaped(stored: StoredTables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text column that the wire determines contains markup."""
    original = StoredTables.read
    names = {"topic", "subscription", "consumer", "producer", "what", "advice", "opposite", "show", "path", "error",
             "client", "server", "text", "capture", "client_version", "server_version", "cluster"}  # fmt: skip

    def altered(self: StoredTables, name: str, *rest: object, **more: object) -> pa.Table:
        table = original(self, name, *rest, **more)  # type: ignore[arg-type]
        for at, column in enumerate(table.schema.names):
            if column in names and pa.types.is_string(table.schema.field(at).type):
                table = table.set_column(at, column, pa.array([EVIL] * len(table), pa.string()))
        return table

    monkeypatch.setattr(StoredTables, "read", altered)
    page = Page(text := page_of(stored, EVIL))
    assert len(page.scripts[""]) == 2
    assert "<script>alert" not in text
    assert "<b>`" not in text
    assert not {"\x1b", "\u202e"} & set(text)
    assert "&lt;script&gt;alert(1)" in text
    assert "<code>&lt;b&gt;</code>" in text  # text in backticks is code and is escaped


def test_gaps_are_explained() -> None:
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
    for wrong in ("1970-01-01", "No problems were found", "The captures contain every byte"):
        assert wrong not in text
