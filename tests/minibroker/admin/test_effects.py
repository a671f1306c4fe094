"""Effects of REST requests on clients: policies, subscriptions, positions, deletions."""

from __future__ import annotations

from zlib import crc32

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.topic_name import TopicName

SPACE = "/admin/v2/namespaces/public/default"
TOPIC = "/admin/v2/persistent/public/default/t"
SUB = f"{TOPIC}/subscription/sub"


@pytest.fixture
def full(world, rest):
    """Create a topic with ten messages and a subscription that has acknowledged none."""
    assert rest("PUT", TOPIC).status == 204
    assert rest("PUT", SUB).status == 204
    client = world.client()
    client.producer("t")
    for sequence in range(10):
        client.publish(f"m{sequence}", sequence)
    return client


def backlog(rest):
    return rest("GET", f"{TOPIC}/stats").json["subscriptions"]["sub"]["msgBacklog"]


def first(rest):
    """Return the payload of the first unacknowledged message."""
    return rest("GET", f"{SUB}/position/1").data.decode()


def test_a_limit_of_a_namespace(world, rest):
    assert rest("POST", f"{SPACE}/maxProducersPerTopic", 1).status == 204
    client = world.client()
    assert isinstance(client.producer("t", 1), pb.CommandProducerSuccess)
    assert client.producer("t", 2).error == pb.ProducerBusy
    assert rest("DELETE", f"{SPACE}/maxProducersPerTopic").status == 204
    assert isinstance(client.producer("t", 2), pb.CommandProducerSuccess)


def test_a_limit_of_a_topic(world, rest, full):
    assert rest("POST", f"{TOPIC}/maxProducers", 1).status == 204
    assert rest("GET", f"{TOPIC}/maxProducers").json == 1
    assert full.producer("t", 2).error == pb.ProducerBusy
    assert full.producer("t2", 2).request_id >= 0


def test_encryption_can_be_required(world, rest, full):
    """Producers without encryption are closed when the policy is set."""
    assert rest("POST", f"{SPACE}/encryptionRequired", True).status == 204
    assert [type(body) for body in full.hear()] == [pb.CommandCloseProducer]


def test_partitioned_by_policy(world, rest):
    policy = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2}
    assert rest("POST", f"{SPACE}/autoTopicCreation", policy).status == 204
    client = world.client()
    assert client.one(pb.CommandPartitionedTopicMetadata(topic="fresh")).partitions == 2
    assert rest("GET", "/admin/v2/persistent/public/default/fresh/partitions").json["partitions"] == 2


def test_a_query_for_partitions_reports_the_limit_of_topics(make_rest):
    _, rest = make_rest(maxTopicsPerNamespace=1, allowAutoTopicCreationType="partitioned", defaultNumPartitions=3)
    answer = rest("GET", "/admin/v2/persistent/public/default/fresh/partitions?checkAllowAutoCreation=true")
    assert (answer.status, answer.json["reason"]) == (409, "Exceed maximum number of topics in namespace.")


@pytest.mark.parametrize("value", ["1_000", "x", "1.5"])
def test_a_time_to_live_that_is_no_number(rest, value):
    rest("PUT", TOPIC)
    assert rest("POST", f"{TOPIC}/messageTTL?messageTTL={value}").status == 404


def test_topic_policies_can_be_disabled(make_rest):
    _, rest = make_rest(topicLevelPoliciesEnabled=False)
    rest("PUT", TOPIC)
    assert rest("POST", f"{TOPIC}/maxProducers", 1).status == 405


def test_skip(rest, full):
    assert backlog(rest) == 10
    assert rest("POST", f"{SUB}/skip/3").status == 204
    assert (backlog(rest), first(rest)) == (7, "m3")
    assert rest("POST", f"{SUB}/skip_all").status == 204
    assert backlog(rest) == 0
    assert rest("GET", f"{SUB}/position/1").status == 404


def test_peek(rest, full):
    assert [rest("GET", f"{SUB}/position/{n}").data.decode() for n in (1, 2, 10)] == ["m0", "m1", "m9"]
    assert rest("GET", f"{SUB}/position/11").status == 404


def test_seek_to_an_id_and_back(rest, full):
    last = rest("GET", f"{TOPIC}/lastMessageId").json
    assert last["entryId"] == 9
    assert rest("POST", f"{SUB}/resetcursor", last).status == 204
    assert (backlog(rest), first(rest)) == (1, "m9")
    assert rest("POST", f"{SUB}/resetcursor", {"ledgerId": -1, "entryId": -1}).status == 204
    assert (backlog(rest), first(rest)) == (10, "m0")


def test_seek_after_an_id(rest, full):
    place = {**rest("GET", f"{TOPIC}/lastMessageId").json, "entryId": 4}
    assert rest("POST", f"{SUB}/resetcursor", {**place, "excluded": True}).status == 204
    assert (backlog(rest), first(rest)) == (5, "m5")
    assert rest("POST", f"{SUB}/resetcursor", {"ledgerId": -1, "entryId": -1, "excluded": True}).status == 204
    assert first(rest) == "m0"


def test_a_seek_to_a_negative_time_is_a_seek_to_the_first_message(world, rest, full):
    assert rest("POST", f"{SUB}/skip_all").status == 204
    full.subscribe("t")
    full(pb.CommandSeek(consumer_id=1, message_publish_time=(1 << 64) - 60))
    assert (backlog(rest), first(rest)) == (10, "m0")


def test_seek_disconnects(world, rest, full):
    full.subscribe("t")
    assert rest("POST", f"{SUB}/resetcursor/1").status == 204
    assert [type(body) for body in full.hear()] == [pb.CommandCloseConsumer]


def test_skip_does_not_disconnect(world, rest, full):
    full.subscribe("t")
    assert rest("POST", f"{SUB}/skip/1").status == 204
    assert full.hear() == []


def test_a_subscription_at_an_id(rest, full):
    place = {**rest("GET", f"{TOPIC}/lastMessageId").json, "entryId": 4, "properties": {"a": "b"}}
    assert rest("PUT", f"{TOPIC}/subscription/other?replicated=true", place).status == 204
    assert rest("GET", f"{TOPIC}/subscription/other/position/1").data == b"m4"
    stats = rest("GET", f"{TOPIC}/stats").json["subscriptions"]["other"]
    assert (stats["msgBacklog"], stats["isReplicated"], stats["subscriptionProperties"]) == (6, True, {"a": "b"})


def test_expiry(world, rest, full):
    """Messages older than the given time are acknowledged. With a consumer, only old messages cause a check."""
    assert rest("POST", f"{SUB}/expireMessages/10").status == 204
    full.subscribe("t")
    assert rest("POST", f"{SUB}/expireMessages/10").status == 409
    world.advance(20_000)
    assert rest("POST", f"{SUB}/expireMessages/10").status == 204
    assert backlog(rest) == 0
    assert rest("POST", f"{SUB}/expireMessages/10").status == 409
    assert rest("GET", f"{TOPIC}/stats").json["subscriptions"]["sub"]["totalMsgExpired"] == 10


def test_expiry_up_to_an_id(rest, full):
    place = {**rest("GET", f"{TOPIC}/lastMessageId").json, "entryId": 4}
    assert rest("POST", f"{SUB}/expireMessages", place).status == 204
    assert (backlog(rest), first(rest)) == (5, "m5")


def test_messages_by_position(rest, full):
    def examine(query):
        return rest("GET", f"{TOPIC}/examinemessage?{query}")

    assert examine("initialPosition=earliest&messagePosition=2").data == b"m1"
    assert examine("initialPosition=latest&messagePosition=2").data == b"m8"
    assert examine("initialPosition=latest&messagePosition=11").status == 404
    assert examine("messagePosition=x").status == 404


def test_a_backlog_is_analyzed(rest, full):
    rest("POST", f"{SUB}/skip/3")
    found = rest("POST", f"{SUB}/analyzeBacklog").json
    assert (found["entries"], found["messages"], found["markerMessages"], found["aborted"]) == (7, 7, 0, False)


def test_bytes_after_an_id(rest, full):
    total = rest("GET", f"{TOPIC}/internalStats").json["totalSize"]
    place = rest("GET", f"{TOPIC}/lastMessageId").json
    assert rest("PUT", f"{TOPIC}/backlogSize", {"ledgerId": -1, "entryId": -1}).json == total
    assert rest("PUT", f"{TOPIC}/backlogSize", {**place, "entryId": 4}).json == total - 5 * (total // 10)
    assert rest("PUT", f"{TOPIC}/backlogSize", place).json < total // 10


def test_objects_in_use_are_not_deleted(world, rest, full):
    """The status is 412 while a client is connected. With force, the client is notified."""
    full.subscribe("t")
    assert rest("DELETE", SUB).status == 412
    answer = rest("DELETE", TOPIC)
    assert answer.status == 412
    assert answer.json["reason"].startswith("Topic has 2 clients connected Including 1 consumers, 1 producers")
    assert rest("DELETE", f"{SUB}?force=true").status == 204
    assert rest("GET", f"{TOPIC}/subscriptions").json == []
    assert rest("DELETE", f"{TOPIC}?force=true").status == 204
    assert [type(body) for body in full.hear()] == [pb.CommandCloseConsumer, pb.CommandCloseProducer]
    assert rest("GET", f"{TOPIC}/stats").status == 404


def test_the_policies_of_a_topic_are_deleted_with_it(rest, world):
    rest("PUT", TOPIC, {"color": "red"})
    rest("POST", f"{TOPIC}/maxProducers", 1)
    rest("DELETE", TOPIC)
    rest("PUT", TOPIC)
    assert rest("GET", f"{TOPIC}/maxProducers").data == b""
    assert rest("GET", f"{TOPIC}/properties").json == {}


def test_a_namespace_is_deleted_with_force(make_rest):
    world, rest = make_rest(forceDeleteNamespaceAllowed=True)
    space = "/admin/v2/namespaces/public/s"
    rest("PUT", space)
    rest("PUT", "/admin/v2/persistent/public/s/t")
    rest("PUT", "/admin/v2/persistent/public/s/p/partitions", 2)
    assert rest("DELETE", f"{space}?force=true").status == 204
    assert rest("GET", space).status == 404
    assert world.broker.topics == {}
    assert world.broker.policies.partitioned == {}


@pytest.mark.parametrize(
    ("setting", "value", "calls"),
    [
        ("maxNumPartitionsPerPartitionedTopic", 2, [("PUT", f"{TOPIC}/partitions", 3, 406)]),
        ("maxTopicsPerNamespace", 1, [("PUT", TOPIC, None, 204), ("PUT", f"{TOPIC}2", None, 412)]),
        ("maxTenants", 2, [("PUT", "/admin/v2/tenants/x", {"allowedClusters": ["standalone"]}, 412)]),
        ("maxNamespacesPerTenant", 1, [("PUT", "/admin/v2/namespaces/public/x", None, 412)]),
    ],
)
def test_limits(make_rest, setting, value, calls):
    _, rest = make_rest(**{setting: value})
    for method, path, body, status in calls:
        assert rest(method, path, body).status == status


def test_the_dispatch_rate_of_a_subscription(world, rest):
    client = world.client()
    client.subscribe("t", subscription="fast")
    client.subscribe("t", consumer_id=2, subscription="slow")
    [topic] = world.broker.topics.values()
    assert rest("POST", f"{TOPIC}/slow/dispatchRate", {"dispatchThrottlingRateInMsg": 5}).status == 204
    assert [one.messages.rate for one in topic.effective_policies.dispatch_limiters(topic.subscriptions["slow"])] == [5]
    assert topic.effective_policies.dispatch_limiters(topic.subscriptions["fast"]) == []
    assert rest("DELETE", f"{TOPIC}/slow/dispatchRate").status == 204
    assert topic.effective_policies.dispatch_limiters(topic.subscriptions["slow"]) == []


def test_dynamic_settings_change_at_runtime(world, rest):
    """dispatcherMaxReadBatchSize is a dynamic setting of a real broker as well."""
    path = "/admin/v2/brokers/configuration"
    assert rest("POST", f"{path}/dispatcherMaxReadBatchSize/50").status == 200
    assert world.broker.settings.dispatcherMaxReadBatchSize == 50
    assert rest("GET", f"{path}/runtime").json["dispatcherMaxReadBatchSize"] == "50"
    assert rest("POST", f"{path}/dispatcherMaxReadBatchSize/many").status == 200
    assert world.broker.settings.dispatcherMaxReadBatchSize == 50
    assert rest("POST", f"{path}/maxMessageSize/5").json == {"reason": "Can't update non-dynamic configuration"}
    assert len(rest("GET", path).json) == 159
    assert rest("DELETE", f"{path}/dispatcherMaxReadBatchSize").status == 200
    assert world.broker.settings.dispatcherMaxReadBatchSize == 100
    assert rest("GET", f"{path}/values").json == {}


def test_seek_into_a_batch(world, rest):
    """With a batch index, the earlier messages of the same entry are acknowledged."""
    rest("PUT", SUB)
    client = world.client()
    client.producer("t")
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=4)
    client(pb.CommandSend(producer_id=1, sequence_id=0, num_messages=4), entry=push_entry(metadata, b"four"))
    place = rest("GET", f"{TOPIC}/lastMessageId").json
    assert place["batchIndex"] == 3
    assert rest("POST", f"{SUB}/resetcursor", {**place, "batchIndex": 1, "excluded": True}).status == 204
    client.subscribe("t")
    [message] = client.flow()
    assert list(message.ack_set) == [0b1100]


def test_a_reader_that_seeks_is_not_listed(world, rest, full):
    """Between the disconnection and the return of a consumer, REST shows no subscription (observed on 4.2.4)."""
    full.subscribe("t", subscription="reader", durable=False)
    assert "reader" in rest("GET", f"{TOPIC}/subscriptions").json
    full(pb.CommandSeek(consumer_id=1, message_id=pb.MessageIdData(ledgerId=0, entryId=1)))
    assert rest("GET", f"{TOPIC}/subscriptions").json == ["sub"]
    assert list(rest("GET", f"{TOPIC}/stats").json["subscriptions"]) == ["sub"]


def test_statistics_without_the_sizes_of_backlogs(rest, full):
    assert rest("GET", f"{TOPIC}/stats?subscriptionBacklogSize=false").json["subscriptions"]["sub"]["backlogSize"] == -1


def test_a_property_without_a_name_is_not_removed(rest, full):
    answer = rest("DELETE", f"{TOPIC}/properties")
    assert (answer.status, 'because "key" is null' in answer.json["reason"]) == (500, True)


def test_the_policies_of_a_namespace_contain_restricted_subscriptions(rest):
    assert rest("POST", f"{SPACE}/permissions/subscription/sub", ["r1"]).status == 204
    assert rest("GET", SPACE).json["auth_policies"]["subscription_auth_roles"] == {"sub": ["r1"]}


def boundaries(rest):
    return rest("GET", f"{SPACE}/bundles").json["boundaries"]


def test_a_bundle_is_split_in_the_middle_and_served(rest, full):
    assert rest("GET", "/lookup/v2/topic/persistent/public/default/t/bundle").data == b"0x80000000_0xc0000000"
    assert rest("PUT", f"{SPACE}/LARGEST/split?unload=true").status == 204
    assert boundaries(rest) == ["0x00000000", "0x40000000", "0x80000000", "0xa0000000", "0xc0000000", "0xffffffff"]
    assert rest("GET", "/lookup/v2/topic/persistent/public/default/t/bundle").data == b"0x80000000_0xa0000000"
    full.connection.broker.check_owned(TopicName.parse("persistent://public/default/t"))


def test_bundles_are_split_at_positions_if_they_have_two_topics(rest, full):
    split = f"{SPACE}/0x00000000_0x40000000/split?splitAlgorithmName=specified_positions_divide"
    assert rest("PUT", split, [256, 1]).status == 204
    assert len(boundaries(rest)) == 5
    names = (f"persistent://public/default/{number}" for number in range(100))
    for name in [name for name in names if crc32(name.encode()) < 0x40000000][:2]:
        rest("PUT", f"/admin/v2/{name.replace('://', '/')}")
    assert rest("PUT", split, [256, 1, 1 << 31]).status == 204
    assert boundaries(rest)[:4] == ["0x00000000", "0x00000001", "0x00000100", "0x40000000"]


@pytest.mark.parametrize(
    ("bundle", "status", "reason"),
    [
        ("0x1_0x2", 412, "Cannot find bundle public/default/0x00000001_0x00000002 in the bundles list"),
        ("abc", 412, "Invalid bundle range: abc"),
        ("HOT", 404, "Bundle range HOT not found"),
        ("LARGEST", 404, "Bundle range LARGEST not found"),
        (
            "0x00000000_0x40000000/split?splitAlgorithmName=xx#",
            412,
            "Unsupported namespace bundle split algorithm, supported algorithms are [range_equally_divide, "
            "topic_count_equally_divide, specified_positions_divide, flow_or_qps_equally_divide]",
        ),
        (
            "0x00000000_0x40000000/split?splitAlgorithmName=specified_positions_divide#",
            412,
            "With specified_positions_divide split algorithm, splitBoundaries must not be empty",
        ),
    ],
)
def test_invalid_splits(rest, bundle, status, reason):
    answer = rest("PUT", f"{SPACE}/{bundle}/split" if "#" not in bundle else f"{SPACE}/{bundle[:-1]}")
    assert (answer.status, answer.json) == (status, {"reason": reason})


# -- the broker's settings ---------------------------------------------------------------------------------------------


def test_lookups_are_refused_without_permits(world, rest):
    """Responses of a real 4.2.4 (ServerCnx, TopicLookupBase)."""
    client, setting = world.client(), "/admin/v2/brokers/configuration/maxConcurrentLookupRequest"
    requests = [
        pb.CommandLookupTopic(topic="t", request_id=1),
        pb.CommandPartitionedTopicMetadata(topic="t", request_id=2),
        pb.CommandGetTopicsOfNamespace(namespace="public/default", request_id=3),
        pb.CommandWatchTopicList(namespace="public/default", topics_pattern="t.*", watcher_id=1, request_id=4),
    ]
    assert rest("POST", f"{setting}/0").status == 200
    for request in requests:
        answer = client.one(request)
        assert (answer.error, answer.message) == (
            pb.TooManyRequests,
            "Failed due to too many pending lookup requests",
        )
    assert rest("GET", "/lookup/v2/topic/persistent/public/default/t").status == 503
    assert rest("DELETE", setting).status == 200
    assert client.one(requests[0]).response == pb.CommandLookupTopicResponse.Connect


# -- resource groups ---------------------------------------------------------------------------------------------------


def test_the_topics_of_a_resource_group_share_its_publish_rate(world, rest):
    group = "/admin/v2/resourcegroups/g"
    assert rest("PUT", group, {"publishRateInMsgs": 3, "publishRateInBytes": -1}).status == 204
    assert rest("POST", f"{SPACE}/resourcegroup/g").status == 204
    clients = [world.client(), world.client()]
    for number, client in enumerate(clients):
        client.producer(f"t{number}")
        for sequence in range(2):
            client.publish(sequence_id=sequence)
    assert [client.connection.reading for client in clients] == [True, False]
    assert rest("PUT", group, {"publishRateInMsgs": 1000}).status == 204
    assert [client.connection.reading for client in clients] == [True, True]
    assert rest("DELETE", f"{SPACE}/resourcegroup").status == 204
    assert all(not topic.effective_policies.throttles for topic in world.broker.topics.values())


def test_a_subscription_is_created_by_a_reset(rest, full):
    assert rest("PUT", f"{TOPIC}/subscription/first", {"ledgerId": -1, "entryId": -1}).status == 204
    cursor = rest("GET", f"{TOPIC}/internalStats").json["cursors"]["first"]
    assert (cursor["readPosition"], cursor["numberOfEntriesSinceFirstNotAckedMessage"]) == ("0:-1", 0)


def test_a_truncation_loses_the_compacted_ledger_at_the_next_unload(world, rest, full):
    rest("PUT", f"{TOPIC}/compaction")
    world.wait(1000)
    assert rest("GET", f"{TOPIC}/internalStats").json["compactedLedger"]["ledgerId"] >= 0
    rest("DELETE", f"{TOPIC}/truncate")
    rest("PUT", f"{TOPIC}/unload")
    stats = rest("GET", f"{TOPIC}/internalStats").json
    assert (stats["cursors"]["__compaction"]["properties"], stats["compactedLedger"]["ledgerId"]) == ({}, -1)
    assert rest("GET", f"{TOPIC}/lastMessageId").json["ledgerId"] == -1


def test_a_partition_of_a_non_persistent_topic_is_loaded_by_its_statistics(world, rest):
    base = "/admin/v2/non-persistent/public/default"
    name = "non-persistent://public/default/np-partition-0"
    bundle = f"{base}/{world.broker.policies.namespaces['public/default'].bundle(name)}"
    assert rest("GET", bundle).status == 204
    rest("PUT", f"{base}/np/partitions", 2)
    assert rest("GET", f"{base}/np-partition-0/stats").status == 200
    assert rest("GET", bundle).json == [name]
    assert rest("GET", f"{base}/np-partition-5/stats").status == 409


INT = {"type": "AVRO", "schema": '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}', "properties": {}}
TEXT = {"type": "STRING", "schema": "", "properties": {}}


def test_incompatible_schemas(rest):
    """The errors are those of the real broker: a page of the HTTP server, and an unexpected exception."""
    schemas = "/admin/v2/schemas/public/default/t"
    why = "Incompatible schema: exists schema type STRING, new schema type AVRO"
    assert rest("POST", f"{schemas}/schema", TEXT).status == 200
    refused = rest("POST", f"{schemas}/schema", INT, headers={"accept": "application/json"})
    assert (refused.status, refused.json["message"]) == (409, why)
    tested = rest("POST", f"{schemas}/compatibility", INT)
    assert (tested.status, f"IncompatibleSchemaException: {why}" in tested.json["reason"]) == (500, True)
    assert rest("POST", "/admin/v2/schemas/public/none/t/schema", TEXT).json == {"reason": "Namespace does not exist"}


def test_the_text_of_an_incompatible_avro_schema(rest):
    """The text is that of Avro's SchemaValidator: the writer's and the reader's schema."""
    schemas = "/admin/v2/schemas/public/default/t"
    rest("POST", f"{schemas}/schema", INT)
    text = INT | {"schema": INT["schema"].replace("int", "string")}
    reason = rest("POST", f"{schemas}/compatibility", text).json["reason"]
    start, strings, ints = reason.partition("\n\nStacktrace")[0].replace("\nusing schema:\n", ": \n").rsplit(": \n", 2)
    assert start.endswith("with strategy FULL: org.apache.avro.SchemaValidationException: Unable to read schema")
    assert ('"type" : "string"' in strings, '"type" : "int"' in ints) == (True, True)


def test_resource_quotas_of_bundles_that_do_not_exist(rest):
    quotas, bundles = "/admin/v2/resource-quotas", ("0x00000000_0xffffffff", "0x00000000_0x40000000")
    for namespace, status in (("default", [412, 200]), ("none", [200, 412])):
        assert [rest("GET", f"{quotas}/public/{namespace}/{one}").status for one in bundles] == status
    missing = rest("DELETE", f"{quotas}/public/default/{bundles[1]}")
    reason = f"path /loadbalance/resource-quota/public/default/{bundles[1]} not found."
    assert (missing.status, missing.json) == (404, {"reason": reason})


def test_replicators_may_add_schemas_in_version_5(make_rest):
    """Responses of a real 5.0.1."""
    _, rest = make_rest(version="5.0.1")
    space = "/admin/v2/namespaces/public/pol"
    names = ("is_allow_auto_update_schema", "is_allow_auto_update_schema_with_replicator")
    assert rest("PUT", space).status == 204
    for value, query, status, expected in [
        (False, "", 204, (False, True)),
        (True, "?allowAutoUpdateSchemaWithReplicator=false", 400, (False, True)),
        (False, "?allowAutoUpdateSchemaWithReplicator=xx", 204, (False, False)),
        (True, "", 204, (True, False)),
        (True, "?allowAutoUpdateSchemaWithReplicator=true", 204, (True, True)),
    ]:
        assert rest("POST", f"{space}/isAllowAutoUpdateSchema{query}", value).status == status
        found = rest("GET", space).json
        assert tuple(found[name] for name in names) == expected
    assert rest("PUT", "/admin/v2/namespaces/public/other", {names[1]: False}).status == 204
    assert rest("GET", "/admin/v2/namespaces/public/other").json[names[1]] is False


def test_version_4_has_no_policy_of_replicators(rest):
    space, name = "/admin/v2/namespaces/public/other", "is_allow_auto_update_schema_with_replicator"
    assert rest("PUT", space, {name: False}).status == 204
    query = "?allowAutoUpdateSchemaWithReplicator=false"
    assert rest("POST", f"{space}/isAllowAutoUpdateSchema{query}", True).status == 204
    assert name not in rest("GET", space).json
