"""Compaction: what is kept, and what readers with readCompacted receive."""

import time

import wire

CURSOR = "cursors.__compaction"
OWN = "subscriptions.__compaction"


def _compact(s, t, *status):
    """Compact, and wait until the compaction has ended with one of these statuses."""
    s.admin("PUT", s.path(t, "/compaction"))
    status = status or ("SUCCESS",)
    s.admin("GET", s.path(t, "/compaction"), show=["status"], until=lambda a: a.get("status") in status)


def _read(s, t, c, name="compacted", **fields):
    """Read with readCompacted from the earliest message."""
    fields = {"durable": False, "start_message_id": (-1, -1)} | fields
    c.subscribe(t, name, read_compacted=True, **fields)
    c.flow(100, id=fields.get("id", 1))
    c.GET_LAST_MESSAGE_ID(consumer_id=fields.get("id", 1))


def _batch(p, label, *messages, seq=0, **metadata):
    """Publish a batch of messages, each a key (None for no key) and a payload."""
    body = b""
    for index, (key, payload) in enumerate(messages):
        single = wire.PB["SingleMessageMetadata"](payload_size=len(payload), sequence_id=seq + index)
        if key is not None:
            single.partition_key = key
        packed = single.SerializeToString()
        body += len(packed).to_bytes(4, "big") + packed + payload.encode()
    fields = {"producer_name": "p1", "sequence_id": seq, "publish_time": 1700000000000 + seq}
    fields |= {"num_messages_in_batch": len(messages)} | metadata
    entry = wire.entry(wire.fill(wire.MessageMetadata(), fields), body)
    p.send(label, seq=seq, num=len(messages), entry=entry)


def status_and_statistics(s):
    """NOT_RUN, an empty topic, a compaction, a second one without new messages, the end of the subscription, unload."""
    t = s.topic()
    p = s.connect("p")
    p.producer(t)
    s.admin("GET", s.path(t, "/compaction"), show=[""])
    _compact(s, t)
    s.admin("GET", s.path(t, "/internalStats"), show=["compactedLedger", f"{CURSOR}.properties"])
    p.send("a0", partition_key="a")
    p.send("b0", partition_key="b")
    p.send("a1", partition_key="a")
    p.send("none")
    p.send("", partition_key="b", null_value=True)
    _compact(s, t)
    s.wait(0.5)
    shown = ["compactedLedger.entries", f"{CURSOR}.messagesConsumedCounter"]
    s.admin("GET", s.path(t, "/internalStats"), show=shown)
    counts = ["type", "isDurable", "msgBacklog", "msgOutCounter", "bytesOutCounter", "consumers"]
    shown = ["compaction.lastCompactionRemovedEventCount", "compaction.lastCompactionFailedTimestamp"]
    shown += ["bytesOutInternalCounter", "msgOutCounter", *(f"{OWN}.{name}" for name in counts)]
    s.admin("GET", s.path(t, "/stats"), show=shown)
    s.admin("GET", s.path(t, "/subscriptions"), show=[""])
    _compact(s, t)
    s.admin("GET", s.path(t, "/stats"), show=[f"{OWN}.msgOutCounter"])
    s.admin("DELETE", s.path(t, "/subscription/__compaction"))
    s.admin("GET", s.path(t, "/internalStats"), show=["compactedLedger", "cursors"])
    s.admin("GET", s.path(t, "/compaction"), show=["status"])
    _compact(s, t)
    s.admin("PUT", s.path(t, "/unload"))
    s.admin("GET", s.path(t, "/compaction"), show=[""])
    s.admin("GET", s.path(t, "/internalStats"), show=["compactedLedger.entries"])
    s.admin("GET", s.path(t, "/stats"), show=["compaction"])


def refused(s):
    """Topics that cannot be compacted; a partitioned topic; consumers that leave no room for the compactor."""
    t = s.topic()
    for name in ("persistent://public/default/missing~", "non-persistent://public/default/missing~"):
        s.admin("PUT", s.path(name, "/compaction"))
        s.admin("GET", s.path(name, "/compaction"))
    s.admin("PUT", s.path("persistent://public/missing~/t", "/compaction"))
    c = s.connect("c")
    c.subscribe(t)
    s.policy(t, "maxConsumers", 1)
    _compact(s, t, "ERROR")
    s.admin("GET", s.path(t, "/stats"), show=["compaction"])
    parts = s.topic("parts")
    s.admin("PUT", s.path(parts, "/partitions"), 2)
    s.admin("PUT", s.path(parts, "/compaction"))
    s.admin("GET", s.path(parts, "/compaction"))
    path = s.path(parts + "-partition-1", "/compaction")
    s.admin("GET", path, show=["status"], until=lambda a: a["status"] == "SUCCESS")


def again(s):
    """A second compaction starts with the result of the first one."""
    t = s.topic()
    p, c, d = s.connect("p", "c", "d")
    p.producer(t)
    for payload, key in (("a0", "a"), ("b0", "b"), ("c0", "c")):
        p.send(payload, partition_key=key)
    _compact(s, t)
    _read(s, t, c)
    p.send("b1", partition_key="b")
    p.send("", partition_key="c")
    p.send("d0", partition_key="d")
    _compact(s, t)
    _read(s, t, d, "later")
    s.admin("GET", s.path(t, "/stats"), show=["compaction.lastCompactionRemovedEventCount", f"{OWN}.msgOutCounter"])


def batches_again(s):
    """Batches with keys, without keys, with tombstones, and of one message; compacted twice."""
    t = s.topic()
    p, c, d = s.connect("p", "c", "d")
    p.producer(t)
    _batch(p, "b0", ("a", "a0"), (None, "none"), ("b", "b0"), ("c", "c0"))
    _batch(p, "b1", ("b", ""), ("d", "d0"), seq=4)
    _batch(p, "b2", (None, "none"), (None, "none"), seq=6)
    _batch(p, "b3", ("e", "e0"), seq=8)
    _compact(s, t)
    _read(s, t, c)
    s.admin("GET", s.path(t, "/stats"), show=["compaction.lastCompactionRemovedEventCount", f"{OWN}.msgOutCounter"])
    _batch(p, "b4", ("e", ""), ("a", "a1"), ("a", "a2"), ("f", ""), seq=9)
    _compact(s, t)
    _read(s, t, d, "later")
    s.admin("GET", s.path(t, "/stats"), show=["compaction.lastCompactionRemovedEventCount", f"{OWN}.msgOutCounter"])


def damaged_batches(s):
    """A batch that cannot be decompressed is kept; one that is too short makes the compaction fail."""
    t = s.topic()
    p, c, d = s.connect("p", "c", "d")
    p.producer(t)
    p.send("x0", partition_key="x")
    md = {"producer_name": "p1", "sequence_id": 1, "publish_time": 1, "num_messages_in_batch": 2}
    zlib = wire.fill(wire.MessageMetadata(), md | {"compression": "ZLIB", "uncompressed_size": 40})
    p.send("not zlib", entry=wire.entry(zlib, b"not zlib"), num=2)
    p.send("x1", partition_key="x")
    _compact(s, t)
    _read(s, t, c)
    p.send("short", entry=wire.entry(wire.fill(wire.MessageMetadata(), md), b"abc"), num=2)
    _compact(s, t, "ERROR")
    _read(s, t, d, "later")
    s.admin("GET", s.path(t, "/internalStats"), show=["compactedLedger.entries"])


def unreadable_entries(s):
    """An entry without readable metadata is left out; as the last entry, it makes the compaction fail."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    p.send("a0", partition_key="a")
    garbage = b"\x00\x00\x00\x04\xff\xff\xff\xff"
    p.send("garbage", entry=garbage)
    p.send("b0", partition_key="b")
    _compact(s, t)
    _read(s, t, c)
    p.send("garbage", entry=garbage)
    _compact(s, t, "ERROR")
    c.GET_LAST_MESSAGE_ID(consumer_id=1)


def everything_removed(s):
    """Nothing is kept: the reader continues after the horizon, and there is no last message."""
    t = s.topic()
    p, c, d = s.connect("p", "c", "d")
    p.producer(t)
    p.send("a0", partition_key="a")
    p.send("", partition_key="a")
    _compact(s, t)
    _read(s, t, c)
    p.send("", partition_key="b")
    _compact(s, t)
    _read(s, t, d, "later")
    p.send("b0", partition_key="b")


def encrypted(s):
    """An encrypted batch is one message with the key of its entry."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    keys = {"encryption_keys": [{"key": "k", "value": b"secret"}]}
    _batch(p, "b0", ("x", "x0"), ("y", "y0"), partition_key="a", **keys)
    _batch(p, "b1", ("x", "x1"), ("y", "y1"), partition_key="a", seq=2, **keys)
    _batch(p, "b2", ("x", "x2"), ("y", "y2"), seq=4, **keys)
    p.send("x3", partition_key="x", seq=6, **keys)
    _compact(s, t)
    _read(s, t, c)


def delayed(s):
    """A delayed message is compacted like any other."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    later = int(time.time() * 1000) + 60000
    p.send("a0", partition_key="a", deliver_at_time=later)
    p.send("b0", partition_key="b", deliver_at_time=later)
    p.send("a1", partition_key="a")
    _compact(s, t)
    _read(s, t, c)


def terminated(s):
    """A terminated topic can be compacted; its readers reach the end."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    p.send("a0", partition_key="a")
    p.send("a1", partition_key="a")
    s.admin("POST", s.path(t, "/terminate"))
    _compact(s, t)
    _read(s, t, c)
    c.ack(c.received()[-1], cumulative=True)


def chunks(s):
    """Each chunk is a message: only the last chunk of a key is kept."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    shared = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 10, "partition_key": "a"}
    p.send("01234", chunk_id=0, is_chunk=True, **shared)
    p.send("56789", chunk_id=1, is_chunk=True, **shared)
    _compact(s, t)
    _read(s, t, c)


def trimmed(s):
    """Compacted messages remain after their ledger was deleted."""
    t = s.topic()
    p, c, d, e = s.connect("p", "c", "d", "e")
    p.producer(t)
    ids = p.send("a0", partition_key="a") + p.send("b0", partition_key="b")
    ids += p.send("a1", partition_key="a") + p.send("c0", partition_key="c")
    s.admin("PUT", s.path(t, "/unload"))
    p.producer(t)
    p.send("d0", partition_key="d")
    _compact(s, t)
    s.wait(2)
    s.admin("GET", s.path(t, "/internalStats"), show=["ledgers.#", "numberOfEntries", "compactedLedger.entries"])
    _read(s, t, c)
    c.ack(c.received()[0], cumulative=True)
    d.subscribe(t, "durable", read_compacted=True, initialPosition="Earliest")
    d.flow(100)
    e.subscribe(t, "plain", initialPosition="Earliest")
    e.flow(100)
    _read(s, t, e, "between", id=2, start_message_id=(ids[2].ledgerId, ids[2].entryId))
    e.SEEK(consumer_id=2, message_id=ids[1])
    e.subscribe(
        t, "between", id=2, durable=False, read_compacted=True, start_message_id=(ids[1].ledgerId, ids[1].entryId)
    )
    e.flow(100, id=2)


def seek(s):
    """SEEK to a message that was removed, to one that was kept, and to the beginning."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    ids = p.send("a0", partition_key="a") + p.send("b0", partition_key="b") + p.send("a1", partition_key="a")
    _compact(s, t)
    p.send("b1", partition_key="b")
    for to in (ids[0], ids[2], wire.fill(wire.PB["MessageIdData"](), {"ledgerId": -1, "entryId": -1})):
        c.subscribe(t, read_compacted=True, initialPosition="Earliest")
        c.flow(100)
        c.SEEK(consumer_id=1, message_id=to)
    c.subscribe(t, read_compacted=True)
    c.flow(1)
    c.flow(100)
    c.redeliver()


def message_id_at_a_time(s):
    """GET messageid/{time} searches the compacted messages first."""
    t = s.topic()
    p = s.connect("p")
    p.producer(t)
    first = 1700000000000  # the tool's publish time of the first message
    for payload, key in (("a0", "a"), ("b0", "b"), ("a1", "a"), ("c0", "c"), ("c1", "c")):
        p.send(payload, partition_key=key)
    for compacted in (False, True):
        for time_ in (-1, 0, first, first + 1, first + 3, first + 4, first + 9):
            s.admin("GET", s.path(t, f"/messageid/{time_}"), show=["entryId"])
        if not compacted:
            _compact(s, t)
            s.wait(0.5)


def acknowledged(s):
    """A durable subscription continues after what it has acknowledged."""
    t = s.topic()
    p, c, d = s.connect("p", "c", "d")
    p.producer(t)
    p.send("a0", partition_key="a")
    p.send("b0", partition_key="b")
    p.send("a1", partition_key="a")
    p.send("c0", partition_key="c")
    c.subscribe(t, read_compacted=True, initialPosition="Earliest", type="Failover")
    s.wait(1.5)
    c.flow(2)
    c.ack(c.received()[1], cumulative=True)
    c.CLOSE_CONSUMER(consumer_id=1)
    _compact(s, t)
    d.subscribe(t, read_compacted=True, type="Failover")
    s.wait(1.5)
    d.flow(100)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.sub.msgBacklog", f"{OWN}.msgBacklog"])


def threshold(s):
    """With a threshold, a topic gets the subscription of the compactor when it is created."""
    ns = s.namespace()
    s.admin("PUT", f"/admin/v2/namespaces/{ns}/compactionThreshold", 100)
    s.admin("GET", f"/admin/v2/namespaces/{ns}/compactionThreshold", show=[""])
    t = s.topic(ns=ns)
    p = s.connect("p")
    p.producer(t)
    s.admin("GET", s.path(t, "/subscriptions"), show=[""])
    s.admin("GET", s.path(t, "/stats"), show=[f"{OWN}.type", f"{OWN}.isDurable"])
    s.admin("GET", s.path(t, "/compactionThreshold"), show=[""])
    s.admin("GET", s.path(t, "/compactionThreshold?applied=true"), show=[""])
    s.admin("POST", s.path(t, "/compactionThreshold"), -1)
