"""Live connections recorded in a file: complete, without delay, and in few packets."""

import io

from pcli.codec.capture.tap_recording import Recording

CLIENT, SERVER = ("127.0.0.1", 40000), ("127.0.0.1", 6650)


def test_data_is_written_at_once(w, tmp_path):
    path = tmp_path / "talk.pcapng"
    with path.open("wb") as file:
        recording = Recording(file)
        recording.opened(0, CLIENT, SERVER, 1)
        recording.passed(0, w.connect, 2, from_client=True)
        assert [frame.data for frame in w.read(path.read_bytes())[0]] == [w.connect]
        recording.passed(0, w.connected, 3, from_client=False)
        assert [frame.data for frame in w.read(path.read_bytes())[0]] == [w.connect, w.connected]
        recording.closed(0, 4, from_client=True, reset=False, reason="")
        frames, notes = w.read(path.read_bytes())
    assert ([frame.data for frame in frames], notes) == ([w.connect, w.connected], [])


def test_a_large_read_is_written_as_few_packets(w):
    """A quarter of a megabyte, in packets of the maximum IPv4 size, each with about 100 bytes of overhead."""
    file = io.BytesIO()
    recording = Recording(file)
    recording.opened(0, CLIENT, SERVER, 1)
    before, data = len(file.getvalue()), w.send(1, bytes(250_000))
    recording.passed(0, data, 2, from_client=True)
    assert len(file.getvalue()) - before - len(data) < 1000
    assert [frame.data for frame in w.read(file.getvalue())[0]] == [data]


def test_data_of_unopened_connections_is_ignored():
    file = io.BytesIO()
    recording = Recording(file)
    before = file.getvalue()
    recording.passed(7, b"data", 1, from_client=True)
    recording.closed(7, 2, from_client=True, reset=True, reason="")
    assert file.getvalue() == before
