"""Names of producers in findings, and the detection of applications that set sequence ids."""

from pcli.codec.observe.rules.producer_text import about_producer, producer_subject, sets_own_sequence_ids


def test_names(producer):
    assert about_producer(producer("a\nb")) == "producer a\\nb on orders"
    assert about_producer(producer("")) == "producer #1 of stream 0 on orders"
    assert "not in the capture" in about_producer(producer("web", topic=""))
    assert producer_subject(producer("")) == {
        "topic": "persistent://public/default/orders", "producer": "producer #1 of stream 0",
    }  # fmt: skip


def test_producers_that_set_sequence_ids(producer, counted):
    assert not sets_own_sequence_ids(producer(gaps=counted(5)))
    assert sets_own_sequence_ids(producer(gaps=counted(6)))
