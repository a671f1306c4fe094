"""Stream consumers: registration, assignment and hand-over of segments."""


def _split(s, topic, number=0):
    s.admin("POST", s.path(topic, f"/split/{number}"))


def _read(c, segment, consumer, sub="sub", **fields):
    """Subscribe to a segment as a stream consumer does."""
    c.subscribe(segment, sub=sub, id=consumer, initialPosition="Earliest", **fields)
    c.flow(100, id=consumer)


def _assign(consumers, segments):
    def scenario(s):
        t = s.scalable(segments)
        for c in s.connect(*(f"c{i}" for i in range(consumers))):
            c.join(t)

    scenario.__doc__ = f"{consumers} consumers join a topic of {segments} segments, one after the other."
    return scenario


assignment_1_of_1 = _assign(1, 1)
assignment_1_of_3 = _assign(1, 3)
assignment_2_of_2 = _assign(2, 2)
assignment_2_of_3 = _assign(2, 3)
assignment_2_of_4 = _assign(2, 4)
assignment_3_of_4 = _assign(3, 4)
assignment_3_of_7 = _assign(3, 7)
assignment_2_of_1 = _assign(2, 1)
assignment_3_of_1 = _assign(3, 1)
assignment_4_of_1 = _assign(4, 1)
assignment_3_of_2 = _assign(3, 2)
assignment_4_of_2 = _assign(4, 2)


def order_of_names(s):
    """The order of the names decides, not that of the arrival."""
    t = s.scalable(3)
    c, d, e = s.connect("c", "d", "e")
    c.join(t, "m")
    d.join(t, "z")
    e.join(t, "B")


def leave(s):
    """A consumer leaves: its segments go to the others at once."""
    t = s.scalable(4)
    c, d = s.connect("c", "d")
    c.join(t)
    d.join(t)
    c.leave()
    s.wait(0.6)
    c.join(t, consumer=2)


def leave_twice(s):
    """UNSUBSCRIBE again, and of a consumer that never was."""
    t = s.scalable(1)
    c = s.connect("c")
    c.join(t)
    c.leave()
    c.leave()
    c.leave(consumer=9)


def last_consumer_leaves(s):
    """Nobody is left; then one comes again."""
    t = s.scalable(2)
    c = s.connect("c")
    c.join(t)
    c.leave()
    c.join(t, "other", consumer=2)


def connection_lost(s):
    """A consumer whose connection is lost keeps its segments for a while."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    c.join(t)
    d.join(t)
    c.close(reset=True)
    s.wait(1)


def same_name_again(s):
    """A consumer comes back under its name on a new connection: the same segments, nobody else is told."""
    t = s.scalable(2)
    c, d, e = s.connect("c", "d", "e")
    c.join(t)
    d.join(t)
    c.close(reset=True)
    e.join(t, "c")
    s.wait(0.6)


def join_after_a_loss(s):
    """A third consumer joins while a lost one keeps its segments: it still counts."""
    t = s.scalable(3)
    c, d, e = s.connect("c", "d", "e")
    c.join(t)
    d.join(t)
    c.close(reset=True)
    e.join(t)
    s.wait(0.6)


def taken_over(s):
    """The same name on a second connection while the first lives."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    c.join(t, "n")
    d.join(t, "n")
    s.wait(0.6)
    _split(s, t)
    s.wait(0.6)


def taken_over_and_left(s):
    """After a second connection took the name over, the first one leaves."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    c.join(t, "n")
    d.join(t, "n")
    c.leave()
    s.wait(0.6)
    c.join(t, "m", consumer=2)


def taken_over_and_lost(s):
    """After a second connection took the name over, the first one is lost."""
    t = s.scalable(2)
    c, d, e = s.connect("c", "d", "e")
    c.join(t, "n")
    d.join(t, "n")
    c.close(reset=True)
    s.wait(0.6)
    e.join(t, "m")


def same_name_same_connection(s):
    """The same name twice on one connection, with another consumer id."""
    t = s.scalable(2)
    c = s.connect("c")
    c.join(t)
    c.join(t, consumer=2)
    c.leave(consumer=2)
    c.leave()


def same_consumer_id(s):
    """The same consumer id for two names on one connection."""
    t = s.scalable(2)
    c = s.connect("c")
    c.join(t, "a")
    c.join(t, "b")
    c.leave()
    s.wait(0.6)


def two_consumers_on_one_connection(s):
    """Two consumers with ids and names of their own on one connection."""
    t = s.scalable(2)
    c = s.connect("c")
    c.join(t, "a")
    c.join(t, "b", consumer=2)
    c.leave()
    s.wait(0.6)


def two_subscriptions(s):
    """Two subscriptions do not share segments."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    c.join(t, sub="a")
    d.join(t, sub="b")


def two_topics(s):
    """The same name and subscription on two topics."""
    t, u = s.scalable(2), s.scalable(1, "u")
    c = s.connect("c")
    c.join(t)
    c.join(u, consumer=2)


def missing_topic(s):
    """A topic that does not exist is not created."""
    t = s.topic(domain="topic")
    c = s.connect("c")
    c.join(t)
    s.admin("GET", s.path(t))


def wrong_names(s):
    """The persistent:// and the segment name of a scalable topic, a name without domain, and nonsense."""
    t = s.scalable(1)
    c = s.connect("c")
    c.join(t.replace("topic://", "persistent://"))
    c.join(s.segment(t, 0), consumer=2)
    c.join(t.replace("topic://", ""), consumer=3)


def classic_topic(s):
    """A classic topic that was not migrated."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    c.join(t)
    c.join(t.replace("persistent://", "topic://"), consumer=2)


def unparsable_topic(s):
    """A topic name that cannot be read."""
    c = s.connect("c")
    c.join("topic://x")
    c.PING()


def non_persistent_topic(s):
    """A non-persistent:// name."""
    t = s.topic(domain="non-persistent")
    c = s.connect("c")
    c.join(t)


def no_consumer_name(s):
    """An empty consumer name."""
    t = s.scalable(1)
    c = s.connect("c")
    c.SCALABLE_TOPIC_SUBSCRIBE(topic=t, subscription="sub", consumer_name="", consumer_id=1, consumer_type="STREAM")


def no_subscription_name(s):
    """An empty subscription name."""
    t = s.scalable(1)
    c = s.connect("c")
    c.join(t, sub="")


def names_with_a_slash(s):
    """A consumer name and a subscription name with a slash."""
    t = s.scalable(1)
    c = s.connect("c")
    c.join(t, "a/b")
    c.leave()
    c.join(t, "c", sub="x/y", consumer=2)


def hostile_names(s):
    """Consumer names with a space, a percent sign, a colon, two dots and letters outside ASCII."""
    t = s.scalable(1)
    c = s.connect("c")
    for i, name in enumerate(("a b", "a%2Fb", "a:b", "..", ".", "ä", "n" * 300)):
        c.join(t, name, consumer=i + 1)
        c.leave(consumer=i + 1)


def missing_fields(s):
    """SCALABLE_TOPIC_SUBSCRIBE without its consumer type."""
    t = s.scalable(1)
    c = s.connect("c")
    c.SCALABLE_TOPIC_SUBSCRIBE(topic=t, subscription="sub", consumer_name="c", consumer_id=1)


def before_connect(s):
    """SCALABLE_TOPIC_SUBSCRIBE before CONNECT."""
    c = s.open("c")
    c.join("topic://public/default/x")


def split(s):
    """A split: the consumer gets the children after the sealed parent is drained."""
    t = s.scalable(1)
    c = s.connect("c")
    c.join(t)
    _read(c, s.segment(t, 0), 2, name="c-seg-0")
    _split(s, t)
    s.wait(2.8)


def split_with_backlog(s):
    """A split with a backlog: the children come after the last acknowledgement."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    ids = p.send("m0", "m1")
    c.join(t)
    _read(c, s.segment(t, 0), 2, name="c-seg-0")
    _split(s, t)
    s.wait(2.8)
    c.ack(ids[1], id=2, cumulative=True)
    s.wait(2.8)


def split_without_consumers_on_the_segment(s):
    """A split before the registered consumer has subscribed to the segment."""
    t = s.scalable(1)
    c = s.connect("c")
    c.join(t)
    _split(s, t)
    s.wait(2.8)


def split_with_two_consumers(s):
    """A split with two consumers on two segments."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    c.join(t)
    _read(c, s.segment(t, 0), 2, name="c-seg-0")
    d.join(t)
    _read(d, s.segment(t, 1), 2, name="d-seg-1")
    _split(s, t)
    s.wait(2.8)


def merge(s):
    """A merge: the child comes when both parents are drained."""
    t = s.scalable(2)
    p, c, d = s.connect("p", "c", "d")
    p.producer(s.segment(t, 1))
    ids = p.send("m0")
    c.join(t)
    _read(c, s.segment(t, 0), 2, name="c-seg-0")
    d.join(t)
    _read(d, s.segment(t, 1), 2, name="d-seg-1")
    s.admin("POST", s.path(t, "/merge/0/1"))
    s.wait(2.8)
    d.ack(ids[0], id=2, cumulative=True)
    s.wait(2.8)


def rebucket(s):
    """A rebucket: the new segment comes when the old one is drained."""
    t = s.scalable(1)
    c = s.connect("c")
    c.join(t)
    _read(c, s.segment(t, 0), 2, name="c-seg-0")
    s.admin("POST", s.path(t, "/rebucket/0?bucketCount=2"))
    s.wait(2.8)


def new_subscription_on_a_split_topic(s):
    """A new subscription starts with the sealed segment, and goes on with its children."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    ids = p.send("m0")
    _split(s, t)
    c.join(t)
    _read(c, s.segment(t, 0), 2, name="c-seg-0")
    c.ack(ids[0], id=2, cumulative=True)
    s.wait(2.8)


def new_subscription_on_an_empty_split_topic(s):
    """A new subscription on a topic that was split without a message."""
    t = s.scalable(1)
    _split(s, t)
    c = s.connect("c")
    c.join(t)
    s.wait(2.8)


def two_generations(s):
    """Two splits before the consumer comes: parents before children, generation by generation."""
    t = s.scalable(1)
    _split(s, t)
    _split(s, t, 1)
    c = s.connect("c")
    c.join(t)
    _read(c, s.segment(t, 0), 2, name="c-seg-0")
    s.wait(2.8)


def join_while_draining(s):
    """A second consumer joins while the parent has a backlog."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    p.producer(s.segment(t, 0))
    ids = p.send("m0")
    c.join(t)
    _read(c, s.segment(t, 0), 2, name="c-seg-0")
    _split(s, t)
    s.wait(0.6)
    d.join(t)
    s.wait(0.6)
    c.ack(ids[0], id=2, cumulative=True)
    s.wait(2.8)


def subscription_by_rest_on_a_split_topic(s):
    """A subscription made over REST after a split: the sealed segment is assigned all the same."""
    t = s.scalable(1)
    _split(s, t)
    s.admin("PUT", s.path(t, "/subscriptions/sub?type=STREAM"))
    c = s.connect("c")
    c.join(t)
    s.wait(2.8)


def hand_over(s):
    """A hand-over of a segment: busy until the former owner has closed; unacknowledged messages come again."""
    t = s.scalable(2)
    p, c, d = s.connect("p", "c", "d")
    p.producer(s.segment(t, 1))
    ids = p.send("m0", "m1")
    c.join(t)
    _read(c, s.segment(t, 1), 3, name="c-seg-1")
    d.join(t)
    _read(d, s.segment(t, 1), 2, name="d-seg-1")
    c.ack(ids[0], id=3, cumulative=True)
    c.CLOSE_CONSUMER(consumer_id=3)
    _read(d, s.segment(t, 1), 4, name="d-seg-1")


def shared_segment(s):
    """Two consumers share one segment by entry bucket; when one leaves, the other has it alone."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    c.join(t)
    d.join(t)
    d.leave()
    s.wait(0.6)


def shared_segment_is_split(s):
    """Two consumers share one segment, which is split before they subscribe to it."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    c.join(t)
    d.join(t)
    _split(s, t)
    s.wait(2.8)


def more_consumers_than_buckets(s):
    """A fifth consumer on four segments of one bucket makes the controller rebucket them all."""
    t = s.scalable(4)
    names = [f"c{i}" for i in range(5)]
    w, *consumers = s.connect("w", *names)
    w.dag(t)
    for c in consumers[:4]:
        c.join(t)
    consumers[4].join(t)
    s.wait(3)


def a_fifth_consumer_of_four_buckets(s):
    """A fifth consumer on one segment of four buckets."""
    t = s.scalable(1)
    names = [f"c{i}" for i in range(5)]
    consumers = s.connect(*names)
    for c in consumers:
        c.join(t)
    s.wait(3)


def rebucket_by_hand_while_shared(s):
    """A rebucket by hand while two consumers share the segment."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    c.join(t)
    d.join(t)
    s.admin("POST", s.path(t, "/rebucket/0?bucketCount=2"))
    s.wait(2.8)


def subscription_deleted(s):
    """DELETE of the subscription of a registered consumer."""
    t = s.scalable(1)
    c = s.connect("c")
    c.join(t)
    _read(c, s.segment(t, 0), 2, name="c-seg-0")
    s.admin("DELETE", s.path(t, "/subscriptions/sub"))
    s.wait(0.6)
    c.leave()
    c.join(t, consumer=3)


def seek_by_rest(s):
    """A seek over REST closes the consumer on the segment; the assignment stays."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    ids = p.send("m0", "m1")
    c.join(t)
    _read(c, s.segment(t, 0), 2, name="c-seg-0")
    c.ack(ids[1], id=2, cumulative=True)
    s.admin("POST", s.path(t, "/subscriptions/sub/seek?timestamp=1"))
    s.wait(0.6)
    _read(c, s.segment(t, 0), 2, name="c-seg-0")


def unload_of_the_namespace(s):
    """An unload of the namespace: the registration stays."""
    ns = s.namespace()
    t = s.scalable(2, ns=ns)
    c, d = s.connect("c", "d")
    c.join(t)
    s.admin("PUT", f"/admin/v2/namespaces/{ns}/unload")
    s.wait(0.6)
    d.join(t)


def beside_a_queue(s):
    """A stream consumer on the subscription of a queue consumer."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    c.subscribe(s.segment(t, 0), type="Shared")
    d.join(t)
    _read(d, s.segment(t, 0), 2, name="d-seg-0")


def statistics_in_the_grace_period(s):
    """The statistics of a consumer whose connection is lost."""
    t = s.scalable(2)
    c = s.connect("c")
    c.join(t)
    c.close(reset=True)
    s.wait(0.3)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def migrated_topic(s):
    """A migrated topic with a backlog: first the sealed legacy segment, then the new one."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    ids = p.send("m0")
    p.CLOSE_PRODUCER(producer_id=1)
    u = t.replace("persistent://", "topic://")
    s.topics.append(u)
    s.admin("POST", s.path(u, "/migrate"))
    c.join(u)
    _read(c, t, 2, name="c-seg-0")
    c.ack(ids[0], id=2, cumulative=True)
    s.wait(2.8)
