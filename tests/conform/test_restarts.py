"""The comparison of restarts without a tool and a broker."""

from __future__ import annotations

from argparse import Namespace

from tests.conform import restarts


def test_a_scenario_without_transcript_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(restarts, "FOLDER", tmp_path)
    assert restarts.check(None, {"topics.new": None}, Namespace(signal="KILL", pulsar="4.2.4")) == 1
    assert capsys.readouterr().out.splitlines() == [
        "FAIL topics.new (KILL)",
        "    no transcript: record it",
        "0 passed, 1 failed (restarts with SIGKILL, 4.2.4)",
    ]


def test_values_that_depend_on_time_are_compared_by_their_existence():
    stats = {"oldestBacklogMessageAgeSeconds": 7, "oldestBacklogMessageSubscriptionName": "sub", "lastAckedTime": 9}
    without = {"oldestBacklogMessageAgeSeconds": -1}
    assert restarts.flat("", stats, str) == [
        'oldestBacklogMessageAgeSeconds = "T"',
        'oldestBacklogMessageSubscriptionName = "sub"',
    ]
    assert restarts.flat("", without, str) == []
