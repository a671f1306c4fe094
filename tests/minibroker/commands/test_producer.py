"""PRODUCER and CLOSE_PRODUCER. The expected responses were observed on a real 4.2.4 broker."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName

EXCLUSIVE, WAIT, FENCING = pb.Exclusive, pb.WaitForExclusive, pb.ExclusiveWithFencing
T = "persistent://public/default/t"


def error(answer):
    """Return the name of the error in a response."""
    return pb.ServerError.Name(answer.error)


def close(producer_id, request_id=900):
    return pb.CommandCloseProducer(producer_id=producer_id, request_id=request_id)


# -- names and ids -------------------------------------------------------------------------------------------------


def test_the_requested_name_is_returned(client):
    answer = client.producer(producer_name="mine")
    assert isinstance(answer, pb.CommandProducerSuccess)
    assert (answer.producer_name, answer.last_sequence_id, answer.producer_ready) == ("mine", -1, True)
    # The field is present and empty: no schema. There is no epoch: the topic never had an exclusive producer.
    assert answer.HasField("schema_version")
    assert answer.schema_version == b""
    assert not answer.HasField("topic_epoch")


def test_generated_names_have_cluster_instance_and_counter(client):
    names = [client.producer(producer_id=number).producer_name for number in (1, 2)]
    assert names == ["standalone-0-0", "standalone-0-1"]


def test_an_empty_name_is_accepted(client):
    assert client.producer(producer_id=1, producer_name="").producer_name == ""
    assert error(client.producer(producer_id=2, producer_name="")) == "ProducerBusy"


def test_a_repeated_producer_gets_its_name_again(client):
    client.producer(producer_name="a", schema=pb.Schema(name="s", schema_data=b"", type=pb.Schema.String))
    answer = client.producer("other-topic", producer_name="b")
    assert (answer.producer_name, answer.schema_version) == ("a", bytes(8))


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_name_is_in_use_on_the_same_connection_at_any_epoch(client, epoch):
    client.producer(producer_id=1, producer_name="same")
    assert error(client.producer(producer_id=2, producer_name="same", epoch=epoch)) == "ProducerBusy"
    assert 2 not in client.connection.producers


def test_a_name_is_free_on_another_topic(client):
    client.producer("a", producer_id=1, producer_name="same")
    assert client.producer("b", producer_id=2, producer_name="same").producer_name == "same"


# -- a name held by another connection -------------------------------------------------------------------------------


def test_a_live_owner_keeps_the_name(world):
    holder, newcomer = world.client(), world.client()
    holder.producer(producer_name="same")
    newcomer.look_up("t")
    # >> PRODUCER; no response yet: the broker sends a PING to the holder
    assert newcomer(pb.CommandProducer(topic="t", producer_id=1, producer_name="same")) == []
    assert [type(body) for body in holder.hear()] == [pb.CommandPing]
    assert holder(pb.CommandPong()) == []
    [answer] = newcomer.hear()
    assert error(answer) == "ProducerBusy"
    assert newcomer.connection.producers == {}


def test_a_dead_owner_loses_the_name_after_five_seconds(world):
    holder, newcomer = world.client(), world.client()
    holder.producer(producer_name="same")
    newcomer.look_up("t")
    newcomer(pb.CommandProducer(topic="t", producer_id=1, producer_name="same"))
    world.wait(4999)
    assert newcomer.hear() == []
    world.wait(1)
    [answer] = newcomer.hear()
    assert answer.producer_name == "same"
    assert holder.closed


def test_the_id_is_in_use_during_a_liveness_check(world):
    holder, newcomer = world.client(), world.client()
    holder.producer(producer_name="same")
    newcomer.look_up("t")
    newcomer(pb.CommandProducer(topic="t", producer_id=1, producer_name="same"))
    assert error(newcomer.producer()) == "ServiceNotReady"
    # >> CLOSE_PRODUCER cancels the request; the holder's PONG has no further effect
    assert isinstance(newcomer.one(close(1)), pb.CommandSuccess)
    holder(pb.CommandPong())
    assert newcomer.hear() == []


def test_without_a_liveness_check_the_second_producer_is_refused(make_world):
    world = make_world(connectionLivenessCheckTimeoutMillis=0)
    holder, newcomer = world.client(), world.client()
    holder.producer(producer_name="same")
    assert error(newcomer.producer(producer_name="same")) == "ProducerBusy"
    assert holder.hear() == []


def test_an_owner_on_a_closing_connection_is_dead(world):
    holder, newcomer = world.client(), world.client()
    holder.producer(producer_name="same")
    newcomer.look_up("t")
    holder.connection.close()
    assert newcomer.producer(producer_name="same").producer_name == "same"


# -- the order of the checks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("a/b", "InvalidTopicName"),
        ("queue://public/default/t", "InvalidTopicName"),
        ("persistent://public/missing/t", "ServiceNotReady"),
        ("persistent://public/default/never-looked-up", "ServiceNotReady"),
    ],
)
def test_unserved_topics_are_refused(client, topic, code):
    assert error(client.one(pb.CommandProducer(topic=topic, producer_id=1, request_id=5))) == code


def test_without_auto_creation_no_topic_is_created(make_world):
    client = make_world(allowAutoTopicCreation=False).client()
    assert error(client.producer()) == "TopicNotFound"


def test_replicators_are_exempt_from_the_producer_limit(make_world):
    client = make_world(maxProducersPerTopic=1).client()
    client.producer(producer_id=1)
    assert error(client.producer(producer_id=2)) == "ProducerBusy"
    assert client.producer(producer_id=3, producer_name="pulsar.repl.west").producer_name == "pulsar.repl.west"
    client(close(1))
    assert isinstance(client.producer(producer_id=4), pb.CommandProducerSuccess)


def test_a_waiting_producer_counts_for_the_limit(make_world):
    client = make_world(maxProducersPerTopic=1).client()
    client.producer(producer_id=1, producer_access_mode=EXCLUSIVE)
    assert error(client.producer(producer_id=2, producer_access_mode=WAIT)) == "ProducerBusy"
    assert error(client.producer(producer_id=3, producer_access_mode=FENCING)) == "ProducerBusy"


def test_the_producer_limit_per_address(make_world):
    world = make_world(maxSameAddressProducersPerTopic=1)
    near, far = world.client(), world.accept("10.0.0.2")
    far.session.connect()
    far()
    near.producer(producer_id=1)
    assert error(near.producer(producer_id=2)) == "ProducerBusy"
    assert isinstance(far.producer(), pb.CommandProducerSuccess)


def test_encryption_is_checked_before_the_schema(make_world):
    client = make_world(encryptionRequireOnProducer=True).client()
    bad = pb.Schema(name="s", schema_data=b"{", type=pb.Schema.Avro)
    assert error(client.producer(schema=bad)) == "MetadataError"
    assert error(client.producer(schema=bad, encrypted=True)) == "IncompatibleSchema"
    assert isinstance(client.producer(encrypted=True), pb.CommandProducerSuccess)


def test_a_refused_id_is_free(client):
    schema = pb.Schema(name="s", schema_data=b"{", type=pb.Schema.Avro)
    assert error(client.producer(schema=schema)) == "IncompatibleSchema"
    assert isinstance(client.producer(), pb.CommandProducerSuccess)


# -- schemas ---------------------------------------------------------------------------------------------------------


def test_enforced_validation_requires_a_schema_if_one_exists(make_world):
    client = make_world(isSchemaValidationEnforced=True).client()
    assert isinstance(client.producer(producer_id=1), pb.CommandProducerSuccess)
    string = pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)
    assert client.producer(producer_id=2, schema=string).schema_version == bytes(8)
    assert error(client.producer(producer_id=3)) == "IncompatibleSchema"


# -- the initial subscription ----------------------------------------------------------------------------------------


def test_an_initial_subscription_reads_from_the_first_message_on(world):
    client = world.client()
    client.producer(producer_id=1)
    client.publish("before")
    client.producer(producer_id=2, initial_subscription_name="early")
    client.subscribe(subscription="early")
    [message] = client.flow()
    assert isinstance(message, pb.CommandMessage)


def test_an_existing_initial_subscription_is_unchanged(world):
    client = world.client()
    client.producer(producer_id=1)
    client.publish("before")
    client.subscribe(subscription="early")
    client.producer(producer_id=2, initial_subscription_name="early")
    assert client.flow() == []


def test_without_auto_subscription_there_is_no_initial_subscription(make_world):
    client = make_world(allowAutoSubscriptionCreation=False).client()
    assert error(client.producer(initial_subscription_name="early")) == "NotAllowedError"
    # A non-persistent topic ignores it.
    answer = client.producer("non-persistent://public/default/t", initial_subscription_name="early")
    assert isinstance(answer, pb.CommandProducerSuccess)


def test_an_initial_subscription_counts_for_the_limit(make_world):
    client = make_world(maxSubscriptionsPerTopic=1).client()
    client.producer(producer_id=1, initial_subscription_name="a")
    assert error(client.producer(producer_id=2, initial_subscription_name="b")) == "NotAllowedError"


def test_readers_count_for_the_limit_of_subscriptions(make_world):
    client = make_world(maxSubscriptionsPerTopic=1).client()
    assert isinstance(client.subscribe(consumer_id=1, subscription="r", durable=False), pb.CommandSuccess)
    assert error(client.subscribe(consumer_id=2, subscription="s")) == "NotAllowedError"
    assert error(client.subscribe(consumer_id=3, subscription="q", durable=False)) == "NotAllowedError"
    for number in (4, 5):
        topic = "non-persistent://public/default/t"
        assert isinstance(client.subscribe(topic, consumer_id=number, subscription=f"n{number}"), pb.CommandSuccess)


# -- access modes ----------------------------------------------------------------------------------------------------


def test_a_waiting_producer_gets_two_responses(world):
    holder, waiting, last = world.client(), world.client(), world.client()
    assert holder.producer(producer_access_mode=EXCLUSIVE).topic_epoch == 0
    first = waiting.producer(producer_access_mode=WAIT, request_id=77, producer_name="w")
    assert (first.producer_ready, first.HasField("topic_epoch")) == (False, False)
    last.producer(producer_access_mode=WAIT)
    assert isinstance(holder.one(close(1)), pb.CommandSuccess)
    [second] = waiting.hear()
    assert (second.request_id, second.producer_name, second.producer_ready, second.topic_epoch) == (77, "w", True, 1)
    waiting.leave()
    [third] = last.hear()
    assert third.topic_epoch == 2


def test_the_promotion_precedes_the_success_on_one_connection(client):
    client.producer(producer_id=1, producer_access_mode=EXCLUSIVE)
    client.producer(producer_id=2, producer_access_mode=WAIT)
    assert [type(body) for body in client(close(1))] == [pb.CommandProducerSuccess, pb.CommandSuccess]


@pytest.mark.parametrize("how", ["close", "lost connection"])
def test_a_producer_that_left_the_queue_uses_an_epoch(world, how):
    holder, leaving, waiting = world.client(), world.client(), world.client()
    holder.producer(producer_access_mode=EXCLUSIVE)
    leaving.producer(producer_access_mode=WAIT)
    waiting.producer(producer_access_mode=WAIT)
    if how == "close":
        assert isinstance(leaving.one(close(1)), pb.CommandSuccess)
    else:
        leaving.leave()
    holder(close(1))
    [answer] = waiting.hear()
    assert answer.topic_epoch == 2
    assert leaving.hear() == []


def test_a_send_of_a_waiting_producer_closes_the_connection(world):
    holder, waiting = world.client(), world.client()
    holder.producer(producer_access_mode=EXCLUSIVE)
    waiting.producer(producer_access_mode=WAIT)
    assert error(waiting.producer()) == "ServiceNotReady"
    assert waiting.publish() == []
    assert waiting.closed


def test_fencing_notifies_waiting_producers_only(world):
    holder, waiting, new = world.client(), world.client(), world.client()
    holder.producer(producer_access_mode=EXCLUSIVE)
    waiting.producer(producer_access_mode=WAIT, request_id=31)
    assert new.producer(producer_access_mode=FENCING).topic_epoch == 1
    [told] = waiting.hear()
    assert (told.request_id, error(told)) == (31, "ProducerFenced")
    assert holder.hear() == []
    assert holder.publish() == []
    assert holder.closed


def test_a_claim_with_an_old_epoch_fences_too(world):
    old, new = world.client(), world.client()
    old.producer(producer_access_mode=EXCLUSIVE, topic_epoch=5)
    assert error(new.producer(producer_access_mode=FENCING, topic_epoch=4)) == "ProducerFenced"
    # The holder was closed before the epochs were compared.
    assert world.broker.topics[T].producers == {}


def test_an_epoch_above_the_long_range_is_negative(client):
    answer = client.producer(producer_access_mode=EXCLUSIVE, topic_epoch=2**64 - 1)
    assert answer.topic_epoch == 2**64 - 1
    client(close(1))
    assert client.producer(producer_access_mode=EXCLUSIVE).topic_epoch == 0


def test_a_claim_on_a_terminated_topic_is_kept(client, world):
    # As on 4.2.4, the first claim is refused because the topic is terminated, and later claims because of the first.
    client.producer(producer_id=1)
    world.broker.terminate(world.broker.topics[T])
    world.deliver()
    client.hear()
    assert error(client.producer(producer_id=2, producer_access_mode=EXCLUSIVE)) == "TopicTerminatedError"
    assert error(client.producer(producer_id=3, producer_access_mode=EXCLUSIVE)) == "ProducerFenced"
    assert error(client.producer(producer_id=4)) == "ProducerBusy"


# -- closing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("producer_id", [1, 77])
def test_close_of_an_unknown_id_succeeds(client, producer_id):
    client.producer()
    assert client.one(close(producer_id, 12)).request_id == 12
    assert client.one(close(producer_id, 13)).request_id == 13


def test_the_response_to_close_follows_the_receipts(client):
    client.producer()
    heard = client.publish("m0") + client.publish("m1", 1) + client(close(1))
    assert [type(body) for body in heard] == [pb.CommandSendReceipt, pb.CommandSendReceipt, pb.CommandSuccess]


def test_a_closed_connection_frees_the_name(world):
    first, second = world.client(), world.client()
    first.producer(producer_name="same")
    first.leave()
    assert second.producer(producer_name="same").producer_name == "same"


def test_policies_of_the_namespace_apply(world, client):
    world.broker.policies.set_namespace("public/default", "maxProducersPerTopic", 1)
    client.producer(producer_id=1)
    assert error(client.producer(producer_id=2)) == "ProducerBusy"
    world.broker.policies.set_topic(TopicName.parse("t"), "maxProducers", 2)
    assert isinstance(client.producer(producer_id=2), pb.CommandProducerSuccess)
