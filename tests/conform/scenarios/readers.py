"""Non-durable subscriptions, seeks to newer positions, and statistics of one consumer."""

LATEST = (2**63 - 1, 2**63 - 1)
EARLIEST = (-1, -1)


def _scene(s, *names):
    t = s.topic()
    p, *others = s.connect("p", *names)
    p.producer(t)
    return (t, p, *others)


def unsubscribe(s):
    """UNSUBSCRIBE of a reader: the subscription is gone, twice is an error."""
    t, p, c = _scene(s, "c")
    ids = p.send("m0", "m1")
    c.subscribe(t, durable=False, start_message_id=ids[0])
    c.flow(1)
    c.UNSUBSCRIBE(consumer_id=1)
    c.UNSUBSCRIBE(consumer_id=1)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])
    c.subscribe(t, durable=False, start_message_id=EARLIEST, id=2)
    c.flow(10, id=2)


def unsubscribe_with_another(s):
    """Two consumers of a non-durable Shared subscription: one of them, and with force."""
    t, p, c, d = _scene(s, "c", "d")
    p.send("m0")
    for one in (c, d):
        one.subscribe(t, type="Shared", durable=False, start_message_id=EARLIEST)
    c.UNSUBSCRIBE(consumer_id=1)
    d.UNSUBSCRIBE(consumer_id=1, force=True)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def unsubscribe_after_seek(s):
    """UNSUBSCRIBE of a reader that has moved its cursor."""
    t, p, c = _scene(s, "c")
    ids = p.send("m0", "m1")
    c.subscribe(t, durable=False, start_message_id=EARLIEST)
    c.SEEK(consumer_id=1, message_id=ids[1])
    c.subscribe(t, durable=False, start_message_id=ids[1], id=2)
    c.UNSUBSCRIBE(consumer_id=2)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def unsubscribe_by_rest(s):
    """REST deletes a non-durable subscription like any other."""
    t, p, c = _scene(s, "c")
    p.send("m0")
    c.subscribe(t, durable=False, start_message_id=EARLIEST)
    s.admin("DELETE", s.path(t, "/subscription/sub"), show=["reason"])
    s.admin("DELETE", s.path(t, "/subscription/sub?force=true"), show=["reason"])
    s.admin("DELETE", s.path(t, "/subscription/sub"), show=["reason"])


def seek_to_a_newer_position(s):
    """SEEK to ids behind the last message: in the ledger, in a later ledger, and the latest one."""
    for kind in ("Exclusive", "Shared"):
        t, p, c = _scene(s, f"c{kind}") if kind == "Exclusive" else _more(s, kind)
        ids = p.send("m0", "m1", "m2")
        last = ids[-1]
        places = ((last.ledgerId, last.entryId), (last.ledgerId, last.entryId + 1), (last.ledgerId, last.entryId + 100))
        for number, place in enumerate((*places, LATEST), 1):
            c.subscribe(t, id=number, type=kind)
            c.SEEK(consumer_id=number, message_id=place)
            s.admin("GET", s.path(t, "/stats"), show=["subscriptions.sub.msgBacklog"])
            c.CLOSE_CONSUMER(consumer_id=number)
        p.send("m3")
        c.subscribe(t, id=9, type=kind)
        c.flow(10, id=9)


def _more(s, kind):
    t = s.topic("u")
    p, c = s.connect("q", f"c{kind}")
    p.producer(t)
    return t, p, c


def seek_to_a_newer_time(s):
    """SEEK to a time in the future."""
    t, p, c = _scene(s, "c")
    p.send("m0", "m1")
    c.subscribe(t, initialPosition="Earliest")
    c.SEEK(consumer_id=1, message_publish_time=4_000_000_000_000)
    c.subscribe(t, id=2)
    c.flow(10, id=2)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.sub.msgBacklog"])
    p.send("m2")


def seek_forward(s):
    """A durable consumer and a reader skip unread messages with SEEK."""
    t, p, c = _scene(s, "c")
    ids = p.send("m0", "m1", "m2", "m3")
    c.subscribe(t, initialPosition="Earliest")
    c.flow(1)
    c.SEEK(consumer_id=1, message_id=ids[3])
    c.subscribe(t, id=2)
    c.flow(10, id=2)
    c.subscribe(t, "r", id=3, durable=False, start_message_id=EARLIEST)
    c.flow(1, id=3)
    c.SEEK(consumer_id=3, message_id=ids[2])
    c.flow(10, id=3)


def statistics_of_a_consumer(s):
    """CONSUMER_STATS of all types, with unacknowledged messages and a backlog."""
    t, p, c = _scene(s, "c")
    for number, kind in enumerate(("Exclusive", "Shared", "Failover", "Key_Shared"), 1):
        c.subscribe(t, f"sub{number}", id=number, type=kind, initialPosition="Earliest")
    ids = p.send("m0", "m1", "m2")
    for number in range(1, 5):
        c.flow(2, id=number)
    c.ack(ids[0], id=1)
    c.ack(ids[0], id=2)
    for number in range(1, 5):
        c.CONSUMER_STATS(consumer_id=number)
    c.subscribe(t, "r", id=5, durable=False, start_message_id=EARLIEST)
    c.CONSUMER_STATS(consumer_id=5)
    n = s.topic("np", domain="non-persistent")
    c.subscribe(n, id=6, type="Shared")
    c.CONSUMER_STATS(consumer_id=6)
