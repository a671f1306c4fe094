"""Acknowledgements and delivery that differ between versions of Pulsar."""

STATS = "/stats"
UNACKED = ["subscriptions.sub.unackedMessages", "subscriptions.sub.msgBacklog"]
UNACKED += [f"subscriptions.sub.consumers.0.{name}" for name in ("unackedMessages", "availablePermits")]


def _part(message_id, bits, size):
    return {"ledgerId": message_id.ledgerId, "entryId": message_id.entryId, "ack_set": [bits], "batch_size": size}


def _after(message_id, entries):
    return {"ledgerId": message_id.ledgerId, "entryId": message_id.entryId + entries}


def _stage(s, kind, **batch):
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    c.subscribe(t, type=kind)
    ids = p.send("m0", "m1", "m2", "m3", **batch)
    c.flow(100)
    return t, p, c, ids


def _ack_set_over_an_unload(s, kind):
    t, _p, c, ids = _stage(s, kind, batch=3)
    c.ack(_part(ids[1], 0b110, 3))
    s.admin("PUT", s.path(t, "/unload"))
    c = s.connect("c2")
    c.subscribe(t, type=kind)
    c.flow(5)
    s.admin("GET", s.path(t, STATS), show=UNACKED)


def ack_set_over_an_unload_shared(s):
    """Acknowledged messages of a batch, after an unload of a Shared subscription."""
    _ack_set_over_an_unload(s, "Shared")


def ack_set_over_an_unload_key_shared(s):
    """The same on Key_Shared."""
    _ack_set_over_an_unload(s, "Key_Shared")


def ack_set_over_an_unload_exclusive(s):
    """The same on Exclusive."""
    _ack_set_over_an_unload(s, "Exclusive")


def cumulative_ack_set_over_an_unload(s):
    """The same after a cumulative acknowledgement."""
    t, _p, c, ids = _stage(s, "Exclusive", batch=3)
    c.ack(_part(ids[1], 0b110, 3), cumulative=True)
    s.admin("PUT", s.path(t, "/unload"))
    c = s.connect("c2")
    c.subscribe(t)
    c.flow(5)


def part_of_a_batch_at_the_mark_delete_position(s):
    """The cumulative acknowledgement of a part of a batch concerns the entry before the batch."""
    _t, _p, c, ids = _stage(s, "Exclusive", batch=3)
    c.ack(ids[2], cumulative=True)
    c.ack(_part(ids[3], 0b110, 3), cumulative=True)
    c.ack(_part(ids[2], 0b110, 3), cumulative=True)
    c.ack(_part(ids[1], 0b110, 3), cumulative=True)
    c.ack(_part(ids[0], 0b110, 3), cumulative=True)


def pending_acks_before_a_position_after_the_end(s):
    """A good id before one after the end, and one after it: what remains unacknowledged."""
    t, _p, c, ids = _stage(s, "Shared")
    c.ack(ids[0], _after(ids[3], 1), ids[1])
    s.admin("GET", s.path(t, STATS), show=UNACKED)
    c.ack(ids[0])
    s.admin("GET", s.path(t, STATS), show=UNACKED)
    c.ack(_after(ids[3], 1), request=False)
    c.ack(ids[1], _after(ids[3], 1), request=False)
    s.admin("GET", s.path(t, STATS), show=UNACKED)
    c.redeliver()


def parts_of_batches_before_a_position_after_the_end(s):
    """The same with acknowledged messages of batches."""
    t, _p, c, ids = _stage(s, "Shared", batch=3)
    c.ack(_part(ids[0], 0b110, 3), _after(ids[3], 1))
    s.admin("GET", s.path(t, STATS), show=UNACKED)
    c.ack(_part(ids[0], 0b100, 3))
    s.admin("GET", s.path(t, STATS), show=UNACKED)
    c.redeliver()


def parts_of_batches_after_a_position_after_the_end(s):
    """The same if the acknowledged messages follow the position."""
    t, _p, c, ids = _stage(s, "Shared", batch=3)
    c.ack(_after(ids[3], 1), _part(ids[0], 0b110, 3), _part(ids[1], 0, 3))
    s.admin("GET", s.path(t, STATS), show=UNACKED)
    c.ack(_part(ids[0], 0b100, 3))
    s.admin("GET", s.path(t, STATS), show=UNACKED)
    c.redeliver()


def _waiting_entry(s, kind):
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    c.subscribe(t, type=kind)
    ids = p.send("m0", "m1", "m2")
    c.flow(2)
    c.redeliver(ids[0])
    c.ack(_after(ids[2], 1), ids[0])
    c.flow(10)


def waiting_entry_after_a_position_after_the_end_shared(s):
    """The redelivery of an entry that waits for permits, after an ACK without effect."""
    _waiting_entry(s, "Shared")


def waiting_entry_after_a_position_after_the_end_key_shared(s):
    """The same on Key_Shared."""
    _waiting_entry(s, "Key_Shared")


def entry_without_pending_ack(s):
    """An entry without pending ack, after its consumer has left and after all consumers have left."""
    t, _p, c, ids = _stage(s, "Shared")
    d = s.connect("d")
    d.subscribe(t, type="Shared")
    d.flow(100)
    c.ack(_after(ids[3], 1), ids[1])
    c.CLOSE_CONSUMER(consumer_id=1)
    d.CLOSE_CONSUMER(consumer_id=1)
    e = s.connect("e")
    e.subscribe(t, type="Shared")
    e.flow(100)


def two_due_messages_before_an_ordinary_one(s):
    """Messages with a delivery time that has passed are read together with an ordinary one."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    c.subscribe(t, type="Shared")
    p.send("due1", deliver_at_time=1)
    p.send("due2", deliver_at_time=1)
    p.send("plain")
    c.flow(100)
    p.send("due3", deliver_at_time=1)


def due_messages_on_key_shared(s):
    """The same on Key_Shared."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    c.subscribe(t, type="Key_Shared")
    p.send("due1", deliver_at_time=1, partition_key="k")
    p.send("plain1", partition_key="k")
    p.send("plain2", partition_key="other")
    c.flow(100)


def failover_partitions_of_a_non_persistent_topic(s):
    """ACTIVE_CONSUMER_CHANGE of the first, second and third consumer, and after the first has left."""
    t = s.topic(domain="non-persistent")
    a, b, c = s.connect("a", "b", "c")
    a.subscribe(t, type="Failover", name="name-a")
    b.subscribe(t, type="Failover", name="name-b")
    c.subscribe(t, type="Failover", name="name-c", priority_level=0)
    a.CLOSE_CONSUMER(consumer_id=1)
    b.UNSUBSCRIBE(consumer_id=1)


def exclusive_non_persistent(s):
    """An Exclusive consumer of a non-persistent topic gets no ACTIVE_CONSUMER_CHANGE."""
    t = s.topic(domain="non-persistent")
    a = s.connect("a")
    a.subscribe(t)
