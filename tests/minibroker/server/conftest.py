"""The event loops on which a server runs."""

from __future__ import annotations

import asyncio

import pytest

from pcli.minibroker.server.tcp_server import new_event_loop


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    """Run a coroutine on each kind of loop, in debug mode with a higher threshold for slow callbacks."""
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    loop = new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()

    def until_done(work):
        loop.run_until_complete(asyncio.wait_for(work, 60))

    yield until_done
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
