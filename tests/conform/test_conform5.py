"""What the transcripts of scalable topics and the comparison of error texts leave out."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pcli.codec.proto import pb
from tests.conftest import _shared

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # of the tool


@pytest.fixture
def conform5(monkeypatch):
    """The module, with the tool of which it replaces parts; both are gone after the test."""
    _shared("conform")
    before = set(sys.modules)
    monkeypatch.setattr(sys, "argv", ["conform5.py"])
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    yield importlib.import_module("tests.conform.conform5")
    for name in set(sys.modules) - before:
        if name in ("tests.conform.conform5", "error_texts", "conform", "play", "wire"):
            del sys.modules[name]


@pytest.fixture
def run(conform5):
    return conform5.Run("test", SimpleNamespace(url="pulsar://127.0.0.1:1"))


def _update(epoch: int, brokers: tuple[int, ...] = (0, 1), session: int = 1):
    dag = pb.ScalableTopicDAG(epoch=epoch)
    for number in brokers:
        dag.segment_brokers.add(segment_id=number, broker_url=f"pulsar://host-{epoch}{number}:6650")
    update = pb.CommandScalableTopicUpdate(session_id=session, dag=dag, resolved_topic_name="topic://public/default/t")
    command = pb.BaseCommand(type="SCALABLE_TOPIC_UPDATE", scalableTopicUpdate=update)
    return command.SerializeToString(), b""


def test_only_a_repeated_update_is_left_out(run):
    conn = SimpleNamespace(name="c")
    kept = [
        bool(run.mutator(conn, frame))
        for frame in (_update(0), _update(0, (1, 0)), _update(1), _update(1, session=2), _update(0), _update(0))
    ]
    assert kept == [True, False, True, True, True, False]


def test_an_update_of_another_connection_is_no_repetition(run):
    assert run.mutator(SimpleNamespace(name="c"), _update(0))
    assert run.mutator(SimpleNamespace(name="d"), _update(0))


def test_transactions_are_named_by_both_numbers(conform5, run):
    namer = conform5.Namer("token", set(), {}, {}, False)
    texts = [
        conform5.fields(
            pb.CommandNewTxnResponse(request_id=1, txnid_most_bits=most, txnid_least_bits=5), namer, True, []
        )
        for most in (1, 2, 1)
    ]
    assert [text.split()[1] for text in texts] == ["txnid_least_bits=X1", "txnid_least_bits=X2", "txnid_least_bits=X1"]


def test_values_of_rest_that_differ_from_run_to_run(conform5):
    error = "\n --- An unexpected error ---\n\nMessage: Segment not found: 9\n\nStacktrace:\n\nat x"
    assert conform5.tidy({"reason": error}) == {"reason": "--- An unexpected error --- Message: Segment not found: 9"}
    stats = {"segments": {"0": {"createdAtMs": 7, "sealedAtMs": -1, "msgRateIn": 1.5}}, "ownerBroker": "b:1"}
    assert conform5.tidy(stats) == {
        "segments": {"0": {"createdAtMs": "T", "sealedAtMs": -1, "msgRateIn": "R"}},
        "ownerBroker": "PLACE",
    }


@pytest.mark.parametrize(
    ("first", "second", "are_equal"),
    [
        ("Topic t-1 not found (0x00000000_0xffffffff)", "Topic t-2 not found (0x80000000_0xffffffff)", True),
        ("Topic t not found", "Topic t does not exist", False),
        ("Topic t not found", "", False),
        ("x" * 100 + "y", "x" * 100 + "z", True),
        ("java.util.regex.PatternSyntaxException: Dangling meta character", "missing ) at position 3", True),
    ],
)
def test_the_texts_of_errors_are_compared_without_numbers_and_libraries(conform5, first, second, are_equal):
    def lines(text: str) -> list[str]:
        return conform5.conform.flat([{"do": ["c >> LOOKUP"], "got": {"c": [f"ERROR error=X message  # {text}"]}}])

    assert (lines(first) == lines(second)) == are_equal


def test_the_notes_of_other_commands_are_not_compared(conform5):
    steps = [{"do": [], "got": {"c": ["SUCCESS request_id=1  # a note"]}}]
    assert conform5.conform.flat(steps) == ["    c << SUCCESS request_id=1"]
