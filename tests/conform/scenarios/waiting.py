"""Producers that wait to be exclusive, when the topic changes under them."""


def _three(s):
    t = s.topic()
    p, q, r = s.connect("p", "q", "r")
    p.producer(t, producer_access_mode="Exclusive")
    q.producer(t, producer_access_mode="WaitForExclusive")
    r.producer(t, producer_access_mode="WaitForExclusive")
    return t, p, q, r


def unload(s):
    """Unload: the first in the queue is told ServiceNotReady, the next hears nothing."""
    t, _p, _q, _r = _three(s)
    s.admin("PUT", s.path(t, "/unload"))


def terminate(s):
    """Terminate: the first in the queue is told TopicTerminatedError."""
    t, _p, _q, _r = _three(s)
    s.admin("POST", s.path(t, "/terminate"))


def same_id_again(s):
    """The same producer id while it waits: ServiceNotReady; a SEND of it costs the connection."""
    t = s.topic()
    p, q = s.connect("p", "q")
    p.producer(t, producer_access_mode="Exclusive")
    q.producer(t, producer_access_mode="WaitForExclusive")
    q.producer(t, producer_access_mode="WaitForExclusive")
    q.send("m")


def lower_epoch_of_its_own(s):
    """One that waits with a lower epoch of its own is promoted with it."""
    t = s.topic()
    p, q = s.connect("p", "q")
    p.producer(t, producer_access_mode="Exclusive", topic_epoch=5)
    q.producer(t, producer_access_mode="WaitForExclusive", topic_epoch=1)
    p.CLOSE_PRODUCER(producer_id=1)


def terminated_topic_keeps_the_claim(s):
    """An Exclusive claim refused because the topic is terminated stays: the next one is fenced off."""
    t = s.topic()
    p = s.connect("p")
    p.producer(t)
    s.admin("POST", s.path(t, "/terminate"))
    p.producer(t, id=2, producer_access_mode="Exclusive")
    p.producer(t, id=3, producer_access_mode="Exclusive")
