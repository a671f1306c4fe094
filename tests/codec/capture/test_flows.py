"""The invariants of connections, checked after every packet of drawn traffic."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from pcli.codec.capture import ReadOptions, fast_path, read_capture
from pcli.codec.capture.flows import IGNORE, SLOW, Aligned, Encrypted, IncompleteFrame, Skipped, Unclassified
from pcli.codec.capture.resync import Search
from tests.codec.capture.foreign_traffic import BOTH_GAPS, CONNECTIONS, Foreign
from tests.step_budget import step_budget

MASK = 0xFFFFFFFF

CALLS = 1500
"""Maximum number of calls for a packet, including those of the check."""

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["frames", "frames", "frames of both"]), st.integers(1, 4)),
        st.tuples(st.sampled_from(["lost", "truncated", "part", "truncated part", "swapped"]), st.integers(0, 300)),
        st.tuples(st.just("idle"), st.sampled_from([1, 33, 65, 130])),
        st.tuples(st.just("noise"), st.binary(min_size=1, max_size=40)),
        st.tuples(
            st.sampled_from(
                ["acknowledge", "again", "different", "overlap", "alive", "restart", "fin", "reset", "jump", "late"]
            ),
            st.none(),
        ),
    ),
    min_size=2,
    max_size=25,
)
"""Steps of a Pulsar connection, with their values."""


class Drawn:
    """The packets of one Pulsar connection. The client, or the broker, sends in turn."""

    def __init__(self, w, start, opening, one_sided):
        self.w = w
        self.tape = w.Tape(start, start ^ 0x5A5A5A5A)
        self.at = [0, 0]
        self.number = 0
        self.turn = 0
        self.one_sided = one_sided
        self.sent = [(0, b"x"), (0, b"x")]
        self.waiting = None
        if opening:
            self.at = list(w.talk(self.tape))

    def put(self, side, at, data, **how):
        """Add a packet, unless its side is not captured."""
        if not (self.one_sided and side):
            self.tape.send(at, data, server=bool(side), ack=self.at[1 - side], **how)

    def step(self, kind, value):
        """Add the packets of a step."""
        side = self.turn
        self.turn = 1 - side
        match kind:
            case "frames" | "frames of both":
                for each in (side,) if kind == "frames" else (0, 1):
                    self.data(each, b"".join(self.frame(each) for _ in range(value)))
            case "lost":
                self.at[side] += value
            case "truncated":
                self.data(side, self.frame(side) * 2, cut=min(value, 40))
            case "part" | "truncated part":
                data = self.frame(side, 300)
                self.data(side, data[:value], cut=min(value, 40) if kind == "truncated part" else 0)
                self.data(side, data[value:])
            case "swapped":
                data, at = self.frame(side, 300), self.at[side]
                self.at[side] += len(data)
                self.put(side, at + value, data[value:])
                self.put(side, at, data[:value])
            case "late":
                self.waiting = (side, self.at[side], self.frame(side))
                self.at[side] += len(self.waiting[2])
            case "idle":
                self.tape.idle(value)
            case "noise":
                self.data(side, value)
            case "acknowledge":
                if self.waiting is not None:
                    self.put(*self.waiting)
                    self.waiting = None
                self.put(0, self.at[0], b"")
                self.put(1, self.at[1], b"")
            case "again" | "different" | "overlap":
                at, data = self.sent[side]
                data = bytes(len(data)) if kind == "different" else data
                more = self.frame(side) if kind == "overlap" and at + len(data) == self.at[side] else b""
                self.at[side] += len(more)
                self.put(side, at, data + more)
            case "alive":
                self.put(side, self.at[side] - 1, b"\0")
            case "restart":
                self.at = [self.at[0] + 100_000, self.at[1] + 100_000]
                self.put(0, self.at[0] - 1, b"", flags=self.w.SYN)
                self.put(1, self.at[1] - 1, b"", flags=self.w.SYN | self.w.ACK)
                self.data(0, self.w.connect)
                self.data(1, self.w.connected)
            case "fin" | "reset":
                flags = self.w.ACK | (self.w.FIN if kind == "fin" else self.w.RST)
                self.put(side, self.at[side], b"", flags=flags)
                self.at[side] += kind == "fin"
            case _:
                self.at[side] += 1 << 30

    def frame(self, side, size=10):
        self.number += 1
        return self.w.message(self.number, bytes(size)) if side else self.w.send(self.number, bytes(size))

    def data(self, side, data, **how):
        self.sent[side] = (self.at[side], data)
        self.put(side, self.at[side], data, **how)
        self.at[side] += len(data)


def check_direction(direction):
    """Check the invariants of `flows` about one direction."""
    mode, run, marks, held = direction.mode, direction.run, direction.marks, direction.held
    starts = [at for at, _, _ in marks]
    assert starts == sorted(starts)
    assert bool(run) == bool(marks)
    if run:
        assert starts[0] == 0
        assert starts[-1] < len(run) <= direction.offset
    match mode:
        case IncompleteFrame():
            assert mode.left > 0
            assert len(mode.data) >= 4
            assert mode.after.need == 0
        case Search():
            assert mode.base == direction.offset - len(run)
            assert mode.candidate < 0 or mode.base <= mode.candidate < direction.offset
            assert not run or direction.connection.timer >= 0 or direction.connection.finished
        case Aligned() if len(run) >= 8:
            length, command = (int.from_bytes(run[at : at + 4], "big") for at in (0, 4))
            assert length + 4 > len(run)
            assert command + 4 <= length < direction.limit - 3
            assert 0 < mode.need <= length + 4 - len(run)
        case Aligned() | Unclassified():
            pass
        case Skipped():
            assert direction.pending_problems == []
        case Encrypted():
            assert mode.plain.held == []
            check_direction(mode.plain)
    if isinstance(mode, IncompleteFrame | Skipped | Encrypted):
        assert not run
    ends = [one[0] + one[2] for one in held]
    assert all(end <= one[0] for end, one in zip([direction.offset, *ends], held, strict=False))
    assert direction.held_bytes == sum(one[2] for one in held if one[1] is not None)
    assert direction.deadline < 0 or held or direction.fin > direction.offset
    if direction.next == IGNORE:
        assert direction.skipped
    elif direction.next != SLOW:
        assert isinstance(mode, Aligned)
        assert held == direction.pending_problems == []
        assert direction.fin < 0
        assert direction.next == direction.base + direction.offset & MASK


def check(connection):
    """Check the invariants of `flows` about a connection."""
    there, back = connection.there, connection.back
    assert there.peer is back
    assert back.peer is there
    assert there.limit == back.limit
    if connection.finished:
        assert there.skipped
        assert back.skipped
        assert there.held == back.held == []
    elif connection.paused:
        assert max(there.deadline, back.deadline) >= 0
    check_direction(there)
    check_direction(back)


@pytest.fixture(scope="module")
def checked(w):
    """Return a function that reads packets in windows of one packet and checks all connections after each."""

    def read(packets, careful, key_log=b""):
        readers, modes = [], set()

        def look(name, offset, window):
            for connection in readers[0].tcp.table.living if readers else ():
                check(connection)
                modes.update(type(each.mode).__name__ for each in (connection.there, connection.back))

        class Reader(fast_path.Reader):
            def packets(self, data, records):
                readers[:] = [self]
                for record in records:
                    super().packets(data, [record])
                    look("", 0, record)

        with pytest.MonkeyPatch.context() as patch, step_budget(CALLS * (len(packets) + 10)):
            patch.setattr("pcli.codec.capture.reading.Reader", Reader)
            for _ in read_capture([("", w.file(packets))], ReadOptions(ends=True, careful=careful, key_log=key_log)):
                pass
            look("", 0, None)
        return SimpleNamespace(modes=modes)

    return read


@settings(max_examples=150)
@example([("noise", bytes(8)), ("frames", 1)], 1000, True, False, False)
@given(STEPS, st.sampled_from([1000, MASK - 60, MASK - 400]), st.booleans(), st.booleans(), st.booleans())
def test_invariants_of_pulsar_connections(w, checked, steps, start, opening, one_sided, careful):
    drawn = Drawn(w, start, opening, one_sided)
    for kind, value in steps:
        drawn.step(kind, value)
    for mode in checked(drawn.tape.packets, careful).modes:
        event(mode)


@pytest.mark.parametrize("careful", [False, True])
def test_invariants_of_a_decrypted_connection(w, checked, small_captures, careful):
    capture = small_captures / "tls" / "aes-gcm.pcap"
    packets = w.packets(capture.read_bytes())
    assert "Encrypted" in checked(packets, careful, capture.with_suffix(".keylog").read_bytes()).modes


@settings(max_examples=75)
@example(BOTH_GAPS, False)
@given(CONNECTIONS, st.booleans())
def test_invariants_of_other_connections(checked, talks, careful):
    for mode in checked(Foreign(talks).packets, careful).modes:
        event(mode)
