"""Stream and checkpoint consumers whose connection is lost, with a grace period of two seconds."""


def lost(s):
    """After the grace period the other consumer gets the segments."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    c.join(t)
    d.join(t)
    c.close(reset=True)
    s.wait(4)


def lost_with_a_fin(s):
    """The same when the socket is closed in order, without UNSUBSCRIBE."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    c.join(t)
    d.join(t)
    c.close()
    s.wait(4)


def back_in_time(s):
    """A consumer that comes back in time stops the timer."""
    t = s.scalable(2)
    c, d, e = s.connect("c", "d", "e")
    c.join(t)
    d.join(t)
    c.close(reset=True)
    e.join(t, "c")
    s.wait(4)


def back_too_late(s):
    """A consumer that comes back too late is a new one."""
    t = s.scalable(2)
    c, d, e = s.connect("c", "d", "e")
    c.join(t)
    d.join(t)
    c.close(reset=True)
    s.wait(4)
    e.join(t, "c")


def all_lost(s):
    """Every consumer is lost; after the grace period a new one has all segments."""
    t = s.scalable(2)
    c, d, e = s.connect("c", "d", "e")
    c.join(t)
    d.join(t)
    c.close(reset=True)
    d.close(reset=True)
    s.wait(4)
    e.join(t)


def join_in_the_grace_period(s):
    """A consumer joins in the grace period of another: two rebalances."""
    t = s.scalable(4)
    c, d, e = s.connect("c", "d", "e")
    c.join(t)
    d.join(t)
    c.close(reset=True)
    e.join(t)
    s.wait(4)


def taken_over_and_lost(s):
    """The first connection of a name is lost after a second one took it over."""
    t = s.scalable(2)
    c, d, e = s.connect("c", "d", "e")
    c.join(t, "n")
    d.join(t, "n")
    c.close(reset=True)
    s.wait(4)
    e.join(t, "m")


def shared_segment(s):
    """Two consumers share a segment; one is lost: the other has it alone."""
    t = s.scalable(1)
    c, d = s.connect("c", "d")
    c.join(t)
    d.join(t)
    c.close(reset=True)
    s.wait(4)


def two_consumers_of_one_connection(s):
    """A connection with two consumers is lost."""
    t = s.scalable(3)
    c, d = s.connect("c", "d")
    c.join(t, "a")
    c.join(t, "b", consumer=2)
    d.join(t)
    c.close(reset=True)
    s.wait(4)


def split_in_the_grace_period(s):
    """A split in the grace period: a segment on which nobody subscribed is not drained."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    c.join(t)
    d.join(t)
    c.close(reset=True)
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(5)


def checkpoint_group(s):
    """A member of a group of checkpoint consumers is lost."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    c.join(t, kind="CHECKPOINT")
    d.join(t, kind="CHECKPOINT")
    c.close(reset=True)
    s.wait(4)


def statistics(s):
    """The statistics in and after the grace period."""
    t = s.scalable(1)
    c = s.connect("c")
    c.join(t)
    c.close(reset=True)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.sub.consumers"])
    s.wait(4)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions"])


def leave(s):
    """A consumer that leaves in order needs no grace period, also with its connection lost at once."""
    t = s.scalable(2)
    c, d = s.connect("c", "d")
    c.join(t)
    d.join(t)
    c.leave()
    c.close(reset=True)
    s.wait(4)


def drained_segments_after_a_loss(s):
    """The last consumer is lost or leaves: only after a loss, the next one does not read a drained segment again."""
    for label, lost in ("t", True), ("u", False):
        t = s.scalable(1, label)
        c, d = s.connect(f"c{label}", f"d{label}")
        g = s.segment(t, 0)
        c.join(t)
        c.subscribe(g, id=2, initialPosition="Earliest")
        s.admin("POST", s.path(t, "/split/0"))
        s.wait(3)
        if lost:
            c.close(reset=True)
        else:
            c.leave()
        s.wait(4)
        d.join(t)
