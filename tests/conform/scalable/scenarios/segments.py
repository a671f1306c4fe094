"""Segments as topics: producers, consumers, sealing, and subscriptions by entry bucket."""

STRING = {"name": "s", "type": "String", "schema_data": b""}
QUARTERS = [(0, 16383), (16384, 32767), (32768, 49151), (49152, 65535)]


def _split(s, topic, number=0):
    s.admin("POST", s.path(topic, f"/split/{number}"), show=["reason"])


def _buckets(*ranges, **fields):
    """Key_Shared by entry bucket with these hash ranges."""
    ranges = [{"start": start, "end": end} for start, end in ranges]
    return {"keySharedMode": "STICKY", "hashRanges": ranges, "entry_bucket_dispatch": True, **fields}


def _share(c, segment, *ranges, consumer=1, **fields):
    c.subscribe(
        segment, type="Key_Shared", id=consumer, initialPosition="Earliest", keySharedMeta=_buckets(*ranges, **fields)
    )


def producer(s):
    """Messages to two segments: each has its own sequence ids and ledger."""
    t = s.scalable(2)
    p = s.connect("p")
    for number in 0, 1:
        p.producer(s.segment(t, number), id=number + 1, schema=STRING, txn_enabled=True)
        p.send("m0", "m1", id=number + 1, entry_hash_min=7, entry_hash_max=7, partition_key="k")


def producer_named_by_the_broker(s):
    """Producers without a name on two segments."""
    t = s.scalable(2)
    p = s.connect("p")
    p.PRODUCER(topic=s.segment(t, 0), producer_id=1)
    p.PRODUCER(topic=s.segment(t, 1), producer_id=2)


def same_producer_name(s):
    """One producer name on two segments is no conflict; twice on one segment it is."""
    t = s.scalable(2)
    p, q = s.connect("p", "q")
    p.producer(s.segment(t, 0), name="n")
    q.producer(s.segment(t, 1), name="n")
    q.producer(s.segment(t, 0), id=2, name="n")


def wrong_range(s):
    """The name of a segment with the right number and another range."""
    t = s.scalable(2)
    p = s.connect("p")
    name = s.segment(t, 0).replace("0000-7fff", "0000-ffff")
    s.look_up(name)
    p.producer(name)
    p.PARTITIONED_METADATA(topic=name)


def upper_case_range(s):
    """The range in upper case."""
    t = s.scalable(1)
    p = s.connect("p")
    name = s.segment(t, 0).replace("0000-ffff", "0000-FFFF")
    s.look_up(name)
    p.producer(name)


def sequence_ids(s):
    """Deduplication of a segment: a repeated id is answered with -1:-1. The children start anew."""
    ns = s.namespace(deduplication=True)
    t = s.scalable(1, ns=ns)
    p = s.connect("p")
    p.producer(s.segment(t, 0), name="n")
    p.send("m0", "m1", producer_name="n")
    p.send("m1", seq=1, producer_name="n")
    _split(s, t)
    p.producer(s.segment(t, 1), id=2, name="n")
    p.send("m2", id=2, seq=1, producer_name="n")


def sequence_ids_of_the_other_segment(s):
    """Deduplication knows the ids of each segment alone."""
    ns = s.namespace(deduplication=True)
    t = s.scalable(2, ns=ns)
    p = s.connect("p")
    for number in 0, 1:
        p.producer(s.segment(t, number), id=number + 1, name="n")
        p.send("m0", id=number + 1, seq=5, producer_name="n")
        p.send("m1", id=number + 1, seq=5, producer_name="n")


def exclusive_access(s):
    """Exclusive access to one segment; the other segment is free."""
    t = s.scalable(2)
    p, q = s.connect("p", "q")
    p.producer(s.segment(t, 0), producer_access_mode="Exclusive")
    q.producer(s.segment(t, 0))
    q.producer(s.segment(t, 1), id=2)
    p.producer(s.segment(t, 1), id=2, producer_access_mode="Exclusive")


def waiting_for_exclusive_access(s):
    """A producer waits for exclusive access to a segment that is split."""
    t = s.scalable(1)
    p, q = s.connect("p", "q")
    p.producer(s.segment(t, 0), producer_access_mode="Exclusive")
    q.producer(s.segment(t, 0), producer_access_mode="WaitForExclusive")
    _split(s, t)
    s.wait(0.6)
    p.producer(s.segment(t, 1), id=2, producer_access_mode="Exclusive")


def epoch_of_exclusive_access(s):
    """The topic epoch on the child of a segment with exclusive access starts anew."""
    t = s.scalable(1)
    p = s.connect("p")
    p.producer(s.segment(t, 0), producer_access_mode="Exclusive")
    p.CLOSE_PRODUCER(producer_id=1)
    p.producer(s.segment(t, 0), producer_access_mode="Exclusive")
    _split(s, t)
    p.producer(s.segment(t, 1), id=2, producer_access_mode="Exclusive")


def schema(s):
    """A schema set by the producer of one segment holds for the consumers of another."""
    t = s.scalable(2)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0), schema=STRING)
    c.subscribe(s.segment(t, 1), schema={"name": "s", "type": "Int64", "schema_data": b""})
    c.subscribe(s.segment(t, 1), id=2, schema=STRING)


def schema_of_a_child(s):
    """The schema of the parent holds for the children."""
    t = s.scalable(1)
    p = s.connect("p")
    p.producer(s.segment(t, 0), schema=STRING)
    _split(s, t)
    p.producer(s.segment(t, 1), id=2, schema=STRING)
    p.producer(s.segment(t, 2), id=3, schema={"name": "s", "type": "Int64", "schema_data": b""})


def split_with_a_producer(s):
    """A split closes the producer of the parent."""
    t = s.scalable(1)
    p = s.connect("p")
    p.producer(s.segment(t, 0))
    p.send("m0")
    _split(s, t)
    s.wait(0.6)


def split_and_a_session(s):
    """The order of CLOSE_PRODUCER and of the UPDATE on one connection."""
    t = s.scalable(1)
    p = s.connect("p")
    s.admin("GET", s.path(t, "/stats"))
    p.dag(t)
    p.producer(s.segment(t, 0))
    _split(s, t)
    s.wait(0.6)


def send_after_the_split(s):
    """SEND on the closed producer is not answered; a new PRODUCER on the sealed segment is refused."""
    t = s.scalable(1)
    p = s.connect("p")
    g = s.segment(t, 0)
    p.producer(g)
    _split(s, t)
    p.send("m0")
    p.producer(g, id=2)
    p.send("m1", id=2)
    p.PING()


def producer_on_a_sealed_segment(s):
    """PRODUCER in each access mode on a sealed segment."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    _split(s, t)
    p = s.connect("p")
    for i, mode in enumerate(("Shared", "Exclusive", "WaitForExclusive", "ExclusiveWithFencing")):
        p.producer(g, id=i + 1, producer_access_mode=mode)


def merge_with_producers(s):
    """A merge closes the producers of both parents."""
    t = s.scalable(2)
    p, q = s.connect("p", "q")
    p.producer(s.segment(t, 0))
    q.producer(s.segment(t, 1))
    s.admin("POST", s.path(t, "/merge/0/1"))
    s.wait(0.6)
    p.producer(s.segment(t, 2), id=2)


def rebucket_with_a_producer(s):
    """A rebucket closes the producer too."""
    t = s.scalable(1)
    p = s.connect("p")
    p.producer(s.segment(t, 0))
    s.admin("POST", s.path(t, "/rebucket/0?bucketCount=2"))
    s.wait(0.6)
    p.producer(s.segment(t, 1), id=2)


def split_of_the_other_segment(s):
    """A split of another segment leaves producer and consumer alone."""
    t = s.scalable(2)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    c.subscribe(s.segment(t, 0))
    c.flow(10)
    _split(s, t, 1)
    p.send("m0")


def end_of_topic(s):
    """A consumer without backlog learns the end of the topic at the split."""
    t = s.scalable(1)
    c = s.connect("c")
    c.subscribe(s.segment(t, 0))
    c.flow(10)
    _split(s, t)
    s.wait(0.6)


def end_of_topic_with_backlog(s):
    """A consumer with a backlog learns it when it has received and acknowledged everything."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    ids = p.send("m0", "m1", "m2")
    c.subscribe(g, initialPosition="Earliest")
    c.flow(2)
    _split(s, t)
    s.wait(0.6)
    c.flow(5)
    s.wait(0.6)
    c.ack(ids[2], cumulative=True)
    s.wait(0.6)


def end_of_topic_shared(s):
    """The same for two Shared consumers."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    ids = p.send("m0")
    c.subscribe(g, type="Shared", initialPosition="Earliest")
    c.flow(10)
    d.subscribe(g, type="Shared")
    d.flow(10)
    _split(s, t)
    s.wait(0.6)
    c.ack(ids[0])
    s.wait(0.6)


def end_of_topic_without_permits(s):
    """A consumer without permits."""
    t = s.scalable(1)
    c = s.connect("c")
    c.subscribe(s.segment(t, 0))
    _split(s, t)
    s.wait(0.6)
    c.flow(1)
    s.wait(0.6)


def _sealed(s):
    """Return a sealed segment without messages."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    _split(s, t)
    return g


def _end_again(kind):
    def scenario(s):
        g = _sealed(s)
        c, d = s.connect("c", "d")
        c.subscribe(g, type=kind)
        c.flow(10)
        s.wait(0.6)
        c.flow(10)
        s.wait(0.6)
        c.CLOSE_CONSUMER(consumer_id=1)
        d.subscribe(g, type=kind)
        d.flow(10)
        s.wait(0.6)
        d.REDELIVER_UNACKNOWLEDGED_MESSAGES(consumer_id=1)
        s.wait(0.6)

    scenario.__doc__ = f"{kind}: more permits at the end of a sealed segment, another consumer, and a redelivery."
    return scenario


end_again_exclusive = _end_again("Exclusive")
end_again_shared = _end_again("Shared")


def terminated_before_a_split(s):
    """A segment that is terminated twice, and then split: the consumer learns the end each time."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    c = s.connect("c")
    c.subscribe(g)
    c.flow(10)
    for _ in range(2):
        s.admin("POST", s.path(g, "/terminate"))
        s.wait(0.6)
    _split(s, t)
    s.wait(0.6)


def end_of_topic_after_a_seek_of_a_reader(s):
    """A reader at the end of a sealed segment seeks and subscribes again."""
    g = _sealed(s)
    c = s.connect("c")
    c.subscribe(g, durable=False)
    c.flow(10)
    s.wait(0.6)
    c.SEEK(consumer_id=1, message_publish_time=1)
    c.subscribe(g, durable=False)
    c.flow(10)
    s.wait(0.6)


def end_of_topic_second_shared(s):
    """A second Shared consumer joins at the end of a sealed segment; then both leave and one returns."""
    g = _sealed(s)
    c, d = s.connect("c", "d")
    c.subscribe(g, type="Shared")
    c.flow(10)
    s.wait(0.6)
    d.subscribe(g, type="Shared")
    d.flow(10)
    s.wait(0.6)
    c.CLOSE_CONSUMER(consumer_id=1)
    d.CLOSE_CONSUMER(consumer_id=1)
    c.subscribe(g, type="Shared", id=2)
    c.flow(10, id=2)
    s.wait(0.6)


def end_of_topic_open_and_return(s):
    """Shared consumers of a segment that is then sealed: a second one joins, and both return twice."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    c, d = s.connect("c", "d")
    c.subscribe(g, type="Shared")
    c.flow(10)
    _split(s, t)
    s.wait(0.6)
    d.subscribe(g, type="Shared")
    d.flow(10)
    s.wait(0.6)
    for number in (2, 3):
        c.CLOSE_CONSUMER(consumer_id=number - 1)
        d.CLOSE_CONSUMER(consumer_id=number - 1)
        c.subscribe(g, type="Shared", id=number)
        c.flow(10, id=number)
        d.subscribe(g, type="Shared", id=number)
        d.flow(10, id=number)
        s.wait(0.6)


def end_of_topic_open_and_return_exclusive(s):
    """An Exclusive consumer of a segment that is then sealed returns twice."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    c = s.connect("c")
    c.subscribe(g)
    c.flow(10)
    _split(s, t)
    s.wait(0.6)
    for number in (2, 3):
        c.CLOSE_CONSUMER(consumer_id=number - 1)
        c.subscribe(g, id=number)
        c.flow(10, id=number)
        s.wait(0.6)


def consumer_on_a_sealed_segment(s):
    """A new subscription on a sealed segment reads it to its end."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    p.send("m0", "m1")
    _split(s, t)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(10)
    s.wait(0.6)


def subscription_of_a_consumer(s):
    """A subscription that a consumer made on the parent is not copied to the children."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    p.send("m0")
    c.subscribe(g, initialPosition="Earliest")
    _split(s, t)
    p.producer(s.segment(t, 1), id=2)
    p.send("m1", id=2)
    s.admin("GET", s.path(s.segment(t, 1), "/subscription/sub/backlog"), show=[""])
    c.subscribe(s.segment(t, 1), id=2)
    c.flow(10, id=2)


def subscription_of_a_consumer_and_a_merge(s):
    """Subscriptions that consumers made on the parents are not copied at a merge."""
    t = s.scalable(2)
    c = s.connect("c")
    c.subscribe(s.segment(t, 0), sub="a")
    c.subscribe(s.segment(t, 1), id=2, sub="b", type="Shared")
    s.admin("POST", s.path(t, "/merge/0/1"))
    s.admin("GET", s.path(t, "/segments/2/stats"), show=["subscriptions.a.msgBacklog", "subscriptions.b.msgBacklog"])


def subscription_of_a_reader_not_copied(s):
    """A subscription that is not durable is not copied either."""
    t = s.scalable(1)
    c = s.connect("c")
    c.subscribe(s.segment(t, 0), durable=False, start_message_id=(2**64 - 1, 2**64 - 1))
    _split(s, t)
    s.admin("GET", s.path(t, "/segments/1/stats"), show=["subscriptions"])


def last_message_id(s):
    """GET_LAST_MESSAGE_ID on an empty segment, on a used one, and after its split."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    c.subscribe(g)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    p.producer(g)
    p.send("m0", "m1")
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    _split(s, t)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)


def seek(s):
    """SEEK on a segment, by id and by time."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    ids = p.send("m0", "m1", "m2")
    c.subscribe(g, initialPosition="Earliest")
    c.flow(10)
    c.SEEK(consumer_id=1, message_id=ids[1])
    c.subscribe(g)
    c.flow(10)
    c.SEEK(consumer_id=1, message_publish_time=1)
    c.subscribe(g)
    c.flow(10)


def seek_on_a_sealed_segment(s):
    """SEEK on a sealed segment that was read to its end."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    ids = p.send("m0", "m1")
    c.subscribe(g, initialPosition="Earliest")
    c.flow(10)
    c.ack(ids[1], cumulative=True)
    _split(s, t)
    s.wait(0.6)
    c.SEEK(consumer_id=1, message_id=ids[0])
    c.subscribe(g)
    c.flow(10)


def seek_by_rest(s):
    """A seek over REST closes the consumer."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    ids = p.send("m0", "m1")
    c.subscribe(g, type="Shared", initialPosition="Earliest")
    c.flow(10)
    c.ack(*ids)
    s.admin("POST", s.path(t, "/subscriptions/sub/seek?timestamp=1"))
    s.wait(0.6)
    c.subscribe(g, type="Shared")
    c.flow(10)


def skip_all_by_rest(s):
    """skip-all over REST with a connected consumer."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    p.send("m0", "m1")
    c.subscribe(g, type="Shared", initialPosition="Earliest")
    c.flow(1)
    s.admin("POST", s.path(t, "/subscriptions/sub/skip-all"))
    s.wait(0.6)
    c.flow(10)
    p.send("m2")


def unload(s):
    """An unload of the namespace closes producers and consumers of segments."""
    ns = s.namespace()
    t = s.scalable(1, ns=ns)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    ids = p.send("m0", "m1")
    c.subscribe(g, initialPosition="Earliest")
    c.flow(10)
    c.ack(ids[0])
    s.admin("PUT", f"/admin/v2/namespaces/{ns}/unload")
    s.wait(0.6)
    s.look_up(g)
    p.producer(g, id=2)
    p.send("m2", id=2)
    c.subscribe(g, id=2)
    c.flow(10, id=2)


def unload_of_a_sealed_segment(s):
    """A sealed segment stays terminated over an unload."""
    ns = s.namespace()
    t = s.scalable(1, ns=ns)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    p.send("m0")
    _split(s, t)
    s.admin("PUT", f"/admin/v2/namespaces/{ns}/unload")
    s.look_up(g)
    p.producer(g, id=2)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(10)
    s.wait(0.6)


def force_topic_creation_of_a_missing_segment(s):
    """SUBSCRIBE with and without force_topic_creation on a segment that does not exist."""
    t = s.scalable(1)
    c = s.connect("c")
    name = s.segment(t, 0)[:-1] + "9"
    s.look_up(name)
    c.subscribe(name, force_topic_creation=True)
    c.subscribe(name, id=2, force_topic_creation=False)


def unsubscribe(s):
    """UNSUBSCRIBE on one segment; the subscription of the other stays."""
    t = s.scalable(2)
    c = s.connect("c")
    c.subscribe(s.segment(t, 0))
    c.subscribe(s.segment(t, 1), id=2)
    c.UNSUBSCRIBE(consumer_id=1)
    s.admin(
        "GET", s.path(t, "/stats"), show=["subscriptions.sub.segments.0", "subscriptions.sub.segments.1.msgBacklog"]
    )


def batches(s):
    """Batches with the smallest and largest hash of their messages."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    p.send("b0", batch=3, entry_hash_min=3, entry_hash_max=900, partition_key="a")
    c.subscribe(g, initialPosition="Earliest")
    c.flow(10)


def buckets_of_one_consumer(s):
    """One consumer by entry bucket gets every message."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    _share(c, g, *QUARTERS)
    c.flow(10)
    for i, bucket in enumerate((0, 20000, 40000, 60000)):
        p.send(f"m{i}", entry_hash_min=bucket, entry_hash_max=bucket)


def buckets_of_two_consumers(s):
    """Two consumers: the buckets are spread in the order of the names."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    _share(c, g, *QUARTERS)
    c.flow(10)
    _share(d, g, *QUARTERS)
    d.flow(10)
    for i, bucket in enumerate((0, 16383, 16384, 32767, 32768, 49151, 49152, 65535)):
        p.send(f"m{i}", entry_hash_min=bucket, entry_hash_max=bucket)


def buckets_of_three_consumers(s):
    """Four buckets over three consumers, and when the second leaves."""
    t = s.scalable(1)
    p, c, d, e = s.connect("p", "c", "d", "e")
    g = s.segment(t, 0)
    p.producer(g)
    for conn in c, d, e:
        _share(conn, g, *QUARTERS)
        conn.flow(20)
    for i, bucket in enumerate((0, 20000, 40000, 60000)):
        p.send(f"m{i}", entry_hash_min=bucket, entry_hash_max=bucket)
    d.CLOSE_CONSUMER(consumer_id=1)
    for i, bucket in enumerate((0, 20000, 40000, 60000)):
        p.send(f"n{i}", entry_hash_min=bucket, entry_hash_max=bucket)


def more_consumers_than_buckets(s):
    """Two buckets, three consumers: the third gets nothing."""
    t = s.scalable(2)
    p, c, d, e = s.connect("p", "c", "d", "e")
    g = s.segment(t, 0)
    p.producer(g)
    for conn in c, d, e:
        _share(conn, g, (0, 32767), (32768, 65535))
        conn.flow(20)
    for i, bucket in enumerate((0, 40000, 65535)):
        p.send(f"m{i}", entry_hash_min=bucket, entry_hash_max=bucket)


def bucket_of_the_key(s):
    """Without entry hashes the low 16 bits of the key's hash decide."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    _share(c, g, *QUARTERS)
    c.flow(20)
    _share(d, g, *QUARTERS)
    d.flow(20)
    for i in range(8):
        p.send(f"m{i}", partition_key=f"k{i}")


def bucket_without_a_key(s):
    """Neither entry hashes nor a key; and an ordering key."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    _share(c, g, *QUARTERS)
    c.flow(20)
    _share(d, g, *QUARTERS)
    d.flow(20)
    p.send("m0", "m1")
    for i in range(4):
        p.send(f"o{i}", ordering_key=f"k{i}".encode())


def entry_over_two_buckets(s):
    """An entry whose hashes are in two buckets goes by its smallest."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    _share(c, g, *QUARTERS)
    c.flow(20)
    _share(d, g, *QUARTERS)
    d.flow(20)
    p.send("m0", entry_hash_min=10, entry_hash_max=60000)
    p.send("m1", entry_hash_min=40000, entry_hash_max=60000)


def bucket_of_a_joining_consumer(s):
    """A holds messages and B joins: buckets with pending messages wait until A has acknowledged."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    _share(c, g, *QUARTERS)
    c.flow(20)
    ids = [p.send(f"m{i}", entry_hash_min=h, entry_hash_max=h)[0] for i, h in enumerate((0, 20000, 40000, 60000))]
    _share(d, g, *QUARTERS)
    d.flow(20)
    for i, bucket in enumerate((0, 20000, 40000, 60000)):
        p.send(f"n{i}", entry_hash_min=bucket, entry_hash_max=bucket)
    c.ack(ids[2])
    c.ack(ids[3])
    c.ack(ids[0], ids[1])


def bucket_of_a_leaving_consumer(s):
    """The unacknowledged messages of a consumer that leaves go to the other."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    _share(c, g, *QUARTERS)
    c.flow(20)
    _share(d, g, *QUARTERS)
    d.flow(20)
    for i, bucket in enumerate((0, 20000, 40000, 60000)):
        p.send(f"m{i}", entry_hash_min=bucket, entry_hash_max=bucket)
    c.close(reset=True)


def bucket_without_permits(s):
    """A consumer without permits holds back its own buckets only."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    _share(c, g, *QUARTERS)
    _share(d, g, *QUARTERS)
    d.flow(20)
    for i, bucket in enumerate((0, 40000, 20000, 60000)):
        p.send(f"m{i}", entry_hash_min=bucket, entry_hash_max=bucket)
    c.flow(1)
    c.flow(5)


def bucket_redelivery(s):
    """REDELIVER of a consumer by entry bucket."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    _share(c, g, *QUARTERS)
    c.flow(20)
    _share(d, g, *QUARTERS)
    d.flow(20)
    ids = [p.send(f"m{i}", entry_hash_min=h, entry_hash_max=h)[0] for i, h in enumerate((0, 20000, 40000))]
    c.redeliver(ids[1])


def ranges_that_do_not_tile(s):
    """Ranges with a gap, an overlap, a wrong start and a wrong end are refused."""
    t = s.scalable(1)
    c = s.connect("c")
    g = s.segment(t, 0)
    for i, ranges in enumerate(
        (
            [(0, 16383)],
            [(0, 100), (200, 65535)],
            [(0, 40000), (30000, 65535)],
            [(1, 65535)],
            [(0, 70000)],
            [(32768, 65535), (0, 32767)],
            [(0, 32767), (32768, 32767)],
            [(0, 65535)],
        )
    ):
        _share(c, g, *ranges, consumer=i + 1)


def no_ranges(s):
    """entry_bucket_dispatch without ranges."""
    t = s.scalable(1)
    c = s.connect("c")
    _share(c, s.segment(t, 0))


def auto_split_with_buckets(s):
    """entry_bucket_dispatch with AUTO_SPLIT."""
    t = s.scalable(1)
    c = s.connect("c")
    c.subscribe(
        s.segment(t, 0),
        type="Key_Shared",
        keySharedMeta={"keySharedMode": "AUTO_SPLIT", "entry_bucket_dispatch": True},
    )
    c.subscribe(
        s.segment(t, 0),
        id=2,
        type="Key_Shared",
        keySharedMeta=_buckets(*QUARTERS, keySharedMode="AUTO_SPLIT"),
    )


def buckets_out_of_order(s):
    """entry_bucket_dispatch with allowOutOfOrderDelivery."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    _share(c, g, *QUARTERS, allowOutOfOrderDelivery=True)
    c.flow(5)
    _share(d, g, *QUARTERS)
    p.send("m0", entry_hash_min=0, entry_hash_max=0)


def different_buckets(s):
    """A second consumer with other buckets than the first."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    g = s.segment(t, 0)
    _share(c, g, *QUARTERS)
    _share(d, g, (0, 32767), (32768, 65535))


def buckets_that_are_not_those_of_the_segment(s):
    """Ranges that tile the ring but are not the buckets of the segment."""
    t = s.scalable(1)
    c = s.connect("c")
    _share(c, s.segment(t, 0), (0, 100), (101, 65535))


def buckets_and_plain_key_shared(s):
    """With and without entry_bucket_dispatch on one subscription, both ways round."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    _share(c, s.segment(t, 0), *QUARTERS)
    d.subscribe(s.segment(t, 0), type="Key_Shared")
    d.subscribe(s.segment(t, 1), id=2, type="Key_Shared")
    _share(c, s.segment(t, 1), *QUARTERS, consumer=2)


def buckets_and_other_types(s):
    """Exclusive and Shared consumers beside one by entry bucket."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    g = s.segment(t, 0)
    _share(c, g, *QUARTERS)
    for i, kind in enumerate(("Exclusive", "Shared", "Failover")):
        d.subscribe(g, id=i + 1, type=kind)


def buckets_after_exclusive(s):
    """An Exclusive consumer holds the segment; when it leaves, the subscription is by entry bucket."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    g = s.segment(t, 0)
    c.subscribe(g)
    _share(d, g, *QUARTERS)
    c.CLOSE_CONSUMER(consumer_id=1)
    _share(d, g, *QUARTERS, consumer=2)
    d.CLOSE_CONSUMER(consumer_id=2)
    c.subscribe(g, id=2)


def buckets_on_a_classic_topic(s):
    """entry_bucket_dispatch on a classic topic."""
    t = s.topic()
    p, c, d = s.connect("p", "c", "d")
    p.producer(t)
    _share(c, t, *QUARTERS)
    c.flow(10)
    _share(d, t, *QUARTERS)
    d.flow(10)
    for i, bucket in enumerate((0, 20000, 40000, 60000)):
        p.send(f"m{i}", entry_hash_min=bucket, entry_hash_max=bucket)


def buckets_with_other_types(s):
    """keySharedMeta by entry bucket on an Exclusive and a Shared consumer is ignored."""
    t = s.scalable(2)
    c = s.connect("c")
    c.subscribe(s.segment(t, 0), keySharedMeta=_buckets((0, 5)))
    c.subscribe(s.segment(t, 1), id=2, type="Shared", keySharedMeta=_buckets((0, 5)))


def sticky_without_buckets(s):
    """Key_Shared STICKY without entry_bucket_dispatch, on a segment."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    ranges = {"start": 0, "end": 32767}, {"start": 32768, "end": 65535}
    for conn, part in zip((c, d), ranges, strict=True):
        conn.subscribe(g, type="Key_Shared", keySharedMeta={"keySharedMode": "STICKY", "hashRanges": [part]})
        conn.flow(10)
    for i in range(4):
        p.send(f"m{i}", partition_key=f"k{i}", entry_hash_min=0, entry_hash_max=0)


def key_shared_without_buckets(s):
    """Key_Shared AUTO_SPLIT on a segment goes by the key, not by the entry hashes."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    for conn in c, d:
        conn.subscribe(g, type="Key_Shared")
        conn.flow(10)
    for i in range(6):
        p.send(f"m{i}", partition_key=f"k{i}", entry_hash_min=0, entry_hash_max=0)


def bucket_split(s):
    """A split under two consumers by entry bucket: the end of the topic for both."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    _share(c, g, *QUARTERS)
    c.flow(10)
    _share(d, g, *QUARTERS)
    d.flow(10)
    ids = [p.send(f"m{i}", entry_hash_min=h, entry_hash_max=h)[0] for i, h in enumerate((0, 60000))]
    _split(s, t)
    s.wait(0.6)
    c.ack(ids[0])
    d.ack(ids[1])
    s.wait(0.6)


def subscription_of_a_consumer_and_a_controller(s):
    """The same when a controller was elected before: no copy of a plain subscription either."""
    t = s.scalable(1)
    s.admin("GET", s.path(t, "/stats"))
    c = s.connect("c")
    c.subscribe(s.segment(t, 0), type="Shared", initialPosition="Earliest")
    _split(s, t)
    s.admin("GET", s.path(t, "/segments/1/stats"), show=["subscriptions"])


def subscription_copied_with_a_stream_consumer(s):
    """The subscription of a registered stream consumer, with and without its consumers on the segments."""
    t = s.scalable(2)
    c = s.connect("c")
    c.join(t)
    c.subscribe(s.segment(t, 0), name="c-seg-0", initialPosition="Earliest")
    _split(s, t)
    _split(s, t, 1)
    s.wait(2.5)
    for number in range(2, 6):
        s.admin("GET", s.path(t, f"/segments/{number}/stats"), show=["subscriptions.sub.type"])


def subscription_copied_after_its_consumer_left(s):
    """The subscription of a stream consumer that has left."""
    t = s.scalable(1)
    c = s.connect("c")
    c.join(t)
    c.subscribe(s.segment(t, 0), name="c-seg-0", initialPosition="Earliest")
    c.CLOSE_CONSUMER(consumer_id=1)
    c.leave()
    _split(s, t)
    s.admin("GET", s.path(t, "/segments/1/stats"), show=["subscriptions.sub.type"])


def subscription_by_rest_copied(s):
    """A subscription made over REST is copied at a split, a merge and a rebucket."""
    t = s.scalable(1)
    s.admin("PUT", s.path(t, "/subscriptions/sub?type=QUEUE"))
    _split(s, t)
    s.admin("POST", s.path(t, "/merge/1/2"))
    s.admin("POST", s.path(t, "/rebucket/3?bucketCount=2"))
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.sub.segments.4.msgBacklog", "subscriptions.sub.type"])
    s.admin("GET", s.path(t, "/segments/4/stats"), show=["subscriptions.sub.type"])


def last_message_id_of_new_messages(s):
    """GET_LAST_MESSAGE_ID before and after further messages: the first answer is given again."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    p.send("m0", "m1")
    c.subscribe(g, initialPosition="Earliest")
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    p.send("m2")
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    c.flow(10)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
