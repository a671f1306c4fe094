"""The site: its navigation, and the built pages in a browser."""

import functools
import http.server
import json
import os
import re
import runpy
import shutil
import subprocess
import threading
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = runpy.run_path(str(ROOT / "docs" / "site_source.py"))


@pytest.fixture(scope="module")
def pages():
    return SOURCE["site_pages"]()


def test_each_page_is_in_the_navigation_once(pages):
    groups = tomllib.loads(SOURCE["settings"](pages))["project"]["nav"]
    named = [name for group in groups for names in group.values() for name in names]
    assert sorted(named) == sorted(pages)
    assert {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} <= set(named)
    assert all(group.values() for group in groups)


def test_there_is_a_page_for_each_command(pages):
    from typer.main import get_command

    from pcli.cli.commands import application

    names = get_command(application()).commands
    assert {name for name in pages if name.startswith("commands/")} == {f"commands/{name}.md" for name in names}
    assert "`-I, --interval SECONDS`" in pages["commands/stats.md"], "the options of subcommands are on the page"
    assert "](../trace.md)" in pages["commands/trace.md"]


def test_links_lead_to_pages_of_the_site(pages):
    for name, text in pages.items():
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            path = os.path.normpath(Path(name).parent / target)
            assert path in pages or (ROOT / "docs" / path).suffix == ".pcap", f"{name}: {target}"


@pytest.fixture(scope="module")
def site():
    """Build the site and yield its URL."""
    for tool in ("npm", "chromium"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    done = subprocess.run(["make", "site"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0 and re.search(r"ENOTFOUND|ECONNREFUSED|NewConnectionError|ETIMEDOUT", done.stderr):
        pytest.skip("the package registries cannot be reached")
    assert done.returncode == 0, done.stdout + done.stderr
    handler = functools.partial(_Quiet, directory=ROOT / "build" / "site")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.mark.slow
def test_the_site_makes_no_request_to_another_host(site, tmp_path):
    """The tutorial contains a diagram and the search. The log of chromium has the page that caused each request."""
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    words += [
        "--virtual-time-budget=20000",
        f"--log-net-log={tmp_path}/log.json",
        "--dump-dom",
        f"{site}/tutorial.html",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert '<div class="mermaid"' in done.stdout, "the diagram was drawn"
    events = [event.get("params", {}) for event in json.loads((tmp_path / "log.json").read_text())["events"]]
    loaded = {one["url"] for one in events if one.get("initiator") == site and "url" in one}
    assert {f"{site}/mermaid.min.js", f"{site}/search.json"} <= loaded
    assert {url for url in loaded if not url.startswith(f"{site}/")} == set()


@pytest.mark.slow
def test_no_page_and_no_style_sheet_loads_from_another_host(site):
    built = ROOT / "build" / "site"
    for path in built.rglob("*.html"):
        tags = re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", path.read_text())
        for target in re.findall(r'\b(?:src|href)="([^"]*)"', " ".join(tags)):
            assert not urlsplit(target).netloc, f"{path.name}: {target}"
    for path in built.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", path.read_text()), path.name
