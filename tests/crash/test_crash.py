"""Thirty kills of a broker with a data directory, under the load of the official clients."""

from __future__ import annotations

import pytest
from interop.building import MissingError

from crash.scalable_trial import ScalableRound, scalable_load_command
from crash.trial import Round, load_command


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "lose_writes"),
    [(1, True), (2, False), (3, True)],
    ids=["lost writes 1", "SIGKILL", "lost writes 3"],
)
def test_ten_kills_violate_no_guarantee(tmp_path, seed, lose_writes):
    try:
        load = load_command()
    except MissingError as reason:
        pytest.skip(f"the Java client is not available: {reason}")
    round_ = Round(tmp_path, seed, lose_writes=lose_writes, load=load)
    assert round_.run(10) == []
    assert {event.words[0] for event in round_.events} >= {"SENT", "RECEIVED", "ACKED", "COMMITTED", "ABORTED", "END"}


@pytest.mark.slow
def test_kills_under_the_load_of_v5_clients_violate_no_guarantee(tmp_path):
    try:
        load = scalable_load_command()
    except MissingError as reason:
        pytest.skip(f"the Java client is not available: {reason}")
    round_ = ScalableRound(tmp_path, 4, lose_writes=False, load=load)
    assert round_.run(5) == []
    assert {event.words[0] for event in round_.events} >= {"SENT", "RECEIVED", "COMMITTED", "ABORTED", "STORED", "END"}
