"""Live inputs: a growing file, a broker through the proxy, an interface, and the options of proxy and broker."""

from __future__ import annotations

import asyncio
import shutil
import socket
import time
from pathlib import Path

import pytest

from pcli.cli.browse import browse as command
from pcli.cli.browse.browse_app import BrowseApp
from pcli.cli.browse.frame_views import BrowseOptions
from pcli.cli.browse.live_sources import follow_broker, follow_capture, follow_interface
from pcli.cli.common.output import Exit
from pcli.codec.capture import ReadOptions
from pcli.codec.errors import CaptureError, LocalError
from pcli.codec.observe.payload_contents import Contents
from pcli.replay.service_url import Security
from tests.cli.browse.conftest import status_of

SMALL = Path(__file__).parents[2] / "captures"
NACK = SMALL / "go" / "nack.pcap"


def until(condition, what):
    """Wait for a thread of the source. The limit only bounds a failure."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def frames_of(source):
    source.build.refresh()
    return source.frames.index.count


@pytest.fixture
def growing(tmp_path):
    """A capture file with its first half, and a function that appends the other half."""
    data, path = NACK.read_bytes(), tmp_path / "growing.pcap"
    path.write_bytes(data[:3000])

    def grow():
        with path.open("ab") as file:
            file.write(data[3000:])

    return path, grow


def test_a_growing_file_is_followed(growing):
    path, grow = growing
    source = follow_capture(str(path), ReadOptions(), Contents())
    until(lambda: frames_of(source) > 5, "the first frames")
    before = frames_of(source)
    assert not source.build.over
    grow()
    until(lambda: frames_of(source) > before, "the appended frames")
    until(lambda: frames_of(source) == 60, "all frames")
    assert source.frames.facts(60).frame.data
    assert source.close() is Exit.FINE


def test_the_cursor_in_the_last_line_follows(growing):
    path, grow = growing
    source = follow_capture(str(path), ReadOptions(), Contents())

    async def main():
        app = BrowseApp(source.frames, BrowseOptions("x", follow=True), source.build, source.inputs)
        async with app.run_test(size=(80, 24)) as pilot:
            while not app.list.line_count():
                await pilot.pause(0.01)
            await pilot.press("G")
            assert "live" in status_of(app)
            grow()
            while app.list.line_count() < 60:
                await pilot.pause(0.01)
            assert app.list.number == 60
            await pilot.press("g")
            app.tick()
            assert app.list.number == 1

    asyncio.run(main())
    source.close()


def test_a_followed_file_that_becomes_shorter(growing):
    path, _ = growing
    source = follow_capture(str(path), ReadOptions(), Contents())
    until(lambda: frames_of(source) > 5, "the first frames")
    path.write_bytes(b"")
    until(lambda: source.build.over, "the end")
    assert source.frames.index.tables.damaged

    async def main():
        app = BrowseApp(source.frames, BrowseOptions("x", follow=True), source.build, source.inputs)
        async with app.run_test(size=(300, 24)):
            app.tick()
            assert f"{path}: the file has become shorter while it was followed" in status_of(app)

    asyncio.run(main())
    source.close()


def test_a_followed_file_that_is_no_capture(tmp_path):
    path = tmp_path / "x"
    path.write_text("no capture")
    with pytest.raises(CaptureError, match="neither pcap nor pcapng"):
        follow_capture(str(path), ReadOptions(), Contents())


def test_the_clients_of_a_broker_through_the_proxy(broker, pcli):
    with follow_broker(broker.service_url, 0, Security(), ReadOptions(), Contents()) as (source, proxy):
        assert proxy.service_url != broker.service_url
        pcli("produce", "orders", "-u", proxy.service_url, "-m", "one")
        until(lambda: frames_of(source) > 10, "the frames of the producer")
        source.close()
    assert not source.frames.index.folder.exists()


def test_the_network_faults_of_the_proxy(broker):
    """T adds a fault, closes and opens the ports, and removes all faults."""
    with follow_broker(broker.service_url, 0, Security(), ReadOptions(), Contents()) as (source, proxy):
        host, port = proxy.service_url.removeprefix("pulsar://").split(":")

        async def main():
            app = BrowseApp(source.frames, BrowseOptions("x", proxy=proxy), source.build, source.inputs)
            async with app.run_test(size=(80, 24)) as pilot:

                async def write(text):
                    await pilot.press("T", *text, "enter")
                    await pilot.pause()

                await write("latency=5ms")
                assert [str(fault) for fault in proxy.byte_faults] == ["latency=5ms"]
                await write("latancy=5ms")
                assert "is none of latency" in app.screen.query_one("Static").render().plain
                await pilot.press("escape")
                await write("down")
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection((host, int(port)))
                await write("up")
                socket.create_connection((host, int(port))).close()
                await write("none")
                assert proxy.byte_faults == []
                assert status_of(app).startswith("network faults: none")

        asyncio.run(main())
        source.close()


def test_a_port_in_use(broker, pcli, monkeypatch):
    monkeypatch.setattr(command, "check_terminal", lambda web: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = pcli("browse", "--broker", broker.service_url, "--listen", port)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert f"{port}" in ran.err
    with pytest.raises(LocalError), follow_broker("http://localhost:1", 0, Security(), ReadOptions(), Contents()):
        pass


def test_an_interface_that_does_not_exist():
    if not (shutil.which("tcpdump") or shutil.which("dumpcap")):
        pytest.skip("no live capture here: neither tcpdump nor dumpcap is installed")
    with (
        pytest.raises(CaptureError, match="nosuch0"),
        follow_interface("nosuch0", "", ReadOptions(), Contents()),
    ):
        pass


@pytest.mark.parametrize(
    "arguments", [["proxy", "--to", "localhost:1", "--listen", "0", "--browse"], ["broker", "--port", "0", "--browse"]]
)
def test_servers_without_a_terminal(pcli, arguments):
    ran = pcli(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "pcli: browse requires a terminal; pcli dissect prints frames as text\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-r", str(NACK), "-i", "lo"], "use one of -r FILE, -i IFACE and --broker URL"),
        (["-r", str(NACK), "-r", str(NACK), "--follow"], "--follow requires one capture file"),
        (["-r", str(NACK), "-f", "tcp"], "-f filters the packets of a live capture and requires -i"),
    ],
)
def test_options_that_exclude_each_other(pcli, monkeypatch, arguments, text):
    monkeypatch.setattr(command, "check_terminal", lambda web: None)
    ran = pcli("browse", *arguments)
    assert ran.code == 2
    assert ran.err.startswith(f"pcli: {text}")
