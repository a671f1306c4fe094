"""Checkpoint consumers: their registration, and their readers on the segments."""


def _split(s, topic, number=0):
    s.admin("POST", s.path(topic, f"/split/{number}"))


def _reader(c, segment, consumer=1, start=(2**64 - 1, 2**64 - 1), **fields):
    """Subscribe to a segment as a checkpoint consumer does."""
    c.subscribe(segment, sub=f"reader-{consumer}", id=consumer, durable=False, start_message_id=start, **fields)
    c.flow(100, id=consumer)


def _assign(consumers, segments):
    def scenario(s):
        t = s.scalable(segments)
        for c in s.connect(*(f"c{i}" for i in range(consumers))):
            c.join(t, sub="g", kind="CHECKPOINT")

    scenario.__doc__ = f"A group of {consumers} on {segments} segments."
    return scenario


group_1_of_1 = _assign(1, 1)
group_1_of_3 = _assign(1, 3)
group_2_of_3 = _assign(2, 3)
group_3_of_4 = _assign(3, 4)
group_2_of_1 = _assign(2, 1)
group_3_of_2 = _assign(3, 2)


def sealed_segments(s):
    """All segments are assigned at once, sealed ones as well."""
    t = s.scalable(1)
    _split(s, t)
    _split(s, t, 1)
    c = s.connect("c")
    c.join(t, kind="CHECKPOINT")
    s.wait(0.6)


def split(s):
    """A split: the children are assigned at once, beside the parent."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    c.join(t, kind="CHECKPOINT")
    d.join(t, kind="CHECKPOINT")
    _split(s, t)
    s.wait(2.8)


def merge(s):
    """A merge with one member of the group."""
    t = s.scalable(2)
    c = s.connect("c")
    c.join(t, kind="CHECKPOINT")
    s.admin("POST", s.path(t, "/merge/0/1"))
    s.wait(2.8)


def leave(s):
    """A member leaves."""
    t = s.scalable(3)
    c, d = s.connect("c", "d")
    c.join(t, kind="CHECKPOINT")
    d.join(t, kind="CHECKPOINT")
    c.leave()
    s.wait(0.6)


def lost_and_back(s):
    """A member is lost and comes back under its name."""
    t = s.scalable(3)
    c, d, e = s.connect("c", "d", "e")
    c.join(t, kind="CHECKPOINT")
    d.join(t, kind="CHECKPOINT")
    c.close(reset=True)
    s.wait(0.6)
    e.join(t, "c", kind="CHECKPOINT")


def beside_a_stream_consumer(s):
    """A STREAM and a CHECKPOINT consumer on one subscription."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    c.join(t)
    d.join(t, kind="CHECKPOINT")
    s.wait(0.6)
    _split(s, t)
    s.wait(2.8)


def stream_after_checkpoint(s):
    """The other way round."""
    t = s.scalable(1)
    _split(s, t)
    c, d = s.connect("c", "d")
    c.join(t, kind="CHECKPOINT")
    d.join(t)
    s.wait(2.8)


def same_name_of_both_kinds(s):
    """One name as CHECKPOINT and then as STREAM."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    c.join(t, "n", kind="CHECKPOINT")
    d.join(t, "n")
    s.wait(0.6)


def missing_topic(s):
    """A topic that does not exist."""
    t = s.topic(domain="topic")
    c = s.connect("c")
    c.join(t, kind="CHECKPOINT")


def statistics(s):
    """The statistics name a group as a STREAM subscription while it has a member."""
    t = s.scalable(1)
    c = s.connect("c")
    c.join(t, sub="g", kind="CHECKPOINT")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])
    c.leave()
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def subscription_on_the_children(s):
    """A split makes a subscription of the group on the children, which no reader uses."""
    t = s.scalable(1)
    c = s.connect("c")
    c.join(t, sub="g", kind="CHECKPOINT")
    _split(s, t)
    s.admin("GET", s.path(t, "/segments/0/stats"), show=["subscriptions"])
    s.admin("GET", s.path(t, "/segments/1/stats"), show=["subscriptions"])


def read_from_the_start(s):
    """A reader from the earliest message."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    ids = p.send("m0", "m1", "m2")
    _reader(c, g)
    c.ack(ids[2], cumulative=True)


def read_from_a_checkpoint(s):
    """A reader from the first and one from the last message: both get that message too."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    ids = p.send("m0", "m1", "m2")
    _reader(c, g, 1, ids[0])
    _reader(c, g, 2, ids[2])


def read_from_the_end(s):
    """A reader from the latest message."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    p.send("m0")
    _reader(c, g, 1, (2**63 - 1, 2**63 - 1))
    p.send("m1")


def read_a_sealed_segment(s):
    """A reader of a sealed segment, to its end."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    ids = p.send("m0", "m1")
    _split(s, t)
    _reader(c, g)
    c.ack(ids[1], cumulative=True)
    s.wait(0.6)


def read_a_sealed_segment_from_its_end(s):
    """A reader from the last message of a sealed segment."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    g = s.segment(t, 0)
    p.producer(g)
    ids = p.send("m0", "m1")
    _split(s, t)
    _reader(c, g, 1, ids[1])
    s.wait(0.6)


def split_under_a_reader(s):
    """A split under a reader that has read everything, and one that has acknowledged nothing."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    ids = p.send("m0")
    _reader(c, g)
    c.ack(ids[0], cumulative=True)
    _reader(d, g)
    _split(s, t)
    s.wait(0.6)


def same_reader_twice(s):
    """Two readers with one subscription name."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    _reader(c, s.segment(t, 0))
    _reader(d, s.segment(t, 0))
