"""Queue consumers: Shared subscriptions on all segments, over splits and merges."""

import time


def _split(s, topic, number=0):
    s.admin("POST", s.path(topic, f"/split/{number}"))


def _take(c, segment, consumer=1, permits=10, **fields):
    """Subscribe to a segment as a queue consumer does."""
    c.subscribe(segment, sub="qu", id=consumer, type="Shared", initialPosition="Earliest", **fields)
    c.flow(permits, id=consumer)


def two_segments(s):
    """One consumer on two segments."""
    t = s.scalable(2)
    p, c = s.connect("p", "c")
    for number in 0, 1:
        p.producer(s.segment(t, number), id=number + 1)
        _take(c, s.segment(t, number), number + 1, name=f"q1-seg-{number}")
    p.send("m0")
    p.send("n0", id=2)
    p.send("m1")
    c.ack(*c.received(1), id=1)
    c.ack(*c.received(2), id=2)


def two_consumers(s):
    """Two consumers share each segment."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    g = s.segment(t, 0)
    p.producer(g)
    _take(c, g)
    _take(d, g)
    for i in range(4):
        p.send(f"m{i}")


def split(s):
    """A split: the end of the parent, and the children are read at once."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    c.dag(t)
    p.producer(s.segment(t, 0))
    _take(c, s.segment(t, 0))
    p.send("m0")
    _split(s, t)
    s.wait(0.6)
    for number in 1, 2:
        _take(c, s.segment(t, number), number + 1)
        p.producer(s.segment(t, number), id=number + 1)
        p.send(f"n{number}", id=number + 1)
    c.ack(*c.received(1), id=1)
    s.wait(0.6)


def merge(s):
    """A merge of two segments with messages that are not acknowledged."""
    t = s.scalable(2)
    p, c = s.connect("p", "c")
    for number in 0, 1:
        p.producer(s.segment(t, number), id=number + 1)
        _take(c, s.segment(t, number), number + 1)
        p.send(f"m{number}", id=number + 1)
    s.admin("POST", s.path(t, "/merge/0/1"))
    s.wait(0.6)
    _take(c, s.segment(t, 2), 3)
    c.ack(*c.received(1), id=1)
    c.ack(*c.received(2), id=2)
    s.wait(0.6)


def sealed_segments(s):
    """A new subscription reads sealed segments too."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    p.send("m0")
    _split(s, t)
    p.producer(s.segment(t, 2), id=2)
    p.send("m1", id=2)
    for number in range(3):
        _take(c, s.segment(t, number), number + 1)
    for number in range(3):
        if c.received(number + 1):
            c.ack(*c.received(number + 1), id=number + 1)
    s.wait(0.6)


def redelivery(s):
    """Redelivery of single messages, and the count of redeliveries."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    ids = p.send("m0", "m1", "m2")
    _take(c, s.segment(t, 0))
    c.redeliver(ids[0], ids[2])
    c.redeliver(ids[0])
    c.ack(*ids)


def redelivery_after_the_split(s):
    """Redelivery on a sealed segment."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    ids = p.send("m0", "m1")
    _take(c, s.segment(t, 0))
    _split(s, t)
    c.redeliver(*ids)
    c.redeliver()
    c.ack(*ids)
    s.wait(0.6)


def another_consumer_after_the_split(s):
    """A consumer of a sealed segment leaves; another gets what it did not acknowledge."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    p.producer(s.segment(t, 0))
    ids = p.send("m0", "m1")
    _take(c, s.segment(t, 0))
    c.ack(ids[0])
    _split(s, t)
    c.close(reset=True)
    _take(d, s.segment(t, 0))
    d.ack(ids[1])
    s.wait(0.6)


def delayed(s):
    """A delayed message on a segment that is split before its time."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    _take(c, s.segment(t, 0))
    p.send("m0", deliver_at_time=int(time.time() * 1000) + 2500)
    _split(s, t)
    s.wait(4)
    c.ack(*c.received(1))
    s.wait(0.6)


def batches(s):
    """A batch that is acknowledged in part, over a split."""
    t = s.scalable(1)
    p, c, d = s.connect("p", "c", "d")
    p.producer(s.segment(t, 0))
    (entry,) = p.send("b0", batch=3)
    _take(c, s.segment(t, 0))
    c.ack({"ledgerId": entry.ledgerId, "entryId": entry.entryId, "ack_set": [6]})
    _split(s, t)
    c.close(reset=True)
    _take(d, s.segment(t, 0))
    d.ack(entry)
    s.wait(0.6)


def unacknowledged_limit(s):
    """The limit of unacknowledged messages of a consumer holds for each segment alone."""
    ns = s.namespace(maxUnackedMessagesPerConsumer=2)
    t = s.scalable(2, ns=ns)
    p, c = s.connect("p", "c")
    for number in 0, 1:
        p.producer(s.segment(t, number), id=number + 1)
        _take(c, s.segment(t, number), number + 1)
    for i in range(4):
        p.send(f"m{i}")
    p.send("n0", id=2)
    c.ack(c.received(1)[0])


def unsubscribe(s):
    """UNSUBSCRIBE on every segment removes the subscription of the topic."""
    t = s.scalable(2)
    c = s.connect("c")
    for number in 0, 1:
        _take(c, s.segment(t, number), number + 1)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.qu.type"])
    for number in 0, 1:
        c.UNSUBSCRIBE(consumer_id=number + 1)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def statistics_over_a_split(s):
    """The statistics of a queue subscription during a split."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    p.send("m0", "m1")
    _take(c, s.segment(t, 0), permits=1, name="q1-seg-0")
    _split(s, t)
    _take(c, s.segment(t, 1), 2, name="q1-seg-1")
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def exclusive_on_the_subscription(s):
    """An Exclusive consumer on the subscription of a queue."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    _take(c, s.segment(t, 0))
    d.subscribe(s.segment(t, 0), sub="qu")
    d.subscribe(s.segment(t, 1), sub="qu", id=2)
    _take(c, s.segment(t, 1), 2)


def dead_letter_topic(s):
    """The dead letter topic of a scalable topic is created by lookup."""
    t = s.scalable(1)
    c = s.connect("c")
    dead = t + "-qu-DLQ"
    s.topics.append(dead)
    s.look_up(dead)
    c.dag(dead, create_if_missing=True)
    c.producer(s.segment(dead, 0), id=2)
    c.send("m0", id=2)


def skip_all_while_sealed(s):
    """skip-all ends the topic for a consumer of a sealed segment."""
    t = s.scalable(1)
    p, c = s.connect("p", "c")
    p.producer(s.segment(t, 0))
    p.send("m0", "m1")
    _take(c, s.segment(t, 0), permits=1)
    _split(s, t)
    s.admin("POST", s.path(t, "/subscriptions/qu/skip-all"))
    s.wait(0.6)
    c.flow(1)
    s.wait(0.6)
