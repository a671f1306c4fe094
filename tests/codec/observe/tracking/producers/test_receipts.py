"""SEND_RECEIPT and SEND_ERROR."""

import pytest

from pcli.codec.proto import pb

NON_PERSISTENT = "non-persistent://public/default/t"


def test_in_order(producing):
    producing.opens()
    for number in range(4):
        producing.sends(number)
    frames = [producing.receipt(number) for number in range(4)]
    producing.finish()
    record = producing.record()
    assert (record.receipts, record.open_sends, record.out_of_order.count, record.unexpected.count) == (4, 0, 0, 0)
    assert [life.receipt_frame for life in producing.lives] == frames
    topic = record.topic_record
    assert (topic.messages_in, topic.entries_in, topic.last_id) == (4, 4, (7, 3))


def test_a_receipt_after_a_later_one(producing):
    producing.opens()
    first = producing.sends(7)
    producing.sends(8)
    early, late = producing.receipt(8), producing.receipt(7)
    record = producing.record()
    assert (record.out_of_order.count, record.out_of_order.sample) == (1, "7")
    assert record.out_of_order.frames == [first, late, early]


def test_a_missing_receipt_is_not_out_of_order(producing):
    producing.opens()
    producing.sends(7)
    producing.sends(8)
    producing.receipt(8)
    record = producing.record()
    assert (record.out_of_order.count, record.open_sends, record.oldest_open_frame) == (0, 1, 3)
    assert record.skipped.count == 0


def test_a_missing_receipt_at_the_end_of_the_session(producing):
    producing.opens()
    skipped = producing.sends(7)
    producing.sends(8)
    later = producing.receipt(8)
    producing.sends(9)
    producing.ends()
    record = producing.record()
    assert (record.skipped.count, record.skipped.frames, record.skipped.sample) == (1, [skipped, later], "7")
    assert record.unreceipted.count == 2


@pytest.mark.parametrize("overtakes", ["duplicate", "error"])
def test_duplicates_and_errors_may_overtake(producing, overtakes):
    producing.opens()
    producing.sends(7)
    producing.sends(8)
    if overtakes == "error":
        producing.error(8, "NotAllowedError")
    else:
        producing.duplicate(8)
    producing.receipt(7)
    assert producing.record().out_of_order.count == 0


def test_a_duplicate_receipt(producing):
    producing.opens()
    producing.sends(0)
    producing.receipt(0)
    second = producing.receipt(0)
    producing.wait(1)
    producing.sends(1)
    producing.receipt(1)
    record = producing.record()
    assert (record.unexpected.frames, record.unexpected.sample, record.receipts) == ([second], "0", 2)


def test_a_receipt_captured_before_its_send(producing):
    producing.opens()
    early = producing.receipt(0)
    producing.sends(0)
    producing.finish()
    record = producing.record()
    assert (record.unexpected.count, record.receipts, record.open_sends) == (0, 1, 0)
    assert producing.lives[0].receipt_frame == early


def test_an_early_receipt_for_an_old_send(producing):
    producing.opens()
    producing.receipt(0)
    producing.wait(1)
    producing.sends(0)
    record = producing.record()
    assert (record.unexpected.count, record.open_sends) == (1, 1)


def test_the_receipt_of_a_duplicate(producing):
    producing.opens()
    producing.sends(0, messages=3, highest=2)
    producing.duplicate(0)
    producing.finish()
    record = producing.record()
    assert (record.reuses_refused.count, record.resends_refused.count) == (3, 0)
    assert record.topic_record.deduplicates
    # It counts in msgInCounter but is not stored.
    assert (record.topic_record.messages_in, record.topic_record.entries_in) == (3, 0)
    assert producing.states() == [(0, "duplicate")]


def test_a_resend_dropped_by_deduplication(producing):
    producing.opens()
    published = producing.now
    producing.sends(0, published=published)
    stored = producing.receipt(0)
    producing.ends(0)
    producing.opens(stream=1)
    producing.sends(0, stream=1, published=published)
    producing.duplicate(0, stream=1)
    producing.finish()
    record = producing.record()
    assert (record.resent_with_receipt.count, record.resends_refused.count) == (1, 1)
    [life] = producing.lives
    assert (life.state, life.receipt_frame, life.other_ids) == ("stored", stored, ())


def test_a_resend_stored_a_second_time(producing):
    producing.opens()
    published = producing.now
    producing.sends(0, published=published)
    producing.receipt(0)
    producing.ends(0)
    producing.opens(stream=1)
    producing.sends(0, stream=1, published=published)
    producing.receipt(0, stream=1)
    producing.finish()
    record = producing.record()
    assert (record.duplicates_stored.count, record.duplicates_stored.sample) == (1, "7:0 and 7:1")
    assert record.topic_record.entries_in == 2
    first, copy = sorted(producing.lives, key=lambda life: life.entry)
    assert (first.id, first.other_ids, copy.id, copy.other_ids) == ("7:0", ((7, 1),), "7:1", ((7, 0),))


def test_an_error(producing):
    producing.opens()
    sent = producing.sends(0)
    answer = producing.error(0, "TopicTerminatedError")
    producing.finish()
    record = producing.record()
    assert record.send_errors["TopicTerminatedError"].frames == [sent, answer]
    assert (producing.states(), producing.lives[0].error) == ([(0, "refused")], "TopicTerminatedError")


def test_an_error_for_a_batch_contains_its_highest_id(producing):
    producing.opens()
    producing.sends(0, messages=5, highest=4)
    producing.error(4, "PersistenceError")
    producing.finish()
    assert producing.states() == [(0, "refused")]
    assert producing.record().open_sends == 0


@pytest.mark.parametrize(("error", "counted"), [("NotAllowedError", 1), ("ChecksumError", 0)])
def test_whether_the_broker_counts_a_refused_message(producing, error, counted):
    producing.opens()
    producing.sends(0)
    producing.error(0, error)
    assert producing.record().topic_record.messages_in == counted


def test_kept_refused_messages_are_limited(producing):
    producing.opens()
    for number in range(1_003):
        producing.sends(number)
        producing.error(number, "NotAllowedError")
    assert producing.states() == [(0, "refused"), (1, "refused"), (2, "refused")]


def test_a_non_persistent_topic(producing):
    producing.opens(topic=NON_PERSISTENT)
    for number in range(2):
        producing.sends(number)
        body = pb.CommandSendReceipt(producer_id=1, sequence_id=number)
        body.message_id.ledgerId = body.message_id.entryId = 0
        producing.broker(body)
    producing.sends(2)
    producing.duplicate(2)  # the broker had too many messages in flight
    producing.finish()
    assert producing.states() == [(0, "non_persistent"), (1, "non_persistent"), (2, "refused")]
    topic = producing.record().topic_record
    assert (topic.messages_in, topic.deduplicates, topic.last_id) == (2, False, (-1, -1))


def test_the_wait_without_receipts(producing):
    producing.opens()
    first = producing.sends(0)
    producing.wait(3)
    answer = producing.receipt(0)
    producing.sends(1)
    producing.wait(0.5)
    producing.receipt(1)
    wait = producing.record().no_receipt
    assert (wait.count, wait.longest_frames, wait.since_ns) == (1, (first, answer), -1)
    assert 3.0 <= wait.longest_ns / 1e9 < 3.1


def test_the_wait_since_the_last_receipt(producing):
    producing.opens()
    for number in range(3):
        producing.sends(number)
    last = producing.receipt(0)
    producing.wait(60)
    heard = producing.broker(pb.CommandPing())
    record = producing.record()
    assert (record.no_receipt.since_frame, record.open_sends, record.oldest_open_frame) == (last, 2, 4)
    assert record.heard_frame == heard
    over = producing.receipt(1)
    assert producing.record().no_receipt.longest_frames == (last, over)


def test_a_connection_that_ends_ends_the_wait(producing):
    producing.opens()
    producing.sends(0)
    producing.wait(5)
    producing.ends(0)
    record = producing.record()
    assert record.no_receipt.since_ns == -1
    assert record.no_receipt.longest_ns / 1e9 >= 5


def test_a_truncated_receipt_is_ignored(producing):
    producing.opens()
    producing.sends(0)
    producing.broker(pb.CommandSendReceipt(producer_id=1, sequence_id=0))
    record = producing.record()
    assert (record.receipts, record.reuses_refused.count, record.open_sends) == (0, 0, 1)


def test_receipts_of_earlier_sends_after_the_producer_was_opened_again(producing):
    """The Java client opens its producer again on the same connection after a SEND_ERROR."""
    producing.opens()
    producing.sends(0)
    producing.sends(1)
    producing.error(1, "PersistenceError")
    producing.opens(epoch=1)
    producing.receipt(0)
    producing.wait(1)
    producing.receipt(7)
    producing.finish()
    assert (producing.record().unexpected.count, producing.record().unexpected.sample) == (1, "7")
