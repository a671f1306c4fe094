"""Compaction thresholds that are checked every five seconds."""

CHECK = 9
"""Seconds in which the broker checks the threshold and compacts a topic."""


def _publish(p, count, first=0):
    for number in range(count):
        p.send(f"m{first + number:02}", partition_key=str(number % 2))


def of_the_namespace(s):
    """Above the threshold a topic is compacted, and again when the messages after the compaction exceed it."""
    ns = s.namespace()
    t = s.topic(ns=ns)
    s.admin("PUT", f"/admin/v2/namespaces/{ns}/compactionThreshold", 200)
    p, c = s.connect("p", "c")
    p.producer(t)
    shown = ["compactedLedger.entries", "numberOfEntries"]
    for first in (0, 4, 8):
        _publish(p, 4, first)
        s.wait(CHECK)
        s.admin("GET", s.path(t, "/internalStats"), show=shown)
    c.subscribe(t, durable=False, read_compacted=True, start_message_id=(-1, -1))
    c.flow(100)


def of_the_topic(s):
    """The threshold of a topic replaces that of its namespace; 0 switches the compaction off."""
    ns = s.namespace()
    t, u = s.topic(ns=ns), s.topic("u", ns=ns)
    p = s.connect("p")
    p.producer(t)
    p.producer(u, id=2)
    s.policy(u, "compactionThreshold", 0)
    s.policy(t, "compactionThreshold", 10)
    s.admin("PUT", f"/admin/v2/namespaces/{ns}/compactionThreshold", 100)
    _publish(p, 6)
    for number in range(6):
        p.send(f"m{number}", id=2, partition_key="a")
    s.wait(CHECK)
    for topic in (t, u):
        s.admin("GET", s.path(topic, "/compaction"), show=["status"])
