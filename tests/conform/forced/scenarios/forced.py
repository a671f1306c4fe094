"""Forced deletion of namespaces and tenants."""


def _tenant(s):
    """Create a tenant with two namespaces and a topic; return the tenant, a namespace and the topic."""
    tenant = f"c-{s.token}"
    s.admin("PUT", f"/admin/v2/tenants/{tenant}", {"allowedClusters": ["standalone"]})
    s.admin("PUT", f"/admin/v2/namespaces/{tenant}/m")
    s.admin("PUT", f"/admin/v2/namespaces/{tenant}/n")
    return tenant, f"{tenant}/n", s.topic(ns=f"{tenant}/n")


def _delete(s, path):
    s.admin("DELETE", f"/admin/v2/{path}", show=["reason"])
    s.admin("DELETE", f"/admin/v2/{path}", show=["reason"])


def namespace_with_clients(s):
    """Clients of all kinds of topics are disconnected; a later command needs a lookup."""
    tenant, ns, t = _tenant(s)
    n = s.topic("np", ns=ns, domain="non-persistent")
    u = s.topic("u", ns=ns)
    s.admin("PUT", s.path(u, "/partitions"), 2)
    s.look_up(f"{u}-partition-1")
    p, q, r = s.connect("p", "q", "r")
    p.producer(t)
    q.subscribe(n)
    r.subscribe(f"{u}-partition-1")
    s.admin("DELETE", f"/admin/v2/namespaces/{ns}", show=["reason"])
    _delete(s, f"namespaces/{ns}?force=true")
    p.producer(t)
    for domain in ("persistent", "non-persistent"):
        s.admin("GET", f"/admin/v2/{domain}/{ns}/partitioned", show=["reason"])
    s.admin("PUT", f"/admin/v2/namespaces/{ns}")
    s.admin("GET", f"/admin/v2/persistent/{ns}/partitioned", show=[""])
    _delete(s, f"tenants/{tenant}?force=true")


def tenant_with_clients(s):
    """A tenant is deleted with its namespaces."""
    tenant, _ns, t = _tenant(s)
    p, c = s.connect("p", "c")
    p.producer(t)
    c.subscribe(t)
    _delete(s, f"tenants/{tenant}")
    _delete(s, f"tenants/{tenant}?force=true")
    s.admin("GET", f"/admin/v2/namespaces/{tenant}", show=["reason"])


def missing(s):
    """Names that do not exist."""
    for path in (f"tenants/c-{s.token}", f"namespaces/c-{s.token}/n", "namespaces/public/missing", "tenants/a*b"):
        _delete(s, f"{path}?force=true")


def topics_with_clients(s):
    """Topics and subscriptions with clients."""
    tenant, ns, t = _tenant(s)
    p, c = s.connect("p", "c")
    p.producer(t)
    c.subscribe(t)
    for force in ("", "?force=true"):
        s.admin("DELETE", s.path(t, f"/subscription/sub{force}"), show=["reason"])
    for force in ("", "?force=true"):
        s.admin("DELETE", s.path(t, force), show=["reason"])
    _delete(s, f"namespaces/{ns}")
    _delete(s, f"tenants/{tenant}?force=true")
