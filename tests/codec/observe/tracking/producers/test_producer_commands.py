"""PRODUCER with PRODUCER_SUCCESS or ERROR, CLOSE_PRODUCER from either side, and ends of connections."""

from pcli.codec.proto import pb

TOPIC = "persistent://public/default/t"


def test_a_requested_name(producing):
    producing.asks("web", producer_access_mode=pb.Exclusive)
    ready = producing.is_taken("web")
    record = producing.record("web")
    assert (record.topic, record.access_mode, record.sessions) == (TOPIC, "Exclusive", 1)
    assert (record.session.number, record.session.ready_frame, record.session.end) == (1, ready, "")
    assert list(record.topic_record.producers) == ["web"]


def test_a_name_assigned_by_the_broker(producing):
    producing.asks("")
    producing.is_taken("standalone-0-7")
    [record] = producing.records()
    assert record.name == "standalone-0-7"
    assert list(record.topic_record.producers) == ["standalone-0-7"]


def test_the_same_name_on_another_connection(producing):
    producing.opens()
    producing.ends(0, reset=True)
    producing.opens(stream=1)
    [record] = producing.records()
    assert record.sessions == 2
    assert record.session.stream == 1
    assert {end: seen.count for end, seen in record.ends.items()} == {"reset_broker": 1}


def test_refused_without_a_name(producing):
    producing.asks("")
    answer = producing.is_refused("ProducerBusy", "too many")
    [record] = producing.records()
    assert record.name == ""
    assert (record.refused["ProducerBusy"].frames, record.refused["ProducerBusy"].sample) == ([1, answer], "too many")
    assert (record.sessions, record.session.end, record.ends) == (0, "refused", {})


def test_a_second_producer_with_the_name_is_refused(producing):
    producing.opens("twin")
    producing.asks("twin", stream=1)
    producing.is_refused("ProducerBusy", stream=1)
    producing.sends(0)
    producing.receipt(0)
    record = producing.record("twin")
    assert (record.session.stream, record.session.end, record.receipts) == (0, "", 1)
    assert record.refused["ProducerBusy"].count == 1


def test_an_error_of_another_request_refuses_no_producer(producing):
    producing.opens()
    producing.client(pb.CommandLookupTopic(topic=TOPIC, request_id=9))
    producing.is_refused("ServiceNotReady", request_id=9)
    assert producing.record().refused == {}


def test_waiting_for_exclusive_access(producing):
    producing.asks("heir", producer_access_mode=pb.WaitForExclusive)
    first = producing.is_taken("heir", ready=False)
    record = producing.record("heir")
    assert (record.session.ready_ns, record.waiting.since_frame) == (-1, first)
    producing.wait(1)
    second = producing.is_taken("heir")
    record = producing.record("heir")
    assert record.session.ready_frame == second
    assert (record.waiting.count, record.waiting.since_ns, record.sessions) == (1, -1, 1)
    assert record.waiting.longest_frames == (first, second)


def test_closed_by_its_client_receipts_before_the_success(producing):
    producing.opens()
    producing.sends(0)
    producing.client(pb.CommandCloseProducer(producer_id=1, request_id=2))
    producing.receipt(0)
    producing.broker(pb.CommandSuccess(request_id=2))
    record = producing.record()
    assert (record.session.end, record.receipts, record.unreceipted.count) == ("closed", 1, 0)


def test_closed_by_the_broker_and_opened_again_on_the_same_connection(producing):
    producing.opens()
    producing.sends(0)
    close = producing.broker(pb.CommandCloseProducer(producer_id=1, request_id=2**64 - 1))
    assert producing.record().session.ended_frame == close
    producing.opens()
    record = producing.record()
    assert list(record.ends) == ["broker"]
    assert (record.unreceipted.count, record.open_sends, record.session.end) == (1, 0, "")


def test_a_reused_id_without_a_close(producing):
    producing.opens("a")
    producing.opens("b")
    assert list(producing.record("a").ends) == ["replaced"]
    assert producing.record("b").session.end == ""


def test_the_end_of_the_capture(producing):
    producing.opens()
    producing.finish()
    assert "end" in producing.record().doubts


def test_a_producer_of_the_broker(producing):
    producing.opens("x", topic="persistent://public/default/__transaction_buffer_snapshot")
    assert producing.record("x").system
