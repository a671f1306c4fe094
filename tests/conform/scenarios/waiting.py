"""Producers with WaitForExclusive when their topic changes."""


def _three(s):
    t = s.topic()
    p, q, r = s.connect("p", "q", "r")
    p.producer(t, producer_access_mode="Exclusive")
    q.producer(t, producer_access_mode="WaitForExclusive")
    r.producer(t, producer_access_mode="WaitForExclusive")
    return t, p, q, r


def unload(s):
    """Unload: the first waiting producer receives ServiceNotReady, the second receives nothing."""
    t, _p, _q, _r = _three(s)
    s.admin("PUT", s.path(t, "/unload"))


def terminate(s):
    """Terminate: the first waiting producer receives TopicTerminatedError."""
    t, _p, _q, _r = _three(s)
    s.admin("POST", s.path(t, "/terminate"))


def same_id_again(s):
    """A second PRODUCER with the id of a waiting one: ServiceNotReady. Its SEND closes the connection."""
    t = s.topic()
    p, q = s.connect("p", "q")
    p.producer(t, producer_access_mode="Exclusive")
    q.producer(t, producer_access_mode="WaitForExclusive")
    q.producer(t, producer_access_mode="WaitForExclusive")
    q.send("m")


def lower_epoch_of_its_own(s):
    """A waiting producer that requests a lower epoch is promoted with that epoch."""
    t = s.topic()
    p, q = s.connect("p", "q")
    p.producer(t, producer_access_mode="Exclusive", topic_epoch=5)
    q.producer(t, producer_access_mode="WaitForExclusive", topic_epoch=1)
    p.CLOSE_PRODUCER(producer_id=1)


def terminated_topic_keeps_the_claim(s):
    """An Exclusive producer that a terminated topic refused still fences the next producer."""
    t = s.topic()
    p = s.connect("p")
    p.producer(t)
    s.admin("POST", s.path(t, "/terminate"))
    p.producer(t, id=2, producer_access_mode="Exclusive")
    p.producer(t, id=3, producer_access_mode="Exclusive")
