"""The application in a web browser: the token, the page, and a session in Chromium."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pcli.cli.browse.browse import served_arguments

pytest.importorskip("textual_serve", reason="the extra pulsar-pcli[tui] is not installed")

SMALL = Path(__file__).parents[2] / "captures"
NACK = SMALL / "go" / "nack.pcap"


@pytest.fixture
def served(tmp_path):
    """Serve a capture. Return the address of the page."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "pcli.cli", "browse", "-r", str(NACK), "--web"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()
            assert process.wait(30) == 0


def test_a_wrong_token_gets_403_and_the_page_names_no_other_host():
    from aiohttp.test_utils import TestClient, TestServer

    from pcli.cli.browse.web_server import WebServer

    async def main():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = WebServer(["browse"], "<title>", listening, "token" * 6)
            server.port = listening.getsockname()[1]
            async with TestClient(TestServer(await server._make_app())) as client:
                for path in (
                    "/",
                    "/token/",
                    f"/{'token' * 7}/",
                    "/static/js/textual.js",
                    "/x/ws",
                    "/%2e/",
                    "/%74oken/",
                ):
                    assert (await client.get(path)).status == 403, path
                base = f"/{'token' * 6}"
                assert (await client.get(f"{base}/static/js/textual.js")).status == 200
                assert (await client.get(f"{base}/static/%2e%2e/server.py")).status in (403, 404)
                response = await client.get(f"{base}/")
                return server.url, response.status, await response.text(), response.headers

    url, status, page, headers = asyncio.run(main())
    assert status == 200
    named = re.findall(r"[a-z]+://[^\s\"'<>]+", page)
    assert named
    assert [one for one in named if not one.startswith((url, url.replace("http:", "ws:")))] == []
    assert "&lt;title&gt;" in page
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"


class Chromium:
    """A page in Chromium, driven by the DevTools protocol. It records all addresses that the page requests."""

    def __init__(self, socket_):
        self._socket = socket_
        self._number = 0
        self.requested = []

    async def call(self, method, **parameters):
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json()
            if message.get("method") == "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])
            elif message.get("method") == "Network.webSocketCreated":
                self.requested.append(message["params"]["url"])
            elif message.get("id") == self._number:
                return message.get("result", {})

    async def until(self, expression, key=""):
        """Wait until an expression is true. Press a key each time, because the application reads keys a little later
        than the page shows its first output.
        """
        for _ in range(600):
            if key:
                await self.press(key)
            found = await self.call("Runtime.evaluate", expression=expression)
            if found["result"].get("value"):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(expression)

    async def press(self, key):
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" else {}
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)


@pytest.mark.slow
def test_a_session_in_chromium(served, tmp_path):
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is not installed")
    import aiohttp

    async def drive(port):
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as response:
                [target] = [one for one in await response.json() if one["type"] == "page"]
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket_:
                page = Chromium(socket_)
                await page.call("Network.enable")
                await page.call("Page.enable")
                await page.call("Page.navigate", url=served)
                await page.until("document.body.classList.contains('-first-byte')")
                await page.call("Runtime.evaluate", expression="document.querySelector('textarea').focus()")
                await page.until("document.body.classList.contains('-closed')", key="q")
                return page.requested

    profile = tmp_path / "profile"
    words = [program, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    with subprocess.Popen(
        [*words, "--remote-debugging-port=0", "about:blank"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            line = next(line for line in process.stderr if "DevTools listening" in line)
            requested = asyncio.run(drive(re.search(r":(\d+)/", line)[1]))
        finally:
            process.kill()
    assert any(url.startswith("ws://127.0.0.1:") for url in requested)
    allowed = (served, served.replace("http:", "ws:"), "data:", "blob:")
    assert [url for url in requested if not url.startswith(allowed)] == []


def test_a_port_in_use(pcli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = pcli("browse", "-r", NACK, "--web", "--port", port)
    assert (ran.code, ran.err) == (2, f"pcli: --port {port}: the port is in use\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--web"], "no capture to read: give files with -r, or an interface with -i"),
        (["--web", "-r", "missing.pcap"], "missing.pcap: no such file or directory"),
        (
            ["--web", "--broker", "pulsar://localhost:1"],
            "--web requires -r or -i: each page would run a proxy of its own",
        ),
    ],
)
def test_wrong_arguments(pcli, arguments, text):
    ran = pcli("browse", *arguments)
    assert (ran.code, ran.err) == (2, f"pcli: {text}\n")


def test_each_page_runs_the_command_without_the_options_of_the_server():
    words = ["browse", "--web", "-r", "a b.pcap", "--port", "8000", "--port=1", "-e", "time"]
    assert served_arguments(words) == ["browse", "-r", "a b.pcap", "-e", "time"]
