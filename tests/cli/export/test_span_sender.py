"""The end of the sender of live traffic, with backends that fail at that time."""

from __future__ import annotations

import threading
from unittest.mock import Mock

import pytest

from pcli.cli.common.otlp_options import OtlpOptions
from pcli.cli.export import span_sender
from pcli.cli.export.otlp_backend import open_backend
from pcli.cli.export.span_sender import SpanSender
from pcli.codec.observe.telemetry.spans import Span

SPAN = Span(1, 2, "send orders", "producer", 1, 2)


@pytest.fixture
def sender(receiver):
    """A sender of live traffic to the backend, whose first request has arrived."""

    def start():
        one = SpanSender(open_backend(OtlpOptions(otlp=receiver.url)), 1000, 30.0, live=True)
        one.put([SPAN])
        while not receiver.headers:
            pass
        return one

    return start


def test_the_end_does_not_wait_for_a_request_without_a_response(sender, receiver, monkeypatch, capsys):
    monkeypatch.setattr(span_sender, "_END_S", 0.2)
    released = threading.Event()
    receiver.always = released
    one = sender()
    assert one.close() == 2
    released.set()
    assert capsys.readouterr().err.splitlines() == [
        f"pcli: exported 0 spans and 0 log records of findings to {receiver.url}",
        "pcli: lost 1 span: the backend failed for 0.2 s",
    ]


def test_an_interrupted_end_reports_what_is_lost(sender, receiver, monkeypatch, capsys):
    released = threading.Event()
    receiver.always = released
    one = sender()
    monkeypatch.setattr(one._changed, "wait_for", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        one.close()
    released.set()
    assert capsys.readouterr().err.splitlines()[-1] == "pcli: lost 1 span: the command was interrupted"


def test_the_end_waits_as_long_as_requests_succeed(sender, receiver, monkeypatch):
    monkeypatch.setattr(span_sender, "_BATCH", 1)
    one = sender()
    one.put([SPAN] * 300)
    assert (one.close(), len(receiver.spans)) == (0, 301)
