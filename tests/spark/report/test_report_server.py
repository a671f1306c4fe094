"""The pages of `pcli report --serve`: every object and every row, and later runs."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.report import report_server
from pcli.spark.report.report_objects import KINDS
from pcli.spark.report.report_server import ReportServer
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables

Get = Callable[..., tuple[int, str]]


def request(application: Any, path: str, host: str = "localhost:8088") -> tuple[int, str]:
    """Send a GET request to an ASGI application; return the status and the body."""
    sent: list[dict[str, Any]] = []
    way, _, query = path.partition("?")
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "path": way, "raw_path": way.encode(), "root_path": "",
        "scheme": "http", "query_string": query.encode(), "headers": [(b"host", host.encode())],
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(application(scope, receive, send))
    body = b"".join(one.get("body", b"") for one in sent if one["type"] == "http.response.body")
    return sent[0]["status"], body.decode()


@pytest.fixture(scope="module")
def get(stored: StoredTables) -> Iterator[Get]:
    server = ReportServer(lambda: stored, "Orders")
    application = server.application(("localhost",))
    yield lambda path, host="localhost:8088": request(application, path, host)
    server.close()


def links(text: str) -> list[str]:
    return [html.unescape(one) for one in re.findall(r'href="(/[^"]*)"', text)]


def table_rows(text: str) -> list[str]:
    return re.findall(r"<tr>(<td.*?)</tr>", text)


def test_every_page_that_the_overview_links_to_exists(get: Get) -> None:
    status, text = get("/")
    assert status == 200
    assert "<h1>Orders</h1>" in text
    found = set(links(text))
    assert {f"/{name}" for name in KINDS} | {"/tables/messages", "/tables/findings"} <= found
    assert sum("/one?key=" in link for link in found) > 5
    assert {link: get(link)[0] for link in found} == dict.fromkeys(found, 200)


def test_a_page_of_an_object_has_its_charts(get: Get, stored: StoredTables) -> None:
    [first, *_] = [row for row in stored.read("topics").to_pylist() if not row["system"]]
    status, text = get(f"/topics/one?key={quote(json.dumps([first['cluster'], first['topic']]))}")
    assert status == 200
    assert text.count("<figure data-chart") == 4
    assert "Message balance" in text


def test_the_policy_lets_a_page_connect_to_its_server_only(get: Get) -> None:
    assert "connect-src 'self'; form-action 'self'" in get("/")[1]


def test_pages_contain_every_row_once(get: Get, stored: StoredTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_server, "ROWS", 40)
    path, rows, pages = "/tables/messages?order=entry", [], 0
    while path:
        _, text = get(path)
        pages += 1
        rows += table_rows(text)
        path = next((html.unescape(one) for one in re.findall(r'href="([^"]*)">Next page', text)), "")
    assert pages > 1
    assert len(rows) == len(set(rows)) == stored.read("messages", ["cluster"]).num_rows


def test_a_search_compares_the_text_of_rows(get: Get, stored: StoredTables) -> None:
    receipts = [row for row in stored.read("exchanges").to_pylist() if "SUBSCRIBE" in (row["request"], row["answer"])]
    assert 0 < len(receipts) < stored.read("exchanges").num_rows
    assert len(table_rows(get("/tables/exchanges?search=subscribe")[1])) == len(receipts)
    assert "There are no such rows." in get("/tables/exchanges?search=%27%22%3Bnowhere")[1]


def test_a_search_in_objects(get: Get, stored: StoredTables) -> None:
    count = sum(not row["system"] for row in stored.read("consumers").to_pylist())
    assert f"1 to {count} of {count}." in get("/consumers")[1]
    assert "There are no such rows." in get("/consumers?search=nowhere")[1]


@pytest.mark.parametrize(
    "path",
    [
        "/nothing", "/nothing/one?key=[]", "/tables/nothing", "/tables/..%2f", "/topics/one", "/topics/one?key=[1",
        "/topics/one?key={}", "/topics/one?key=[[1]]", f"/topics/one?key={'[' * 5000}",
    ],
)  # fmt: skip
def test_other_pages_do_not_exist(get: Get, path: str) -> None:
    assert get(path)[0] == 404


@pytest.mark.parametrize("query", ["order=nothing", 'order="', "first=-1", "first=x", "first=99999999999999999999"])
def test_other_values_are_ignored(get: Get, query: str) -> None:
    status, text = get(f"/tables/captures?{query}")
    assert status == 200
    assert table_rows(text) == table_rows(get("/tables/captures")[1]) != []


def test_other_hosts_are_refused(get: Get) -> None:
    """A name of another web site can resolve to this host."""
    assert get("/tables/messages", host="evil.example")[0] == 400


def test_names_are_escaped_in_pages(get: Get) -> None:
    text = get("/topics?search=%3Cscript%3Ealert(1)%3C/script%3E%22")[1]
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;" in text


def test_a_later_run_is_shown(captures: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")

    def run(name: str) -> None:
        analyze(Request((str(captures / "python" / name),), out), InProcess())

    run("10-shared-redelivery.pcap")
    server = ReportServer(lambda: StoredTables(out), "Orders")
    application = server.application(("*",))
    try:
        assert request(application, "/run") == (200, '{"run":1}')
        assert "dead-letter" not in request(application, "/topics")[1]
        run("25-no-flow.pcapng")
        assert request(application, "/run") == (200, '{"run":2}')
        text = request(application, "/topics")[1]
        assert 'data-run="2"' in text
        assert "25-no-flow" in text
    finally:
        server.close()


def test_tables_that_disappear_are_one_line(captures: Path, stored: StoredTables) -> None:
    def gone() -> StoredTables:
        return StoredTables("nowhere") if opened else stored

    opened: list[bool] = []
    server = ReportServer(gone, "Orders")
    opened.append(True)
    status, text = request(server.application(("*",)), "/")
    server.close()
    assert (status, text.count("\n")) == (500, 1)
    assert "no tables" in text
