"""`pcli top`: the page with simulated keys, and the command."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from urllib.request import urlopen

import pytest

from pcli.cli.top.rows import Snapshot
from tests.cli.top.conftest import ORDERS, SECOND, consumer, finding, scalable, subscription, topics

# -- the page ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def page() -> Callable[..., None]:
    """Run a script on a page: a coroutine that takes the pilot, the app and a list of future snapshots."""
    pytest.importorskip("textual", reason="the extra pulsar-pcli[tui] is not installed")
    from pcli.cli.top.live_page import TopPage

    def play(script: Any, first: Snapshot, *later: Snapshot, poll: Any = None) -> None:
        coming = list(later)
        interval = 0.05 if coming or poll else 60.0

        def next_one() -> Snapshot:
            return coming.pop(0) if len(coming) > 1 else coming[0]

        async def main() -> None:
            app = TopPage(poll or next_one, interval, "orders.pcapng", first)
            async with app.run_test(size=(120, 40)) as pilot:
                await script(pilot, app)

        asyncio.run(main())

    return play


def shown(app: Any) -> list[list[str]]:
    table = app.query_one("#table")
    return [[cell.plain for cell in table.get_row_at(number)] for number in range(table.row_count)]


def first_cells(app: Any) -> list[str]:
    return [row[0].strip().rpartition("/")[2] for row in shown(app)]


def text_of(app: Any, name: str) -> str:
    return str(app.screen.query_one(name).render())


def test_the_page_shows_the_rows_and_the_findings(page):
    async def script(pilot: Any, app: Any) -> None:
        assert first_cells(app) == ["bills", "pay", "p", "orders", "audit", "work", "w1", "w2"]
        assert shown(app)[6][1:] == ["", "0", "5", "-", "-", "30", "no permits"]
        assert "never-acked: W1 holds 5 messages [and] acknowledges none  [frames 7, 9]" in text_of(app, "#findings")
        assert "orders.pcapng" in text_of(app, "#status")

    page(script, Snapshot(SECOND, topics(), [finding(topic=ORDERS)]))


def test_keys_sort_and_the_cursor_stays_with_its_row(page):
    async def script(pilot: Any, app: Any) -> None:
        await pilot.press("down", "down", "p")
        assert first_cells(app)[0] == "orders"
        assert first_cells(app)[app.query_one("#table").cursor_row] == "p"
        assert "by fewest permits" in text_of(app, "#status")
        await pilot.press("n")
        assert first_cells(app)[0] == "bills"

    page(script, Snapshot(SECOND, topics()))


def test_a_filter_by_keys(page):
    async def script(pilot: Any, app: Any) -> None:
        await pilot.press("slash", *"w1", "enter")
        assert first_cells(app) == ["orders", "work", "w1"]
        await pilot.press("slash", "escape")
        assert len(shown(app)) == 8
        await pilot.press("slash", *"qp")
        assert shown(app) == []  # letters that are keys outside the filter
        await pilot.press("escape", "q")
        assert not app.is_running

    page(script, Snapshot(SECOND, topics()))


def test_figures_are_updated_unless_paused(page):
    async def script(pilot: Any, app: Any) -> None:
        while shown(app)[6][6] != "90":
            await pilot.pause(0.02)
        await pilot.press("space")
        await app.workers.wait_for_complete()
        assert "PAUSED" in text_of(app, "#status")
        app._poll = lambda: Snapshot(9 * SECOND, {})
        await pilot.pause(0.15)
        assert len(shown(app)) == 8
        await pilot.press("space")
        while shown(app):
            await pilot.pause(0.02)

    page(script, Snapshot(SECOND, topics()), Snapshot(3 * SECOND, topics(3)))


def test_figures_are_updated_below_an_open_sheet(page):
    async def script(pilot: Any, app: Any) -> None:
        await pilot.press("question_mark")
        while app._table.get_row_at(6)[6].plain != "90":
            await pilot.pause(0.02)

    page(script, Snapshot(SECOND, topics()), Snapshot(3 * SECOND, topics(3)))


def test_into_a_consumer_and_back(page):
    async def script(pilot: Any, app: Any) -> None:
        await pilot.press(*["down"] * 6, "enter")
        sheet = text_of(app, "#sheet Static")
        assert f"{ORDERS} / work / w1" in sheet
        assert "availablePermits                   0" in sheet
        assert "never-acked" in sheet
        assert "Acknowledge." in sheet
        await pilot.press("escape", "down", "enter")
        assert "never-acked" not in text_of(app, "#sheet Static")
        await pilot.press("escape", "question_mark")
        assert "pause or resume" in text_of(app, "#sheet Static")

    page(script, Snapshot(SECOND, topics(), [finding(topic=ORDERS, subscription="work", consumer="w1")]))


def test_segments_of_scalable_topics(page):
    async def script(pilot: Any, app: Any) -> None:
        found = [first_cells(app)]
        for _ in range(2):
            await pilot.press("s")
            found.append(first_cells(app))
        assert found == [["sp2", "st", "s1"], ["0000-7fff-1", "st", "s1-seg-1"], ["sp2", "st", "s1"]]

    page(script, scalable())


def test_names_from_the_wire_are_no_markup_and_no_escapes(page):
    async def script(pilot: Any, app: Any) -> None:
        assert shown(app)[0][0] == "[red]x\\x1b[2J"
        await pilot.press("enter")
        assert "[red]x\\x1b[2J" in text_of(app, "#sheet Static")

    page(script, Snapshot(SECOND, {"[red]x\x1b[2J": {"subscriptions": {}}}))


def test_new_figures_leave_the_view_where_it_was(page):
    def many(seconds: int) -> Snapshot:
        return Snapshot(seconds * SECOND, {f"t{one:03}": {"msgInCounter": one * seconds} for one in range(200)})

    async def script(pilot: Any, app: Any) -> None:
        await pilot.press("pagedown", "pagedown", "pagedown", "down")
        table, row = app._table, app._table.cursor_row
        top = table.scroll_y
        assert 0 < top < row
        app.show(many(2))
        await pilot.pause()
        assert (table.cursor_row, table.scroll_y) == (row, top)
        await pilot.press("r")
        await pilot.pause()
        assert table.get_row_at(table.cursor_row)[0].plain == f"t{row:03}"
        assert table.scroll_y <= table.cursor_row < table.scroll_y + table.size.height

    page(script, many(1))


def test_the_page_fits_80_by_24(page):
    async def script(pilot: Any, app: Any) -> None:
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert app.size == (80, 24)
        table = app.query_one("#table")
        assert table.virtual_size.width <= 80
        assert table.size.height >= 10
        status = text_of(app, "#status")
        assert status.endswith("? help")
        assert len(status) <= 80
        rows = [[cell.plain for cell in table.get_row_at(number)] for number in range(table.row_count)]
        assert any(row[-1] == "blocked: unacked" for row in rows)
        assert all(len(row[0]) <= 30 for row in rows)

    name = "persistent://tenant/namespace/a-topic-with-a-name-that-is-longer-than-most-names-are"
    blocked = consumer("worker-1-of-the-orders-service", 0, 1_000_000, blockedConsumerOnUnackedMsgs=True)
    stats = {"msgInCounter": 123_456_789, "subscriptions": {"orders-service": subscription(blocked, backlog=9_999_999)}}
    page(script, Snapshot(SECOND, {name: stats}, [finding() for _ in range(8)], "123,456 frames  100.0 s  12 gaps"))


def test_rows_beyond_the_limit_are_counted(page):
    async def script(pilot: Any, app: Any) -> None:
        assert len(shown(app)) == 500
        assert "20 more rows" in text_of(app, "#status")

    page(script, Snapshot(SECOND, {f"t{number:03}": {} for number in range(520)}))


# -- the command -------------------------------------------------------------------------------------------------------


def test_a_broker_once(pcli, broker, produce, consume):
    produce("orders", "-m", "a")
    consume("orders", "-s", "work", "--subscription-type", "Shared", "--from", "earliest", "-n", "1")
    produce("orders", "-m", "d")
    ran = pcli("top", "--broker", broker.http_url, "--once")
    assert ran.code == 0
    assert [line.split() for line in ran.lines] == [
        ["name", "type", "permits", "unacked", "backlog", "msg/s", "msgs", "state"],
        [ORDERS, "-", "0", "1", "0.000", "2"],
        ["work", "Shared", "-", "0", "1", "0.000", "1", "no", "consumer"],
    ]


def test_a_capture_once(pcli, small_captures):
    """The figures equal those of the broker's admin API, see batch-index.truth.json."""
    path = small_captures / "go" / "batch-index.pcap"
    truth = json.loads(path.with_suffix(".truth.json").read_text())["stats"]
    [(topic, stats)] = truth.items()
    [(name, subscription)] = stats["subscriptions"].items()
    [one] = subscription["consumers"]
    ran = pcli("top", "-r", path, "--once")
    assert ran.code == 0
    assert [line.split() for line in ran.lines[1:4]] == [
        [topic, *shown_figures(one, subscription, stats["msgInCounter"])],
        [name, subscription["type"], *shown_figures(one, subscription, subscription["msgOutCounter"])],
        [
            one["consumerName"],
            str(one["availablePermits"]),
            str(one["unackedMessages"]),
            "-",
            "-",
            str(one["msgOutCounter"]),
        ],
    ]
    assert "redelivered-after-reconnect: " in ran.out


def test_scalable_topics_of_a_capture(pcli, captures_5):
    path = captures_5 / "split-merge-under-load.pcap"
    [total] = [line for line in pcli("top", "-r", path, "--once").lines if "://" in line]
    assert total.split() == ["topic://public/default/sp2", "-", "0", "0", "-", "2222", "1", "active,", "3", "sealed"]
    segments = [line.split() for line in pcli("top", "-r", path, "--once", "--segments").lines if "://" in line]
    assert [line[0].rpartition("-")[2] for line in segments] == ["1", "0", "3", "2"]
    assert sum(int(line[5]) for line in segments) == 2222
    assert pcli("top", "--broker", "http://localhost:1", "--once", "--segments").code == 2


def test_findings_compared_with_a_broker(pcli, broker, small_captures):
    arguments = ("top", "-r", small_captures / "python/25-no-flow.pcapng", "--once", "--admin")
    ran = pcli(*arguments, broker.http_url)
    assert ran.code == 0
    assert f"confirmed by the broker at {broker.http_url}" in ran.out
    failed = pcli(*arguments, "http://127.0.0.1:1")
    assert failed.code == 2
    assert "connection refused; the findings were not compared with the broker" in " ".join(failed.out.split())
    assert pcli("top", "--broker", broker.http_url, "--once", "--admin", broker.http_url).code == 2


def shown_figures(one: dict[str, Any], subscription: dict[str, Any], count: int) -> list[str]:
    figures = one["availablePermits"], subscription["unackedMessages"], subscription["msgBacklog"]
    return [*map(str, figures), "-", str(count)]


def test_packet_numbers_of_findings(pcli, small_captures):
    capture = small_captures / "python/25-no-flow.pcapng"
    found = [line for line in pcli("top", "-r", capture, "--once", "--packet-numbers").lines if ": " in line]
    assert found[0].endswith(
        "since it subscribed in frame 22 (packet 32). The backlog is at least 12 entries.  [frame 22 (packet 32)]"
    )
    assert pcli("top", "--broker", "http://localhost:1", "--once", "--packet-numbers").code == 2


def test_a_damaged_capture_has_its_exit_code(pcli, small_captures, tmp_path):
    whole = (small_captures / "go" / "nack.pcap").read_bytes()
    (tmp_path / "cut.pcap").write_bytes(whole[: len(whole) // 2])
    assert pcli("top", "-r", tmp_path / "cut.pcap", "--once").code == 3


def test_a_capture_on_the_page(page, small_captures):
    source = capture_source(small_captures / "go" / "nack.pcap", 0.0)

    async def script(pilot: Any, app: Any) -> None:
        while "end" not in text_of(app, "#status"):
            await pilot.pause(0.02)
        assert first_cells(app) == ["go-nack", "nacks"]
        assert "redelivered-after-nack" in text_of(app, "#findings")

    page(script, Snapshot(0), poll=source.poll)
    assert source.close() == 0


def test_a_capture_takes_its_time_and_can_be_left(small_captures):
    """The capture lasts three seconds and is replayed at a thousandth of its speed."""
    source = capture_source(small_captures / "go" / "nack.pcap", 0.001)
    while not source.poll().time_ns:
        pass
    assert "end" not in source.poll().note
    assert source.close() == 0
    assert not source._thread.is_alive()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_metrics_say_that_the_reader_has_failed(small_captures, monkeypatch):
    """An error of pcli itself, which is printed; the page and the endpoint stay."""
    from pcli.codec.observe.metrics.collector import MetricsCollector

    metrics = MetricsCollector(50)
    monkeypatch.setattr(metrics, "see", Mock(side_effect=ZeroDivisionError))
    source = capture_source(small_captures / "go" / "nack.pcap", 0.001, metrics=metrics)
    source._thread.join(20)
    source.refresh()
    assert {metric.name: samples for metric, samples in metrics.read()}["pcli_source_up"] == [((), 0)]


def capture_source(path: Path, speed: float, **options: Any) -> Any:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.top.capture_source import CaptureSource

    return CaptureSource(CaptureReading([str(path)]), speed, whole=False, **options)


def test_other_namespaces(pcli, broker):
    ran = pcli("top", "--broker", broker.http_url, "--namespace", "public/nowhere", "--once")
    assert ran.code == 2
    assert "status 404" in ran.err


def test_without_a_terminal(pcli, broker):
    ran = pcli("top", "--broker", broker.http_url)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "pcli: top requires a terminal; --once prints the state as text\n"


def test_without_textual(monkeypatch):
    from pcli.cli.top.top import _run
    from pcli.codec.errors import LocalError

    for name in ("stdin", "stdout"):
        monkeypatch.setattr(sys, name, SimpleNamespace(isatty=lambda: True))
    monkeypatch.delitem(sys.modules, "pcli.cli.top.live_page", raising=False)
    monkeypatch.setitem(sys.modules, "textual", None)
    with pytest.raises(LocalError, match=r"requires pulsar-pcli\[tui\]"):
        _run(SimpleNamespace(poll=lambda: Snapshot(0)), 1.0, once=False, segments=False)


def test_in_a_terminal_and_out_of_it(small_captures):
    """A process with a terminal: it draws the page, and `q` ends it and restores the screen."""
    pytest.importorskip("textual", reason="the extra pulsar-pcli[tui] is not installed")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 110, 0, 0))
    command = [sys.executable, "-m", "pcli.cli", "top", "-r", str(small_captures / "go" / "nack.pcap")]
    environment = os.environ | {"TERM": "xterm-256color"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = read_until(ours, b"? help")
        seen += read_until(ours, b"\x1b[?1049l", press=b"q")  # the normal screen is restored
        threading.Thread(target=drain, args=(ours,), daemon=True).start()
        assert process.wait(20) == 0
    assert b"Traceback" not in seen


def test_metrics_beside_the_page(small_captures):
    """The status line shows the URL. The metrics are updated while the page is paused."""
    pytest.importorskip("textual", reason="the extra pulsar-pcli[tui] is not installed")
    pytest.importorskip("prometheus_client", reason="the extra pulsar-pcli[prometheus] is not installed")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 150, 0, 0))
    command = [sys.executable, "-m", "pcli.cli", "top", "-r", "nack.pcap", "--prometheus", "0"]
    environment = os.environ | {"TERM": "xterm-256color"}
    place = small_captures / "go"
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=place) as process:
        os.close(theirs)
        seen = read_until(ours, b"/metrics")
        found = re.search(rb"http://127\.0\.0\.1:\d+/metrics", seen)
        assert found is not None
        os.write(ours, b" ")
        read_until(ours, b"PAUSED")
        text = ""
        while "pcli_source_up 0.0" not in text:
            with urlopen(found[0].decode(), timeout=10) as response:
                text = response.read().decode()
        assert 'topic="persistent://public/default/go-nack"} 9.0' in text
        read_until(ours, b"\x1b[?1049l", press=b"q")
        threading.Thread(target=drain, args=(ours,), daemon=True).start()
        assert process.wait(20) == 0


def read_until(terminal: int, mark: bytes, press: bytes = b"") -> bytes:
    """Read until the mark, pressing a key every second: a key that arrives while the page starts may be discarded."""
    seen, end = b"", time.monotonic() + 60
    while mark not in seen:
        assert time.monotonic() < end, f"{mark!r} is not in {seen[-2000:]!r}"
        if press:
            os.write(terminal, press)
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 65_536)
    return seen


def drain(terminal: int) -> None:
    """A program blocks if it writes to a terminal that is not read."""
    with suppress(OSError):
        while os.read(terminal, 65_536):
            pass
    os.close(terminal)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "use exactly one of -r FILE, -i IFACE and --broker URL"),
        (("-r", "x.pcap", "--broker", "http://localhost:1"), "use exactly one of"),
        (("--broker", "pulsar://localhost:6650"), "write http://host:8080"),
        (("--broker", "http://localhost:1", "--namespace", "public"), "write tenant/namespace"),
        (("--broker", "http://localhost:1", "--once"), "http://localhost:1: "),
        (("-r", "x.pcap", "--speed", "fast"), "write a number above 0, or max"),
        (("-i", "lo", "--once"), "a live interface has no end"),
    ],
)
def test_invalid_options_are_refused(pcli, arguments, message):
    ran = pcli("top", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1
