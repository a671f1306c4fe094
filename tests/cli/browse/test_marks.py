"""Marks and comments, and the capture in which they are saved."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from textual.widgets import Input

from pcli.cli.browse.marks import Marks
from pcli.codec.capture import read_packets
from pcli.codec.capture.comments import packet_comments
from pcli.codec.capture.packets import LEFT_OUT, Packet
from pcli.codec.capture.writer import PcapngWriter
from tests.cli.browse.conftest import finished, rows_of, status_of

SMALL = Path(__file__).parents[2] / "captures"
NACK = SMALL / "go" / "nack.pcap"


def packets_of(path):
    with path.open("rb") as file:
        return [(one.time_ns, one.data) for one in read_packets([("", file)]) if isinstance(one, Packet)]


async def answer(pilot, app, text):
    app.screen.query_one(Input).value = text
    await pilot.press("enter")


async def save(pilot, app, path):
    await pilot.press("w")
    await answer(pilot, app, str(path))
    while app._writing is None or app._writing.running:
        await pilot.pause(0.01)
    await pilot.pause()


def test_comments_are_saved_and_shown_again(browser, tmp_path):
    path = tmp_path / "marked.pcapng"

    async def mark(pilot, app):
        await pilot.press("j", "m", "j", "semicolon")
        await answer(pilot, app, "the first request [b]of the client")
        await save(pilot, app, path)
        assert "written: " in status_of(app)
        assert not app.marks.changed

    async def look(pilot, app):
        while not app.marks.comments:
            await pilot.pause(0.01)
        assert app.marks.comments == {2: "", 3: "the first request [b]of the client"}
        assert [row[0] for row in rows_of(app)[:4]] == [" ", "*", "#", " "]
        await pilot.press("j", "j")
        lines = [app.tree_pane.line_text(line, 200).plain for line in range(app.tree_pane.line_count())]
        assert "  comment: the first request [b]of the client" in lines

    browser(NACK, mark)
    assert packets_of(path) == packets_of(NACK)
    browser(path, look)


def test_frames_of_one_packet_keep_their_comments(indexed):
    frames = indexed(NACK)
    packets = frames.index.columns["packet"]
    second = next(n for n in range(2, frames.index.count + 1) if packets[n - 1] == packets[n - 2])
    marks = Marks()
    marks.comment(second, "b")
    marks.comment(second - 1, "a")
    written = marks.of_packets(frames.index)
    assert written == {int(packets[second - 1]): ["a", f"frame {second}: b"]}
    read = Marks()
    read.load([(packet, text) for packet, texts in written.items() for text in texts], frames.index)
    assert read.comments == marks.comments


def test_comments_on_other_packets_are_kept(indexed):
    frames = indexed(NACK)
    first = int(frames.index.columns["packet"][0])
    assert first > 1
    marks = Marks()
    marks.load([(1, "the SYN"), (1, "again")], frames.index)
    marks.toggle(1)
    assert marks.of_packets(frames.index) == {1: ["the SYN", "again"], first: ["marked"]}


def test_comments_of_a_file():
    file = io.BytesIO()
    writer = PcapngWriter(file)
    writer.packet(Packet(1, 1, 1, b"abc", 3, left_out=True), ["one"])
    writer.packet(Packet(2, 2, 1, b"", 0))
    writer.packet(Packet(3, 3, 1, b"abcd", 4), ["zwei ü", "drei"])
    data = file.getvalue()
    assert LEFT_OUT in data
    found = list(packet_comments([("", io.BytesIO(data)), ("", io.BytesIO(data[:-1]))]))
    assert found == [(1, "one"), (3, "zwei ü"), (3, "drei"), (4, "one")]


@pytest.mark.parametrize(("name", "error"), [("", "write the name of a file"), ("none/x.pcapng", "does not exist")])
def test_files_that_cannot_be_written(browser, tmp_path, name, error):
    async def script(pilot, app):
        await pilot.press("w")
        await answer(pilot, app, str(tmp_path / name) if name else "")
        assert error in str(app.screen.query_one("Static").render())
        await answer(pilot, app, str(NACK))
        assert "this file is an input" in str(app.screen.query_one("Static").render())
        await pilot.press("escape")

    browser(NACK, script)


def test_a_comment_is_removed_with_an_empty_text(browser):
    async def script(pilot, app):
        await pilot.press("semicolon")
        await answer(pilot, app, "x")
        assert rows_of(app)[0].startswith("#")
        await pilot.press("semicolon")
        await answer(pilot, app, "")
        await finished(pilot, app)
        assert rows_of(app)[0].startswith(" ")

    browser(NACK, script)
