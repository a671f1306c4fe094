"""Deduplication, delays, schemas, policies and other state of a topic after a restart of the broker.

There is no scenario with compaction: after a restart, the real broker has the compacted ledger in some runs only.
"""

import json
import time


def _after(s, t, *names):
    """Look up a topic after a restart, and return new connections."""
    s.look_up(t)
    return s.connect(*names)


def deduplication(s):
    """PRODUCER_SUCCESS contains the last sequence id; messages with lower ids are duplicates."""
    ns = s.namespace(deduplication=True)
    t = s.topic(ns=ns)
    p, c = s.connect("p", "c")
    c.subscribe(t)
    p.producer(t)
    p.send("m0", "m1", "m2")
    p.send("b", seq=10, batch=4, highest=13)
    s.restart()
    p, c = _after(s, t, "p2", "c2")
    p.producer(t, name="p1")
    p.send("m2", seq=2, producer_name="p1")
    p.send("b", seq=10, batch=4, highest=13, producer_name="p1")
    p.send("m14", seq=14, producer_name="p1")
    c.subscribe(t)
    s.receive(c, 5)
    s.show(t, "/internalStats")
    s.show(t, "/stats")
    s.restart()
    p = _after(s, t, "p3")
    p.producer(t, name="p1")


def deduplication_of_a_topic(s):
    """The same with the policy of the topic; after it is removed, sequence ids are not compared."""
    t = s.topic()
    p = s.connect("p")
    p.producer(t)
    s.policy(t, "deduplicationEnabled", True)
    s.admin("PUT", s.path(t, "/unload"))
    s.look_up(t)
    p = s.connect("q")
    p.producer(t, name="p1")
    p.send("m5", seq=5, producer_name="p1")
    s.restart()
    p = _after(s, t, "p2")
    p.producer(t, name="p1")
    p.send("m5", seq=5, producer_name="p1")
    s.show(t, "/internalStats")


def delayed(s):
    """Delayed messages wait after the restart; those whose time has come are delivered."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    c.subscribe(t, type="Shared")
    now = int(time.time() * 1000)
    p.send("soon", deliver_at_time=now + 3000)
    p.send("later", deliver_at_time=now + 3_600_000)
    p.send("now")
    c.CLOSE_CONSUMER(consumer_id=1)
    s.restart()
    c = _after(s, t, "c2")
    s.wait(3)
    c.subscribe(t, type="Shared")
    s.receive(c, 2)
    s.wait(1.5)
    s.show(t, "/stats")


def _avro(*fields):
    named = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    record = {"type": "record", "name": "R", "fields": named}
    return {"name": "s", "type": "Avro", "schema_data": json.dumps(record).encode()}


def schemas(s):
    """Versions of schemas, and a deleted schema."""
    a, b = ("a", "int"), ("b", ["null", "string"], None)
    t, u = s.topic(), s.topic("u")
    p = s.connect("p")
    p.producer(t, schema=_avro(a))
    p.producer(t, id=2, schema=_avro(a, b))
    p.producer(u, id=3, schema=_avro(a))
    p.CLOSE_PRODUCER(producer_id=3)
    s.admin("DELETE", f"/admin/v2/schemas/{u.partition('://')[2]}/schema?force=false", show=["version"])
    s.restart()
    s.look_up(u)
    p = _after(s, t, "p2")
    p.GET_SCHEMA(topic=t)
    p.GET_SCHEMA(topic=t, schema_version=(0).to_bytes(8, "big"))
    p.GET_SCHEMA(topic=u)
    p.producer(t, schema=_avro(a, b))
    p.producer(t, id=2, schema=_avro(("a", "string")))
    p.producer(u, id=3, schema=_avro(b))


POLICIES = {
    "retention": {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20},
    "maxProducers": 3,
    "messageTTL": 100,
    "maxUnackedMessagesOnConsumer": 5,
    "delayedDelivery": {"active": True, "tickTime": 2000, "maxDeliveryDelayInMillis": 0},
    "compactionThreshold": 1024,
    "subscriptionTypesEnabled": ["Exclusive"],
    "publishRate": {"publishThrottlingRateInMsg": 100, "publishThrottlingRateInByte": 1000},
}


def policies(s):
    """Policies of the namespace and of the topic, and properties of both."""
    ns = s.namespace(
        retention={"retentionTimeInMinutes": 60, "retentionSizeInMB": 100},
        maxConsumersPerTopic=7,
        backlogQuota={"limitSize": 1000, "policy": "producer_exception"},
    )
    t = s.topic(ns=ns)
    p = s.connect("p")
    p.producer(t)
    for name, value in POLICIES.items():
        s.policy(t, name, value)
    s.admin("PUT", s.path(t, "/properties"), {"owner": "me"})
    s.admin("PUT", f"/admin/v2/namespaces/{ns}/property/k/v")
    s.admin("PUT", "/admin/v2/tenants/c-" + s.token, {"allowedClusters": ["standalone"], "adminRoles": ["r"]})
    s.restart()
    s.look_up(t)
    s.admin("GET", f"/admin/v2/namespaces/{ns}", show=[""])
    s.admin("GET", f"/admin/v2/namespaces/{ns}/properties", show=[""])
    s.admin("GET", "/admin/v2/tenants/c-" + s.token, show=[""])
    s.admin("GET", s.path(t, "/properties"), show=[""])
    for name, value in POLICIES.items():
        s.admin("GET", s.path(t, "/" + name), show=[""], until=lambda a, value=value: a == value)
    c = _after(s, t, "c2")
    c.subscribe(t, type="Failover")
    c.subscribe(t, id=2)
    s.admin("DELETE", s.path(t, "/maxProducers"))
    s.restart()
    s.look_up(t)
    s.wait(1)
    s.admin("GET", s.path(t, "/maxProducers"), show=[""])


def non_persistent(s):
    """Nothing of a non-persistent topic remains, except its partitions."""
    t, u = s.topic(domain="non-persistent"), s.topic("u", domain="non-persistent", lookup=False)
    s.raw_ids = True
    p, c = s.connect("p", "c")
    c.subscribe(t)
    p.producer(t)
    c.flow(10)
    p.send("m0")
    s.admin("PUT", s.path(u, "/partitions"), 2)
    s.restart()
    c = _after(s, t, "c2")
    s.admin("GET", s.path(t, "/stats"))
    c.PARTITIONED_METADATA(topic=u)
    s.admin("GET", s.path(u, "/partitions"), show=[""])
    c.subscribe(t)
    s.show(t, "/stats")


def shadow(s):
    """A shadow topic has the messages of its source; its cursor remains; its replicator continues.

    A real broker loads the topics of a namespace bundle in no particular order, and a shadow topic that is loaded after
    its source fences the open ledger of the source. The two topics are therefore in different namespaces, the shadow
    topic is loaded first, and the subscription "keep" prevents that a closed ledger is deleted.
    """
    t = s.topic(ns=s.namespace())
    p, c, d = s.connect("p", "c", "d")
    p.producer(t)
    d.subscribe(t, "keep")
    sh = s.topic("shadow", ns=s.namespace(), lookup=False)
    s.admin("PUT", s.path(sh), {"PULSAR.SHADOW_SOURCE": t})
    s.look_up(sh)
    s.admin("PUT", s.path(t, "/shadowTopics"), [sh])
    s.admin("GET", s.path(sh, "/stats"), show=["publishers.#"], until=lambda a: a["publishers"])
    c.subscribe(sh)
    p.send("m0", "m1")
    s.receive(c, 2)
    c.ack(c.received()[0])
    s.restart()
    p, c = _after(s, sh, "p2", "c2")
    c.subscribe(sh)
    s.receive(c, 1)
    s.look_up(t)
    p.producer(t, name="p1")
    s.admin("GET", s.path(sh, "/stats"), show=["publishers.#"], until=lambda a: a["publishers"])
    s.admin("GET", s.path(t, "/shadowTopics"), show=[""])
    p.send("m2", producer_name="p1", seq=10)
    s.receive(c, 2)
    # The size of a replicated message depends on the number of digits of its ledger id. The shadow topic also lists a
    # fenced ledger without entries.
    shown = ["numberOfEntries", "entriesAddedCounter", "cursors.sub.individuallyDeletedMessages"]
    s.admin("GET", s.path(sh, "/internalStats"), show=shown)
    s.show(t, "/internalStats")


shadow.not_compared = {
    "KILL": "A real broker restores different entries from run to run. It opens the last ledger of the source without "
    "recovery (ShadowManagedLedgerImpl.doInitialize), so the end of the shadow topic is the last add confirmed that "
    "BookKeeper stored before the end of the process, until the source has recovered the ledger. If the end is before "
    "the mark-delete position, acknowledged messages are delivered again."
}


def list_of_topics(s):
    """Topics, subscriptions and namespaces in lists."""
    ns = s.namespace()
    t, u = s.topic(ns=ns), s.topic("u", ns=ns)
    c, d = s.connect("c", "d")
    c.subscribe(t)
    d.subscribe(u)
    s.restart()
    s.look_up(t)
    s.admin("GET", f"/admin/v2/persistent/{ns}", show=[""])
    c = s.connect("c2")
    c.GET_TOPICS_OF_NAMESPACE(namespace=ns, mode="PERSISTENT")
    s.admin("GET", s.path(u, "/subscriptions"), show=[""])
