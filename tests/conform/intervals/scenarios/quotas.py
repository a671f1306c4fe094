"""Backlog quotas that are checked every five seconds."""

CHECK = 7
"""Seconds in which the broker checks the quotas at least once."""


def _quota(s, ns, kind="destination_storage", **quota):
    s.admin("POST", f"/admin/v2/namespaces/{ns}/backlogQuota?backlogQuotaType={kind}", quota)


def _state(s, t, *more):
    """Show the backlogs and the mark-delete positions, without ids of ledgers."""
    names = ["backlogQuotaLimitSize", "backlogQuotaLimitTime", "backlogSize", "subscriptions.sub.msgBacklog", *more]
    s.admin("GET", s.path(t, "/stats"), show=names)


def hold(s):
    """A check closes all producers; a producer is admitted after the backlog was acknowledged."""
    ns = s.namespace()
    t = s.topic(ns=ns)
    p, c = s.connect("p", "c")
    c.subscribe(t)
    p.producer(t)
    p.producer(t, id=2)
    p.send("more than ten bytes")
    _quota(s, ns, limitSize=10, limitTime=-1, policy="producer_request_hold")
    s.wait(CHECK)
    _state(s, t)
    p.producer(t, id=3)
    c.flow(10)
    c.ack(c.received()[0])
    p.producer(t, id=3)


def exception_of_the_topic(s):
    """The quota of a topic replaces that of its namespace."""
    ns = s.namespace()
    t = s.topic(ns=ns)
    p, c = s.connect("p", "c")
    c.subscribe(t)
    p.producer(t)
    p.send("more than ten bytes")
    _quota(s, ns, limitSize=10000, limitTime=-1, policy="producer_request_hold")
    quota = {"limitSize": 10, "limitTime": -1, "policy": "producer_exception"}
    s.admin("POST", s.path(t, "/backlogQuota"), quota)
    s.admin("GET", s.path(t, "/backlogQuotaMap"), show=[""], until=bool)
    s.wait(CHECK)
    p.producer(t, id=2)
    s.admin("DELETE", s.path(t, "/backlogQuota"))
    s.wait(1)
    p.producer(t, id=2)


def eviction(s):
    """Messages of the slowest subscriptions are skipped until 90 % of the quota are left, also while they wait."""
    ns = s.namespace()
    t = s.topic(ns=ns)
    p, c, d = s.connect("p", "c", "d")
    c.subscribe(t)
    d.subscribe(t, "two")
    p.producer(t)
    for number in range(20):
        p.send(f"m{number:02}")
    c.flow(100)
    c.ack(c.received()[4], cumulative=True)
    _quota(s, ns, limitSize=200, limitTime=-1, policy="consumer_backlog_eviction")
    s.wait(2 * CHECK)
    _state(s, t, "subscriptions.two.msgBacklog")
    p.producer(t, id=2)
    d.flow(100)


def age(s):
    """The age counts from the end of the ledger. The messages in the open ledger have no age."""
    ns = s.namespace()
    t = s.topic(ns=ns)
    p, c = s.connect("p", "c")
    c.subscribe(t)
    p.producer(t)
    p.send("m0", "m1")
    _quota(s, ns, "message_age", limitSize=0, limitTime=3, policy="producer_exception")
    s.wait(CHECK)
    _state(s, t, "oldestBacklogMessageAgeSeconds", "oldestBacklogMessageSubscriptionName")
    p.producer(t, id=2)
    s.admin("PUT", s.path(t, "/unload"))
    s.wait(1)
    p.producer(t, id=3)
    c.subscribe(t)
    p.send("m2", id=3)
    s.wait(CHECK + 3)
    _state(s, t, "oldestBacklogMessageSubscriptionName")
    p.producer(t, id=4)
    c.flow(10)
    c.ack(c.received()[1], cumulative=True)
    p.producer(t, id=4)
    s.wait(CHECK)
    _state(s, t, "oldestBacklogMessageAgeSeconds", "oldestBacklogMessageSubscriptionName")


def age_eviction(s):
    """Closed ledgers are acknowledged and deleted when they are too old."""
    ns = s.namespace()
    t = s.topic(ns=ns)
    p, c = s.connect("p", "c")
    c.subscribe(t)
    p.producer(t)
    p.send("m0", "m1")
    s.admin("PUT", s.path(t, "/unload"))
    s.wait(1)
    p.producer(t)
    c.subscribe(t)
    p.send("m2")
    _quota(s, ns, "message_age", limitSize=0, limitTime=3, policy="consumer_backlog_eviction")
    s.wait(CHECK + 3)
    _state(s, t)
    s.admin("GET", s.path(t, "/internalStats"), show=["ledgers.#", "numberOfEntries"])
    p.producer(t, id=2)
    c.flow(10)


def no_subscription(s):
    """Without durable subscriptions there is no backlog; a quota of 0 bytes is exceeded nevertheless."""
    ns = s.namespace()
    t = s.topic(ns=ns)
    p, c = s.connect("p", "c")
    p.producer(t)
    p.send("m0")
    c.subscribe(t, "reader", durable=False, start_message_id=(-1, -1))
    _quota(s, ns, limitSize=1, limitTime=-1, policy="producer_exception")
    p.producer(t, id=2)
    _quota(s, ns, limitSize=0, limitTime=-1, policy="producer_exception")
    p.producer(t, id=3)
    s.wait(CHECK)
    np = s.topic(ns=ns, domain="non-persistent")
    p.producer(np, id=4)
