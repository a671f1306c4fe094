"""Differences that generated plans found (tests/scenarios)."""

STATS = "/stats"
INTERNAL = "/internalStats"


def _sender(s, topic, *names):
    """Return the connections of a producer, which is created here, and of consumers."""
    p, *consumers = s.connect("p", *names)
    p.producer(topic)
    return p, *consumers


def seek_of_a_reader_and_a_durable_subscription(s):
    """A SEEK removes the subscription of a reader. A durable subscription of this name gets its cursor."""
    t = s.topic()
    p, c, d = _sender(s, t, "c", "d")
    p.send("m0", "m1")
    c.subscribe(t, durable=False, start_message_id=(2**64 - 1, 2**64 - 1))
    c.SEEK(consumer_id=1, message_id=(2**64 - 1, 2**64 - 1))
    s.admin("GET", s.path(t, "/subscriptions"), show=[""])
    s.admin("DELETE", s.path(t, "/subscription/sub"))
    d.subscribe(t)
    d.flow(10)
    s.admin("GET", s.path(t, STATS), show=["subscriptions.sub.isDurable"])


def end_of_topic_and_a_pending_read(s):
    """A consumer with permits has a pending read when the topic is terminated: another FLOW reports no second end."""
    t = s.topic()
    c, d = s.connect("c", "d")
    c.subscribe(t)
    d.subscribe(t, sub="shared", type="Shared")
    c.flow(3)
    d.flow(3)
    s.admin("POST", s.path(t, "/terminate"))
    c.flow(2)
    d.flow(2)


def terminate_after_unload(s):
    """The last ledger of the topic is empty: terminate answers with entry -1."""
    t = s.topic()
    (p,) = _sender(s, t)
    p.send("m0", "m1")
    s.admin("PUT", s.path(t, "/unload"))
    s.admin("POST", s.path(t, "/terminate"), show=["entryId"])


def terminate_a_partition(s):
    """The message id of the last message of a partition contains no partition."""
    t = s.topic(lookup=False)
    s.admin("PUT", s.path(t, "/partitions"), 2)
    part = t + "-partition-0"
    s.look_up(part)
    (p,) = _sender(s, part)
    p.send("m0")
    s.admin("POST", s.path(part, "/terminate"), show=["entryId", "partitionIndex"])


def permits_of_a_non_persistent_topic(s):
    """A batch that exceeds the permits of one consumer uses the permits of the others, until the consumer leaves."""
    t = s.topic(domain="non-persistent")
    s.raw_ids = True
    p, c, d = _sender(s, t, "c", "d")
    c.subscribe(t, type="Shared", priority_level=1)
    c.flow(4)
    d.subscribe(t, type="Shared")
    d.flow(1)
    for n in range(4):
        p.send(f"b{n}", batch=3)
    d.CLOSE_CONSUMER(consumer_id=1)
    p.send("m0")
    p.send("m1")


def order_of_consumers(s):
    """Statistics list the consumers of Failover by priority level and name."""
    t = s.topic(ring=[("c", "c"), ("a", "a", "c")])
    c, d, e = s.connect("c", "d", "e")
    c.subscribe(t, type="Failover", name="b", priority_level=1)
    s.wait(1.5)
    d.subscribe(t, type="Failover", name="c")
    s.wait(1.5)
    e.subscribe(t, type="Failover", name="a")
    s.wait(1.5)
    s.admin("GET", s.path(t, STATS), show=[f"subscriptions.sub.consumers.{n}.consumerName" for n in range(3)])


def counters_of_removed_subscriptions(s):
    """The counters of a topic include subscriptions that were removed."""
    t = s.topic()
    p, c = _sender(s, t, "c")
    c.subscribe(t)
    c.flow(10)
    p.send("m0", "m1")
    s.admin("DELETE", s.path(t, "/subscription/sub?force=true"))
    s.admin("GET", s.path(t, STATS), show=["msgOutCounter", "bytesOutCounter"])


def non_persistent_statistics(s):
    """A non-persistent subscription reports no active consumer, Key_Shared mode or ranges, and counts entries."""
    t = s.topic(domain="non-persistent")
    p, c, d = _sender(s, t, "c", "d")
    c.subscribe(t)
    c.flow(10)
    d.subscribe(t, sub="keys", type="Key_Shared")
    d.flow(10)
    p.send("b", batch=3)
    paths = ["activeConsumerName", "keySharedMode", "lastConsumedFlowTimestamp", "lastConsumedTimestamp"]
    paths += ["consumers.0.keyHashRangeArrays", "consumers.0.drainingHashes"]
    s.admin("GET", s.path(t, STATS), show=[f"subscriptions.{sub}.{path}" for sub in ("sub", "keys") for path in paths])
    s.admin("GET", s.path(t, INTERNAL), show=["entriesAddedCounter"])


def non_persistent_operations(s):
    """Operations that a non-persistent topic does not have: the statuses, with and without the subscription."""
    t = s.topic(domain="non-persistent")
    c = s.connect("c")
    c.subscribe(t)
    for sub in ("sub", "other"):
        for path in ("skip_all", "expireMessages/30", "resetcursor"):
            body = {"ledgerId": 0, "entryId": 0} if path == "resetcursor" else None
            s.admin("POST", s.path(t, f"/subscription/{sub}/{path}"), body)
    s.admin("DELETE", s.path(t), show=["reason"])


def delete_with_one_client(s):
    """The reason contains the number of clients."""
    t = s.topic()
    _p, c = _sender(s, t, "c")
    s.admin("DELETE", s.path(t), show=["reason"])
    c.subscribe(t)
    s.admin("DELETE", s.path(t), show=["reason"])


def last_message_id_of_a_batch(s):
    """The id of a message in a batch has more properties than other ids."""
    t = s.topic()
    (p,) = _sender(s, t)
    shown = ["entryId", "batchIndex", "batchSize", "originalBatchSize", "outstandingAcksInSameBatch"]
    p.send("m0")
    s.admin("GET", s.path(t, "/lastMessageId"), show=shown)
    p.send("b", batch=3)
    s.admin("GET", s.path(t, "/lastMessageId"), show=shown)


def cursor_states(s):
    """A cursor is open after its first change and closed after an unload; a reader's cursor is always open."""
    t = s.topic()
    p, c, d, e = _sender(s, t, "c", "d", "e")
    ids = p.send("m0", "m1")
    c.subscribe(t, sub="late", initialPosition="Latest")
    d.subscribe(t, type="Shared", initialPosition="Earliest")
    d.flow(10)
    e.subscribe(t, sub="reader", durable=False)
    shown = [f"cursors.{sub}.state" for sub in ("late", "sub", "reader")]
    s.admin("GET", s.path(t, INTERNAL), show=shown)
    d.ack(ids[1])
    s.wait(0.3)
    s.admin("GET", s.path(t, INTERNAL), show=shown)
    s.admin("PUT", s.path(t, "/unload"))
    s.admin("GET", s.path(t, INTERNAL), show=shown)


def epoch_in_properties(s):
    """An exclusive producer stores the topic epoch in the properties of the ledger."""
    t = s.topic()
    p = s.connect("p")
    p.producer(t, producer_access_mode="Exclusive")
    s.admin("GET", s.path(t, INTERNAL), show=["properties"])


def last_flow(s):
    """The time of the last FLOW remains when the consumer leaves."""
    t = s.topic()
    c = s.connect("c")
    c.subscribe(t)
    c.CLOSE_CONSUMER(consumer_id=1)
    s.admin("GET", s.path(t, STATS), show=["subscriptions.sub.lastConsumedFlowTimestamp"])


def cumulative_on_shared_and_last_ack(s):
    """A cumulative ACK on Shared and an ACK on a non-persistent topic have no effect but are the last ACK."""
    for domain in ("persistent", "non-persistent"):
        t = s.topic(domain[0], domain=domain)
        p, c = s.connect("p" + domain[0], "c" + domain[0])
        p.producer(t)
        c.subscribe(t, type="Shared")
        c.flow(10)
        p.send("m0")
        c.ack(c.received()[0], cumulative=True)
        stats = s.http("GET", s.path(t, STATS))[1]["subscriptions"]["sub"]["consumers"][0]
        s.did(("", f"acknowledged: {stats['lastAckedTimestamp'] > 0}"))
        s.settle()


def cumulative_before_a_ledger(s):
    """A cumulative ACK of the entry id -1 acknowledges the entries of the ledgers before it."""
    t = s.topic()
    p, c, q, d = _sender(s, t, "c", "q", "d")
    c.subscribe(t)
    p.send("m0", "m1")
    s.admin("PUT", s.path(t, "/unload"))
    s.wait(1)
    s.look_up(t)
    q.producer(t, id=2)
    (first,) = q.send("m2", id=2)
    d.subscribe(t, id=2)
    d.flow(10, id=2)
    d.ack((first.ledgerId, 2**64 - 1), id=2, cumulative=True)
    s.admin("GET", s.path(t, STATS), show=["subscriptions.sub.msgBacklog"])
    d.GET_LAST_MESSAGE_ID(consumer_id=2)


def terminate_twice(s):
    """The second call repeats REACHED_END_OF_TOPIC."""
    t = s.topic()
    c = s.connect("c")
    c.subscribe(t)
    c.flow(1)
    s.admin("POST", s.path(t, "/terminate"))
    s.admin("POST", s.path(t, "/terminate"))


def unacked_limit_of_a_reader(s):
    """The limit of a subscription also applies to a non-durable subscription, but the limit of a consumer does not."""
    ns = s.namespace(maxUnackedMessagesPerSubscription=4)
    t = s.topic(ns=ns)
    p, c = _sender(s, t, "c")
    c.subscribe(t, type="Shared", durable=False)
    c.flow(1000)
    for n in range(4):
        p.send(f"b{n}", batch=3)


def delete_of_a_non_persistent_subscription(s):
    """Without force, a subscription of a non-persistent topic is deleted although it has a consumer."""
    t = s.topic(domain="non-persistent")
    c = s.connect("c")
    c.subscribe(t)
    s.admin("DELETE", s.path(t, "/subscription/sub"))
    s.admin("GET", s.path(t, "/subscriptions"), show=[""])


def peek_creates_a_subscription(s):
    """Peeking at a message creates the subscription at the first message."""
    t = s.topic()
    (p,) = _sender(s, t)
    p.send("m0", "m1")
    s.admin("GET", s.path(t, "/subscription/new/position/2"))
    s.admin("GET", s.path(t, "/subscription/new/position/3"))
    s.admin("GET", s.path(t, "/subscriptions"), show=[""])


def non_persistent_topic_without_clients(s):
    """Queries about a non-persistent topic that is not loaded."""
    t = s.topic(domain="non-persistent")
    for path in ("/lastMessageId", "/internalStats", "/stats", "/subscription/sub/position/1", "/subscriptions"):
        s.admin("GET", s.path(t, path), show=["reason"])


def counters_of_duplicates(s):
    """Deduplication drops the second message, but both are counted."""
    ns = s.namespace(deduplication=True)
    t = s.topic(ns=ns)
    (p,) = _sender(s, t)
    p.send("m0")
    p.send("m1", seq=0)
    s.admin("GET", s.path(t, STATS), show=["msgInCounter", "bytesInCounter", "storageSize"])


def read_position_after_seek(s):
    """A seek to the first message moves the read position before the first entry, until the next read."""
    t = s.topic()
    p, c = _sender(s, t, "c")
    ids = p.send("m0", "m1")
    shown = ["cursors.sub.numberOfEntriesSinceFirstNotAckedMessage"]
    for place in ((2**64 - 1, 2**64 - 1), ids[0]):
        c.subscribe(t, type="Shared")
        c.SEEK(consumer_id=1, message_id=place)
        s.admin("GET", s.path(t, INTERNAL), show=shown)


def cursor_of_a_reader_after_seek(s):
    """The ledger keeps the cursor of a reader after a SEEK, without a subscription."""
    t = s.topic()
    c = s.connect("c")
    c.subscribe(t, durable=False)
    c.SEEK(consumer_id=1, message_id=(2**64 - 1, 2**64 - 1))
    s.admin("GET", s.path(t, INTERNAL), show=["cursors.sub.state", "cursors.sub.active"])


def unload_and_a_cursor_at_the_end(s):
    """An unload moves a cursor at the end of the topic to the new ledger; the old ledger is then deleted."""
    t = s.topic()
    p, c, d = _sender(s, t, "c", "d")
    p.send("m0", "m1")
    c.subscribe(t, initialPosition="Latest")
    s.admin("PUT", s.path(t, "/unload"))
    s.wait(1)
    d.subscribe(t, sub="new", initialPosition="Earliest")
    d.flow(10)


def unload_and_a_cursor_at_the_start(s):
    """Without a cursor at its end, the ledger remains."""
    t = s.topic()
    p, c = _sender(s, t, "c")
    p.send("m0", "m1")
    c.subscribe(t, initialPosition="Earliest")
    s.admin("PUT", s.path(t, "/unload"))
    s.wait(1)
    c.subscribe(t, sub="new", id=2, initialPosition="Earliest")
    c.flow(10, id=2)


def skip_all_of_nothing(s):
    """Clearing an empty backlog opens the cursor ledger."""
    t = s.topic()
    c = s.connect("c")
    c.subscribe(t)
    s.admin("POST", s.path(t, "/subscription/sub/skip_all"))
    s.admin("GET", s.path(t, INTERNAL), show=["cursors.sub.state"])


def partitioned_statistics(s):
    """Consumers of two partitions are added to one list, and the type is that of the last partition."""
    t = s.topic(lookup=False)
    s.admin("PUT", s.path(t, "/partitions"), 2)
    first, second = (f"{t}-partition-{n}" for n in range(2))
    s.look_up(first, second)
    c, d, e = s.connect("c", "d", "e")
    c.subscribe(first, type="Shared")
    d.subscribe(second, type="Key_Shared")
    e.subscribe(second, type="Key_Shared")
    names = [f"consumers.{n}.consumerName" for n in range(3)]
    shown = [f"subscriptions.sub.{path}" for path in ("type", *names)]
    s.admin("GET", s.path(t, "/partitioned-stats"), show=shown)


def merged_consumers(s):
    """Consumers at the same position of two partitions are merged: the name is the last one, and times are zero."""
    ns = s.namespace(maxUnackedMessagesPerSubscription=1)
    t = s.topic(ns=ns, lookup=False)
    s.admin("PUT", s.path(t, "/partitions"), 2)
    first, second = (f"{t}-partition-{n}" for n in range(2))
    s.look_up(first, second)
    p, c, d = s.connect("p", "c", "d")
    p.producer(first)
    c.subscribe(first, type="Shared", name="a")
    d.subscribe(second, type="Shared", name="b")
    c.flow(10)
    p.send("m0")
    s.admin("POST", s.path(first, "/subscription/sub/expireMessages/30"))
    shown = ["blockedSubscriptionOnUnackedMsgs", "durable", "lastExpireTimestamp", "lastConsumedFlowTimestamp"]
    shown += ["consumers.0.consumerName", "consumers.0.availablePermits", "consumers.0.lastConsumedTimestamp"]
    s.admin("GET", s.path(t, "/partitioned-stats"), show=[f"subscriptions.sub.{path}" for path in shown])


def counters_after_unload(s):
    """An unload resets the counters, times and type of a subscription."""
    t = s.topic()
    p, c = _sender(s, t, "c")
    c.subscribe(t)
    c.flow(10)
    ids = p.send("m0", "m1")
    c.ack(ids[0])
    s.wait(1.1)
    s.admin("POST", s.path(t, "/subscription/sub/expireMessages/1"))
    counters = ["bytesOutCounter", "msgOutCounter"]
    times = ["lastExpireTimestamp", "lastConsumedFlowTimestamp", "lastAckedTimestamp"]
    shown = [f"subscriptions.sub.{path}" for path in (*counters, "type", "totalMsgExpired", *times)]
    s.admin("PUT", s.path(t, "/unload"))
    s.admin("GET", s.path(t, STATS), show=[*shown, *counters])
    s.look_up(t)
    c.subscribe(t, id=2)
    s.admin("GET", s.path(t, STATS), show=[*shown, *counters])


def second_seek_of_an_inactive_consumer(s):
    """A SEEK closes the active consumer of Failover. A second SEEK closes it again, because no other one is active.

    Its id can then be that of a new consumer.
    """
    t = s.topic(ring=[("a", "a"), ("b", "b")])
    c, d = s.connect("c", "d")
    c.subscribe(t, type="Failover", name="a", priority_level=1)
    s.wait(1.5)
    d.subscribe(t, type="Failover", name="b")
    s.wait(1.5)
    c.SEEK(consumer_id=1, message_id=(2**64 - 1, 2**64 - 1))
    c.SEEK(consumer_id=1, message_id=(2**64 - 1, 2**64 - 1))
    d.subscribe(t, sub="other")
    c.SEEK(consumer_id=1, message_id=(2**64 - 1, 2**64 - 1))
    d.CONSUMER_STATS(consumer_id=1)


def partition_in_expiry(s):
    """The partition in the body of an expiry must be that of the topic."""
    t = s.topic(lookup=False)
    s.admin("PUT", s.path(t, "/partitions"), 1)
    s.admin("POST", s.path(t, "-partition-0/subscription/sub/expireMessages"), {"ledgerId": 1, "entryId": 1})


def refused_subscription_type(s):
    """The properties of a topic include its epoch, and an error names the type that is not enabled."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t, producer_access_mode="Exclusive")
    s.admin("GET", s.path(t, "/properties"), show=[""])
    s.policy(t, "subscriptionTypesEnabled", ["Shared"])
    c.subscribe(t, type="Key_Shared")


def compaction_of_a_non_persistent_topic(s):
    """The status of a compaction does not exist."""
    t = s.topic(domain="non-persistent")
    c = s.connect("c")
    c.subscribe(t)
    s.admin("GET", s.path(t, "/compaction"))
    s.admin("GET", s.path(t, "/examinemessage?initialPosition=earliest&messagePosition=1"))
    s.admin("POST", s.path(t, "/subscription/sub/skip/1"))


def slices_of_batches(s):
    """The size of a slice follows from the average size of the entries read, rounded down: nine entries at once."""
    t = s.topic()
    p, c = _sender(s, t, "c")
    for n in range(3):
        p.send(f"b{n}", batch=3)
    p.send(*[f"m{n}" for n in range(6)])
    c.subscribe(t, type="Shared", initialPosition="Earliest")
    c.flow(10)


def unsorted_priorities(s):
    """On a non-persistent topic the consumers are not sorted: the round robin stops at the second one."""
    t = s.topic(domain="non-persistent")
    p, c, d = _sender(s, t, "c", "d")
    c.subscribe(t, type="Shared", priority_level=1)
    c.flow(1000)
    d.subscribe(t, type="Shared")
    for n in range(3):
        p.send(f"m{n}")


def end_of_topic_and_a_second_consumer(s):
    """A pending read also prevents a second end when a consumer joins a Key_Shared subscription."""
    t = s.topic()
    c, d = s.connect("c", "d")
    c.subscribe(t, type="Key_Shared")
    c.flow(100)
    s.admin("POST", s.path(t, "/terminate"))
    d.subscribe(t, type="Key_Shared")


def end_of_topic_and_redelivery(s):
    """A redelivery of Exclusive reads again, and reports the end again."""
    t = s.topic()
    c, d = s.connect("c", "d")
    c.subscribe(t, sub="before")
    s.admin("POST", s.path(t, "/terminate"))
    d.subscribe(t)
    d.flow(10)
    d.redeliver()


def positions_of_a_non_persistent_topic(s):
    """Expiry by position and analysis of the backlog fail."""
    t = s.topic(domain="non-persistent")
    c = s.connect("c")
    c.subscribe(t)
    s.admin("POST", s.path(t, "/subscription/sub/expireMessages"), {"ledgerId": 1, "entryId": 1})
    s.admin("POST", s.path(t, "/subscription/sub/analyzeBacklog"))
    s.admin("POST", s.path(t, "/subscription/other/analyzeBacklog"))


def subscription_types_of_a_non_persistent_topic(s):
    """The policy for subscription types applies only to persistent topics."""
    ns = s.namespace(subscriptionTypesEnabled=["Shared"])
    for number, domain in enumerate(("persistent", "non-persistent")):
        t = s.topic(f"t{number}", ns=ns, domain=domain)
        c = s.connect(f"c{number}")
        c.subscribe(t, type="Key_Shared")


def positions_in_a_backlog(s):
    """An analysis of a backlog reports the first and last message, if there are any."""
    t = s.topic()
    p, c = _sender(s, t, "c")
    c.subscribe(t)
    shown = ["firstMessageId", "lastMessageId"]
    before = s.admin("POST", s.path(t, "/subscription/sub/analyzeBacklog"), show=shown)
    p.send("m0", "m1", "m2")
    after = s.http("POST", s.path(t, "/subscription/sub/analyzeBacklog"))[1]
    entries = [str(after[name]).rpartition(":")[2] for name in shown]
    s.did(("", f"{sorted(set(shown) & set(before))} {entries}"))
    s.settle()
