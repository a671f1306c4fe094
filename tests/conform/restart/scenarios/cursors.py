"""Subscriptions after a restart of the broker."""

_BATCHES = (
    "A real broker that ends orderly loses the acknowledged messages of batches: it stores them, but does not read "
    "them (ManagedCursorImpl.recoverFromMetadata). pcli broker restores them."
)


def _stage(s, *names, kind="Shared", payloads=("m0", "m1", "m2", "m3", "m4"), batch=0, **fields):
    """Return a topic, a producer, a consumer that has received all messages, their ids, and other connections."""
    t = s.topic()
    p, c, *others = s.connect("p", "c", *names)
    p.producer(t)
    c.subscribe(t, type=kind, **fields)
    if kind == "Failover":
        s.wait(2)
    ids = p.send(*payloads, batch=batch)
    s.receive(c, len(payloads))
    return t, p, c, ids, *others


def _after(s, t, *names):
    """Look up a topic after a restart, and return new connections."""
    s.look_up(t)
    return s.connect(*names)


def individual(s):
    """Individual acknowledgements leave gaps."""
    t, _, c, ids = _stage(s)
    c.ack(ids[0], ids[2], ids[3])
    s.restart()
    c = _after(s, t, "c2")
    s.show(t, "/internalStats")
    c.subscribe(t, type="Shared")
    s.receive(c, 2)
    s.show(t, "/internalStats")
    s.show(t, "/stats")
    c.ack(ids[1], ids[4])
    s.restart()
    c = _after(s, t, "c3")
    c.subscribe(t, type="Shared")
    c.flow(100)
    s.show(t, "/internalStats")


def individual_across_ledgers(s):
    """Acknowledgements in two ledgers."""
    t, _, c, ids = _stage(s, payloads=("m0", "m1"))
    s.restart()
    p, c = _after(s, t, "p2", "c2")
    p.producer(t, name="p1")
    c.subscribe(t, type="Shared")
    ids += p.send("m2", "m3", producer_name="p1")
    s.receive(c, 4)
    c.ack(ids[1], ids[2])
    s.restart()
    c = _after(s, t, "c3")
    c.subscribe(t, type="Shared")
    s.receive(c, 2)
    s.show(t, "/internalStats")


def cumulative(s):
    """A cumulative acknowledgement with properties."""
    t, _, c, ids = _stage(s, kind="Exclusive")
    c.ack(ids[1], cumulative=True, properties=[{"key": "k", "value": 7}])
    s.restart()
    c = _after(s, t, "c2")
    s.show(t, "/internalStats")
    c.subscribe(t)
    s.receive(c, 3)
    s.show(t, "/internalStats")


def batch_index_behind_a_gap(s):
    """Acknowledged messages of a batch, which the cursor stores with an acknowledged entry, Key_Shared."""
    t, _, c, ids = _stage(s, kind="Key_Shared", payloads=("b0", "b1", "b2"), batch=70)
    part = {"ledgerId": ids[2].ledgerId, "entryId": ids[2].entryId, "ack_set": [0xFFFF, 0b11]}
    c.ack(part)
    s.wait(1.2)
    c.ack(ids[1])
    s.restart()
    c = _after(s, t, "c2")
    c.subscribe(t, type="Key_Shared")
    s.receive(c, 1)
    s.show(t, "/internalStats")


batch_index_behind_a_gap.not_compared = {"TERM": _BATCHES}


def batch_index_cumulative(s):
    """A cumulative acknowledgement in the middle of a batch."""
    t, _, c, ids = _stage(s, kind="Exclusive", payloads=("b0", "b1"), batch=3)
    part = {"ledgerId": ids[1].ledgerId, "entryId": ids[1].entryId, "ack_set": [0b100]}
    c.ack(part, cumulative=True)
    s.restart()
    c = _after(s, t, "c2")
    c.subscribe(t)
    s.receive(c, 1)
    s.show(t, "/internalStats")


batch_index_cumulative.not_compared = {"TERM": _BATCHES}


def redelivery_counts(s):
    """Redelivery counts start at 0."""
    t, _, c, ids = _stage(s)
    c.redeliver(ids[0], ids[1])
    s.receive(c, 7)
    c.redeliver(ids[0])
    s.receive(c, 8)
    s.restart()
    c = _after(s, t, "c2")
    c.subscribe(t, type="Shared")
    s.receive(c, 5)


def sought(s):
    """A position that a SEEK has set."""
    t, _, c, ids = _stage(s)
    c.ack(*ids)
    s.wait(1.2)
    c.SEEK(consumer_id=1, message_id={"ledgerId": ids[2].ledgerId, "entryId": ids[2].entryId})
    s.restart()
    c = _after(s, t, "c2")
    s.show(t, "/internalStats")
    c.subscribe(t, type="Shared")
    s.receive(c, 3)


def sought_to_the_start(s):
    """A SEEK to the earliest message."""
    t, _, c, ids = _stage(s, kind="Exclusive")
    c.ack(ids[2], cumulative=True)
    s.wait(1.2)
    c.SEEK(consumer_id=1, message_id={"ledgerId": 2**64 - 1, "entryId": 2**64 - 1})
    s.restart()
    c = _after(s, t, "c2")
    s.show(t, "/internalStats")
    c.subscribe(t)
    s.receive(c, 5)


def not_durable(s):
    """Readers leave nothing; the last message id and their start remain possible."""
    t, _, _, ids, r = _stage(s, "r")
    r.subscribe(t, "reader", durable=False, start_message_id=ids[1])
    s.receive(r, 4)
    s.restart()
    r = _after(s, t, "r2")
    s.admin("GET", s.path(t, "/subscriptions"), show=[""])
    r.subscribe(t, "reader", durable=False, start_message_id=ids[1])
    s.receive(r, 4)
    r.GET_LAST_MESSAGE_ID(consumer_id=1)


def types(s):
    """A subscription has no type after a restart; properties remain; key filters of a subscription too."""
    t = s.topic()
    c, d, e = s.connect("c", "d", "e")
    c.subscribe(t, type="Shared", subscription_properties=[{"key": "a", "value": "1"}])
    d.subscribe(t, "failing", type="Failover", replicate_subscription_state=True)
    e.subscribe(t, "keys", type="Key_Shared")
    s.wait(2)
    s.restart()
    c, d, e = _after(s, t, "c2", "d2", "e2")
    s.show(t, "/stats")
    s.show(t, "/internalStats")
    c.subscribe(t, type="Exclusive", subscription_properties=[{"key": "b", "value": "2"}])
    d.subscribe(t, "failing", type="Shared")
    s.show(t, "/stats")


def properties_changed(s):
    """Properties of a subscription that REST has changed, and an encoded name."""
    t = s.topic()
    c = s.connect("c")
    c.subscribe(t, "a/b c")
    s.admin("PUT", s.path(t, "/subscription/a%2Fb%20c/properties"), {"x": "1", "y": ""})
    s.restart()
    _after(s, t)
    s.admin("GET", s.path(t, "/subscriptions"), show=[""])
    s.admin("GET", s.path(t, "/subscription/a%2Fb%20c/properties"), show=[""])


def at_the_end(s):
    """A cursor at the end of the topic, and one at the start."""
    t, _, c, ids, d = _stage(s, "d", kind="Exclusive")
    d.subscribe(t, "start", initialPosition="Earliest")
    c.ack(ids[-1], cumulative=True)
    s.restart()
    s.look_up(t)
    s.show(t, "/internalStats")
    s.show(t, "/stats")
    s.restart()
    p, c = _after(s, t, "p3", "c3")
    s.show(t, "/internalStats")
    p.producer(t, name="p1")
    c.subscribe(t)
    p.send("m5", producer_name="p1")
    s.receive(c, 1)
    c.ack(c.received()[0])
    s.show(t, "/internalStats")


def created_by_rest(s):
    """Subscriptions created by REST: at the latest, the earliest and a given position."""
    t, *_ = _stage(s)
    s.admin("PUT", s.path(t, "/subscription/latest"))
    s.admin("PUT", s.path(t, "/subscription/earliest"), {"ledgerId": -1, "entryId": -1})
    s.admin("POST", s.path(t, "/subscription/earliest/skip/2"))
    s.admin("POST", s.path(t, "/subscription/sub/skip_all"))
    s.restart()
    s.look_up(t)
    s.show(t, "/internalStats")
    s.show(t, "/stats")
