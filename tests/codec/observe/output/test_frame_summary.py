"""One frame as one line of text."""

import pytest

from pcli.codec.observe.output.frame_summary import describe
from pcli.codec.observe.text_format import latency_text, short_topic, size_text
from pcli.codec.proto import pb
from pcli.codec.wire import push_entry


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_234_567, "1.2 MB"), (5_242_880, "5.2 MB")]
)
def test_sizes(size, text):
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0.00 ms"), (40_000, "0.04 ms"), (1_300_000, "1.3 ms"), (2_104_000_000, "2.104 s"), (-50_000, "-0.05 ms")],
)
def test_latencies(nanoseconds, text):
    assert latency_text(nanoseconds) == text


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ("persistent://public/default/orders", "orders"),
        ("persistent://shop/eu/orders", "shop/eu/orders"),
        ("non-persistent://public/default/orders", "non-persistent://public/default/orders"),
        ("segment://public/default/orders/0000-7fff-0", "orders/0000-7fff-0"),
        ("segment://shop/eu/orders/0000-7fff-0", "shop/eu/orders/0000-7fff-0"),
        ("segment://public/default/orders/first", "segment://public/default/orders/first"),
        ("topic://public/default/orders", "topic://public/default/orders"),
        ("a\x1b[31mb\nc", "a\\x1b[31mb\\nc"),
    ],
)
def test_topics(topic, text):
    assert short_topic(topic) == text


ORDERS = "persistent://public/default/orders"
PLACE = pb.MessageIdData(ledgerId=7, entryId=0)
SUBSCRIBE = pb.CommandSubscribe(
    topic=ORDERS, subscription="billing", subType=pb.CommandSubscribe.Shared, consumer_id=3, request_id=1,
    consumer_name="worker-0", initialPosition=pb.CommandSubscribe.Earliest,
)  # fmt: skip


def metadata(**fields):
    return pb.MessageMetadata(producer_name="p", sequence_id=5, publish_time=1, **fields)


def test_the_commands_of_a_consumer(conversation):
    assert describe(conversation.client(SUBSCRIBE)) == "orders/billing (worker-0)  Shared  from Earliest"
    assert describe(conversation.broker(pb.CommandSuccess(request_id=1))) == "to SUBSCRIBE  orders/billing"
    assert (
        describe(conversation.client(pb.CommandFlow(consumer_id=3, messagePermits=10)))
        == "orders/billing (worker-0)  10 permits"
    )
    message = pb.CommandMessage(consumer_id=3, message_id=PLACE, redelivery_count=2)
    summary = conversation.broker(message, push_entry(metadata(partition_key="k"), b"hello"))
    assert describe(summary) == "orders/billing (worker-0)  7:0  redelivered 2  5 B  key k"
    ack = pb.CommandAck(consumer_id=3, ack_type=pb.CommandAck.Cumulative, message_id=[PLACE], request_id=9)
    assert describe(conversation.client(ack)) == "orders/billing (worker-0)  up to 7:0  receipt requested"
    again = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=3)
    assert describe(conversation.client(again)) == "orders/billing (worker-0)  all unacknowledged messages"


def test_a_reader_from_the_earliest_message(conversation):
    nowhere = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
    reader = pb.CommandSubscribe(
        topic=ORDERS, subscription="r", subType=pb.CommandSubscribe.Exclusive, consumer_id=3, request_id=1,
        durable=False, start_message_id=nowhere,
    )  # fmt: skip
    assert describe(conversation.client(reader)) == "orders/r (#3)  Exclusive  not durable  from -1:-1"


def test_the_commands_of_a_producer(conversation):
    conversation.client(pb.CommandProducer(topic=ORDERS, producer_id=1, request_id=2))
    summary = conversation.broker(pb.CommandProducerSuccess(request_id=2, producer_name="standalone-0-1"))
    assert describe(summary) == "standalone-0-1 → orders"
    batch = metadata(num_messages_in_batch=3, compression=pb.LZ4)
    send = pb.CommandSend(producer_id=1, sequence_id=5, highest_sequence_id=7, num_messages=3)
    summary = describe(conversation.client(send, push_entry(batch, b"x" * 1500)))
    assert summary.startswith("standalone-0-1 → orders  seq 5–7  1.5 kB")
    assert {"batch of 3", "LZ4"} <= set(summary.split("  "))
    receipt = pb.CommandSendReceipt(producer_id=1, sequence_id=5, message_id=PLACE)
    assert describe(conversation.broker(receipt)) == "standalone-0-1 → orders  seq 5  7:0"
    minus_one = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
    duplicate = pb.CommandSendReceipt(producer_id=1, sequence_id=5, message_id=minus_one)
    assert describe(conversation.broker(duplicate)).endswith("-1:-1  a duplicate")


def test_ids_where_names_are_unknown(conversation):
    assert describe(conversation.client(pb.CommandFlow(consumer_id=3, messagePermits=10))) == "consumer #3  10 permits"
    receipt = pb.CommandSendReceipt(producer_id=1, sequence_id=5, message_id=PLACE)
    assert describe(conversation.broker(receipt)).startswith("producer #1  seq 5")


def test_a_long_list_is_shortened_with_a_count(conversation):
    ids = [pb.MessageIdData(ledgerId=7, entryId=entry) for entry in range(8)]
    summary = describe(conversation.client(pb.CommandAck(consumer_id=3, ack_type=0, message_id=ids)))
    assert summary == "consumer #3  7:0 7:1 7:2 7:3 7:4 and 3 more"


def test_credentials_never_appear(conversation):
    connect = pb.CommandConnect(client_version="x", auth_method_name="token", auth_data=b"secret", protocol_version=21)
    assert describe(conversation.client(connect)) == "x  v21  auth token"
    data = pb.AuthData(auth_method_name="token", auth_data=b"secret")
    assert "secret" not in describe(conversation.client(pb.CommandAuthResponse(response=data)))
    lookup = pb.CommandLookupTopic(topic=ORDERS, request_id=1, original_auth_data="secret")
    assert "secret" not in describe(conversation.client(lookup))


def test_errors(conversation):
    conversation.client(SUBSCRIBE)
    error = pb.CommandError(request_id=1, error=pb.ConsumerBusy, message="Exclusive consumer is already connected")
    assert describe(conversation.broker(error)) == (
        "to SUBSCRIBE  orders/billing  ConsumerBusy: Exclusive consumer is already connected"
    )


SCALABLE = "topic://public/default/orders"


def segment(number, start, end, *, sealed=False, parents=(), children=()):
    return pb.SegmentInfoProto(
        segment_id=number, hash_start=start, hash_end=end, state=pb.SEALED if sealed else pb.ACTIVE, parent_ids=parents,
        child_ids=children, created_at_epoch=0, created_at_ms=1,
    )  # fmt: skip


def update(*segments, session=1, epoch=0, **fields):
    dag = pb.ScalableTopicDAG(epoch=epoch, segments=segments, **fields)
    return pb.CommandScalableTopicUpdate(session_id=session, dag=dag, resolved_topic_name=SCALABLE)


WHOLE = segment(0, 0, 65535)
HALVES = (
    segment(0, 0, 65535, sealed=True, children=(1, 2)),
    segment(1, 0, 32767, parents=(0,)),
    segment(2, 32768, 65535, parents=(0,)),
)


def test_the_layouts_of_a_session(conversation):
    lookup = conversation.client(pb.CommandScalableTopicLookup(session_id=1, topic=SCALABLE, create_if_missing=False))
    assert describe(lookup) == "orders  session 1  only if it exists"
    assert describe(conversation.broker(update(WHOLE))) == "orders  epoch 0  1 active"
    elected = conversation.broker(update(WHOLE, controller_broker_url="pulsar://b:6650"))
    assert describe(elected) == "orders  epoch 0 again  1 active  (controller pulsar://b:6650)"
    split = update(*HALVES, epoch=1, controller_broker_url="pulsar://b:6650")
    assert describe(conversation.broker(split)) == "orders  epoch 1  2 active, 1 sealed  (split 0 → 1, 2)"
    assert describe(conversation.broker(split)) == "orders  epoch 1 again  2 active, 1 sealed"
    assert describe(conversation.client(pb.CommandScalableTopicClose(session_id=1))) == "orders  session 1"


def test_a_session_that_the_capture_does_not_begin(conversation):
    assert describe(conversation.client(pb.CommandScalableTopicClose(session_id=4))) == "session 4"
    assert describe(conversation.broker(update(*HALVES, session=5, epoch=1))) == "orders  epoch 1  2 active, 1 sealed"


def test_a_session_of_a_topic_that_does_not_exist(conversation):
    conversation.client(pb.CommandScalableTopicLookup(session_id=1, topic=SCALABLE, create_if_missing=False))
    refused = pb.CommandScalableTopicUpdate(session_id=1, error=pb.TopicNotFound, message="not there")
    assert describe(conversation.broker(refused)) == "orders  TopicNotFound: not there"


def test_a_layout_that_is_impossible(conversation):
    hole = describe(conversation.broker(update(HALVES[1])))
    assert hole == (
        "orders  epoch 0  1 active  (segment 1 names segments that are not in the layout: 0; "
        "no active segment has the hashes 32768 to 65535)"
    )


def assignment(*segments, epoch=1):
    return pb.ScalableConsumerAssignment(layout_epoch=epoch, segments=segments)


def assigned(number, *buckets):
    return pb.ScalableAssignedSegment(
        segment_id=number, hash_start=0, hash_end=65535, segment_topic="s", bucket_ranges=buckets
    )


def test_the_assignments_of_a_stream_consumer(conversation):
    subscribe = pb.CommandScalableTopicSubscribe(
        request_id=1,
        topic=SCALABLE,
        subscription="billing",
        consumer_name="c-1",
        consumer_id=0,
        consumer_type=pb.STREAM,
    )
    assert describe(conversation.client(subscribe)) == "orders/billing (c-1)  STREAM"
    response = pb.CommandScalableTopicSubscribeResponse(request_id=1, assignment=assignment(assigned(0), assigned(3)))
    assert describe(conversation.broker(response)) == "orders/billing (c-1)  epoch 1  segments 0, 3"
    shared = assigned(0, pb.IntRange(start=0, end=32767), pb.IntRange(start=32768, end=65535))
    later = pb.CommandScalableTopicAssignmentUpdate(consumer_id=0, assignment=assignment(shared, epoch=2))
    assert describe(conversation.broker(later)) == "orders/billing (c-1)  epoch 2  segment 0 (shared, 2 buckets)"
    nothing = pb.CommandScalableTopicAssignmentUpdate(consumer_id=0, assignment=assignment(epoch=3))
    assert describe(conversation.broker(nothing)) == "orders/billing (c-1)  epoch 3  no segments"
    leave = conversation.client(pb.CommandScalableTopicUnsubscribe(request_id=2, consumer_id=0))
    assert describe(leave) == "orders/billing (c-1)"
    assert describe(conversation.broker(pb.CommandSuccess(request_id=2))) == (
        "to SCALABLE_TOPIC_UNSUBSCRIBE  topic://public/default/orders/billing"
    )
    unknown = pb.CommandScalableTopicAssignmentUpdate(consumer_id=0, assignment=assignment(assigned(0)))
    assert describe(conversation.broker(unknown)) == "consumer #0  epoch 1  segment 0"


def test_the_watches_of_a_v5_client(conversation):
    topics = [f"topic://shop/eu/{name}" for name in "abcdef"]
    listed = pb.CommandWatchScalableTopicsUpdate(watch_id=1, snapshot=pb.ScalableTopicsSnapshot(topics=topics))
    assert describe(conversation.broker(listed)) == (
        "6 topics: shop/eu/a, shop/eu/b, shop/eu/c, shop/eu/d, shop/eu/e and 1 more"
    )
    diff = pb.CommandWatchScalableTopicsUpdate(
        watch_id=1, diff=pb.ScalableTopicsDiff(added=topics[:1], removed=topics[1:2])
    )
    assert describe(conversation.broker(diff)) == "added: shop/eu/a  removed: shop/eu/b"
    coordinators = pb.CommandWatchTcAssignmentsUpdate(
        watch_id=1,
        snapshot=pb.TcAssignmentsSnapshot(
            parallelism=2, assignments=[pb.TcAssignment(tc_id=i, broker_service_url="pulsar://b:6650") for i in (0, 1)]
        ),
    )
    assert describe(conversation.broker(coordinators)) == "2 coordinators  pulsar://b:6650"
