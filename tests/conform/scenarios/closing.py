"""The order in which clients of a topic are closed."""


def _both(s, domain="persistent"):
    t = s.topic(domain=domain)
    p = s.connect("p")
    p.subscribe(t)
    p.producer(t)
    return t, p


def unload(s):
    """Unload: the broker closes producers, then consumers."""
    t, _p = _both(s)
    s.admin("PUT", s.path(t, "/unload"))


def delete(s):
    """Forced deletion: the broker closes consumers, then producers, and drops a SEND that arrives afterwards."""
    t, p = _both(s)
    s.admin("DELETE", s.path(t, "?force=true"))
    p.send("m0")


def terminate(s):
    """Terminate: the broker sends CLOSE_PRODUCER, then REACHED_END_OF_TOPIC."""
    t, _p = _both(s)
    s.admin("POST", s.path(t, "/terminate"))


def encryption_switched_on(s):
    """If encryption becomes required, the broker closes the producers that are not encrypted."""
    ns = s.namespace()
    t = s.topic(ns=ns)
    p = s.connect("p")
    p.producer(t)
    p.producer(t, id=2, encrypted=True)
    s.admin("POST", f"/admin/v2/namespaces/{ns}/encryptionRequired", True)
    s.wait(1)


def initial_subscription_refused(s):
    """Without auto-creation of subscriptions: NotAllowedError, but not for a non-persistent topic."""
    ns = s.namespace(autoSubscriptionCreation={"allowAutoSubscriptionCreation": False})
    t = s.topic(ns=ns)
    p = s.connect("p")
    p.producer(t, initial_subscription_name="early")
    p.producer(t)
    n = s.topic("np", domain="non-persistent")
    p.producer(n, id=3, initial_subscription_name="early")


def non_persistent_unload(s):
    """Unload deletes a non-persistent topic: no list contains it, and its epoch starts again at 0."""
    ns = s.namespace()
    t = s.topic(domain="non-persistent", ns=ns)
    p, q = s.connect("p", "q")
    p.producer(t, producer_access_mode="Exclusive")
    q.GET_TOPICS_OF_NAMESPACE(namespace=ns, mode="NON_PERSISTENT")
    s.admin("PUT", s.path(t, "/unload"))
    q.GET_TOPICS_OF_NAMESPACE(namespace=ns, mode="NON_PERSISTENT")
    s.look_up(t)
    p.producer(t, producer_access_mode="Exclusive")
