"""Names of ids, requests and responses: handwritten conversations, then real captures with their truth files."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pcli.codec.observe import Consumer, Observer, Producer, find_field, flatten
from pcli.codec.observe.observer import answer_index
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.commands import name_of

ID = pb.MessageIdData(ledgerId=3, entryId=0)
ENTRY = push_entry(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"x")
MINUS_ONE = 2**64 - 1

DAMAGED = (
    "java/cut-packets",
    "python/30-snaplen-96",
    "python/36-ends-mid-frame",
    "python/36b-ends-mid-record",
    "python/37-packets-lost",
)
"""Captures that lack requests or responses."""


def connect(**more):
    return pb.CommandConnect(client_version="test", **more)


def producer(number=1, request=1, topic="persistent://public/default/t", **more):
    return pb.CommandProducer(topic=topic, producer_id=number, request_id=request, **more)


def subscribe(number=1, request=1, topic="persistent://public/default/t", subscription="s", **more):
    return pb.CommandSubscribe(
        topic=topic, subscription=subscription, subType=1, consumer_id=number, request_id=request, **more
    )


def send(sequence, producer_id=1):
    return pb.CommandSend(producer_id=producer_id, sequence_id=sequence)


def receipt(sequence, producer_id=1):
    return pb.CommandSendReceipt(producer_id=producer_id, sequence_id=sequence, message_id=ID)


def success(request):
    return pb.CommandSuccess(request_id=request)


def error(request):
    return pb.CommandError(request_id=request, error=1, message="no")


def test_requests_and_responses_are_paired_by_request_id_in_any_order(conversation):
    first = conversation.client(pb.CommandLookupTopic(topic="a", request_id=7))
    second = conversation.client(pb.CommandLookupTopic(topic="b", request_id=8))
    later = conversation.broker(pb.CommandLookupTopicResponse(request_id=8))
    last = conversation.broker(error(7))
    assert (later.request_number, later.latency_ns) == (second.frame.number, 1_000_000)
    assert (last.request_number, last.latency_ns) == (first.frame.number, 3_000_000)
    assert find_field("pulsar.topic").get(later) == "persistent://public/default/b"
    assert conversation.observer.unanswered() == []


@pytest.mark.parametrize("name", ["t", "public/default/t", "persistent://public/default/t"])
def test_a_topic_has_its_full_name_in_all_frames(conversation, name):
    full, wire = "persistent://public/default/t", find_field("pulsar.subscribe.topic")
    found = [
        conversation.client(pb.CommandLookupTopic(topic=name, request_id=1)),
        conversation.broker(pb.CommandLookupTopicResponse(request_id=1, response=1)),
        conversation.client(producer(topic=name, request=2)),
        conversation.client(send(1)),
        subscribed := conversation.client(subscribe(topic=name, request=3)),
        conversation.client(pb.CommandFlow(consumer_id=1, messagePermits=1)),
    ]
    assert [find_field("pulsar.topic").get(facts) for facts in found] == [full] * len(found)
    assert wire.get(subscribed) == name


def test_a_second_response_is_not_paired(conversation):
    conversation.client(pb.CommandLookupTopic(topic="a", request_id=7))
    assert conversation.broker(pb.CommandLookupTopicResponse(request_id=7)).request_number == 1
    assert conversation.broker(pb.CommandLookupTopicResponse(request_id=7)).request_number == 0


def test_a_response_of_another_type_is_not_paired(conversation):
    conversation.client(pb.CommandLookupTopic(topic="a", request_id=7))
    assert conversation.broker(success(7)).request_number == 0
    assert [request.number for request in conversation.observer.unanswered()] == [1]


def test_open_requests_with_the_same_id_and_different_responses(conversation):
    close = conversation.client(pb.CommandCloseProducer(producer_id=1, request_id=7))
    metadata = conversation.client(pb.CommandPartitionedTopicMetadata(topic="a", request_id=7))
    assert conversation.broker(pb.CommandSuccess(request_id=7)).request_number == close.frame.number
    response = conversation.broker(pb.CommandPartitionedTopicMetadataResponse(request_id=7))
    assert response.request_number == metadata.frame.number


def test_an_error_without_request_id_answers_connect(conversation):
    conversation.client(connect())
    assert conversation.broker(error(MINUS_ONE)).request_number == 1


def test_authentication_in_several_steps_and_refresh(conversation):
    conversation.client(connect())
    assert conversation.broker(pb.CommandAuthChallenge()).request_number == 1
    assert conversation.client(pb.CommandAuthResponse()).request_number == 2
    assert conversation.broker(pb.CommandConnected(server_version="b")).request_number == 3
    # Much later the broker requests new credentials; AUTH_RESPONSE then has no response.
    assert conversation.broker(pb.CommandAuthChallenge()).request_number == 0
    assert conversation.client(pb.CommandAuthResponse()).request_number == 5
    assert conversation.broker(pb.CommandAuthChallenge()).request_number == 0
    assert [request.number for request in conversation.observer.unanswered()] == [7]


def test_both_sides_ping(conversation):
    conversation.client(pb.CommandPing())
    conversation.broker(pb.CommandPing())
    assert conversation.client(pb.CommandPong()).request_number == 2
    assert conversation.broker(pb.CommandPong()).request_number == 1
    assert conversation.broker(pb.CommandPong()).request_number == 0


def test_without_ids_the_oldest_request_is_paired_first(conversation):
    conversation.client(pb.CommandPing())
    conversation.client(pb.CommandPing())
    assert [conversation.broker(pb.CommandPong()).request_number for _ in range(2)] == [1, 2]


def test_receipts_are_paired_by_producer_and_sequence_id(conversation):
    conversation.client(producer(number=1))
    conversation.broker(pb.CommandProducerSuccess(request_id=1, producer_name="given"))
    conversation.client(producer(number=2, request=2))
    conversation.client(send(0, producer_id=1), ENTRY)
    conversation.client(send(0, producer_id=2), ENTRY)
    conversation.client(send(1, producer_id=1), ENTRY)
    assert conversation.broker(receipt(1, producer_id=1)).request_number == 6
    assert (
        conversation.broker(pb.CommandSendError(producer_id=2, sequence_id=0, error=1, message="")).request_number == 5
    )
    answer = conversation.broker(receipt(0, producer_id=1))
    assert (answer.request_number, answer.latency_ns) == (4, 5_000_000)
    assert isinstance(answer.peer, Producer)
    assert answer.peer.name == "given"
    assert [(name_of(one.type), one.id) for one in conversation.observer.unanswered()] == [("PRODUCER", 2)]


def test_chunks_with_one_sequence_id_are_paired_in_order(conversation):
    for _ in range(3):
        conversation.client(send(5), ENTRY)
    assert [conversation.broker(receipt(5)).request_number for _ in range(4)] == [1, 2, 3, 0]


def test_the_receipt_of_a_duplicate_has_no_message_id(conversation):
    conversation.client(pb.CommandSend(producer_id=1, sequence_id=4, num_messages=3, highest_sequence_id=6), ENTRY)
    place = pb.MessageIdData(ledgerId=MINUS_ONE, entryId=MINUS_ONE)
    answer = conversation.broker(
        pb.CommandSendReceipt(producer_id=1, sequence_id=4, highest_sequence_id=6, message_id=place)
    )
    assert answer.request_number == 1
    assert find_field("pulsar.message_id").get(answer) == "-1:-1"


def test_a_send_of_the_sequence_id_minus_one_has_its_receipt(conversation):
    conversation.client(pb.CommandSend(producer_id=1, sequence_id=MINUS_ONE, txnid_least_bits=3), ENTRY)
    assert conversation.broker(receipt(MINUS_ONE)).request_number == 1


def test_a_reopened_producer_resends(conversation):
    conversation.client(producer())
    conversation.client(send(0), ENTRY)
    conversation.broker(pb.CommandCloseProducer(producer_id=1, request_id=MINUS_ONE))
    conversation.client(producer(request=2, epoch=1))
    conversation.client(send(0), ENTRY)
    assert conversation.broker(receipt(0)).request_number == 5
    assert [one.number for one in conversation.observer.unanswered() if name_of(one.type) == "SEND"] == [2]


def test_ids_are_separate_per_stream(conversation):
    conversation.client(producer(), stream=0)
    conversation.client(send(0), ENTRY, stream=0)
    assert conversation.broker(receipt(0), stream=1).request_number == 0
    assert conversation.broker(receipt(0), stream=0).request_number == 2


def test_a_waiting_producer_has_two_responses(conversation):
    conversation.client(producer(producer_access_mode=2))
    wait = conversation.broker(pb.CommandProducerSuccess(request_id=1, producer_name="w", producer_ready=False))
    assert conversation.observer.unanswered() == []
    ready = conversation.broker(pb.CommandProducerSuccess(request_id=1, producer_name="w", producer_ready=True))
    again = conversation.broker(pb.CommandProducerSuccess(request_id=1, producer_name="w", producer_ready=True))
    assert [(one.request_number, one.latency_ns) for one in (wait, ready, again)] == [
        (1, 1_000_000),
        (1, 2_000_000),
        (0, -1),
    ]


def test_acks_with_a_request_id_are_requests(conversation):
    conversation.client(subscribe(number=4))
    conversation.client(pb.CommandAck(consumer_id=4, ack_type=0, message_id=[ID]))
    conversation.client(pb.CommandAck(consumer_id=4, ack_type=0, message_id=[ID], request_id=9))
    answer = conversation.broker(pb.CommandAckResponse(consumer_id=4, request_id=9))
    assert answer.request_number == 3
    assert isinstance(answer.peer, Consumer)
    assert answer.peer.subscription == "s"


def test_only_the_first_update_is_paired_with_a_scalable_lookup(conversation):
    conversation.client(pb.CommandScalableTopicLookup(session_id=3, topic="topic://a/b/c"))
    conversation.client(pb.CommandWatchTcAssignments(watch_id=3))
    assert conversation.broker(pb.CommandWatchTcAssignmentsUpdate(watch_id=3)).request_number == 2
    assert conversation.broker(pb.CommandScalableTopicUpdate(session_id=3)).request_number == 1
    assert conversation.broker(pb.CommandScalableTopicUpdate(session_id=3)).request_number == 0


def test_a_close_by_the_broker_is_not_a_request(conversation):
    conversation.client(subscribe())
    conversation.broker(success(1))
    closing = conversation.broker(pb.CommandCloseConsumer(consumer_id=1, request_id=0))
    assert find_field("pulsar.subscription").get(closing) == "s"
    assert conversation.observer.unanswered() == []


def test_a_consumer_exists_until_its_close_succeeds(conversation):
    conversation.client(subscribe(request=1, consumer_name="one"))
    conversation.broker(success(1))
    names = [conversation.client(pb.CommandFlow(consumer_id=1, messagePermits=1)).peer.name]
    conversation.client(pb.CommandCloseConsumer(consumer_id=1, request_id=2))
    names.append(conversation.broker(pb.CommandMessage(consumer_id=1, message_id=ID), ENTRY).peer.name)
    names.append(conversation.broker(success(2)).peer.name)
    assert conversation.broker(pb.CommandMessage(consumer_id=1, message_id=ID), ENTRY).peer is None
    conversation.client(subscribe(request=3, consumer_name="two"))
    names.append(conversation.client(pb.CommandFlow(consumer_id=1, messagePermits=1)).peer.name)
    assert names == ["one", "one", "one", "two"]


def test_a_refused_consumer_is_removed(conversation):
    conversation.client(subscribe(consumer_name="one"))
    refusal = conversation.broker(error(1))
    assert refusal.peer.name == "one"
    assert conversation.client(pb.CommandFlow(consumer_id=1, messagePermits=1)).peer is None


def test_an_old_close_does_not_end_the_next_consumer_with_the_id(conversation):
    conversation.client(subscribe(request=1, consumer_name="one"))
    conversation.client(pb.CommandCloseConsumer(consumer_id=1, request_id=2))
    conversation.client(subscribe(request=3, consumer_name="two"))
    conversation.broker(success(2))
    assert conversation.client(pb.CommandFlow(consumer_id=1, messagePermits=1)).peer.name == "two"


def test_a_migrated_topic_names_its_resource(conversation):
    conversation.client(subscribe(number=2, consumer_name="c"))
    conversation.client(producer(number=2, request=2, producer_name="p"))
    assert conversation.broker(pb.CommandTopicMigrated(resource_id=2, resource_type=1)).peer.name == "c"
    assert conversation.broker(pb.CommandTopicMigrated(resource_id=2, resource_type=0)).peer.name == "p"


def test_open_requests_are_limited_and_the_oldest_evicted(talk_to):
    conversation = talk_to(Observer(max_open=100))
    for sequence in range(1000):
        conversation.client(send(sequence), ENTRY)
    observer = conversation.observer
    left = [one.number for one in observer.unanswered()]
    assert len(left) <= 150
    assert left == list(range(1001 - len(left), 1001))
    assert observer.evicted["requests"] == 1000 - len(left)


def test_peers_and_connections_are_limited(talk_to):
    conversation = talk_to(Observer(max_peers=10, max_connections=5))
    for number in range(30):
        conversation.client(subscribe(number=number, request=number, consumer_name=str(number)))
    assert conversation.observer.evicted["peers"] == 20
    assert conversation.client(pb.CommandFlow(consumer_id=29, messagePermits=1)).peer.name == "29"
    assert conversation.client(pb.CommandFlow(consumer_id=0, messagePermits=1)).peer is None
    for stream in range(1, 9):
        conversation.client(connect(), stream=stream)
    assert conversation.observer.evicted["connections"] == 4
    assert len([one for one in conversation.observer.unanswered() if name_of(one.type) == "CONNECT"]) == 8


def test_a_closed_connection_keeps_its_unanswered_requests(conversation):
    conversation.client(subscribe(consumer_name="one"))
    conversation.observer.close(0)
    assert [one.number for one in conversation.observer.unanswered()] == [1]
    assert conversation.client(pb.CommandFlow(consumer_id=1, messagePermits=1)).peer is None


def test_malformed_commands_change_no_state(conversation):
    facts = [conversation.client(bytes([0, 0, 0, 6, 0, 0, 0, 2, 8, number])) for number in range(100)]
    assert all(one.peer is None and one.request_number == 0 for one in facts)


@pytest.mark.parametrize(
    ("topic", "subscription", "system"),
    [
        ("persistent://public/default/orders", "s", False),
        ("persistent://public/default/__change_events", "s", True),
        ("persistent://pulsar/system/anything", "s", True),
        ("persistent://public/default/orders", "__compaction", True),
        ("persistent://public/default/x", "__system_reader-reader-1", True),
        ("non-persistent://public/default/my__topic", "s", False),
    ],
)
def test_system_and_application_traffic(conversation, topic, subscription, system):
    conversation.client(subscribe(topic=topic, subscription=subscription))
    assert conversation.broker(success(1)).system is system
    assert conversation.client(pb.CommandFlow(consumer_id=1, messagePermits=1)).system is system
    assert conversation.client(pb.CommandPing()).system is system


def test_application_names_on_the_brokers_connection(conversation):
    conversation.client(subscribe(number=1, topic="persistent://public/default/__change_events"))
    conversation.client(subscribe(number=2, request=2))
    assert conversation.client(pb.CommandFlow(consumer_id=1, messagePermits=1)).system
    assert not conversation.client(pb.CommandFlow(consumer_id=2, messagePermits=1)).system


def test_a_coordinator_lookup_does_not_identify_a_broker(conversation):
    topic = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
    assert not conversation.client(pb.CommandLookupTopic(topic=topic, request_id=1)).system
    assert not conversation.client(pb.CommandPing()).system
    assert conversation.client(pb.CommandEndTxnOnPartition(request_id=2, topic="persistent://public/default/t")).system
    assert conversation.client(pb.CommandPing()).system


def test_using_a_system_topic_identifies_a_broker(conversation):
    """The compactor looks up the application's topic first; a producer from before the capture is then the broker's."""
    conversation.client(pb.CommandLookupTopic(topic="persistent://public/default/orders", request_id=1))
    assert not conversation.client(send(0, producer_id=7), ENTRY).system
    assert not conversation.client(pb.CommandPing()).system
    conversation.client(subscribe(request=2, subscription="__compaction"))
    assert conversation.client(pb.CommandPing()).system
    assert conversation.client(send(1, producer_id=7), ENTRY).system


def test_replicators_belong_to_the_broker(conversation):
    assert conversation.client(producer(producer_name="pulsar.repl.west-->east")).system
    assert conversation.client(send(0), ENTRY).system


def test_the_second_pass_has_the_responses(conversation, talk_to):
    conversation.client(producer())
    conversation.broker(pb.CommandProducerSuccess(request_id=1, producer_name="w"))
    conversation.client(send(0), ENTRY)
    conversation.client(send(1), ENTRY)
    conversation.broker(receipt(1))
    observer = Observer(answers=answer_index([*conversation.frames, "a note"]))
    assert [observer.see(frame).answer_number for frame in conversation.frames] == [2, 0, 0, 5, 0]


def test_the_second_pass_identifies_the_broker_from_the_first_frame(conversation):
    conversation.client(connect())
    conversation.broker(pb.CommandConnected(server_version="b"))
    conversation.client(subscribe(topic="persistent://public/default/__change_events"))
    conversation.client(subscribe(number=2, request=2))
    observer = Observer(answers=answer_index(conversation.frames))
    assert [observer.see(frame).system for frame in conversation.frames] == [True, True, True, False]


def _plain_pairs(frames):
    """Return request and response of every answered frame, paired with protobuf alone."""
    ids, sends, pairs = {}, defaultdict(list), {}
    for frame in frames:
        name, command, stream = name_of(frame.type), frame.command, frame.stream.number
        if name == "SEND":
            sends[stream, command.send.producer_id, command.send.sequence_id].append(frame)
            continue
        if name in ("SEND_RECEIPT", "SEND_ERROR"):
            body = command.send_receipt if name == "SEND_RECEIPT" else command.send_error
            waiting = sends[stream, body.producer_id, body.sequence_id]
            if waiting and not frame.missing:
                pairs[frame.number] = waiting.pop(0)
            continue
        body = next((value for field, value in command.ListFields() if field.name != "type"), None)
        if body is None or "request_id" not in body.DESCRIPTOR.fields_by_name or not body.HasField("request_id"):
            continue
        key = stream, body.request_id
        if frame.from_client:
            ids[key] = frame
        elif key in ids:
            pairs[frame.number] = ids[key]
    return pairs


def test_latency_is_the_difference_of_packet_times(small):
    compared = 0
    for name in small.names():
        pairs = _plain_pairs(small.frames(name))
        for facts in small.facts(name):
            request = pairs.get(facts.frame.number)
            if request is not None:
                compared += 1
                assert facts.request_number == request.number, (name, facts.frame.number)
                assert facts.latency_ns == facts.frame.time_ns - request.time_ns
    assert compared > 1000


ANSWERS = {
    "CONNECTED", "PRODUCER_SUCCESS", "SUCCESS", "SEND_RECEIPT", "SEND_ERROR", "ACK_RESPONSE", "LOOKUP_RESPONSE",
    "PARTITIONED_METADATA_RESPONSE", "GET_LAST_MESSAGE_ID_RESPONSE", "GET_SCHEMA_RESPONSE", "NEW_TXN_RESPONSE",
    "END_TXN_RESPONSE", "ADD_PARTITION_TO_TXN_RESPONSE", "ERROR",
}  # fmt: skip


def test_every_response_in_complete_captures_is_paired(corpus):
    """In captures without losses and without connections that began earlier, every response finds its request."""
    checked = 0
    for name in corpus.names():
        truth = corpus.truth(name)
        if truth.get("midstream_connections") or "midstream_connections" not in truth or name in DAMAGED:
            continue
        counts = truth["frames_by_type"]["broker"]
        answered = Counter(
            name_of(facts.frame.type)
            for facts in corpus.facts(name)
            if facts.request_number and not facts.frame.from_client
        )
        expected = {type_: number for type_, number in counts.items() if type_ in ANSWERS}
        assert {type_: answered[type_] for type_ in expected} == expected, name
        checked += len(expected)
    assert checked > 50


def _place(message_id):
    ledger, entry = message_id.split(":")[:2]
    return f"{ledger}:{entry}"


def test_names_match_the_truth_files(small):
    """Each message that an application received is in a MESSAGE to that consumer, topic and subscription."""
    topic, subscription, consumer = map(find_field, ("pulsar.topic", "pulsar.subscription", "pulsar.consumer_name"))
    checked = 0
    for name in small.names():
        truth = small.truth(name)
        events = [one for one in truth["events"] if one["type"] == "received" and one.get("consumer")]
        if truth.get("midstream_connections") or name in (*DAMAGED, "python/21-tls") or not events:
            continue
        seen = defaultdict(set)
        for facts in small.facts(name):
            if name_of(facts.frame.type) == "MESSAGE":
                place = _place(find_field("pulsar.message_id").get(facts))
                seen[place].add((topic.get(facts), subscription.get(facts), consumer.get(facts)))
        for event in events:
            if "://" not in event.get("topic", "") or "topic://" in event["topic"] or "message_id" not in event:
                continue
            found = seen[_place(event["message_id"])]
            # A truth file may name the partitioned topic, and omits what its client does not expose.
            assert any(
                one[0].startswith(event["topic"])
                and one[1] == event.get("subscription", one[1])
                and one[2] in (event["consumer"], None)
                for one in found
            ), (name, event, found)
            checked += 1
    assert checked > 300


def test_producers_match_the_truth_files(small):
    """The receipt of each message that an application sent has the names of its producer and topic."""
    topic, producer_name = find_field("pulsar.topic"), find_field("pulsar.producer_name")
    checked = 0
    for name in small.names():
        truth = small.truth(name)
        events = [one for one in truth["events"] if one["type"] == "produced" and one.get("message_id")]
        if truth.get("midstream_connections") or name in (*DAMAGED, "python/21-tls"):
            continue
        seen = defaultdict(set)
        for facts in small.facts(name):
            if name_of(facts.frame.type) == "SEND_RECEIPT":
                place = _place(find_field("pulsar.message_id").get(facts))
                seen[place].add((topic.get(facts), producer_name.get(facts)))
        for event in events:
            found = seen[_place(event["message_id"])]
            assert any(
                one[0].startswith(event["topic"]) and one[1].startswith(event.get("producer", one[1])) for one in found
            ), (name, event, found)
            checked += 1
    assert checked > 200


@pytest.mark.slow
def test_no_bytes_raise(small, conversation):
    """Frames of real captures, truncated and mutated at random, are observed and converted to JSON."""
    kinds = {}
    for name in ("java/txn-commit", "java/scalable-topic", "python/02-batched-keys-properties", "java/schemas"):
        for frame in small.frames(name):
            kinds.setdefault(frame.type, []).append(frame.data)
    pool = [data for datas in kinds.values() for data in datas[:3]]

    @given(
        st.sampled_from(pool),
        st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6),
        st.integers(8, 2000),
        st.booleans(),
    )
    @settings(max_examples=1500, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def fine(data, edits, size, from_client):
        changed = bytearray(data)
        for place, value in edits:
            changed[place % len(changed)] = value
        facts = conversation.say(bytes(changed[:size]), b"", 0, from_client=from_client)
        json.dumps(flatten(facts), allow_nan=False)
        assert all(request.number > 0 for request in conversation.observer.unanswered())

    fine()
