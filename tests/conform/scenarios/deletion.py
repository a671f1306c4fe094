"""Deletion of namespaces and tenants: what a namespace may still contain, and what the broker answers otherwise."""

ASSIGN = "persistent://pulsar/system/transaction_coordinator_assign"


def _tenant(s):
    """Create a tenant with one namespace; return the tenant and the namespace."""
    tenant = f"c-{s.token}"
    s.admin("PUT", f"/admin/v2/tenants/{tenant}", {"allowedClusters": ["standalone"]})
    s.admin("PUT", f"/admin/v2/namespaces/{tenant}/n")
    return tenant, f"{tenant}/n"


def _delete(s, ns, query=""):
    s.admin("DELETE", f"/admin/v2/namespaces/{ns}{query}", show=["reason"])


def _delete_tenant(s, tenant, query=""):
    s.admin("DELETE", f"/admin/v2/tenants/{tenant}{query}", show=["reason"])


def _all_deleted(s, tenant, ns):
    _delete(s, ns)
    _delete(s, ns)
    s.admin("GET", f"/admin/v2/namespaces/{tenant}", show=[""])
    _delete_tenant(s, tenant)
    _delete_tenant(s, tenant)


def _lists(s, ns, system="true"):
    """Show the topics of a namespace in every list."""
    for rest in ("topics?mode=ALL", f"topics?mode=ALL&includeSystemTopic={system}"):
        s.admin("GET", f"/admin/v2/namespaces/{ns}/{rest}", show=[""])
    for domain in ("persistent", "non-persistent"):
        s.admin("GET", f"/admin/v2/{domain}/{ns}?includeSystemTopic={system}", show=[""])
        s.admin("GET", f"/admin/v2/{domain}/{ns}/partitioned?includeSystemTopic={system}", show=[""])


def _begin(s, ttl=60000):
    """Return the connection of a coordinator and the ids of a transaction."""
    tc = s.connect("tc")
    s.look_up(f"{ASSIGN}-partition-0")
    tc.TC_CLIENT_CONNECT_REQUEST(tc_id=0)
    tc.NEW_TXN(txn_ttl_millis=ttl, tc_id=0)
    answer = tc.last("NEW_TXN_RESPONSE")
    return tc, {"txnid_most_bits": answer.txnid_most_bits, "txnid_least_bits": answer.txnid_least_bits}


def untouched(s):
    """A namespace that nobody used, and its tenant."""
    tenant, ns = _tenant(s)
    _lists(s, ns)
    _delete_tenant(s, tenant)
    _all_deleted(s, tenant, ns)


def emptied(s):
    """A namespace whose only topic was deleted: the system topics do not count, and go with it."""
    tenant, ns = _tenant(s)
    t = s.topic(ns=ns)
    p, c = s.connect("p", "c")
    p.producer(t)
    c.subscribe(t)
    p.send("m0")
    _delete(s, ns)
    s.admin("DELETE", s.path(t), show=["reason"])
    with s.together():
        p.CLOSE_PRODUCER(producer_id=1)
        c.CLOSE_CONSUMER(consumer_id=1)
    s.admin("DELETE", s.path(t), show=["reason"])
    _lists(s, ns)
    _delete_tenant(s, tenant)
    _all_deleted(s, tenant, ns)


def forced_topic(s):
    """A topic that was deleted with connected clients."""
    tenant, ns = _tenant(s)
    t = s.topic(ns=ns)
    p, c = s.connect("p", "c")
    p.producer(t)
    c.subscribe(t)
    s.admin("DELETE", s.path(t, "?force=true"), show=["reason"])
    _all_deleted(s, tenant, ns)
    p.producer(t)
    c.subscribe(t)


def subscription_only(s):
    """A topic without clients but with a subscription; force is not allowed."""
    tenant, ns = _tenant(s)
    t = s.topic(ns=ns)
    c = s.connect("c")
    c.subscribe(t)
    c.CLOSE_CONSUMER(consumer_id=1)
    _delete(s, ns)
    _delete(s, ns, "?force=true")
    _delete_tenant(s, tenant, "?force=true")
    s.admin("DELETE", s.path(t, "/subscription/sub"), show=["reason"])
    _delete(s, ns)
    s.admin("DELETE", s.path(t), show=["reason"])
    _all_deleted(s, tenant, ns)


def topic_policies(s):
    """The policies of topics are system messages of the namespace; they go with the topic, or with the namespace."""
    tenant, ns = _tenant(s)
    t = s.topic(ns=ns)
    p = s.connect("p")
    p.producer(t)
    s.policy(t, "retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 10})
    p.CLOSE_PRODUCER(producer_id=1)
    _delete(s, ns)
    s.admin("DELETE", s.path(t), show=["reason"])
    _all_deleted(s, tenant, ns)
    s.admin("PUT", f"/admin/v2/tenants/{tenant}", {"allowedClusters": ["standalone"]})
    s.admin("PUT", f"/admin/v2/namespaces/{ns}")
    s.admin("PUT", s.path(t), show=["reason"])
    s.admin("GET", s.path(t, "/retention"), show=[""])
    s.admin("DELETE", s.path(t), show=["reason"])
    _all_deleted(s, tenant, ns)


def partitioned(s):
    """A partitioned topic without clients counts, whether its partitions exist or not."""
    tenant, ns = _tenant(s)
    t = s.topic(ns=ns)
    s.admin("PUT", s.path(t, "/partitions"), 2)
    _lists(s, ns, "false")
    _delete(s, ns)
    s.admin("DELETE", s.path(t + "-partition-1"), show=["reason"])
    s.admin("DELETE", s.path(t + "-partition-0"), show=["reason"])
    _delete(s, ns)
    _lists(s, ns, "false")
    s.admin("DELETE", s.path(t), show=["reason"])
    s.admin("DELETE", s.path(t, "/partitions"), show=["reason"])
    _all_deleted(s, tenant, ns)


def partitions_in_use(s):
    """A partitioned topic with a consumer of one partition."""
    tenant, ns = _tenant(s)
    t = s.topic(ns=ns)
    s.admin("PUT", s.path(t, "/partitions"), 2)
    s.look_up(f"{t}-partition-1")
    c = s.connect("c")
    c.subscribe(f"{t}-partition-1")
    s.admin("DELETE", s.path(t, "/partitions"), show=["reason"])
    _delete(s, ns)
    s.admin("DELETE", s.path(t, "/partitions?force=true"), show=["reason"])
    _all_deleted(s, tenant, ns)


def non_persistent(s):
    """A non-persistent topic counts while it has clients."""
    tenant, ns = _tenant(s)
    t = s.topic(ns=ns, domain="non-persistent")
    c, w = s.connect("c", "w")
    c.subscribe(t)
    _lists(s, ns)
    _delete(s, ns)
    c.CLOSE_CONSUMER(consumer_id=1)
    _lists(s, ns)
    w.GET_TOPICS_OF_NAMESPACE(namespace=ns, mode="NON_PERSISTENT")
    _all_deleted(s, tenant, ns)


def non_persistent_by_rest(s):
    """A non-persistent topic that REST created has no clients; it is deleted twice without an error."""
    tenant, ns = _tenant(s)
    t = s.topic(ns=ns, domain="non-persistent")
    s.admin("PUT", s.path(t), show=["reason"])
    _lists(s, ns)
    s.admin("DELETE", s.path(t), show=["reason"])
    s.admin("DELETE", s.path(t), show=["reason"])
    s.admin("PUT", s.path(t), show=["reason"])
    _all_deleted(s, tenant, ns)


def non_persistent_partitions(s):
    """A partitioned non-persistent topic counts without clients."""
    tenant, ns = _tenant(s)
    t = s.topic(ns=ns, domain="non-persistent")
    s.admin("PUT", s.path(t, "/partitions"), 2)
    _lists(s, ns)
    _delete(s, ns)
    s.admin("DELETE", s.path(t, "/partitions"), show=["reason"])
    _all_deleted(s, tenant, ns)


def transaction(s):
    """The topics of transactions do not count: snapshots, and the pending acknowledgements of a subscription."""
    tenant, ns = _tenant(s)
    t = s.topic(ns=ns)
    tc, txn = _begin(s)
    p, c = s.connect("p", "c")
    c.subscribe(t, type="Shared")
    p.producer(t, txn_enabled=True)
    ids = p.send("m0")
    c.flow(1)
    tc.ADD_PARTITION_TO_TXN(partitions=[t], **txn)
    tc.ADD_SUBSCRIPTION_TO_TXN(subscription=[{"topic": t, "subscription": "sub"}], **txn)
    p.send("m1", txn=(txn["txnid_most_bits"], txn["txnid_least_bits"]))
    c.ack(*ids, **txn)
    tc.END_TXN(txn_action="COMMIT", **txn)
    with s.together():
        p.CLOSE_PRODUCER(producer_id=1)
        c.CLOSE_CONSUMER(consumer_id=1)
    _lists(s, ns)
    _delete(s, ns)
    s.admin("DELETE", s.path(t), show=["reason"])
    _lists(s, ns)
    _all_deleted(s, tenant, ns)


def open_transaction(s):
    """A topic with an open transaction is deleted like any other; the transaction ends without it."""
    tenant, ns = _tenant(s)
    t = s.topic(ns=ns)
    tc, txn = _begin(s)
    p = s.connect("p")
    p.producer(t, txn_enabled=True)
    tc.ADD_PARTITION_TO_TXN(partitions=[t], **txn)
    p.send("m0", txn=(txn["txnid_most_bits"], txn["txnid_least_bits"]))
    s.admin("DELETE", s.path(t, "?force=true"), show=["reason"])
    _all_deleted(s, tenant, ns)


def reader_of_policies(s):
    """A client that reads the topic of the policies does not keep the namespace, and is disconnected."""
    tenant, ns = _tenant(s)
    t = s.topic(ns=ns)
    p = s.connect("p")
    p.producer(t)
    events = f"persistent://{ns}/__change_events"
    s.look_up(events)
    c = s.connect("c")
    c.subscribe(events, durable=False)
    s.admin("DELETE", s.path(t, "?force=true"), show=["reason"])
    _all_deleted(s, tenant, ns)


def names_like_system_topics(s):
    """Only four names, and names that end like those of pending acknowledgements, are system topics."""
    tenant, ns = _tenant(s)
    for name in ("__transaction_buffer_snapshot_other", "__change_events_2", "__system", "x__transaction_pending_ack"):
        s.admin("PUT", f"/admin/v2/persistent/{ns}/{name}", show=["reason"])
    for name in ("__change_events", "__transaction_buffer_snapshot_indexes", "__transaction_buffer_snapshot_segments"):
        s.admin("PUT", f"/admin/v2/persistent/{ns}/{name}", show=["reason"])
    _lists(s, ns)
    _delete(s, ns)
    for name in ("__transaction_buffer_snapshot_other", "__change_events_2", "__system"):
        s.admin("DELETE", f"/admin/v2/persistent/{ns}/{name}", show=["reason"])
    _lists(s, ns)
    _all_deleted(s, tenant, ns)


def policies_of_the_namespace(s):
    """A new namespace with the name of a deleted one has no policies, permissions, quotas or bundles of the old one."""
    tenant, ns = _tenant(s)
    base = f"/admin/v2/namespaces/{ns}"
    s.admin("POST", f"{base}/messageTTL", 60)
    s.admin("POST", f"{base}/backlogQuota", {"limitSize": 10, "policy": "producer_exception"})
    s.admin("POST", f"{base}/permissions/role", ["produce"])
    s.admin("PUT", f"{base}/property/key/value")
    s.admin("PUT", f"{base}/0x00000000_0x40000000/split")
    s.admin("GET", f"{base}/bundles", show=["numBundles"])
    _delete(s, ns)
    s.admin("GET", base, show=["reason"])
    s.admin("PUT", base)
    s.admin("GET", base, show=[""])
    _all_deleted(s, tenant, ns)


def clusters(s):
    """A namespace of two clusters is not deleted; one of another cluster is deleted there."""
    tenant, other = f"c-{s.token}", f"o-{s.token}"
    s.admin("PUT", f"/admin/v2/clusters/{other}", {"serviceUrl": "http://localhost:1"})
    s.admin("PUT", f"/admin/v2/tenants/{tenant}", {"allowedClusters": ["standalone", other]})
    ns = f"{tenant}/n"
    s.admin("PUT", f"/admin/v2/namespaces/{ns}", {"replication_clusters": ["standalone", other]})
    _delete(s, ns)
    s.admin("POST", f"/admin/v2/namespaces/{ns}/replication", ["standalone"])
    s.admin("DELETE", f"/admin/v2/namespaces/{ns}/0x00000000_0x40000000", show=["reason"])
    s.admin("POST", f"/admin/v2/namespaces/{ns}/allowedClusters", ["standalone", other])
    _delete(s, ns)
    s.admin("POST", f"/admin/v2/namespaces/{ns}/allowedClusters", ["standalone"])
    _delete(s, ns)
    _delete_tenant(s, tenant)
    s.admin("DELETE", f"/admin/v2/clusters/{other}", show=["reason"])


def bundle(s):
    """Bundles: unknown, without topics, and with a topic."""
    tenant, ns = _tenant(s)
    base = f"/admin/v2/namespaces/{ns}"
    for part in ("x", "0x00000000_0x10000000", "0x00000000_0x40000000", "0x40000000_0x80000000"):
        s.admin("DELETE", f"{base}/{part}", show=["reason"])
    t = s.topic(ns=ns)
    s.admin("PUT", s.path(t), show=["reason"])
    answer = s.http("GET", f"/lookup/v2/topic/{t.replace('://', '/')}/bundle")[1]
    status, got = s.http("DELETE", f"{base}/{answer}")
    s.did(("", f"delete the bundle of the topic: {status} {got['reason']}"))
    s.admin("DELETE", "/admin/v2/namespaces/public/missing/0x00000000_0x40000000", show=["reason"])
    s.admin("DELETE", s.path(t))
    _all_deleted(s, tenant, ns)


def missing(s):
    """Names that do not exist, or are not valid."""
    for ns in (f"c-{s.token}/n", "public/missing", "public/a*b"):
        for query in ("", "?force=true", "?force=x"):
            _delete(s, ns, query)
    for tenant in (f"c-{s.token}", "a*b"):
        _delete_tenant(s, tenant)
        _delete_tenant(s, tenant, "?force=true")
    _delete_tenant(s, "public")
    _delete_tenant(s, "pulsar")
    _delete(s, "public/default", "?force=true")


def watched(s):
    """A list of topics that is watched: the system topics of the namespace are not announced."""
    tenant, ns = _tenant(s)
    t = s.topic(ns=ns)
    w, p = s.connect("w", "p")
    w.WATCH_TOPIC_LIST(watcher_id=1, namespace=ns, topics_pattern=f"persistent://{ns}/.*")
    p.producer(t)
    s.admin("DELETE", s.path(t, "?force=true"))
    _all_deleted(s, tenant, ns)
    w.GET_TOPICS_OF_NAMESPACE(namespace=ns)
