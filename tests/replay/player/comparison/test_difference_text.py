"""The texts of two values that differ: they are never equal."""

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import Frame
from pcli.replay.player.comparison.compare_responses import Difference
from pcli.replay.player.comparison.difference_text import texts_of
from pcli.replay.player.id_translation import Ids


def texts(captured, live, *, field="field", ids=None, frames=(None, None)):
    return texts_of(Difference(field, captured, live), *frames, ids or Ids())


def place(ledger, entry, **more):
    return pb.MessageIdData(ledgerId=ledger, entryId=entry, **more)


def test_equal_ids_of_different_entries():
    """The captured entry 0:0 is the live entry 3:0, but the broker sent 0:0, which is the captured entry 5:7."""
    ids = Ids()
    ids.positions, ids.live_positions = {(0, 0): (3, 0), (5, 7): (0, 0)}, {(3, 0): (0, 0), (0, 0): (5, 7)}
    assert texts(place(0, 0), place(0, 0), ids=ids) == ("0:0", "0:0 (5:7 in the capture)")


def test_an_entry_that_is_not_in_the_capture():
    ids = Ids()
    ids.positions, ids.live_positions = {(0, 0): (3, 0)}, {(3, 0): (0, 0)}
    assert texts(place(0, 0), place(0, 0), ids=ids) == ("0:0", "0:0 (not in the capture)")


def test_equal_ids_in_a_different_order():
    ids = Ids()
    ids.positions, ids.live_positions = {(0, 1): (0, 1)}, {(0, 1): (0, 1)}
    assert texts(place(0, 1), place(0, 1), ids=ids) == ("0:1", "0:1 (not in the order of the capture)")


def test_the_same_entry_with_another_batch_index():
    ids = Ids()
    ids.positions, ids.live_positions = {(0, 1): (4, 1)}, {(4, 1): (0, 1)}
    found = texts(place(0, 1, batch_index=2), place(4, 1, batch_index=3), ids=ids)
    assert found == ("0:1 batch_index: 2", "4:1 batch_index: 3")


def test_equal_names_of_different_producers():
    assert texts("standalone-0-1", "standalone-0-1") == (
        "standalone-0-1",
        "standalone-0-1 (of another object in the capture)",
    )


def test_long_texts_that_differ_at_the_end():
    captured, live = (f"{'topic ' * 20}{end}" for end in ("unloaded", "fenced"))
    assert texts(captured, live) == ("…topic topic unloaded", "…topic topic fenced")


def test_payloads_with_equal_metadata():
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    message = pb.CommandMessage(consumer_id=1, message_id=place(0, 0))
    frames = [Frame.of(push_frame(message, push_entry(metadata, data))) for data in (b"value=1", b"value=20")]
    found = texts(metadata, metadata, field="entry", frames=frames)
    assert found == ("7 bytes, 31 at byte 6", "8 bytes, 3230 at byte 6")


def test_a_missing_message():
    frame = Frame.of(push_frame(pb.CommandMessage(consumer_id=1, message_id=place(0, 5))))
    assert texts("MESSAGE", None, field="missing", frames=(frame, None)) == ("MESSAGE 0:5 to consumer 1", "")
