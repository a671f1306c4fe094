"""Replicated subscriptions, and topics whose namespace belongs to other clusters."""

from functools import partial

SHOWN = ["subscriptions.sub.isReplicated", "subscriptions.sub.replicated"]


def subscribe_with_replicated_state(s):
    """SUBSCRIBE with replicate_subscription_state on a subscription that exists, and the same without it."""
    t = s.topic()
    p, c, d = s.connect("p", "c", "d")
    p.producer(t)
    stats = partial(s.admin, "GET", s.path(t, "/stats"), show=[*SHOWN, "replication.#"])
    status = partial(s.admin, "GET", s.path(t, "/subscription/sub/replicatedSubscriptionStatus"), show=[""])
    for number, value in enumerate((None, True, False, None), start=1):
        options = {} if value is None else {"replicate_subscription_state": value}
        c.subscribe(t, type="Shared", id=number, **options)
        stats()
        status()
    s.admin("POST", s.path(t, "/subscription/sub/replicatedSubscriptionStatus"), False, show=["reason"])
    status()
    d.subscribe(t, type="Shared", replicate_subscription_state=True)
    status()
    s.admin("PUT", s.path(t, "/unload"))
    s.look_up(t)
    c.subscribe(t, type="Shared", id=9)
    status()


def subscribe_reader_with_replicated_state(s):
    """A non-durable subscription and one of a non-persistent topic."""
    t, u = s.topic(), s.topic("u", domain="non-persistent")
    c = s.connect("c")
    for number, replicated in enumerate((False, True), start=1):
        c.subscribe(t, id=number, type="Shared", durable=False, replicate_subscription_state=replicated)
        s.admin("GET", s.path(t, "/stats"), show=SHOWN)
    for number, replicated in enumerate((False, True), start=3):
        c.subscribe(u, id=number, type="Shared", replicate_subscription_state=replicated)
        s.admin("GET", s.path(u, "/stats"), show=SHOWN)
    path = s.path(u, "/subscription/sub/replicatedSubscriptionStatus")
    s.admin("GET", path, show=["reason"])
    s.admin("POST", path, True, show=["reason"])


def replicated_with_a_setting(s):
    """REST creates a replicated subscription; a consumer without the flag keeps it."""
    t = s.topic()
    c = s.connect("c")
    c.producer(t)
    s.admin("PUT", s.path(t, "/subscription/sub?replicated=true"), show=["reason"])
    s.admin("GET", s.path(t, "/stats"), show=SHOWN)
    c.subscribe(t)
    s.admin("GET", s.path(t, "/stats"), show=SHOWN)


def _peer(s, *, peers=True):
    """Return a tenant with a namespace of another cluster, and a topic of it."""
    other, tenant = f"o-{s.token}", f"c-{s.token}"
    urls = {"serviceUrl": "http://localhost:1", "brokerServiceUrl": "pulsar://localhost:2"}
    s.admin("PUT", f"/admin/v2/clusters/{other}", urls, show=["reason"])
    if peers:
        s.admin("POST", "/admin/v2/clusters/standalone/peers", [other], show=["reason"])
    s.admin("PUT", f"/admin/v2/tenants/{tenant}", {"allowedClusters": ["standalone", other]}, show=["reason"])
    s.admin("PUT", f"/admin/v2/namespaces/{tenant}/n", {"replication_clusters": [other]}, show=["reason"])
    return tenant, f"persistent://{tenant}/n/t"


def _ask(s, t, tenant):
    c = s.connect("c")
    c.LOOKUP(topic=t)
    c.PARTITIONED_METADATA(topic=t)
    c.PARTITIONED_METADATA(topic=t, metadata_auto_creation_enabled=False)
    c.GET_TOPICS_OF_NAMESPACE(namespace=f"{tenant}/n")


def namespace_of_a_peer(s):
    """Lookups of a topic whose namespace is on a peer cluster only."""
    tenant, t = _peer(s)
    _ask(s, t, tenant)
    s.admin("POST", "/admin/v2/clusters/standalone/peers", [], show=["reason"])


def namespace_of_another_cluster(s):
    """The same without a peer."""
    tenant, t = _peer(s, peers=False)
    _ask(s, t, tenant)


def partitions_of_a_paused_consumer(s):
    """Partitions are added while a consumer grants no permits: the messages of all partitions wait for it."""
    t = s.topic()
    p, c = s.connect("p", "c")
    s.admin("PUT", s.path(t, "/partitions"), 1)
    s.look_up(f"{t}-partition-0")
    c.subscribe(f"{t}-partition-0", type="Shared")
    for count in (2, 3):
        s.admin("POST", s.path(t, "/partitions"), count, show=["reason"])
    c.PARTITIONED_METADATA(topic=t)
    s.look_up(f"{t}-partition-1", f"{t}-partition-2")
    for number in range(3):
        p.producer(f"{t}-partition-{number}", id=number)
        p.send(f"m{number}", id=number)
    for number in (1, 2):
        c.subscribe(f"{t}-partition-{number}", id=number + 1, type="Shared")
        s.admin("GET", s.path(t, f"-partition-{number}/stats"), show=["subscriptions.sub.msgBacklog"])
    for number in range(3):
        c.flow(10, id=number + 1)
