"""WATCH_SCALABLE_TOPICS and WATCH_TC_ASSIGNMENTS."""


def _filter(**properties):
    return [{"key": key, "value": value} for key, value in properties.items()]


def empty(s):
    """A namespace without topics: an empty snapshot."""
    c = s.connect("c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=s.namespace())


def snapshot(s):
    """The topics of a namespace; classic ones and segments are not among them."""
    ns = s.namespace()
    for label in "b", "a":
        s.scalable(2, label, ns)
    p, c = s.connect("p", "c")
    p.producer(s.topic("z", ns))
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns)


def created_and_deleted(s):
    """A topic is created and deleted."""
    ns = s.namespace()
    c = s.connect("c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns)
    t = s.scalable(1, ns=ns)
    s.wait(0.6)
    s.admin("DELETE", s.path(t))
    s.wait(0.6)


def created_by_lookup(s):
    """A topic is created by a session."""
    ns = s.namespace()
    c, d = s.connect("c", "d")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns)
    d.dag(s.topic(ns=ns, domain="topic"))
    s.wait(0.6)


def created_by_migration(s):
    """A classic topic becomes scalable."""
    ns = s.namespace()
    t = s.topic(ns=ns)
    s.admin("PUT", s.path(t))
    c = s.connect("c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns)
    u = t.replace("persistent://", "topic://")
    s.topics.append(u)
    s.admin("POST", s.path(u, "/migrate"))
    s.wait(0.6)


def changes_that_are_not_told(s):
    """A split, a policy, a subscription and a classic topic change nothing for the watcher."""
    ns = s.namespace()
    t = s.scalable(1, ns=ns)
    p, c = s.connect("p", "c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns)
    s.admin("POST", s.path(t, "/split/0"))
    s.admin("POST", s.path(t, "/autoScalePolicy"), {"maxSegments": 5})
    s.admin("PUT", s.path(t, "/subscriptions/sub"))
    p.producer(s.topic("z", ns))
    s.wait(0.6)


def other_namespace(s):
    """A topic of another namespace."""
    ns, other = s.namespace(), f"public/c-{s.token}-other"
    s.http("PUT", f"/admin/v2/namespaces/{other}", None)
    s.namespaces.append(other)
    c = s.connect("c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns)
    s.scalable(1, ns=other)
    s.wait(0.6)


def filter_of_one_property(s):
    """A filter: the snapshot and the changes that pass it."""
    ns = s.namespace()
    s.scalable(1, "a", ns, team="a")
    s.scalable(1, "b", ns, team="b")
    s.scalable(1, "c", ns)
    c = s.connect("c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns, property_filters=_filter(team="a"))
    t = s.scalable(1, "d", ns, team="a", x="1")
    s.wait(0.6)
    u = s.scalable(1, "e", ns, team="ab")
    s.wait(0.6)
    s.admin("DELETE", s.path(u))
    s.wait(0.6)
    s.admin("DELETE", s.path(t))
    s.wait(0.6)


def filter_of_two_properties(s):
    """Two filters: a topic must have both properties."""
    ns = s.namespace()
    s.scalable(1, "a", ns, team="a")
    s.scalable(1, "b", ns, team="a", x="1")
    c = s.connect("c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns, property_filters=_filter(team="a", x="1"))
    c.WATCH_SCALABLE_TOPICS(watch_id=2, namespace=ns, property_filters=_filter(team="a", y="1"))


def filter_with_empty_texts(s):
    """Filters with an empty value and an empty key."""
    ns = s.namespace()
    s.scalable(1, "a", ns, team="")
    s.scalable(1, "b", ns)
    c = s.connect("c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns, property_filters=_filter(team=""))
    c.WATCH_SCALABLE_TOPICS(watch_id=2, namespace=ns, property_filters=[{"key": "", "value": "x"}])


def same_filter_twice(s):
    """The same key twice with different values."""
    ns = s.namespace()
    s.scalable(1, "a", ns, team="a")
    s.scalable(1, "b", ns, team="b")
    c = s.connect("c")
    pairs = _filter(team="a") + _filter(team="b")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns, property_filters=pairs)


def missing_namespace(s):
    """A namespace and a tenant that do not exist; the creation of a topic in one."""
    c = s.connect("c")
    ns = f"public/c-{s.token}-none"
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns)
    c.WATCH_SCALABLE_TOPICS(watch_id=2, namespace="missing/missing-too")
    s.scalable(1, ns=ns)
    s.wait(0.6)


def wrong_namespaces(s):
    """Names that are no namespaces."""
    c = s.connect("c")
    for i, ns in enumerate(("bad", "", "a/b/c", "a/b/c/d", "public/de fault", "/", "public/")):
        c.WATCH_SCALABLE_TOPICS(watch_id=i + 1, namespace=ns)
    c.PING()


def close(s):
    """After CLOSE nothing is told; CLOSE is not answered."""
    ns = s.namespace()
    c = s.connect("c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns)
    c.WATCH_SCALABLE_TOPICS_CLOSE(watch_id=1)
    s.scalable(1, ns=ns)
    s.wait(0.6)


def close_unknown(s):
    """CLOSE of a watch that was never opened, and of one that is closed."""
    ns = s.namespace()
    c = s.connect("c")
    c.WATCH_SCALABLE_TOPICS_CLOSE(watch_id=7)
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns)
    c.WATCH_SCALABLE_TOPICS_CLOSE(watch_id=1)
    c.WATCH_SCALABLE_TOPICS_CLOSE(watch_id=1)
    c.PING()


def same_watch_twice(s):
    """The same watch id again."""
    ns = s.namespace()
    c = s.connect("c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns)
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns)
    t = s.scalable(1, ns=ns)
    s.wait(0.6)
    c.WATCH_SCALABLE_TOPICS_CLOSE(watch_id=1)
    s.admin("DELETE", s.path(t))
    s.wait(0.6)


def two_watches(s):
    """Two watches of one namespace on one connection."""
    ns = s.namespace()
    c = s.connect("c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns)
    c.WATCH_SCALABLE_TOPICS(watch_id=2, namespace=ns, property_filters=_filter(team="a"))
    s.scalable(1, "a", ns, team="a")
    s.unordered(c)
    s.wait(0.6)
    s.scalable(1, "b", ns)
    s.wait(0.6)


def wrong_hash(s):
    """A current_hash that is not the hash of the list."""
    ns = s.namespace()
    s.scalable(1, ns=ns)
    c = s.connect("c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace=ns, current_hash="00000000")


def missing_fields(s):
    """WATCH_SCALABLE_TOPICS without a namespace."""
    c = s.connect("c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1)


def before_connect(s):
    """WATCH_SCALABLE_TOPICS before CONNECT."""
    c = s.open("c")
    c.WATCH_SCALABLE_TOPICS(watch_id=1, namespace="public/default")


def coordinators(s):
    """The snapshot of the transaction coordinators; CLOSE is not answered."""
    c = s.connect("c")
    c.WATCH_TC_ASSIGNMENTS(watch_id=1)
    c.WATCH_TC_ASSIGNMENTS_CLOSE(watch_id=1)
    c.PING()


def coordinators_twice(s):
    """The same watch id again, another one, and CLOSE of an unknown one."""
    c = s.connect("c")
    c.WATCH_TC_ASSIGNMENTS(watch_id=1)
    c.WATCH_TC_ASSIGNMENTS(watch_id=1)
    c.WATCH_TC_ASSIGNMENTS(watch_id=2)
    c.WATCH_TC_ASSIGNMENTS_CLOSE(watch_id=7)
    c.PING()


def coordinators_before_connect(s):
    """WATCH_TC_ASSIGNMENTS before CONNECT."""
    c = s.open("c")
    c.WATCH_TC_ASSIGNMENTS(watch_id=1)


def coordinators_without_id(s):
    """WATCH_TC_ASSIGNMENTS without its id."""
    c = s.connect("c")
    c.WATCH_TC_ASSIGNMENTS(watch_id=...)
