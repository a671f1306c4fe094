"""Sessions of scalable topics, and what other commands answer for each kind of name."""

STRING = {"name": "s", "type": "String", "schema_data": b""}
INT32 = {"name": "s", "type": "Int32", "schema_data": b""}


def _named(s, kind):
    """Return a name of one kind. The scalable topic `p1` has two segments; `nope` does not exist."""
    topic = s.topic("p1", domain="topic", lookup=False)
    s.http("PUT", s.path(topic, "?numInitialSegments=2"), {})
    s.look_up(topic, topic.replace("topic://", "persistent://"), s.segment(topic, 0))
    base, nope = topic.partition("://")[2], s.topic("nope", domain="topic").partition("://")[2]
    name = {
        "topic": f"topic://{base}",
        "missing topic": f"topic://{nope}",
        "segment": f"segment://{base}/0000-7fff-0",
        "missing segment": f"segment://{base}/0000-ffff-9",
        "segment of nothing": f"segment://{nope}/0000-ffff-0",
        "descriptor": f"segment://{base}zz",
        "persistent": f"persistent://{base}",
        "five parts": f"persistent://{base}/0000-7fff-0",
    }[kind]
    if kind not in ("descriptor", "five parts"):
        s.look_up(name)
    return name


KINDS = ["topic", "missing topic", "segment", "missing segment", "segment of nothing", "descriptor", "persistent"]
KINDS += ["five parts"]


def _ask(kind):
    def scenario(s):
        name = _named(s, kind)
        c = s.connect("c")
        c.LOOKUP(topic=name, authoritative=False)
        c.PARTITIONED_METADATA(topic=name)
        c.GET_SCHEMA(topic=name)
        c.GET_OR_CREATE_SCHEMA(topic=name, schema=STRING)
        c.GET_SCHEMA(topic=name)

    return scenario


def _open(kind):
    def scenario(s):
        name = _named(s, kind)
        p, c = s.connect("p", "c")
        p.producer(name)
        p.send("m0")
        c.subscribe(name, initialPosition="Earliest")
        c.flow(10)
        c.GET_LAST_MESSAGE_ID(consumer_id=1)

    return scenario


for _kind in KINDS:
    for _prefix, _make, _what in (
        ("ask", _ask, "LOOKUP, PARTITIONED_METADATA and schemas"),
        ("open", _open, "PRODUCER, SUBSCRIBE and GET_LAST_MESSAGE_ID"),
    ):
        _scenario = _make(_kind)
        _scenario.__doc__ = f"{_what} for this kind of name: {_kind}."
        globals()[f"{_prefix}_{_kind.replace(' ', '_')}"] = _scenario


def session(s):
    """The DAG of a topic with two segments. CLOSE is not answered."""
    t = s.scalable(2)
    c = s.connect("c")
    c.dag(t)
    c.SCALABLE_TOPIC_CLOSE(session_id=1)
    s.admin("POST", s.path(t, "/split/0"))


def session_of_five_segments(s):
    """Ranges of five segments, which do not divide the ring evenly."""
    c = s.connect("c")
    c.dag(s.scalable(5))


def session_of_three_segments(s):
    """Ranges of three segments; more than two segments have no entry buckets."""
    c = s.connect("c")
    c.dag(s.scalable(3))


def create_by_lookup(s):
    """Without create_if_missing, a missing topic is created with one segment."""
    t = s.topic(domain="topic")
    c = s.connect("c")
    c.dag(t)
    s.admin("GET", s.path(t), show=[""])


def create_if_missing(s):
    """create_if_missing true."""
    t = s.topic(domain="topic")
    c = s.connect("c")
    c.dag(t, create_if_missing=True)


def do_not_create(s):
    """create_if_missing false: an error, and no session remains."""
    t = s.topic(domain="topic")
    c = s.connect("c")
    c.dag(t, create_if_missing=False)
    s.admin("GET", s.path(t), show=["reason"])
    s.admin("PUT", s.path(t))
    c.dag(t, create_if_missing=False)


def do_not_create_existing(s):
    """create_if_missing false of an existing topic."""
    c = s.connect("c")
    c.dag(s.scalable(1), create_if_missing=False)


def create_refused_by_policy(s):
    """A namespace without automatic creation refuses the creation by lookup; REST creates the topic."""
    ns = s.namespace(autoTopicCreation={"allowAutoTopicCreation": False})
    t = s.topic(ns=ns, domain="topic")
    c = s.connect("c")
    c.dag(t)
    c.dag(t, session=2, create_if_missing=True)
    s.admin("PUT", s.path(t))
    c.dag(t, session=3)


def create_with_partitioned_policy(s):
    """A namespace that creates partitioned topics: one segment all the same."""
    policy = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}
    t = s.topic(ns=s.namespace(autoTopicCreation=policy), domain="topic")
    c = s.connect("c")
    c.dag(t)


def create_in_missing_namespace(s):
    """The namespace is not checked."""
    t = s.topic(ns="public/missing", domain="topic")
    c = s.connect("c")
    c.dag(t)


def persistent_name(s):
    """The persistent:// name of a scalable topic."""
    t = s.scalable(2)
    c = s.connect("c")
    c.dag(t.replace("topic://", "persistent://"))


def short_name(s):
    """Names without a domain: tenant/namespace/name, and the name alone in public/default."""
    t = s.scalable(2)
    c = s.connect("c")
    c.dag(t.replace("topic://", ""))
    c.dag(t.replace("topic://public/default/", ""), session=2)


def segment_name(s):
    """The name of a segment opens the session of its topic, also that of a segment that does not exist."""
    t = s.scalable(2)
    c = s.connect("c")
    c.dag(s.segment(t, 0))
    c.dag(t.replace("topic://", "segment://") + "/0000-ffff-9", session=2)


def segment_name_of_a_missing_topic(s):
    """The name of a segment of a topic that does not exist."""
    t = s.topic(domain="topic")
    c = s.connect("c")
    c.dag(t.replace("topic://", "segment://") + "/0000-ffff-0", create_if_missing=False)
    c.dag(t.replace("topic://", "segment://") + "/0000-ffff-0", session=2)


def bad_segment_name(s):
    """The name of a segment without a descriptor."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    c.dag(t.replace("topic://", "segment://"))
    d.PING()


def partition_name(s):
    """The name of a partition of the scalable topic."""
    t = s.scalable(1)
    c = s.connect("c")
    c.dag(t + "-partition-0", create_if_missing=False)
    c.dag(t.replace("topic://", "persistent://") + "-partition-0", session=2)


def classic_topic(s):
    """An existing classic topic has a synthetic DAG; nothing is created."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    c.dag(t)
    c.dag(t, session=2, create_if_missing=False)
    s.admin("GET", s.path(t.replace("persistent://", "topic://")), show=["reason"])


def missing_classic_topic(s):
    """A persistent:// name of nothing has a synthetic DAG too, and is not created."""
    t = s.topic()
    c = s.connect("c")
    c.dag(t)
    c.dag(t, session=2, create_if_missing=False)
    s.admin("GET", s.path(t, "/stats"))


def topic_name_of_a_classic_topic(s):
    """The topic:// name of an existing classic topic."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    c.dag(t.replace("persistent://", "topic://"), create_if_missing=False)
    c.dag(t.replace("persistent://", "topic://"), session=2)


def partitioned_topic(s):
    """A classic topic of three partitions has a synthetic DAG of three segments."""
    t = s.topic()
    s.admin("PUT", s.path(t, "/partitions"), 3)
    c = s.connect("c")
    c.dag(t)
    c.dag(t + "-partition-1", session=2)


def more_partitions(s):
    """A session of a partitioned topic when partitions are added."""
    t = s.topic()
    s.admin("PUT", s.path(t, "/partitions"), 2)
    c = s.connect("c")
    c.dag(t)
    s.admin("POST", s.path(t, "/partitions"), 3)
    s.wait(0.6)


def classic_topic_deleted(s):
    """A session of a classic topic that is deleted."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    p.CLOSE_PRODUCER(producer_id=1)
    c.dag(t)
    s.admin("DELETE", s.path(t))
    s.wait(0.6)


def scalable_topic_after_classic(s):
    """The topic:// name is created while a classic topic with the same name exists."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    s.admin("PUT", s.path(t.replace("persistent://", "topic://")), show=["reason"])
    c.dag(t)
    p.producer(t, id=2)


def created_while_watched(s):
    """A session of a persistent:// name of nothing, and the creation of the scalable topic."""
    t = s.topic()
    c = s.connect("c")
    c.dag(t)
    s.admin("PUT", s.path(t.replace("persistent://", "topic://")))
    s.wait(0.6)


def non_persistent_name(s):
    """non-persistent:// names are refused."""
    t = s.topic(domain="non-persistent")
    c = s.connect("c")
    c.dag(t)
    c.PING()


def unparsable_name(s):
    """A name that cannot be read costs the connection."""
    c = s.connect("c")
    c.dag("topic://x")


def unknown_domain(s):
    """The same for an unknown domain."""
    c = s.connect("c")
    c.dag("other://public/default/x")


def empty_name(s):
    """The same for an empty name."""
    c = s.connect("c")
    c.dag("")


def no_session_id(s):
    """SCALABLE_TOPIC_LOOKUP without a session id."""
    c = s.connect("c")
    c.SCALABLE_TOPIC_LOOKUP(topic="topic://public/default/x", session_id=...)


def lookup_before_connect(s):
    """SCALABLE_TOPIC_LOOKUP before CONNECT."""
    c = s.open("c")
    c.dag("topic://public/default/x")


def response_from_client(s):
    """A SCALABLE_TOPIC_UPDATE from a client."""
    c = s.connect("c")
    c.SCALABLE_TOPIC_UPDATE(session_id=1)


def same_session_twice(s):
    """The same session id again, for the same topic; after one CLOSE."""
    t = s.scalable(1)
    c = s.connect("c")
    c.dag(t)
    c.dag(t, session=2)
    c.dag(t, session=1)
    c.SCALABLE_TOPIC_CLOSE(session_id=1)
    s.admin("POST", s.path(t, "/split/0"))
    s.unordered(c)
    s.wait(0.6)


def same_session_for_another_topic(s):
    """The same session id again, for another topic: changes of both."""
    t, u = s.scalable(1), s.scalable(2, label="u")
    c = s.connect("c")
    c.dag(t)
    c.dag(u)
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(0.6)
    s.admin("POST", s.path(u, "/split/0"))
    s.wait(0.6)


def close_unknown_session(s):
    """CLOSE of a session that was never opened."""
    c = s.connect("c")
    c.SCALABLE_TOPIC_CLOSE(session_id=7)
    c.PING()


def two_sessions(s):
    """Two sessions of one topic on one connection: both get the change."""
    t = s.scalable(1)
    c = s.connect("c")
    c.dag(t)
    c.dag(t, session=2)
    s.admin("POST", s.path(t, "/split/0"))
    s.unordered(c)
    s.wait(0.6)


def two_connections(s):
    """The same session id on two connections are two sessions."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    c.dag(t)
    d.dag(t)
    c.SCALABLE_TOPIC_CLOSE(session_id=1)
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(0.6)


def large_session_id(s):
    """The largest session id."""
    c = s.connect("c")
    c.dag(s.scalable(1), session=2**64 - 1)


def split(s):
    """A split: epoch 1, the parent is sealed, two children."""
    t = s.scalable(1)
    c = s.connect("c")
    c.dag(t)
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(0.6)
    c.dag(t, session=2)


def split_of_one_of_two(s):
    """A split of the second of two segments; the entry buckets of all segments."""
    t = s.scalable(2)
    c = s.connect("c")
    c.dag(t)
    s.admin("POST", s.path(t, "/split/1"))
    s.wait(0.6)


def split_again(s):
    """Three splits in a row."""
    t = s.scalable(1)
    c = s.connect("c")
    c.dag(t)
    for segment in 0, 1, 3:
        s.admin("POST", s.path(t, f"/split/{segment}"))
        s.wait(0.6)


def merge(s):
    """A merge: epoch 1, two sealed parents, one child."""
    t = s.scalable(2)
    c = s.connect("c")
    c.dag(t)
    s.admin("POST", s.path(t, "/merge/0/1"))
    s.wait(0.6)


def merge_backwards(s):
    """A merge that names the upper segment first."""
    t = s.scalable(3)
    c = s.connect("c")
    c.dag(t)
    s.admin("POST", s.path(t, "/merge/2/1"))
    s.wait(0.6)


def split_and_merge(s):
    """A split, then the merge of its children."""
    t = s.scalable(1)
    c = s.connect("c")
    c.dag(t)
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(0.6)
    s.admin("POST", s.path(t, "/merge/1/2"))
    s.wait(0.6)


def rebucket(s):
    """A new number of entry buckets: a new segment with the same range."""
    t = s.scalable(1)
    c = s.connect("c")
    c.dag(t)
    s.admin("POST", s.path(t, "/rebucket/0?bucketCount=8"))
    s.wait(0.6)
    s.admin("POST", s.path(t, "/rebucket/1?bucketCount=3"))
    s.wait(0.6)
    s.admin("POST", s.path(t, "/rebucket/2?bucketCount=1"))
    s.wait(0.6)


def rebucket_and_split(s):
    """The children of a segment with eight entry buckets."""
    t = s.scalable(1)
    c = s.connect("c")
    s.admin("POST", s.path(t, "/rebucket/0?bucketCount=8"))
    c.dag(t)
    s.admin("POST", s.path(t, "/split/1"))
    s.wait(0.6)


def rebucket_and_merge(s):
    """The child of two segments with eight and with three entry buckets."""
    t = s.scalable(2)
    c = s.connect("c")
    s.admin("POST", s.path(t, "/rebucket/0?bucketCount=8"))
    s.admin("POST", s.path(t, "/rebucket/1?bucketCount=3"))
    c.dag(t)
    s.admin("POST", s.path(t, "/merge/2/3"))
    s.wait(0.6)


def statistics_elect_a_controller(s):
    """The statistics elect a controller; sessions are told its address."""
    t = s.scalable(1)
    c = s.connect("c")
    c.dag(t)
    s.admin("GET", s.path(t, "/stats"))
    s.wait(0.6)
    c.dag(t, session=2)


def subscription_elects_a_controller(s):
    """A subscription by REST elects a controller."""
    t = s.scalable(1)
    c = s.connect("c")
    c.dag(t)
    s.admin("PUT", s.path(t, "/subscriptions/sub"))
    s.wait(0.6)


def consumer_elects_a_controller(s):
    """A stream consumer elects a controller."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    c.dag(t)
    d.join(t)
    s.wait(0.6)


def producer_elects_no_controller(s):
    """A producer and a Shared consumer on the segment leave the topic without a controller."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    p.producer(s.segment(t, 0))
    p.send("m0")
    c.subscribe(s.segment(t, 0), type="Shared")
    d.dag(t)


def delete(s):
    """A session of a topic that is deleted."""
    t = s.scalable(2)
    c = s.connect("c")
    c.dag(t)
    s.admin("DELETE", s.path(t))
    s.wait(1)
    c.dag(t, session=2, create_if_missing=False)


def delete_and_create(s):
    """A session of a topic that is deleted and created again with other segments."""
    t = s.scalable(2)
    c = s.connect("c")
    c.dag(t)
    s.admin("DELETE", s.path(t))
    s.wait(1)
    s.admin("PUT", s.path(t, "?numInitialSegments=3"), {})
    s.wait(1)
    c.dag(t, session=2)


def properties_of_the_topic(s):
    """Properties of the topic are not part of the DAG."""
    t = s.scalable(1, team="a")
    c = s.connect("c")
    c.dag(t)
    s.admin("GET", s.path(t), show=["properties"])


def policy_of_the_topic(s):
    """A policy of the topic is not part of the DAG either."""
    t = s.scalable(1)
    c = s.connect("c")
    c.dag(t)
    s.admin("POST", s.path(t, "/autoScalePolicy"), {"maxSegments": 7})
    s.wait(0.6)


def after_reset(s):
    """Sessions end with their connection."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    c.dag(t)
    c.close(reset=True)
    d.dag(t)
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(0.6)


def unload_of_the_namespace(s):
    """A session when the namespace is unloaded."""
    ns = s.namespace()
    t = s.scalable(2, ns=ns)
    c = s.connect("c")
    c.dag(t)
    s.admin("PUT", f"/admin/v2/namespaces/{ns}/unload")
    s.wait(1)
    c.dag(t, session=2)


def lists_of_classic_topics(s):
    """GET_TOPICS_OF_NAMESPACE and the lists over REST contain no scalable topics and no segments."""
    ns = s.namespace()
    t, u = s.scalable(1, ns=ns), s.topic("u", ns=ns)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    p.producer(u, id=2)
    s.expect_hash(u)
    for mode in "PERSISTENT", "NON_PERSISTENT", "ALL":
        c.GET_TOPICS_OF_NAMESPACE(namespace=ns, mode=mode)
    c.WATCH_TOPIC_LIST(watcher_id=1, namespace=ns, topics_pattern="public/.*")
    s.admin("GET", f"/admin/v2/persistent/{ns}", show=[""])
    s.admin("GET", f"/admin/v2/namespaces/{ns}/topics", show=[""])
    s.admin("GET", f"/admin/v2/scalable/{ns}", show=[""])


def pattern_watcher(s):
    """WATCH_TOPIC_LIST is not told of a new scalable topic and its segments."""
    ns = s.namespace()
    c = s.connect("c")
    c.WATCH_TOPIC_LIST(watcher_id=1, namespace=ns, topics_pattern=".*")
    t = s.scalable(1, ns=ns)
    s.wait(0.6)
    s.admin("DELETE", s.path(t))
    s.wait(0.6)


def schema_of_the_parent(s):
    """The schema of a segment's producer belongs to the topic: all segments and the persistent:// name share it."""
    t = s.scalable(2)
    c = s.connect("c")
    c.GET_SCHEMA(topic=s.segment(t, 0))
    c.producer(s.segment(t, 0), schema=STRING)
    c.GET_SCHEMA(topic=s.segment(t, 1))
    c.GET_SCHEMA(topic=t)
    c.GET_SCHEMA(topic=t.replace("topic://", "persistent://"))
    s.admin("GET", "/admin/v2/schemas" + t.partition(":/")[2] + "/schema", show=["type", "version"])


def schema_refused_on_another_segment(s):
    """An incompatible schema is refused on the other segment as well."""
    t = s.scalable(2)
    c = s.connect("c")
    c.GET_OR_CREATE_SCHEMA(topic=s.segment(t, 0), schema=STRING)
    c.GET_OR_CREATE_SCHEMA(topic=s.segment(t, 1), schema=INT32)
    c.producer(s.segment(t, 1), schema=INT32)
    c.subscribe(s.segment(t, 1), schema=INT32)


def schema_of_a_missing_segment(s):
    """GET_OR_CREATE_SCHEMA with producer_name, on a missing segment of a topic that exists."""
    t = s.scalable(1)
    c = s.connect("c")
    c.GET_OR_CREATE_SCHEMA(topic=s.segment(t, 0).replace("-0", "-9"), schema=STRING, producerName="p")
    c.GET_SCHEMA(topic=s.segment(t, 0))


def topic_of_the_topic_name(s):
    """An ordinary topic under the topic:// name lives beside the segments."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    p.producer(t)
    p.send("m0")
    c.subscribe(s.segment(t, 0), initialPosition="Earliest")
    c.flow(10)
    d.dag(t)


def handshake(s):
    """The feature flags of the broker."""
    c = s.open("c")
    c.connect()


def handshake_of_a_scalable_client(s):
    """A client that announces the flags for scalable topics is answered in the same way."""
    c = s.open("c")
    c.connect(feature_flags={"supports_scalable_topics": True, "supports_tc_metadata_discovery": True})
