"""Prunes of sealed segments. A broker prunes every 60 seconds; no setting changes this."""

TICK = 64


def _topic(s, segments=1, **policies):
    t = s.scalable(segments, ns=s.namespace(**policies))
    s.admin("GET", s.path(t, "/stats"))
    return t


def sealed_segment(s):
    """A sealed segment without subscriptions is pruned; its name is unknown then."""
    t = _topic(s)
    c, p = s.connect("c", "p")
    g = s.segment(t, 0)
    c.dag(t)
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(TICK)
    s.admin("GET", s.path(t), show=["epoch", "segments.0", "segments.1.parentIds", "segments.1.root"])
    p.producer(g)
    s.admin("GET", s.path(t, "/segments/0/stats"), show=["reason"])
    s.admin("GET", s.path(t, "/stats"), show=["layout.lastOperation"])


def segment_with_a_consumer(s):
    """The consumer of a drained sealed segment is closed at the prune."""
    t = _topic(s)
    c = s.connect("c")
    c.subscribe(s.segment(t, 0), type="Shared", sub="qu")
    c.flow(10)
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(TICK)


def retention(s):
    """A namespace with retention keeps the sealed segment."""
    t = _topic(s, retention={"retentionTimeInMinutes": 10, "retentionSizeInMB": 10})
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(TICK)
    s.admin("GET", s.path(t), show=["epoch", "segments.0.state"])


def both_parents(s):
    """Both parents of a merge are pruned."""
    t = _topic(s, 2)
    c = s.connect("c")
    c.dag(t)
    s.admin("POST", s.path(t, "/merge/0/1"))
    s.wait(TICK)
    s.admin("GET", s.path(t), show=["epoch", "segments.2.parentIds", "segments.#"])


def stream_consumer(s):
    """A stream consumer gets the children, and the parent is pruned."""
    t = _topic(s)
    c = s.connect("c")
    c.join(t)
    c.subscribe(s.segment(t, 0), id=2, name="c-seg-0")
    c.flow(10, id=2)
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(TICK)


def backlog(s):
    """A sealed segment with a backlog stays."""
    t = _topic(s)
    p, c = s.connect("p", "c")
    s.admin("PUT", s.path(t, "/subscriptions/sub?type=QUEUE"))
    p.producer(s.segment(t, 0))
    p.send("m0")
    c.dag(t)
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(TICK)


def messages_without_a_subscription(s):
    """A sealed segment with messages, but without a subscription."""
    t = _topic(s)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    p.send("m0")
    c.dag(t)
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(TICK)


def two_generations(s):
    """A sealed segment and its sealed child."""
    t = _topic(s)
    c = s.connect("c")
    c.dag(t)
    s.admin("POST", s.path(t, "/split/0"))
    s.admin("POST", s.path(t, "/split/1"))
    s.wait(TICK)


def migrated_topic(s):
    """The legacy segment of a migrated topic, and its classic topic."""
    t = s.topic()
    s.admin("PUT", s.path(t))
    u = t.replace("persistent://", "topic://")
    s.topics.append(u)
    s.admin("POST", s.path(u, "/migrate"))
    s.admin("GET", s.path(u, "/stats"))
    s.wait(TICK)
    s.admin("GET", s.path(u), show=["epoch", "segments"])
    s.admin("GET", s.path(t, "/stats"), show=["reason"])
