"""The application with simulated keys and clicks, on real captures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.text import Text
from textual.events import Key
from textual.widgets import Input

from pcli.cli.browse.key_table import KEYS
from tests.cli.browse.conftest import finished, rows_of, status_of
from tests.cli.test_hostile_text import CONTROLS, conversation
from tests.cli.test_planted_secrets import SECRET, record

SMALL = Path(__file__).parents[2] / "captures"
NACK = SMALL / "go" / "nack.pcap"


def tree_of(app):
    return [app.tree_pane.line_text(line, 200).plain for line in range(app.tree_pane.line_count())]


def highlighted(app):
    pane = app.bytes_pane
    return pane.data[pane.start : pane.end]


def type_of(app):
    from pcli.codec.wire import name_of

    return name_of(app.selected.frame.type)


async def answer(pilot, app, text):
    app.screen.query_one(Input).value = text
    await pilot.press("enter")
    await finished(pilot, app)


async def type_filter(pilot, app, text):
    await pilot.press("slash")
    app.filter_line.value = text
    await pilot.press("enter")
    await finished(pilot, app)


def test_the_list_shows_the_lines_of_dissect(browser, pcli):
    parts = re.compile(r"([→←] \w+) +(.*)")
    lines = [parts.search(line).groups() for line in pcli("dissect", "-r", NACK).lines[:10]]

    async def script(pilot, app):
        assert [parts.search(row).groups() for row in rows_of(app)[:10]] == lines

    browser(NACK, script, size=(160, 45))


def test_the_tree_follows_the_list_and_the_bytes_follow_the_tree(browser):
    async def script(pilot, app):
        await pilot.press("j", "j", "tab")
        tree = tree_of(app)
        assert tree[0].startswith("▶ frame 3")
        line = next(number for number, text in enumerate(tree) if "topic:" in text)
        await pilot.press(*["down"] * line)
        assert b"persistent://public/default/" in highlighted(app)
        assert highlighted(app) == app.selected.frame.data[app.bytes_pane.start : app.bytes_pane.end]

    browser(NACK, script)


def test_a_click_on_a_byte_selects_its_field(browser):
    async def script(pilot, app):
        await pilot.press("j", "j")
        await pilot.click("#bytes", offset=(6 + 3 * 4, 1))
        await pilot.pause()
        assert tree_of(app)[app.tree_pane.cursor].strip().startswith("size of the command")
        assert app.bytes_pane.start == 4

    browser(NACK, script)


def test_a_click_selects_a_frame_and_a_click_on_a_sign_opens_a_node(browser):
    async def script(pilot, app):
        await pilot.click("#frames", offset=(5, 4))
        assert app.list.number == 4
        before = app.tree_pane.line_count()
        await pilot.click("#tree", offset=(0, 1))
        await pilot.pause()
        assert app.tree_pane.line_count() > before

    browser(NACK, script)


def test_messages_of_a_batch_with_their_bytes(browser):
    async def script(pilot, app):
        await type_filter(pilot, app, "pulsar.metadata.num_messages_in_batch > 1 and pulsar.metadata.compression")
        await pilot.press("tab", "G")
        tree = app.tree_pane
        heads = [line for line, (node, _, _) in enumerate(tree.lines) if node.text.startswith("message ")]
        assert len(heads) > 1
        tree.move_to(heads[1])
        await pilot.press("right")
        below = [tree.lines[line][0] for line in range(heads[1] + 1, tree.line_count())]
        value = next(node for node in below if node.text.startswith("value: "))
        assert value.data[value.start : value.end].decode() in value.text
        tree.move_to(next(line for line, one in enumerate(tree.lines) if one[0] is value))
        await pilot.pause()
        assert highlighted(app).decode() in value.text

    browser(SMALL / "go" / "compressions.pcapng", script, payload=True)


def test_payloads_are_hidden_until_p_is_pressed(browser):
    async def script(pilot, app):
        await type_filter(pilot, app, 'pulsar.type == "MESSAGE"')
        payload = app.selected.frame.payload
        assert payload not in app.bytes_pane.data
        assert any("<hidden: " in text for text in tree_of(app))
        await pilot.press("p")
        assert payload in app.bytes_pane.data
        assert not any("<hidden: " in text for text in tree_of(app))

    browser(NACK, script)


def test_a_filter_with_completion(browser):
    async def script(pilot, app):
        await pilot.press("slash")
        app.filter_line.value = "pulsar.rede"
        await pilot.press("l", "tab")
        assert app.filter_line.value == "pulsar.redeliverUnacknowledgedMessages"
        app.filter_line.value = 'pulsar.type == "MES'
        await pilot.press("end", "S", "tab", "enter")
        await finished(pilot, app)
        assert app.filter_line.applied == 'pulsar.type == "MESSAGE"'
        assert {row.split()[4] for row in rows_of(app)} == {"MESSAGE"}
        assert "of" in status_of(app)

    browser(NACK, script)


def test_keys_behind_the_slash_are_the_filters_however_fast_they_come(browser):
    async def script(pilot, app):
        for key, character in [("slash", "/"), ("a", "a"), ("slash", "/"), ("q", "q")]:
            app.post_message(Key(key, character))
        await pilot.pause()
        assert app.filter_line.value == "a/q"

    browser(NACK, script)


def test_an_invalid_filter_is_reported_below_the_line_and_not_applied(browser):
    async def script(pilot, app):
        before = app.list.line_count()
        await pilot.press("slash")
        app.filter_line.value = "pulsar.typ == 3"
        await pilot.press("enter")
        assert "no field 'pulsar.typ'; did you mean pulsar.type" in str(app.hints.render())
        assert app.filter_line.has_class("-wrong")
        assert (app.filter_line.applied, app.list.line_count()) == ("", before)
        await pilot.press("escape")
        assert (app.filter_line.value, app.hints.display, app.focused) == ("", False, app.list)

    browser(NACK, script)


def test_the_cursor_stays_at_its_frame_when_the_filter_changes(browser):
    async def script(pilot, app):
        await pilot.press(*["j"] * 14)
        number = app.list.number
        await type_filter(pilot, app, f"pulsar.number >= {number - 2}")
        assert app.list.number == number
        await type_filter(pilot, app, "")
        assert app.list.number == number

    browser(NACK, script)


def test_search_goes_round_and_reports_what_is_not_found(browser):
    async def script(pilot, app):
        await pilot.press("ctrl+f")
        await answer(pilot, app, "redelivered 1")
        first = app.list.number
        assert "redelivered 1" in rows_of(app)[first - 1 - round(app.list.scroll_y)]
        await pilot.press("n")
        await finished(pilot, app)
        second = app.list.number
        await pilot.press("N")
        await finished(pilot, app)
        assert first < second
        assert app.list.number == first
        await pilot.press("ctrl+f")
        await answer(pilot, app, "0x0e01")
        assert b"\x0e\x01" in app.selected.frame.data
        await pilot.press("ctrl+f")
        await answer(pilot, app, "no such text")
        assert "not found: no such text" in status_of(app)

    browser(NACK, script)


def test_jumps_and_the_way_back(browser):
    async def script(pilot, app):
        await type_filter(pilot, app, 'pulsar.message.redelivery_count > 0 and pulsar.type == "MESSAGE"')
        start = app.list.number
        await pilot.press("d")
        assert type_of(app) == "REDELIVER_UNACKNOWLEDGED_MESSAGES"
        assert "all frames are shown" not in status_of(app) or app.filter_line.applied == ""
        await pilot.press("backspace")
        assert app.list.number == start
        await pilot.press("a")
        assert type_of(app) == "ACK"
        await pilot.press("a")
        assert type_of(app) == "MESSAGE"
        await pilot.press("g", "r")
        assert type_of(app) == "CONNECTED"
        await pilot.press("r")
        assert type_of(app) == "CONNECT"

    browser(NACK, script)


def test_a_frame_without_a_response(browser):
    async def script(pilot, app):
        await type_filter(pilot, app, 'pulsar.type == "FLOW"')
        number = app.list.number
        await pilot.press("r")
        assert "no request or response" in status_of(app)
        assert app.list.number == number

    browser(NACK, script)


def test_enter_on_a_reference_goes_to_its_frame(browser):
    async def script(pilot, app):
        await pilot.press("j", "tab")
        line = next(number for number, text in enumerate(tree_of(app)) if "answers frame 1" in text)
        await pilot.press(*["j"] * line, "enter")
        await pilot.pause()
        assert app.list.number == 1

    browser(NACK, script)


def test_go_to_a_frame_or_packet(browser):
    async def script(pilot, app):
        await pilot.press("colon")
        await answer(pilot, app, "12")
        assert app.list.number == 12
        packet = app.frames.facts(9).frame.packet
        await pilot.press("colon")
        await answer(pilot, app, f"p{packet}")
        assert app.selected.frame.packet == packet
        await pilot.press("colon")
        await answer(pilot, app, "99999")
        assert "no such frame" in str(app.screen.query_one("Static").render())
        await pilot.press("escape")
        assert app.selected.frame.packet == packet

    browser(NACK, script)


@pytest.mark.parametrize(
    ("key", "test"), [("c", "tcp.stream"), ("m", "pulsar.message_id"), ("p", "pulsar.consumer_name")]
)
def test_following(browser, key, test):
    from pcli.codec.observe import find_field

    async def script(pilot, app):
        total = app.list.line_count()
        await type_filter(pilot, app, 'pulsar.type == "MESSAGE"')
        await pilot.press("f", key, "enter")
        await finished(pilot, app)
        shown = [app.frames.facts(app.list.number_at(line)) for line in range(app.list.line_count())]
        values = {str(find_field(test).get(facts)) for facts in shown} - {"None"}
        assert 1 < len(shown) < total or key == "c"
        wanted = "15:0" if key == "m" else min(values)
        assert all(wanted in value for value in values)
        assert "follow " in status_of(app)
        await pilot.press("f")
        await finished(pilot, app)
        assert type_of(app) == "MESSAGE"
        assert "follow" not in status_of(app)

    browser(NACK, script)


def test_times(browser):
    async def script(pilot, app):
        since = [row.split()[1] for row in rows_of(app)[:3]]
        assert since[0] == "0.000000"
        await pilot.press("t")
        delta = [row.split()[1] for row in rows_of(app)[:3]]
        assert float(since[2]) == pytest.approx(float(delta[1]) + float(delta[2]))
        await pilot.press("t")
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:]+\.\d{6}Z", rows_of(app)[0].split()[1])
        await pilot.press("t")
        assert rows_of(app)[2].split()[1] == since[2]

    browser(NACK, script, size=(120, 40))


def test_columns(browser):
    async def script(pilot, app):
        assert app.list.head_text(0, 120).plain.split() == ["Packet", "Type", "consumer_name", "Info"]
        await pilot.press("C")
        await answer(pilot, app, "number pulsar.nothing")
        assert "no column pulsar.nothing" in str(app.screen.query_one("Static").render())
        await answer(pilot, app, "number length info")
        assert app.list.head_text(0, 120).plain.split() == ["No.", "Length", "Info"]

    browser(NACK, script, size=(120, 40), columns=["packet", "type", "pulsar.consumer_name", "info"])


def test_marks(browser):
    async def script(pilot, app):
        await pilot.press("j", "j", "m", "j", "j", "m", "g", "apostrophe")
        assert app.list.number == 3
        assert rows_of(app)[2].startswith("*")
        await pilot.press("apostrophe")
        assert app.list.number == 5
        await pilot.press("m", "apostrophe", "m", "apostrophe")
        assert "no frame is marked" in status_of(app)
        await pilot.press("q")
        assert "not saved" in status_of(app)
        await pilot.press("q")
        assert not app.is_running

    browser(NACK, script)


def test_panes_are_maximized_and_moved(browser):
    async def script(pilot, app):
        height = app.list.size.height
        await pilot.press("plus", "plus")
        await pilot.pause()
        assert app.list.size.height > height
        await pilot.press("tab", "backslash")
        await pilot.pause()
        assert app.tree_pane.size.height > 30
        assert not app.list.region.height
        await pilot.press("backslash", "vertical_line")
        await pilot.pause()
        assert app.bytes_pane.region.x > app.tree_pane.region.x

    browser(NACK, script)


def test_the_help_lists_every_key(browser):
    async def script(pilot, app):
        await pilot.press("question_mark")
        text = str(app.screen.query_one("#sheet Static").render())
        assert [key.shown for key in KEYS if key.shown not in text] == []
        await pilot.press("escape", "q")
        assert not app.is_running

    browser(NACK, script, size=(80, 24))


def test_80_by_24(browser):
    async def script(pilot, app):
        assert app.list.page_size >= 7
        assert app.tree_pane.size.height >= 5
        assert app.bytes_pane.size.height >= 4
        assert len(status_of(app)) <= 80
        assert status_of(app).endswith("? help")

    browser(NACK, script, size=(80, 24), time="r")


def test_a_terminal_that_becomes_too_small(browser):
    async def script(pilot, app):
        await pilot.resize_terminal(20, 24)
        await pilot.pause()
        assert str(app.small.render()) == "the terminal has 20×24 characters: browse needs 40×10"
        assert not app.list.region.height
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert app.list.region.height

    browser(NACK, script)


def test_the_terminal_changes_and_a_report_ends_below_the_help(browser):
    async def script(pilot, app):
        app.open_side("F")
        await pilot.press("question_mark")
        await pilot.resize_terminal(30, 24)
        await finished(pilot, app)
        await pilot.resize_terminal(80, 24)
        await pilot.press("escape")
        await pilot.pause()
        assert app.side.region.height

    browser(NACK, script)


def test_the_selection_is_visible_without_colours(browser, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    async def script(pilot, app):
        assert app.no_color
        styles = [segment.style for segment in app.list.render_line(1) if segment.text.strip()]
        assert all(style.reverse for style in styles)
        assert not any(segment.style.reverse for segment in app.list.render_line(2))

    browser(NACK, script)


def test_names_and_payloads_are_no_markup_and_no_escapes(browser, tmp_path):
    capture = record(tmp_path / "hostile.pcapng", conversation())

    async def script(pilot, app):
        printed = []
        for _ in range(app.list.line_count()):
            for pane in (app.list, app.tree_pane, app.bytes_pane):
                printed += [pane.line_text(line, 300).plain for line in range(pane.line_count())]
            printed += [status_of(app), str(app.hints.render())]
            await pilot.press("j")
        for key in "FPKB":
            await pilot.press(key)
            await finished(pilot, app)
            printed += [app.side.line_text(line, 300).plain for line in range(app.side.line_count())]
        await pilot.press("escape", "slash")
        app.filter_line.value = "pulsar.topic =="
        await pilot.press("end", "space", "tab")
        printed += [str(app.hints.render()), app.filter_line.value]
        await pilot.press("escape", "f", "p", "enter", "ctrl+f")
        await answer(pilot, app, "[red]")
        printed.append(status_of(app))
        assert [text for text in printed if CONTROLS.search(text)] == []
        assert any("[red]" in text for text in printed)
        assert any("\\x1b[2J" in text for text in printed)

    browser(Path(capture), script, payload=True, columns=["number", "pulsar.topic", "pulsar.producer_name", "info"])


def test_credentials_are_hidden(browser, tmp_path):
    from pcli.codec.wire.build import push_frame
    from tests.cli.test_planted_secrets import connect

    capture = record(tmp_path / "secret.pcapng", [(True, push_frame(connect()))])

    async def script(pilot, app):
        shown = "\n".join(tree_of(app)).encode() + app.bytes_pane.data
        assert SECRET not in shown
        assert b"<hidden: " in shown

    browser(Path(capture), script, payload=True)


def test_every_capture_is_walked_through(browser, captures):
    """The first 20 frames of the captures with the most unusual frames."""
    for name in ("java/cut-packets.pcap", "java/scalable-topic.pcap", "java/encryption.pcap", "python/07-chunked.pcap"):

        async def script(pilot, app):
            for _ in range(20):
                await pilot.press("j")
                assert tree_of(app)
                assert all(isinstance(app.list.line_text(line, 80), Text) for line in range(3))

        browser(captures / name, script)


def test_the_status_line_contains_a_progress_bar_while_the_index_is_built(browser):
    class Build:
        over, fault, progress = False, None, (30, 60)

        def refresh(self):
            return False

    async def script(pilot, app):
        app.build = Build()
        app.tick()
        assert "reading █████░░░░░ 50 %" in status_of(app)
        app.build.over = True
        app.tick()
        assert "reading" not in status_of(app)

    browser(NACK, script)
