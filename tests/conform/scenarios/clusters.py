"""The clusters of a topic."""


def _scene(s):
    """Return a namespace of this cluster and another one, a topic of it with clients, and the other cluster."""
    other, tenant = f"o-{s.token}", f"c-{s.token}"
    urls = {"serviceUrl": "http://localhost:1", "brokerServiceUrl": "pulsar://localhost:2"}
    s.admin("PUT", f"/admin/v2/clusters/{other}", urls)
    s.admin("PUT", f"/admin/v2/tenants/{tenant}", {"allowedClusters": ["standalone", other]})
    s.admin("PUT", f"/admin/v2/namespaces/{tenant}/n")
    t = s.topic(ns=f"{tenant}/n")
    p, c = s.connect("p", "c")
    p.producer(t)
    c.subscribe(t, type="Shared")
    p.send("m0")
    return f"{tenant}/n", t, p, other


def _gone(s, ns, t):
    s.admin("GET", f"/admin/v2/persistent/{ns}", show=[""])
    s.admin("GET", s.path(t, "/stats"), show=["reason"])


def topic_without_this_cluster(s):
    """The clusters of a topic must contain this one."""
    ns, t, p, other = _scene(s)
    s.admin("GET", s.path(t, "/replication"), show=[""])
    s.admin("GET", s.path(t, "/replication?applied=true"), show=[""])
    s.admin("POST", s.path(t, "/replication"), [other], show=["reason"])
    s.wait(2)
    _gone(s, ns, t)
    s.admin("GET", s.path(t, "/replication"), show=["reason"])
    p.producer(t, id=2)


def topic_with_another_cluster(s):
    """A topic keeps its clients while this cluster is in its list; without a list, the namespace's applies."""
    _, t, p, _ = _scene(s)
    s.admin("POST", s.path(t, "/replication"), ["standalone"], show=["reason"])
    s.admin("GET", s.path(t, "/replication"), show=[""], until=lambda found: found)
    s.admin("GET", s.path(t, "/replication?applied=true"), show=[""])
    for clusters in ([], ["missing"], None):
        s.admin("POST", s.path(t, "/replication"), clusters, show=["reason"])
    s.admin("DELETE", s.path(t, "/replication"), show=["reason"])
    s.wait(1)
    s.admin("GET", s.path(t, "/replication"), show=[""])
    s.admin("GET", s.path(t, "/replication?applied=true"), show=[""])
    p.send("m1")
