"""Who is closed first."""


def _both(s, domain="persistent"):
    t = s.topic(domain=domain)
    p = s.connect("p")
    p.subscribe(t)
    p.producer(t)
    return t, p


def unload(s):
    """Unload: producers, then consumers."""
    t, _p = _both(s)
    s.admin("PUT", s.path(t, "/unload"))


def delete(s):
    """Forced deletion: consumers, then producers; a SEND on its way is dropped."""
    t, p = _both(s)
    s.admin("DELETE", s.path(t, "?force=true"))
    p.send("m0")


def terminate(s):
    """Terminate: CLOSE_PRODUCER, then REACHED_END_OF_TOPIC."""
    t, _p = _both(s)
    s.admin("POST", s.path(t, "/terminate"))


def encryption_switched_on(s):
    """Encryption required from now on: producers that did not promise it are closed."""
    ns = s.namespace()
    t = s.topic(ns=ns)
    p = s.connect("p")
    p.producer(t)
    p.producer(t, id=2, encrypted=True)
    s.admin("POST", f"/admin/v2/namespaces/{ns}/encryptionRequired", True)
    s.wait(1)


def initial_subscription_refused(s):
    """Auto-creation of subscriptions off: NotAllowedError, but on a non-persistent topic nobody asks."""
    ns = s.namespace(autoSubscriptionCreation={"allowAutoSubscriptionCreation": False})
    t = s.topic(ns=ns)
    p = s.connect("p")
    p.producer(t, initial_subscription_name="early")
    p.producer(t)
    n = s.topic("np", domain="non-persistent")
    p.producer(n, id=3, initial_subscription_name="early")


def non_persistent_unload(s):
    """A non-persistent topic is forgotten by its unload: no list has it, and its epoch begins anew."""
    ns = s.namespace()
    t = s.topic(domain="non-persistent", ns=ns)
    p, q = s.connect("p", "q")
    p.producer(t, producer_access_mode="Exclusive")
    q.GET_TOPICS_OF_NAMESPACE(namespace=ns, mode="NON_PERSISTENT")
    s.admin("PUT", s.path(t, "/unload"))
    q.GET_TOPICS_OF_NAMESPACE(namespace=ns, mode="NON_PERSISTENT")
    s.look_up(t)
    p.producer(t, producer_access_mode="Exclusive")
