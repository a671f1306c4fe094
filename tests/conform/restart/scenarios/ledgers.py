"""Ledgers and counters of a topic after a restart of the broker."""


def _topic(s, *names, **fields):
    """Return a topic, a producer that has published three messages, and other connections."""
    t = s.topic(**fields)
    p, *others = s.connect("p", *names)
    p.producer(t)
    return t, p, p.send("m0", "m1", "m2"), *others


def _after(s, t, *names):
    """Look up a topic after a restart, and return new connections."""
    s.look_up(t)
    return s.connect(*names)


def new_ledger(s):
    """The next message is entry 0 of a new ledger; the counters start at 0; the last message id is the old one."""
    t, p, _, c = _topic(s, "c")
    c.subscribe(t, initialPosition="Earliest")
    s.receive(c, 3)
    s.restart()
    p, c = _after(s, t, "p2", "c2")
    c.subscribe(t)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    s.show(t, "/internalStats")
    s.show(t, "/stats")
    p.producer(t, name="p1")
    p.send("m3")
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    s.receive(c, 4)
    s.show(t, "/internalStats")
    s.show(t, "/stats")


def twice(s):
    """An empty ledger is not kept by the second restart."""
    t, *_ = _topic(s)
    s.restart()
    s.look_up(t)
    s.show(t, "/internalStats")
    s.restart()
    p = _after(s, t, "p3")
    s.show(t, "/internalStats")
    p.producer(t, name="p1")
    p.send("m3", producer_name="p1")


def twice_without_load(s):
    """The topic is not used between the two restarts."""
    t, *_ = _topic(s)
    s.restart()
    s.restart()
    p = _after(s, t, "p3")
    s.show(t, "/internalStats")
    p.producer(t, name="p1")
    p.send("m3", producer_name="p1")


def empty_topic(s):
    """A topic without messages, with a subscription."""
    t = s.topic()
    c = s.connect("c")
    c.subscribe(t)
    s.restart()
    c = _after(s, t, "c2")
    s.admin("GET", s.path(t, "/subscriptions"), show=[""])
    s.show(t, "/internalStats")
    c.subscribe(t)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)


def terminated(s):
    """A terminated topic remains terminated, with the same ledgers."""
    t, p, _, c = _topic(s, "c")
    c.subscribe(t, initialPosition="Earliest")
    s.admin("POST", s.path(t, "/terminate"), show=["entryId"])
    s.restart()
    p, c = _after(s, t, "p2", "c2")
    s.show(t, "/internalStats")
    p.producer(t)
    c.subscribe(t)
    s.receive(c, 3)
    c.ack(*c.received())
    s.restart()
    c = _after(s, t, "c3")
    c.subscribe(t)
    s.show(t, "/internalStats")


def consumed(s):
    """Without retention, acknowledged ledgers are deleted when the topic is loaded after the restart."""
    t, _, ids, c = _topic(s, "c")
    c.subscribe(t, initialPosition="Earliest")
    s.receive(c, 3)
    c.ack(ids[-1], cumulative=True)
    s.wait(1.5)
    s.restart()
    c = _after(s, t, "c2")
    c.subscribe(t)
    s.wait(1)
    s.show(t, "/internalStats")
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    s.restart()
    c = _after(s, t, "c3")
    c.subscribe(t)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    s.show(t, "/internalStats")


def retained(s):
    """Retention keeps acknowledged messages over restarts; a new subscription reads them."""
    ns = s.namespace(retention={"retentionTimeInMinutes": 60, "retentionSizeInMB": 100})
    t, _, ids, c = _topic(s, "c", ns=ns)
    c.subscribe(t, initialPosition="Earliest")
    s.receive(c, 3)
    c.ack(ids[-1], cumulative=True)
    s.wait(1.5)
    s.restart()
    c, d = _after(s, t, "c2", "d2")
    c.subscribe(t)
    d.subscribe(t, "new", initialPosition="Earliest")
    s.receive(d, 3)
    s.wait(1)
    s.show(t, "/internalStats")
    s.show(t, "/stats")


def no_subscription(s):
    """Messages of a topic without subscriptions."""
    t, *_ = _topic(s)
    s.restart()
    c = _after(s, t, "c2")
    s.wait(1)
    s.show(t, "/internalStats")
    c.subscribe(t, initialPosition="Earliest")
    s.receive(c, 3)


def unloaded_before(s):
    """A topic that was unloaded, with an empty last ledger."""
    t, p, _, c = _topic(s, "c")
    c.subscribe(t, initialPosition="Earliest")
    s.receive(c, 3)
    s.admin("PUT", s.path(t, "/unload"))
    s.restart()
    p, c = _after(s, t, "p2", "c2")
    c.subscribe(t)
    s.receive(c, 3)
    s.show(t, "/internalStats")
    p.producer(t)
    p.send("m3")


def epoch(s):
    """The topic epoch of an exclusive producer."""
    t = s.topic()
    p = s.connect("p")
    p.producer(t, producer_access_mode="Exclusive")
    s.restart()
    p, q = _after(s, t, "p2", "q2")
    p.producer(t, name="p1", producer_access_mode="Exclusive", topic_epoch=0)
    q.producer(t, producer_access_mode="ExclusiveWithFencing")
    s.restart()
    p, q = _after(s, t, "p3", "q3")
    p.producer(t, name="p1", producer_access_mode="Exclusive", topic_epoch=0)
    q.producer(t, producer_access_mode="Exclusive")
    s.show(t, "/internalStats")


def partitions(s):
    """Partitions, used and unused, and their messages."""
    t = s.topic(lookup=False)
    s.admin("PUT", s.path(t, "/partitions"), 3)
    s.look_up(f"{t}-partition-1")
    p = s.connect("p")
    p.producer(f"{t}-partition-1")
    p.send("m0")
    s.restart()
    p, c = s.connect("p2", "c2")
    p.PARTITIONED_METADATA(topic=t)
    s.admin("GET", s.path(t, "/partitions"), show=[""])
    s.look_up(f"{t}-partition-1", f"{t}-partition-3")
    p.producer(f"{t}-partition-1")
    p.send("m1")
    p.producer(f"{t}-partition-3", id=3)
    c.subscribe(f"{t}-partition-1", initialPosition="Earliest")
    s.receive(c, 2)
    s.admin("PUT", s.path(t, "/partitions"), 4)
    s.admin("POST", s.path(t, "/partitions"), 4)
    s.restart()
    p = s.connect("p4")
    p.PARTITIONED_METADATA(topic=t)


def deleted(s):
    """A deleted topic and a deleted subscription do not return; a new topic of the same name starts empty."""
    t, p, _, c = _topic(s, "c")
    u = s.topic("u")
    p.producer(u, id=2)
    p.send("n0", id=2)
    c.subscribe(t)
    c.subscribe(t, "other", id=2)
    c.UNSUBSCRIBE(consumer_id=2)
    s.admin("DELETE", s.path(u, "?force=true"))
    s.restart()
    p = _after(s, t, "p2")
    s.admin("GET", s.path(t, "/subscriptions"), show=[""])
    s.admin("GET", s.path(u, "/internalStats"))
    s.look_up(u)
    p.producer(u)
    p.send("n1")
    s.show(u, "/internalStats")
