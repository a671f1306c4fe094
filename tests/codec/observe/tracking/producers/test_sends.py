"""SEND: its fields in the lifecycle; chunks, resends, clocks."""

import pytest

TOPIC = "persistent://public/default/t"


def one_life(producing, sequence_id=0):
    producing.receipt(sequence_id)
    producing.finish()
    [life] = producing.lives
    return life


def test_a_message(producing):
    producing.opens()
    frame = producing.sends(4, partition_key="k", deliver_at_time=99, payload=b"0123456789")
    life = one_life(producing, 4)
    assert (life.topic.name, life.producer.name, life.producer_name) == (TOPIC, "p", "p")
    assert (life.sequence_id, life.stream, life.sent_frame, life.size, life.messages) == (4, 0, frame, 10, 1)
    assert (life.key, life.deliver_at_ms, life.batch, life.partition) == ("k", 99, False, -1)
    assert life.publish_ms == life.sent_ns // 1_000_000


def test_a_batch_on_a_partition(producing):
    producing.opens(topic=f"{TOPIC}-partition-3")
    producing.sends(0, messages=5, highest=4)
    life = one_life(producing)
    assert (life.messages, life.batch, life.highest_sequence_id, life.partition) == (5, True, 4, 3)
    record = producing.record()
    assert (record.sent, record.sent_entries, record.topic_record.messages_in) == (5, 1, 5)


@pytest.mark.parametrize(
    ("metadata", "key"),
    [
        ({"ordering_key": b"o", "partition_key": "p"}, "o"),
        ({"ordering_key": b"\xff\x00", "partition_key": "p"}, "/wA="),
        ({"partition_key": "aGk=", "partition_key_b64_encoded": True}, "aGk="),
        ({}, ""),
    ],
)
def test_keys(producing, metadata, key):
    producing.opens()
    producing.sends(0, **metadata)
    assert one_life(producing).key == key


def test_a_marker_and_a_transaction(producing):
    producing.opens()
    producing.sends(0, txn=(1, 9), marker_type=21)
    life = one_life(producing)
    assert (life.txn, life.marker) == ((1, 9), True)


def test_chunks_have_one_lifecycle(producing):
    producing.opens()
    frames = [producing.sends(3, uuid="u", chunk_id=chunk, num_chunks_from_msg=3) for chunk in range(3)]
    producing.sends(4)
    for sequence_id in (3, 3, 3, 4):
        producing.receipt(sequence_id)
    producing.finish()
    life = next(one for one in producing.lives if one.uuid)
    assert life.chunks == tuple((chunk, frame, 7, chunk) for chunk, frame in enumerate(frames))
    assert (life.ledger, life.entry, life.state, life.messages, life.size) == (7, 2, "stored", 1, 15)
    record = producing.record()
    assert (record.sent, record.sent_entries, record.topic_record.messages_in) == (2, 4, 4)
    assert (record.gaps.count, record.backwards.count, record.chunks_resent.count) == (0, 0, 0)


def test_interleaved_chunks_of_two_messages(producing):
    producing.opens()
    for chunk in range(2):
        for sequence_id, uuid in enumerate("ab"):
            producing.sends(sequence_id, uuid=uuid, chunk_id=chunk, num_chunks_from_msg=2)
    for sequence_id in (0, 1, 0, 1):
        producing.receipt(sequence_id)
    producing.finish()
    assert {life.uuid: [at for *_, at in life.chunks] for life in producing.lives} == {"a": [0, 2], "b": [1, 3]}
    assert producing.record().out_of_order.count == 0


def test_chunks_resent_after_a_reconnect(producing):
    producing.opens()
    for chunk in range(2):
        producing.sends(3, uuid="u", chunk_id=chunk, num_chunks_from_msg=3)
    producing.receipt(3)
    producing.ends(0)
    producing.opens(stream=1)
    for chunk in range(3):
        producing.sends(3, stream=1, uuid="u", chunk_id=chunk, num_chunks_from_msg=3)
        producing.receipt(3, stream=1)
    producing.finish()
    record = producing.record()
    assert (record.chunks_resent.count, record.chunks_resent.sample) == (2, "u chunk 0")
    assert record.duplicates_stored.sample == "7:0 and 7:1"
    [life] = producing.lives
    assert [at for *_, at in life.chunks] == [0, 2, 3]
    assert (life.state, life.other_ids) == ("stored", ((7, 1),))


def test_a_chunk_with_truncated_metadata_is_no_resend(producing):
    # Two truncated chunks of the same size look the same.
    producing.opens()
    published = producing.now
    for _ in range(2):
        producing.sends(3, published=published, chunk_id=0)
    for _ in range(2):
        producing.receipt(3)
    assert producing.record().duplicates_stored.count == 0


def test_a_resend_on_the_next_connection(producing):
    producing.opens()
    published = producing.now
    first = producing.sends(0, published=published)
    producing.ends(0)
    producing.opens(stream=1)
    again = producing.sends(0, stream=1, published=published)
    producing.sends(1, stream=1)
    producing.receipt(0, stream=1)
    producing.receipt(1, stream=1)
    producing.finish()
    record = producing.record()
    assert (record.resent.frames, record.resent_blind.frames) == ([first, again], [first, again])
    assert (record.resent_with_receipt.count, record.unreceipted.count, record.lost.count) == (0, 1, 0)
    assert (record.sent, record.sent_entries, record.gaps.count) == (2, 3, 0)
    life = min(producing.lives, key=lambda one: one.sequence_id)
    assert (life.sent_frame, life.stream, life.resent[0][:2], life.state) == (first, 1, (1, again), "stored")


def test_another_message_with_the_same_id_is_no_resend(producing):
    producing.opens()
    producing.sends(0, payload=b"one")
    producing.ends(0)
    producing.opens(stream=1)
    producing.sends(0, stream=1, payload=b"other")
    record = producing.record()
    assert (record.resent.count, record.backwards.count) == (0, 0)


def test_another_message_with_the_id_of_an_open_send_hides_no_lifecycle(producing):
    producing.opens()
    for payload in (b"one", b"other"):
        producing.sends(0, payload=payload)
    producing.ends(0)
    producing.finish()
    assert [one.state for one in producing.lives] == ["lost", "lost"]
    assert producing.record().lost.count == 2


def test_the_same_bytes_after_the_receipt_are_a_new_message(producing):
    producing.opens()
    published = producing.now
    for _ in range(2):
        producing.sends(0, published=published)
        producing.receipt(0)
    record = producing.record()
    assert (record.resent.count, record.backwards.count) == (0, 1)
    assert record.backwards.sample == "0 after 0"


def test_a_resend_after_an_error(producing):
    producing.opens()
    published = producing.now
    producing.sends(0, published=published)
    producing.error(0, "PersistenceError")
    producing.ends(0)
    producing.opens(stream=1)
    producing.sends(0, stream=1, published=published)
    producing.receipt(0, stream=1)
    producing.finish()
    record = producing.record()
    assert (record.resent.count, record.resent_blind.count, record.lost.count) == (1, 0, 0)
    assert [(life.state, life.error) for life in producing.lives] == [("stored", "")]


def test_clocks(producing):
    producing.opens()
    for number, behind in enumerate((40, -2_000, 15_000)):
        producing.sends(number, published=producing.now - behind)
    record = producing.record()
    assert record.clock_skew_ms == (-2_000, 15_000, 15_000)
    assert (record.skewed.count, record.skewed.sample) == (2, "-2000 ms")


def test_a_producer_without_producer_command(producing):
    producing.sends(0, producer_name="web")
    producing.finish()
    [record] = producing.records()
    assert (record.name, record.topic, record.topic_record) == ("web", "", None)
    assert "start" in record.doubts
    assert producing.lives[0].producer_name == "web"
