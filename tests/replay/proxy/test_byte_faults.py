"""A slow or faulty line as arithmetic: when which bytes are forwarded."""

from random import Random

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.faults import Step
from pcli.replay.proxy.byte_faults import ByteFault, TrafficShaper

MS = 1_000_000
NOW = 1_700_000_000_000 * MS


def shaped(words, *chunks, seed=1):
    """Return the result for chunks of (milliseconds, bytes): (milliseconds, bytes) or (milliseconds, "cut")."""
    shaper = TrafficShaper([ByteFault(one) for one in words.split(" + ")], Random(seed))
    found = []
    for at, data in chunks:
        step = Step(NOW + round(at * MS), to_broker=True, data=bytearray(data))
        found += shaper.feed(step)
    assert all(step.to_broker for step in found)
    return [((step.due_ns - NOW) / MS, "cut" if step.cut else bytes(step.data)) for step in found]


def test_latency():
    assert shaped("latency=50ms", (0, b"one"), (10, b"two")) == [(50, b"one"), (60, b"two")]


def test_jitter_is_bounded_and_keeps_the_order():
    found = shaped("latency=50ms jitter=20ms", *((at, b"%d" % at) for at in range(0, 1000, 5)))
    late = [due - int(data) for due, data in found]
    assert [data for _, data in found] == [b"%d" % at for at in range(0, 1000, 5)]
    assert [due for due, _ in found] == sorted(due for due, _ in found)
    assert min(late) >= 30
    assert max(late) <= 70
    assert len(set(late)) > 20


def test_jitter_alone_only_delays():
    found = shaped("jitter=20ms", *((at, b"x") for at in range(0, 1000, 50)))
    assert all(0 <= due - at <= 20 for (due, _), at in zip(found, range(0, 1000, 50), strict=True))


def test_bandwidth():
    """1000 bytes a second in parts of 50: the last part arrives after the time for all."""
    found = shaped("bandwidth=1000", (0, bytes(200)), (500, bytes(50)))
    assert [(due, len(data)) for due, data in found] == [(50, 50), (100, 50), (150, 50), (200, 50), (550, 50)]


def test_slices():
    assert shaped("slice=3 gap=5ms", (0, b"abcdefgh")) == [(0, b"abc"), (5, b"def"), (10, b"gh")]
    assert shaped("slice=4", (0, b"abcdefgh")) == [(0, b"abcd"), (1, b"efgh")]


def test_reset_after_a_number_of_bytes():
    assert shaped("reset=5", (0, b"abc"), (1, b"de"), (2, b"f")) == [(0, b"abc"), (1, b"de"), (2, b""), (2, "cut")]
    assert shaped("reset=5", (0, b"abcdefgh")) == [(0, b"abcde"), (0, "cut")]


def test_a_reset_in_the_middle_of_slices():
    assert shaped("slice=2 gap=1ms reset=3", (0, b"abcdef")) == [(0, b"ab"), (1, b"c"), (1, "cut")]


def test_a_limit_on_the_data_ends_the_connection_without_a_reset():
    shaper = TrafficShaper([ByteFault("limit_data=5 reset=7")], Random(1))
    first, last = shaper.feed(Step(NOW, to_broker=True, data=bytearray(b"abcdefgh")))
    assert (first.data, last.cut, last.reset) == (b"abcde", True, False)


def test_a_remaining_fault_keeps_its_state():
    limit, slow = ByteFault("limit_data=5"), ByteFault("latency=1ms")
    shaper = TrafficShaper([limit], Random(1))
    shaper.feed(Step(NOW, to_broker=True, data=bytearray(b"abc")))
    shaper.update([slow, limit])
    found = shaper.feed(Step(NOW, to_broker=True, data=bytearray(b"defgh")))
    assert [(step.due_ns - NOW, bytes(step.data), step.cut) for step in found] == [(MS, b"de", False), (MS, b"", True)]


def test_no_bytes_change_nothing():
    assert shaped("latency=1ms", (0, b"")) == []
    assert shaped("limit_data=3 + latency=1ms", (0, b"abc"), (1, b"d")) == [(1, b"abc"), (2, "cut")]


def test_faults_are_applied_in_order():
    assert shaped("slice=1 gap=10ms + latency=5ms", (0, b"ab")) == [(5, b"a"), (15, b"b")]


def test_a_cut_keeps_its_position():
    shaper = TrafficShaper([ByteFault("latency=50ms")], Random(1))
    shaper.feed(Step(NOW, to_broker=False, data=bytearray(b"x")))
    [step] = shaper.feed(Step(NOW, to_broker=False, data=bytearray(), cut=True))
    assert (step.due_ns - NOW, step.cut) == (50 * MS, True)


def test_a_probability_applies_to_connections():
    fault, chance = ByteFault("latency=1ms probability=0.3"), Random(5)
    befallen = sum(fault.draws(chance) for _ in range(1000))
    assert (fault.seen, fault.fired) == (1000, befallen)
    assert 240 < befallen < 360
    assert repr(fault) == f"ByteFault(latency=1ms probability=0.3; 1000 connections seen, fired {befallen})"


def test_all_words_are_parsed():
    fault = ByteFault("from=broker latency=1.5s jitter=250us bandwidth=2m slice=64K reset=100 gap=0ms")
    assert (fault.latency, fault.jitter, fault.gap) == (1500 * MS, MS // 4, 0)
    assert (fault.bandwidth, fault.slice, fault.reset, fault.side) == (2 << 20, 64 << 10, 100, "broker")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "one or more of latency="),
        ("probability=0.5", "one or more of latency="),
        ("latency", "write a time"),
        ("latency=50", "write a time: 250us, 50ms"),
        ("latency=-1ms", "write a time"),
        ("bandwidth=0", "write a size"),
        ("slice=1.5K", "write a size"),
        ("latency=1ms probability=0", "above 0, up to 1"),
        ("latency=1ms probability=1.1", "above 0, up to 1"),
        ("latency=1ms from=server", "client or broker"),
        ("latency=1ms gap=1ms", "gap requires slice"),
        ("latncy=1ms", "near: latency"),
    ],
)
def test_invalid_words_are_refused(words, said):
    with pytest.raises(LocalError, match="bytes ") as told:
        ByteFault(words)
    assert said in told.value.text
