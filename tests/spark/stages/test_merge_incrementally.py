"""--incremental: acknowledged messages are closed, and frames that concern closed messages change their rows.

The mini-broker plays the conversations in virtual time. Each capture is one file and one batch.
"""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME
from pcli.spark.stages import merge_files, merge_incrementally
from pcli.spark.tables.stored_tables import StoredTables
from tests.codec.observe.conftest import START, TOPIC
from tests.spark.stages.conftest import Recording, publish, publish_and_ack

HOUR_MS = 3_600_000


@pytest.fixture
def whole(monkeypatch):
    """The numbers of rows of ``published`` in all runs that merged all rows within the horizon."""
    runs = []
    merged = merge_incrementally._Run._all_rows

    def noted(run):
        runs.append(len(run._splits))
        return merged(run)

    monkeypatch.setattr(merge_incrementally._Run, "_all_rows", noted)
    return runs


def test_a_batch_replaces_only_the_files_with_open_rows(recording, whole):
    recording.client.subscribe(kind="Shared")
    recording.client.flow(1000)
    publish_and_ack(recording.client, range(1, 10))
    publish(recording.client, 10)
    recording.rotate()
    publish_and_ack(recording.client, range(11, 20))
    recording.rotate()
    recording.client.ack(recording.client.messages[9].message_id)
    recording.batches()
    runs = [StoredTables(str(recording.folder / "out"), run=number) for number in (1, 2, 3)]
    first, second, third = (set(run.files("messages")) for run in runs)
    assert [len(one) for one in (first, first & second, second & third)] == [2, 1, 2]
    assert [row["state"] for row in recording.rows("out")].count("acked") == 19
    assert not whole
    recording.check()


def seek(recording):
    recording.client(pb.CommandSeek(consumer_id=1, message_id=recording.client.messages[2].message_id))
    recording.client.subscribe(kind="Shared")
    recording.client.flow(1000)


def subscribe_from_the_beginning(recording):
    recording.client.subscribe(consumer_id=2, kind="Shared", subscription="late", initialPosition=1)
    recording.client.flow(1000, consumer_id=2)


def acknowledge_again(recording):
    recording.client.ack(recording.client.messages[1].message_id)


def reset_the_cursor(recording):
    recording.scene.reset_cursor(1)
    recording.client.subscribe(kind="Shared")
    recording.client.flow(1000)


def publish_again(recording):
    """Send a message again on a new connection, as a client does that did not receive the receipt."""
    recording.client.cut()
    again = recording.scene.actor()
    again.producer()
    publish(again, 3)


@pytest.mark.parametrize(
    "later", [seek, subscribe_from_the_beginning, acknowledge_again, reset_the_cursor, publish_again]
)
def test_later_frames_of_closed_messages_change_their_rows(recording, whole, later):
    recording.client.subscribe(kind="Shared")
    recording.client.flow(1000)
    publish_and_ack(recording.client, range(1, 6))
    recording.rotate()
    publish_and_ack(recording.client, range(6, 9))
    recording.rotate()
    later(recording)
    recording.rotate()
    recording.scene.actor()
    recording.batches()
    assert 3 in whole
    recording.check()


def test_a_gap_of_a_later_subscription_concerns_closed_messages(recording, whole):
    """The SEND of a message may have been delivered in the gap."""
    client = recording.client
    client.subscribe(kind="Shared")
    client.flow(1000)
    publish_and_ack(client, range(1, 6))
    recording.rotate()
    other = recording.scene.actor()
    other.subscribe(consumer_id=2, kind="Shared", subscription="late")
    recording.rotate()
    other.flow(1000, consumer_id=2)
    publish_and_ack(client, range(6, 20))
    files = recording.files()
    lost = [one for one in files[2] if len(one.data) > 100][12:14]
    for number, packets in enumerate(files):
        recording.write(number, [one for one in packets if one not in lost])
        recording.run("out")
    assert {row["evidence"] for row in recording.rows("out")} > {"gap_affected"}
    recording.check()


def test_a_late_file_changes_closed_messages(recording):
    recording.client.subscribe(kind="Shared")
    recording.client.flow(1000)
    for start in (1, 11, 21):
        publish_and_ack(recording.client, range(start, start + 10))
        recording.rotate()
    files = recording.files()
    for number in (0, 2, 3, 1):
        recording.write(number, files[number])
        recording.run("out")
    recording.check()


def test_an_ack_of_a_closed_consumer_reuses_a_request_id(recording):
    """The single run pairs the ACKs frame by frame; the incremental run has closed the first one."""
    client = recording.client
    for number, name in enumerate("st", 1):
        client.subscribe(kind="Shared", consumer_id=number, subscription=name)
        client.flow(1000, consumer_id=number)
    publish(client, 1)
    client.ack(client.messages[1].message_id, consumer_id=2, request_id=520)
    client(pb.CommandUnsubscribe(consumer_id=1))
    client.ack(client.messages[0].message_id, consumer_id=1, request_id=520)
    recording.rotate()
    publish(client, 2)
    recording.batches()
    acks = [row for row in recording.rows("out", "exchanges") if row["request"] == "ACK"]
    assert [(row["answer"], row["subscription"]) for row in acks] == [("ACK_RESPONSE", "t"), (None, "s")]
    recording.check()


def test_files_that_another_program_has_merged_are_restored(recording):
    recording.client.subscribe(kind="Shared")
    recording.client.flow(1000)
    for start in (1, 11, 21):
        publish_and_ack(recording.client, range(start, start + 10))
        recording.rotate()
    for number, packets in enumerate(recording.files()):
        recording.write(number, packets)
        recording.run("out")
        table = DeltaTable(str(recording.folder / "out" / "messages"))
        table.optimize.compact()
        assert len(table.file_uris()) == 1
    recording.check()


def test_frames_after_the_horizon_are_a_row_of_their_own(recording):
    """Message 2 was delivered but not acknowledged; the broker delivers it again after three hours."""
    client = recording.client
    client.subscribe(kind="Shared")
    client.flow(1000)
    publish_and_ack(client, (1,))
    publish(client, 2)
    for number in (3, 4, 5):
        recording.rotate()
        recording.scene.wait(HOUR_MS)
        publish_and_ack(client, (number,))
    recording.rotate()
    client.redeliver(client.messages[1].message_id)
    client.ack(client.messages[1].message_id)
    summaries = recording.batches(horizon_s=600)
    assert [one.late for one in summaries] == [0, 0, 0, 0, 1]
    rows = [row for row in recording.rows("out") if row["entry"] == 1]
    assert [(row["evidence"], row["state"], row["producer"]["sent_ns"] is None) for row in rows] == [
        ("capture_end", "unacked", False),
        ("late", "acked", True),
    ]
    recording.run("whole", incremental=False)
    others = [row for row in recording.rows("whole") if row["entry"] != 1]
    assert [row for row in recording.rows("out") if row["entry"] != 1] == others


def test_a_file_before_the_horizon_is_not_read(recording):
    recording.client.subscribe(kind="Shared")
    recording.client.flow(1000)
    for number in range(1, 8):
        publish_and_ack(recording.client, (number,))
        recording.rotate()
        recording.scene.wait(HOUR_MS)
    files = recording.files()
    for number in (0, *range(2, 8), 1):
        recording.write(number, files[number])
        summary = recording.run("out", horizon_s=3600)
    assert summary.captures == {"late": 1, "read": 7}
    captures = StoredTables(str(recording.folder / "out")).read("captures").sort_by("path").to_pylist()
    assert [row["part"] for row in captures] == [0, None, 1, 2, 3, 4, 5, 6]
    assert not recording.run("out", horizon_s=3600).changed


def hourly(recording, later=lambda: None, hours=6):
    """Publish and acknowledge messages, one capture for each hour."""
    for number in range(10, 10 + hours):
        recording.rotate()
        recording.scene.wait(HOUR_MS)
        later()
        publish_and_ack(recording.client, (number,))


def acknowledge_the_last_again(client):
    client.ack(client.messages[-1].message_id)


def test_requests_without_a_response_remain_after_the_horizon(recording):
    """The second ACK of each hour makes all batches merge all rows within the horizon."""
    client = recording.client
    client.subscribe(kind="Shared")
    client.flow(1000)
    publish_and_ack(client, (1,))
    for name in ("ACK_RESPONSE", "GET_LAST_MESSAGE_ID_RESPONSE"):
        recording.scene.fault(f"drop times=1 on pulsar.type == '{name}'")
    client.ack(client.messages[0].message_id, request_id=77)
    client(pb.CommandGetLastMessageId(consumer_id=1, request_id=78))
    hourly(recording, lambda: acknowledge_the_last_again(client))
    recording.batches(horizon_s=3600)
    assert {row["request_id"] for row in recording.rows("out", "exchanges")} > {77, 78}
    recording.check()


def test_periods_end_if_each_batch_merges_all_rows_within_the_horizon(recording, whole):
    client = recording.client
    client.subscribe(kind="Shared")
    client.flow(1000)
    publish_and_ack(client, (1,))
    hourly(recording, lambda: acknowledge_the_last_again(client))
    recording.batches(horizon_s=3600)
    assert len(whole) == 5
    state = recording.folder / "out" / "_state"
    assert sum(path.name.startswith("published") for path in state.iterdir()) <= 4
    recording.check()


def test_a_resent_message_remains_one_row_after_the_horizon(recording):
    publish(recording.client, 3)
    publish_again(recording)
    recording.client = recording.scene.actor()
    recording.client.producer(producer_name="q")
    hourly(recording)
    recording.batches(horizon_s=3600)
    assert [row["producer"]["sequence_id"] for row in recording.rows("out")].count(3) == 2
    recording.check()


def publish_chunks(client, number):
    for chunk in (0, 1):
        more = {"uuid": f"p-{number}", "num_chunks_from_msg": 2, "total_chunk_msg_size": 8, "chunk_id": chunk}
        client.publish(number, producer_id=2, payload=b"half", producer_name="q", **more)


@pytest.mark.parametrize("acknowledged", [True, False])
def test_chunked_messages_are_final_after_the_horizon(recording, whole, acknowledged):
    """A further ACK in the last hour makes the batch merge all rows within the horizon."""
    client = recording.client
    client.producer(producer_id=2, producer_name="q")
    client.subscribe(kind="Shared")
    client.flow(1000)
    hours = iter(range(9))

    def next_hour():
        publish_chunks(client, recording.scene.now // HOUR_MS)
        chunks = [message.message_id for message in client.messages[-2:]]
        if acknowledged:
            client.ack(*chunks)
        if next(hours) == 8:
            client.ack(client.messages[-3].message_id)

    hourly(recording, next_hour, hours=9)
    sizes = []
    for number, packets in enumerate(recording.files()):
        recording.write(number, packets)
        recording.run("out", horizon_s=7200)
        files = (recording.folder / "out" / "_state").glob("consumed-*")
        sizes.append(sum(len(pa.ipc.open_file(path).read_all()) for path in files))
    assert whole == [10]
    assert sizes[-3] == sizes[-2]
    recording.check()


def test_sends_without_a_receipt_are_final_after_the_horizon(recording):
    """Each hour, a new producer begins with the sequence id 1. The capture contains only the clients' frames."""

    def produce():
        client = recording.scene.actor()
        client.producer(producer_name=f"at {recording.scene.now}")
        publish(client, 1)
        client.cut()

    hourly(recording, produce, hours=9)
    broker, sizes = (6650).to_bytes(2, "big"), []
    for number, packets in enumerate(recording.files()):
        recording.write(number, [one for one in packets if one.data[36:38] == broker])
        recording.run("out", horizon_s=7200)
        files = (recording.folder / "out" / "_state").glob("halves-*")
        sizes.append(sum(len(pa.ipc.open_file(path).read_all()) for path in files))
    assert sizes[-1] == sizes[-2]
    recording.check()


def test_commands_that_change_no_producer_or_consumer_are_not_kept_beyond_the_horizon(tmp_path):
    recording = Recording(tmp_path, transactionCoordinatorEnabled=True)
    client = recording.client
    client.subscribe(kind="Shared")
    client.flow(1000)
    client(pb.CommandTcClientConnectRequest(tc_id=0))

    def look_up_and_commit():
        client(pb.CommandLookupTopic(topic=TOPIC), pb.CommandPartitionedTopicMetadata(topic=TOPIC))
        opened = client(pb.CommandNewTxn(tc_id=0))[-1]
        txn = {"txnid_most_bits": opened.txnid_most_bits, "txnid_least_bits": opened.txnid_least_bits}
        client(pb.CommandEndTxn(txn_action=pb.COMMIT, **txn))

    hourly(recording, look_up_and_commit)
    recording.batches(horizon_s=3600)
    state = recording.folder / "out" / "_state"
    tables = [pa.ipc.open_file(path).read_all() for path in state.glob("forwarded-*")]
    kept = pa.concat_tables(one.select(["type", "time_ns"]) for one in tables)
    assert pc.min(kept["time_ns"]).as_py() < (START + HOUR_MS) * 1_000_000
    for name in ("PING", "LOOKUP", "LOOKUP_RESPONSE", "PARTITIONED_METADATA", "NEW_TXN", "END_TXN_RESPONSE"):
        rows = kept.filter(pc.equal(kept["type"], BY_NAME[name].number))
        assert pc.min(rows["time_ns"]).as_py() > (START + 2 * HOUR_MS) * 1_000_000
    recording.check()


def test_the_state_does_not_grow_beyond_the_horizon(recording, monkeypatch):
    """Files with final rows are merged. The state of all files contains a row for each ledger."""
    monkeypatch.setattr(merge_files, "_LEAST", 4)
    recording.client.subscribe(kind="Shared")
    recording.client.flow(1000)
    for number in range(20):
        publish_and_ack(recording.client, range(10 * number, 10 * number + 10))
        recording.rotate()
        recording.scene.wait(HOUR_MS)
    files, rows = [], []
    for number, packets in enumerate(recording.files()):
        recording.write(number, packets)
        recording.run("out", horizon_s=3 * 3600)
        paths = [path for path in (recording.folder / "out" / "_state").iterdir() if path.suffix == ".arrow"]
        files.append(len(paths))
        others = [path for path in paths if not path.name.startswith(("entries-", "ledgers-"))]
        rows.append(sum(len(pa.ipc.open_file(path).read_all()) for path in others))
    assert max(files[10:]) <= max(files[:10])
    assert max(rows[10:]) <= max(rows[:10]) + 5  # the PINGs of a file differ
    assert len(StoredTables(str(recording.folder / "out")).files("messages")) < 14
    recording.check()


def test_a_resent_message_remains_one_row_if_all_rows_within_the_horizon_are_merged(recording, whole):
    """The message is closed by the horizon in the fourth hour; a closed message has a further frame in the fifth."""
    publish(recording.client, 3)
    publish_again(recording)
    client = recording.client = recording.scene.actor()
    client.producer(producer_name="q")
    client.subscribe(kind="Shared")
    client.flow(1000)
    publish_and_ack(client, (4,))
    hours = iter(range(6))
    hourly(recording, lambda: next(hours) < 4 or acknowledge_the_last_again(client))
    recording.batches(horizon_s=7200)
    assert whole == [6, 7]
    recording.check()
