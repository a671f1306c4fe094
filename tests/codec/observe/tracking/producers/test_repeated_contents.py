"""Producers that start again and send messages that were stored before."""

import pytest


def produces(producing, contents, first=0, *, stream=0, epoch=0, name="p", receipts=True, **fields):
    """Open a producer and send these payloads; each has a receipt."""
    producing.opens(name, stream, epoch=epoch)
    for number, payload in enumerate(contents, first):
        producing.sends(number, stream=stream, payload=payload, producer_name=name, **fields)
        if receipts:
            producing.receipt(number, stream=stream)


def numbered(first, last):
    return [b"reading %d" % number for number in range(first, last)]


@pytest.mark.parametrize("name", ["p", "other"])
def test_a_producer_that_starts_again_repeats_messages(producing, name):
    produces(producing, numbered(0, 20))
    producing.ends(from_client=True)
    produces(producing, numbered(8, 14), stream=1, name=name)
    record = producing.record(name)
    assert (record.restart_duplicates.count, record.restart_of) == (6, "p")
    assert record.restart_duplicates.sample == "7:8 and 7:20"
    assert record.restart_end[0] == "fin_client"
    assert record.restart_duplicates_blind.count == 0


def test_without_a_receipt_the_first_copy_is_unknown(producing):
    produces(producing, numbered(0, 3), receipts=False)
    producing.receipt(0)
    producing.ends(reset=True)
    produces(producing, numbered(1, 3), stream=1)
    record = producing.record()
    assert (record.restart_duplicates.count, record.restart_duplicates_blind.count) == (0, 2)


@pytest.mark.parametrize("after", [numbered(19, 20), numbered(5, 6) + numbered(30, 31)], ids=["last", "not last"])
def test_a_single_message_counts_only_if_it_was_the_last(producing, after):
    produces(producing, numbered(0, 20))
    producing.ends()
    produces(producing, after, stream=1)
    assert producing.record().restart_duplicates.count == (len(after) == 1)


def test_heartbeats_are_not_reported(producing):
    """Content that a producer sends repeatedly is repeated on purpose."""
    produces(producing, [b"alive"] * 5)
    producing.ends()
    produces(producing, [b"alive"] * 5, stream=1)
    assert producing.record().restart_duplicates.count == 0


def test_a_closed_producer_has_no_unconfirmed_messages(producing):
    from pcli.codec.proto import pb

    produces(producing, numbered(0, 5))
    producing.client(pb.CommandCloseProducer(producer_id=1, request_id=9))
    producing.broker(pb.CommandSuccess(request_id=9))
    producing.ends(from_client=True)
    produces(producing, numbered(0, 5), stream=1)
    assert producing.record().restart_duplicates.count == 0


def test_a_reconnect_is_no_restart(producing):
    produces(producing, numbered(0, 5))
    producing.ends()
    produces(producing, numbered(0, 5), 5, stream=1, epoch=1)
    assert producing.record().restart_duplicates.count == 0


@pytest.mark.parametrize("other", [{"partition_key": "k"}, {"ordering_key": b"k"}])
def test_other_keys_are_other_messages(producing, other):
    produces(producing, numbered(0, 5))
    producing.ends()
    produces(producing, numbered(0, 5), stream=1, **other)
    assert producing.record().restart_duplicates.count == 0


def test_deduplication_drops_the_copies(producing):
    produces(producing, numbered(0, 3))
    producing.ends()
    produces(producing, numbered(0, 3), stream=1, receipts=False)
    for number in range(3):
        producing.duplicate(number, stream=1)
    assert producing.record().restart_duplicates.count == 0


def test_entries_of_lost_producers_are_bounded(producing, monkeypatch):
    monkeypatch.setattr("pcli.codec.observe.tracking.producers.repeated_contents.MAX_LOST", 6)
    produces(producing, numbered(0, 5))
    producing.ends()
    produces(producing, numbered(20, 25), stream=1)
    producing.ends(1)
    produces(producing, numbered(0, 5) + numbered(20, 25), stream=2)
    assert producing.record().restart_duplicates.count == 5
