"""--incremental: `permits` continues from the balances after the last run. Each capture is one file and one batch."""

from dataclasses import replace

import pyarrow.compute as pc
import pytest

from pcli.spark.stages import count_permits
from pcli.spark.tables.stored_tables import StoredTables
from tests.spark.stages.conftest import Recording, publish_and_ack

SECOND_NS = 1_000_000_000


@pytest.fixture
def recording(tmp_path):
    """Eight files in which a consumer receives ten messages each; it subscribes again in the fifth file."""
    recording = Recording(tmp_path)
    client = recording.client
    client.subscribe(kind="Shared")
    for number in range(8):
        if number == 4:
            client.subscribe(consumer_id=2, kind="Shared", subscription="t")
        client.flow(10)
        publish_and_ack(client, range(10 * number, 10 * number + 10))
        recording.rotate()
    return recording


@pytest.fixture
def merged_from(monkeypatch):
    """The number of captures before the state from which each merge continued."""
    found = []
    merge_after = count_permits._Run.merge_after

    def noted(run, state):
        found.append(state.parts)
        return merge_after(run, state)

    monkeypatch.setattr(count_permits._Run, "merge_after", noted)
    return found


def permit_files(recording):
    return set(StoredTables(str(recording.folder / "out")).files("permits"))


def test_a_batch_continues_from_the_last_balances(recording, merged_from):
    kept = []
    for number, packets in enumerate(recording.files()):
        recording.write(number, packets)
        before = permit_files(recording) if number else set()
        recording.run("out")
        kept.append(len(before & permit_files(recording)))
    assert merged_from == list(range(9))
    assert kept[-2:] == [6, 7]  # only the file with open rows is replaced
    recording.check()


def test_frames_of_an_earlier_second_change_a_closed_row(recording, merged_from):
    """The clock of the capturing host is set back by five seconds before the sixth file."""
    files = recording.files()
    files[5:] = [
        [replace(packet, time_ns=packet.time_ns - 5 * SECOND_NS) for packet in packets] for packets in files[5:]
    ]
    for number, packets in enumerate(files):
        recording.write(number, packets)
        recording.run("out")
    assert min(merged_from[6:]) < 5
    recording.check()


def test_a_late_file_changes_all_later_balances(recording, merged_from):
    files = recording.files()
    for number in (0, 1, 2, 4, 5, 3, 6, 7):
        recording.write(number, files[number])
        recording.run("out")
    assert merged_from == [0, 1, 2, 3, 4, 3, 6, 7]
    recording.check()


def test_a_packet_with_a_time_in_the_future_does_not_close_rows(recording, merged_from):
    files = recording.files()
    files[2][-1] = replace(files[2][-1], time_ns=files[2][-1].time_ns + 10**9 * SECOND_NS)
    for number, packets in enumerate(files):
        recording.write(number, packets)
        recording.run("out")
    assert merged_from == list(range(len(files)))
    recording.check()


def test_balances_older_than_the_horizon_are_kept(tmp_path):
    recording = Recording(tmp_path)
    recording.client.subscribe(kind="Shared")
    recording.client.flow(1000)
    for number in range(20):
        publish_and_ack(recording.client, (number,))
        recording.rotate()
        recording.scene.wait(3_600_000)
    recording.batches(horizon_s=2 * 3600)
    names = [path.name for path in (recording.folder / "out" / "_state").iterdir()]
    assert sum(name.startswith("permit_") for name in names) <= 4 * 3
    assert sum(name.startswith("sessions-") for name in names) <= 8
    balances = StoredTables(str(recording.folder / "out")).read("permits")["balance"]
    assert pc.min(balances).as_py() == 1000 - 20
    recording.check()


def test_rows_whose_sums_are_no_longer_kept_are_not_computed_again(tmp_path):
    """All states are older than the horizon; the last file has a frame of an earlier second."""
    recording = Recording(tmp_path)
    client = recording.client
    client.subscribe(kind="Shared")
    for number in range(9):
        client.flow(10)
        publish_and_ack(client, range(10 * number, 10 * number + 10))
        recording.scene.wait(60_000)
        recording.rotate()
    files = [packets for packets in recording.files() if packets][:9]
    first, *others = files[-1]
    files[-1] = [first, *(replace(packet, time_ns=packet.time_ns - 200 * SECOND_NS) for packet in others)]
    for number, packets in enumerate(files):
        recording.write(number, packets)
        recording.run("out", horizon_s=10)
    recording.run("whole", incremental=False)
    assert len(recording.rows("out", "permits")) == len(recording.rows("whole", "permits"))
