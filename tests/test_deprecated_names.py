"""Documented names of the previous version: they work, with a DeprecationWarning."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pcli.codec.observe import tracking
from pcli.replay import conversation
from pcli.replay.client.asyncio_client import Client
from pcli.replay.service_url import ServiceUrl


class _Recorder:
    """An object whose method calls are recorded."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **fields: self.calls.append((name, args, fields))


@pytest.mark.parametrize(("former", "current"), [("say", "send"), ("hear", "expect"), ("hear_end", "expect_close")])
def test_a_conversation_accepts_the_former_names(former: str, current: str) -> None:
    recorder = _Recorder()
    args, fields = ((), {}) if former == "hear_end" else (("PING",), {"request_id": 1})
    with pytest.warns(DeprecationWarning, match=f"use {current}"):
        getattr(conversation.Client, former)(recorder, *args, **fields)
    assert recorder.calls == [(current, args, fields)]


def test_take_in_processes_the_events() -> None:
    sink: Any = _Recorder()
    with pytest.warns(DeprecationWarning, match="use process_events"):
        tracking.take_in([], sink)
    assert [name for name, _, _ in sink.calls] == ["finish"]


def test_ask_returns_what_call_returns() -> None:
    async def main() -> Any:
        client = Client(ServiceUrl.parse("pulsar://localhost:1"))
        return await client.ask(lambda done: done("result"))

    with pytest.warns(DeprecationWarning, match="use call"):
        assert asyncio.run(main()) == "result"
