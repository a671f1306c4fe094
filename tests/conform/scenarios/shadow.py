"""Shadow topics: their messages, statistics and errors. Sizes depend on the digits of ledger ids; none is recorded."""

STATS = "/stats"
INTERNAL = "/internalStats"
_COUNTERS = ("msgInCounter", "msgOutCounter", "bytesOutCounter")
_LEDGER = ("entriesAddedCounter", "numberOfEntries", "currentLedgerEntries", "waitingCursorsCount", "state")


def _shadow(s, source, label="shadow"):
    """Create a shadow topic and return its name."""
    shadow = s.topic(label, lookup=False)
    s.admin("PUT", s.path(shadow), {"PULSAR.SHADOW_SOURCE": source})
    s.look_up(shadow)
    return shadow


def _replicated(s, source, *shadows):
    """Set the shadow topics of a source, and wait until its replicators are connected."""
    s.admin("PUT", s.path(source, "/shadowTopics"), list(shadows))
    for shadow in shadows:
        s.admin("GET", s.path(shadow, STATS), show=["publishers.0.producerName"], until=lambda a: a["publishers"])


def _stage(s, *names):
    """Return a source with a producer, its shadow topic, and connections."""
    t = s.topic()
    p, *others = s.connect("p", *names)
    p.producer(t)
    shadow = _shadow(s, t)
    _replicated(s, t, shadow)
    return t, shadow, p, *others


def statistics(s):
    """The messages of the source have the same ids on the shadow topic. Both topics have their own counters."""
    t, shadow, p, c, d = _stage(s, "c", "d")
    c.subscribe(shadow)
    d.subscribe(t)
    p.send("m0", "m1")
    p.send("b", batch=3)
    s.wait(1)
    c.flow(10)
    d.flow(10)
    c.ack(c.received()[0])
    (name,) = {one for one in s.http("GET", s.path(t, INTERNAL))[1]["cursors"] if one.startswith("pulsar.repl")}
    cursor = [f"cursors.{name}.{one}" for one in ("active", "waitingReadOp", "messagesConsumedCounter", "state")]
    s.admin("GET", s.path(t, INTERNAL), show=cursor)
    for topic in (t, shadow):
        s.admin("GET", s.path(topic, STATS), show=[*_COUNTERS, "subscriptions.sub.msgBacklog", "replication"])
        s.admin("GET", s.path(topic, INTERNAL), show=[*_LEDGER, "properties"])
        s.admin("GET", s.path(topic, "/lastMessageId"), show=["entryId"])


def earlier_messages(s):
    """The replicator starts at the end of the source. The shadow topic contains the ledgers that were closed before."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    p.send("m0", "m1")
    s.admin("PUT", s.path(t, "/unload"))
    p.producer(t)
    shadow = _shadow(s, t)
    _replicated(s, t, shadow)
    c.subscribe(shadow, initialPosition="Earliest")
    c.flow(10)
    p.send("m2")


def errors(s):
    """Clients cannot publish without an id, terminate, or delete the source while it has a replicator."""
    t, shadow, p, q = _stage(s, "q")
    q.producer(shadow)
    q.send("m0")
    s.admin("POST", s.path(shadow, "/terminate"), show=[""])
    s.admin("DELETE", s.path(t), show=[""])
    p.CLOSE_PRODUCER(producer_id=1)
    s.admin("DELETE", s.path(t), show=[""])
    s.admin("DELETE", s.path(shadow), show=[""])


def message_ids(s):
    """A client may publish on a shadow topic with a message id, as the replicator does."""
    t = s.topic()
    p, q, c = s.connect("p", "q", "c")
    p.producer(t)
    shadow = _shadow(s, t)
    c.subscribe(shadow)
    c.flow(10)
    q.producer(shadow)
    ids = p.send("m0", "m1")
    q.send("x", message_id=ids[0])
    s.admin("GET", s.path(shadow, "/lastMessageId"), show=["entryId"])
    q.send("y", message_id=ids[1])
    s.admin("GET", s.path(shadow, STATS), show=[*_COUNTERS, "subscriptions.sub.msgBacklog"])


def unload(s):
    """After an unload of the source, replication continues. The ledger that the unload closed remains readable."""
    t, shadow, p, c = _stage(s, "c")
    c.subscribe(shadow)
    c.flow(10)
    p.send("m0")
    s.wait(1)
    s.admin("PUT", s.path(t, "/unload"))
    p.producer(t)
    s.wait(3)
    s.admin("GET", s.path(shadow, STATS), show=["publishers.0.producerName"], until=lambda a: a["publishers"])
    p.send("m1")
    s.admin("PUT", s.path(shadow, "/unload"))
    c.subscribe(shadow)
    c.flow(1)


def removal(s):
    """The removal of the list does not end the replication."""
    t, shadow, p, c = _stage(s, "c")
    c.subscribe(shadow)
    c.flow(10)
    s.admin("DELETE", s.path(t, "/shadowTopics"))
    s.wait(2)
    p.send("m0")


def terminated_source(s):
    """The termination of the source does not terminate the shadow topic."""
    t, shadow, p, c = _stage(s, "c")
    c.subscribe(shadow)
    c.flow(10)
    p.send("m0")
    s.admin("POST", s.path(t, "/terminate"), show=["entryId"])
    s.wait(1)
    s.admin("GET", s.path(shadow, INTERNAL), show=["state"])
    s.admin("GET", s.path(shadow, "/lastMessageId"), show=["entryId"])


def missing_source(s):
    """A topic whose source does not exist is not created. The next client creates a topic without properties."""
    t = s.topic(lookup=False)
    shadow = _shadow(s, t)
    (c,) = s.connect("c")
    s.admin("GET", s.path(shadow, "/properties"))
    c.subscribe(shadow)
    s.admin("GET", s.path(shadow, "/properties"), show=[""])
