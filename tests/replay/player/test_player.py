"""The player: its waits, timeouts and actions, without socket and clock."""

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.commands import name_of
from pcli.codec.wire.reader import FrameReader
from pcli.replay.player.id_translation import Ids
from pcli.replay.player.player import CloseConnection, OpenConnection, Pace, Player, SendCommand
from pcli.replay.player.script.script import RestCall

CAPTURE = "01-exclusive-unbatched.pcapng"


class Stage:
    """A player, and the captured broker's responses for it."""

    def __init__(self, script, **options):
        self.script = script
        self.now = 1_000_000
        self.player = Player(script, Ids(), self.now, **options)

    def act(self):
        """Return all actions that are due now."""
        done = []
        while actions := self.player.actions(self.now):
            done += actions
        return done

    def last_sent(self):
        return [name_of(frame.type) for action in self.act() for frame in self.frames(action)]

    @staticmethod
    def frames(action):
        return FrameReader().feed(action.data) if isinstance(action, SendCommand) else []

    def response(self, name, nth=1):
        """Send the captured broker's nth response of this type."""
        lines = [line for line in self.script.steps if line.name == name and not line.from_client]
        self.player.receive(lines[nth - 1].stream, lines[nth - 1].frame.data)


@pytest.fixture
def stage(small_captures, script):
    def make(**options):
        return Stage(script(small_captures / "python" / CAPTURE), **options)

    return make


def test_nothing_is_sent_before_connected(stage):
    it = stage()
    opened, connect = it.act()
    assert opened == OpenConnection(0)
    assert it.frames(connect)[0].command.HasField("connect")
    assert it.last_sent() == []
    it.response("CONNECTED")
    assert it.last_sent() == ["PARTITIONED_METADATA"]


def test_a_wait_ends(stage):
    it = stage(pace=Pace(patience_ms=700))
    it.act()
    assert it.last_sent() == []
    assert it.player.deadline >= it.now + 700
    it.now = it.player.deadline - 1
    assert it.last_sent() == []
    it.now += 1
    assert it.last_sent() == ["PARTITIONED_METADATA"]
    assert [line.name for line in it.player.matcher.missing()[:1]] == ["CONNECTED"]


def test_late_responses_count(stage):
    it = stage(pace=Pace(patience_ms=0))
    it.act()
    it.now = it.player.deadline
    it.act()
    it.response("CONNECTED")
    assert "CONNECTED" not in [line.name for line in it.player.matcher.missing()]


def test_time_is_scaled(stage):
    it = stage(pace=Pace(speed=10))
    it.act()
    it.response("CONNECTED")
    first, second = [line for line in it.script.steps if line.from_client][:2]
    wait = it.player.deadline - it.now
    assert wait == int((second.time_ms - first.time_ms) / 10)
    it.now += wait
    assert it.last_sent() == ["PARTITIONED_METADATA"]


def test_a_ping_is_answered_at_once(stage):
    it = stage()
    it.act()
    (pong,) = it.player.receive(0, push_frame(pb.CommandPing()))
    assert it.frames(pong)[0].command.HasField("pong")


def test_the_users_token_replaces_the_captured_one(stage):
    it = stage(auth=("token", b"mine"))
    _, connect = it.act()
    last_sent = it.frames(connect)[0].command.connect
    assert (last_sent.auth_method_name, last_sent.auth_data) == ("token", b"mine")
    assert last_sent.client_version.startswith("Pulsar-CPP")


def test_calls_precede_their_step(stage):
    call = RestCall("POST", "persistent/public/x/t/partitions", 4)
    it = stage(before={0: [call]})
    assert it.act()[0] == call


def test_calls_are_made_if_the_broker_does_not_send_the_frame_by_itself(stage):
    call = RestCall("PUT", "persistent/public/x/t/unload")
    it = stage(instead={1: [call]}, pace=Pace(latency_ms=100))
    it.act()
    it.now = it.player.deadline
    assert it.act() == [call]
    it.response("CONNECTED")
    assert it.last_sent() == ["PARTITIONED_METADATA"]


def test_a_call_with_a_message_id_has_the_live_id(stage):
    it = stage(before={0: [RestCall("POST", "p", position=(7, 1))]})
    it.player.ids.positions[7, 1] = 2, 0
    assert it.act()[0].body == {"ledgerId": 2, "entryId": 0, "partitionIndex": -1, "batchIndex": -1}


def test_nothing_is_sent_on_a_lost_connection(stage):
    it = stage(pace=Pace(patience_ms=0))
    it.act()
    it.player.lost(0)
    while it.player.deadline is not None and not it.player.done:
        it.now = max(it.now + 1, it.player.deadline)
        assert it.act() == []
    assert len(it.player.not_sent) > 50


def test_responses_of_a_lost_connection_are_not_awaited(stage):
    """This does not depend on the patience."""
    it = stage(pace=Pace(patience_ms=3000))
    it.act()
    it.player.lost(0)
    assert [action for _ in it.script.steps for action in it.act()] == []
    assert it.player.done
    assert "CONNECTED" in [line.name for line in it.player.matcher.missing()]


def test_invalid_frames_end_a_connection(stage):
    it = stage()
    it.act()
    assert it.player.receive(0, b"\xff" * 16) == [CloseConnection(0)]


def test_the_live_holder_requests_the_redelivery(captures, play):
    """Negative acks on a Shared subscription whose live entries went to other consumers than captured."""
    report = play(captures / "python" / "10-shared-redelivery.pcap")
    assert report.good
    assert report.rules["choice of Shared"] > 10
