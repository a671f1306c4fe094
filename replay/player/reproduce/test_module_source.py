"""A pytest test out of a replay: what stands around the conversation (retelling.py), and all of it as one text.

What the broker must have is asked of it before, as a replay does: topics of the default namespace by the arguments of
MiniBroker, the rest over its REST interface.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pcli.replay.player.recording_player import Noting
from pcli.replay.player.replay import Replay
from pcli.replay.player.reproduce.conversation_source import INDENT, Retelling
from pcli.replay.player.reproduce.python_source import Group, Node, laid_out, literal
from pcli.replay.player.script.rest_calls import Call

__all__ = ["reproduce"]

_HELPERS: Final = ("ANY", "Conversation", "entry", "ids", "place")
"""In the order in which ruff wants their import."""
_STEP_MS: Final = 1024
"""The broker gathers delayed messages by powers of two of its clock; two brokers agree that begin at the same point."""
_IN_STEP: Final = """\
broker.clock.advance(({phase} - round(broker.clock.now * 1000)) % {step} / 1000)  # delays come in steps of it
start = round(broker.clock.now * 1000)"""
_THERE: Final = ("tenants/public", "namespaces/public/default")
_PARTITIONED: Final = re.compile(r"persistent/public/default/([\w.-]+)/partitions", re.ASCII)
_SPACE: Final = " " * INDENT


def reproduce(name: str, replay: Replay, noted: Noting, service_url: str, settings: Mapping[str, object]) -> str:
    """The text of a test.

    ``name``: what the capture is called; ``noted``: who has played it, against a broker at ``service_url`` with these
    settings.
    """
    told = Retelling(replay, noted, service_url)
    told.write()
    used = {*told.words.used, "Conversation", *(["ids"] if told.words.ids else [])}
    lines = [*_opening(replay, told, settings), *told.lines]
    constants = [*told.words.constants()]
    return "\n".join([
        *_docstring(name, replay.script.left_out),
        "",
        "from pcli.minibroker import MiniBroker",
        f"from pcli.replay.conversation import {', '.join(one for one in _HELPERS if one in used)}",
        *(["", *constants] if constants else []),
        "",
        "",
        f"def test_{_slug(name)}() -> None:",
        '    """What was said, and what the broker answered."""',
        *lines,
        "",
    ])  # fmt: skip


def _docstring(name: str, left_out: Mapping[str, int]) -> Iterator[str]:
    end = "" if left_out else '"""'
    yield f'"""The conversation of {_plain(name)}, played against a mini-broker. Written by `pcli reproduce`.{end}'
    if left_out:
        yield ""
        yield from (f"Not played: {_plain(reason)}: {count}." for reason, count in left_out.items())
        yield '"""'


def _opening(replay: Replay, told: Retelling, settings: Mapping[str, object]) -> Iterator[str]:
    """The broker, and what it must have."""
    arguments: list[tuple[str, Node]] = []
    topics = [name for name in map(_partitioned, replay.calls) if name]
    if topics:
        arguments.append(("topics=", Group("[", [("", literal(one)) for one in topics], "]", call=False)))
    arguments += [
        (f"{key}=", literal(value) if isinstance(value, str) else str(value)) for key, value in settings.items()
    ]
    if told.words.used & {"clock", "start"}:
        arguments += [("clock=", '"manual"'), ("keepAliveIntervalSeconds=", "86400")]
    yield from laid_out("broker = ", Group("MiniBroker(", arguments, ")"), 4)
    if told.words.ids:
        yield f"    m = ids({len(told.words.ids)})"
    yield "    with broker, Conversation(broker.service_url, broker.http_url) as talk:"
    if "start" in told.words.used:
        lines = _IN_STEP.format(phase=replay.start_ms % _STEP_MS, step=_STEP_MS).split("\n")
        yield from (f"{_SPACE}{line}" for line in lines)
    for call in replay.calls:
        if call.path not in _THERE and not _partitioned(call):
            yield from laid_out("", told.call(call), INDENT)


def _partitioned(call: Call) -> str:
    """What MiniBroker calls a topic with partitions that is to be made; else empty."""
    found = _PARTITIONED.fullmatch(call.path) if call.method == "PUT" else None
    return f"{found[1]}:{call.body}" if found else ""


def _slug(name: str) -> str:
    return re.sub(r"\W+", "_", name.partition(".")[0], flags=re.ASCII).strip("_").lower() or "capture"


def _plain(text: str) -> str:
    """For a docstring: no backslashes, no quotes, not too long."""
    return re.sub(r'[\\"]', "_", text)[:80]
