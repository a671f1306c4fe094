"""The side panes: findings, permits, key ranges, balances."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.browse.conftest import finished, status_of

SMALL = Path(__file__).parents[2] / "captures"
NACK = SMALL / "go" / "nack.pcap"


def side_of(app):
    return [line.text for line in app.side.lines]


async def open_side(pilot, app, key):
    await pilot.press(key)
    await finished(pilot, app)
    assert app.side.has_focus


async def go_to(pilot, app, kind):
    """Select the last frame of this command type."""
    from pcli.codec.wire.commands import BY_NAME

    numbers = (app.frames.index.columns["type"] == BY_NAME[kind].number).nonzero()[0]
    app.jump(int(numbers[-1]) + 1)
    await pilot.pause()


def test_findings_are_those_of_diagnose_and_lead_to_their_frames(browser, pcli):
    told = pcli("diagnose", "-r", NACK).out

    async def script(pilot, app):
        await open_side(pilot, app, "F")
        shown = side_of(app)
        rules = re.findall(r"diagnose --explain ([\w-]+)", told)
        assert rules
        assert re.findall(r"diagnose --explain ([\w-]+)", "\n".join(shown)) == rules
        line = next(place for place, text in enumerate(shown) if re.match(r" +frame \d+  packet", text))
        app.side.move_to(line)
        await pilot.press("enter")
        await pilot.pause()
        assert app.list.number == int(shown[line].split()[1])
        app.side.move_to(0)
        seen = []
        for _ in range(len(app.side.lines[0].frames)):
            await pilot.press("enter")
            await pilot.pause()
            seen.append(app.list.number)
        assert sorted(seen) == sorted(app.side.lines[0].frames)
        await pilot.press("F")
        await pilot.pause()
        assert not app.side.display
        assert app.tree_pane.region.height

    browser(NACK, script)


def test_permits_of_the_consumer_of_the_frame(browser, pcli):
    import json

    async def script(pilot, app):
        await go_to(pilot, app, "FLOW")
        name = app.selected.peer.name
        [row] = json.loads(pcli("stats", "permits", "-r", NACK, "--consumer", name, "-T", "json").out)
        await open_side(pilot, app, "P")
        shown = side_of(app)
        assert f"({name})" in shown[0]
        assert f"flowed {row['flowed']}" in shown[0]
        changes = [text.split() for text in shown if text.endswith(" permits")]
        assert [(int(one[3]), int(one[4])) for one in changes] == [
            (point["frame"], point["balance"]) for point in row["points"]
        ]
        await pilot.press("G", "enter")
        await pilot.pause()
        assert app.list.number == row["points"][-1]["frame"]

    browser(NACK, script)


def test_key_ranges_at_the_selected_frame(browser, captures):
    async def script(pilot, app):
        await go_to(pilot, app, "MESSAGE")
        await open_side(pilot, app, "K")
        first = side_of(app)
        assert first[0].endswith(f"at frame {app.list.number}")
        assert any(re.match(r" +\d+-\d+ +\w+  \d+ keys seen", text) for text in first)
        await pilot.press("escape", "G")
        await open_side(pilot, app, "K")
        assert all("gone" in text for text in side_of(app)[1:])

    browser(captures / "java" / "key-shared-auto-split.pcap", script)


def test_the_balance_of_the_topic_of_the_frame(browser, pcli):
    import json

    async def script(pilot, app):
        await go_to(pilot, app, "SEND")
        topic = app.selected.peer.topic
        balance = json.loads(pcli("stats", "balances", "-r", NACK, "-T", "json").out)[topic]
        await open_side(pilot, app, "B")
        shown = [text.split() for text in side_of(app)]
        assert [str(balance["sent"]), "sent"] in shown
        assert [str(balance["stored"]), "stored"] in shown

    browser(NACK, script)


def test_the_segments_at_the_selected_frame(browser, captures_5):
    """Frame 1356 contains the split of the only segment, and frame 4801 the merge of its children."""
    changes = {"create 0": 84, "split 0 → 1, 2": 1356, "merge 1, 2 → 3": 4801}

    async def script(pilot, app):
        for at, active in ((1343, ["0"]), (1356, ["1", "2"]), (4810, ["3"])):
            app.jump(at)
            await pilot.pause()
            await open_side(pilot, app, "S")
            shown = side_of(app)
            assert shown[0].startswith("topic://public/default/sp2  epoch ")
            rows = [text.split() for text in shown]
            assert sorted(row[0] for row in rows if "active" in row) == active
            found = {text.partition(" s  ")[2].partition("  (")[0] for text in shown if "(epoch" in text}
            assert found == {text for text, frame in changes.items() if frame <= at}
            await pilot.press("escape")
        await open_side(pilot, app, "S")
        split = next(place for place, line in enumerate(app.side.lines) if "split" in line.text)
        app.side.move_to(split)
        await pilot.press("enter")
        await pilot.pause()
        assert app.list.number == 1356

    browser(captures_5 / "split-merge-under-load.pcap", script)


def test_the_segments_are_those_of_the_topic_of_the_frame(browser, captures_5):
    async def script(pilot, app):
        found = []
        for kind in ("SEND", "MESSAGE", "WATCH_TC_ASSIGNMENTS_CLOSE"):
            await go_to(pilot, app, kind)
            await open_side(pilot, app, "S")
            found.append([text.split()[0] for text in side_of(app) if text.startswith("topic://")])
            await pilot.press("escape")
        topic, dlq = "topic://public/default/dlq2", "topic://public/default/dlq2-DLQ"
        assert found == [[dlq], [topic], [topic, dlq]]

    browser(captures_5 / "queue-dlq.pcap", script)


@pytest.mark.parametrize(
    ("key", "text"),
    [("P", "the capture contains no consumer"), ("K", "no Key_Shared"), ("S", "no scalable topic at this frame")],
)
def test_nothing_to_show(browser, tmp_path, key, text):
    from pcli.codec.wire.build import push_frame
    from tests.cli.test_planted_secrets import connect, record

    capture = record(tmp_path / "connect.pcapng", [(True, push_frame(connect()))])

    async def script(pilot, app):
        await open_side(pilot, app, key)
        assert text in side_of(app)[0]
        await pilot.press("enter")
        await pilot.pause()
        assert "refers to no frame" in status_of(app)

    browser(Path(capture), script)
