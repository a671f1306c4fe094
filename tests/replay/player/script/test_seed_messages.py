"""Messages that existed before the capture or came from connections that are not replayed."""

import pytest

from pcli.cli.replay.in_memory_broker import InMemoryBroker
from pcli.replay.player.player import Pace
from pcli.replay.player.replay import Replay
from pcli.replay.player.script.script import SEED_STREAM


@pytest.fixture
def played_alone(script):
    """Replay one connection of a capture against a mini-broker."""

    def run(path, number):
        replay = Replay(script(path, only=number))
        broker = InMemoryBroker(replay.preparation.settings, replay.start_ms)
        for call in replay.calls:
            broker.call(call)
        player = replay.player(replay.start_ms, Pace(speed=1), administered=True)
        broker.play(player, lambda _: None)
        return replay, replay.report(player, own_broker=True, administered=True)

    return run


def test_unsent_messages_are_published_before_the_replay(captures, played_alone):
    replay, report = played_alone(captures / "python" / "33-ipv6.pcap", 3)
    seeds = [line for line in replay.script.steps if line.stream == SEED_STREAM]
    assert [line.name for line in seeds].count("SEND") == 88
    assert report.good
    assert report.equal["MESSAGE"] == 88
    assert report.equal["SEND_RECEIPT"] == 0


def test_nothing_is_published_if_clients_sent_all_messages(small_captures, script):
    replay = Replay(script(small_captures / "python" / "01-exclusive-unbatched.pcapng"))
    assert SEED_STREAM not in replay.script.connections
