"""The diagnosis of captures in the stages of an analysis."""

import shutil

import pytest

from pcli.codec.observe.diagnosis import RuleChoice
from pcli.spark.diagnosis import diagnosed
from pcli.spark.engine import InProcess
from pcli.spark.request import Request

ALL = RuleChoice()


class Changing(InProcess):
    """An engine that calls a function before each exchange."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def exchange(self, what, *others, **more):
        self.change()
        return super().exchange(what, *others, **more)


def request(*paths):
    return Request(tuple(map(str, paths)), "", only=("findings",))


def test_a_file_that_changes_while_it_is_read_is_noted(tmp_path, small_captures):
    path = tmp_path / "one.pcap"
    shutil.copy(small_captures / "go" / "nack.pcap", path)
    with diagnosed(request(path), ALL, Changing(path.unlink)) as found:
        [note] = found.notes
    assert (note.kind, note.source) == ("file", str(path))
    assert note.text == "it was removed while it was read: rows can be missing"


def test_only_captures_in_their_order_are_diagnosed(tmp_path, small_captures):
    one, two = small_captures / "go" / "nack.pcap", small_captures / "flex" / "01-produce-consume.pcap"
    other = tmp_path / "notes.txt"
    other.write_text("no capture")
    results = {}
    for paths in ((one, two), (two, one), (one, other), (other,)):
        with diagnosed(request(*paths), ALL, InProcess()) as found:
            results[paths] = found is not None
    assert sorted(results.values()) == [False, False, False, True]
    assert not results[one, other]


def test_the_connections_of_frames(small_captures):
    with diagnosed(request(small_captures / "go" / "nack.pcap"), ALL, InProcess()) as found:
        numbers = {stream: list(some) for stream, some in found.numbers_until([5, 9]).items()}
        assert found.numbers_until([]) == {}
    assert {5, 9} <= {number for some in numbers.values() for number in some}
    assert all(some == sorted(some) and some[-1] in (5, 9) for some in numbers.values())


@pytest.mark.parametrize("rules", [RuleChoice(only=("never-acked",)), RuleChoice(ignore=("never-acked",))])
def test_rules_are_chosen(small_captures, rules):
    with diagnosed(request(small_captures / "python" / "25-no-flow.pcapng"), rules, InProcess()) as found:
        names = {one.rule for one in found.diagnosis.findings()}
    assert names
    assert (names == {"never-acked"}) == bool(rules.only)
