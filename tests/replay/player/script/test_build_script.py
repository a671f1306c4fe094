"""Scripts: the replayed steps of a capture in order, and the reasons for omissions."""

import pytest

from pcli.codec.errors import CaptureError
from pcli.codec.observe import compile_filter


def test_connections_with_their_steps_and_ends(small_captures, script):
    found = script(small_captures / "flex" / "01-produce-consume.pcap")
    assert len(found.connections) == 6
    first = found.steps[0]
    assert (first.name, first.from_client, first.index) == ("CONNECT", True, 0)
    assert [line.index for line in found.steps] == list(range(len(found.steps)))
    ends = [line for line in found.steps if line.name == "END"]
    assert sorted(line.stream for line in ends) == sorted(found.connections)
    assert all(line.from_client for line in ends)


def test_the_brokers_internal_client_is_left_out(small_captures, script):
    found = script(small_captures / "go" / "nack.pcap")
    assert list(found.connections) == [0]
    assert found.left_out == {"connections that began before the capture": 1}


def test_one_connection(small_captures, script):
    found = script(small_captures / "python" / "10-shared-redelivery.pcap", only=2)
    assert {line.stream for line in found.steps} == {2}


def test_connections_by_filter(small_captures, script):
    wanted = compile_filter("pulsar.consumer_name == 'worker-1'").match
    path = small_captures / "python" / "10-shared-redelivery.pcap"
    found = script(path, wanted=wanted)
    assert len(found.connections) == 1 < len(script(path).connections)
    assert found.steps[0].name == "CONNECT"
    assert found.left_out["connections without a frame that the filter accepts"] == 2


def test_the_script_ends_at_the_first_gap(small_captures, script):
    found = script(small_captures / "python" / "37-packets-lost.pcap")
    assert found.left_out["frames from the first gap or cut packet on"] > 100
    assert all(line.frame is None or not line.frame.missing for line in found.steps)
    assert 0 < len(found.steps) < 200


def test_a_pause_of_years_is_shortened_to_hours(small_captures, script, tmp_path):
    """The last record has a damaged timestamp, ten years ahead."""
    data = bytearray((small_captures / "go" / "nack.pcap").read_bytes())
    position, last = 24, 24
    while position < len(data):
        last, position = position, position + 16 + int.from_bytes(data[position + 8 : position + 12], "little")
    seconds = int.from_bytes(data[last : last + 4], "little") + 10 * 365 * 86400
    data[last : last + 4] = seconds.to_bytes(4, "little")
    (tmp_path / "odd.pcap").write_bytes(data)
    times = [line.time_ms for line in script(tmp_path / "odd.pcap").steps]
    assert times[-1] - times[0] < 6.1 * 3600 * 1000


def test_scalable_topics_are_replayed(small_captures, script):
    found = script(small_captures / "java" / "scalable-topic.pcap")
    layouts = [step.layout.after.epoch for step in found.steps if step.layout is not None]
    assert layouts == [0, 0, 0, 0, 0, 1, 1]


def test_scalable_topics_are_left_out_for_live_clients(small_captures, script):
    found = script(small_captures / "java" / "scalable-topic.pcap", newer=False)
    assert found.steps == []
    assert any(reason.startswith("connections with features of Pulsar 5.0") for reason in found.left_out)


def test_tls_is_reported(small_captures, script):
    with pytest.raises(CaptureError, match="this is TLS"):
        script(small_captures / "python" / "21-tls.pcapng")
