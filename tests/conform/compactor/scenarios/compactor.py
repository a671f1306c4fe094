"""Compaction by event time, which keeps messages without key."""

import wire


def _compact_and_read(s, t, c):
    s.admin("PUT", s.path(t, "/compaction"))
    s.admin("GET", s.path(t, "/compaction"), show=["status"], until=lambda answer: answer["status"] == "SUCCESS")
    c.subscribe(t, "compacted", durable=False, start_message_id=(-1, -1), read_compacted=True)
    c.flow(100)
    shown = ["compaction.lastCompactionRemovedEventCount", "subscriptions.__compaction.msgOutCounter"]
    s.admin("GET", s.path(t, "/stats"), show=shown)


def _batch(p, label, *messages, seq=0):
    """Publish a batch of messages, each a key (None for no key), a payload and an event time."""
    body = b""
    for index, (key, payload, time) in enumerate(messages):
        single = wire.PB["SingleMessageMetadata"](payload_size=len(payload), sequence_id=seq + index, event_time=time)
        if key is not None:
            single.partition_key = key
        packed = single.SerializeToString()
        body += len(packed).to_bytes(4, "big") + packed + payload.encode()
    fields = {"producer_name": "p1", "sequence_id": seq, "publish_time": 1700000000000 + seq}
    fields["num_messages_in_batch"] = len(messages)
    entry = wire.entry(wire.fill(wire.MessageMetadata(), fields), body)
    p.send(label, seq=seq, num=len(messages), entry=entry)


def event_times(s):
    """The highest event time is the latest. At the same time, a later message replaces an earlier one."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    p.send("a9", partition_key="a", event_time=9)
    p.send("a5", partition_key="a", event_time=5)
    p.send("", partition_key="a", event_time=8, null_value=True)
    p.send("b3", partition_key="b", event_time=3)
    p.send("again b3", partition_key="b", event_time=3)
    p.send("c1", partition_key="c")
    p.send("c2", partition_key="c")
    p.send("d4", partition_key="d", event_time=4)
    p.send("", partition_key="d", event_time=5)
    _compact_and_read(s, t, c)


def event_times_of_batches(s):
    """A message of a batch does not replace a message with the same event time."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    p.send("b3", partition_key="b", event_time=3)
    _batch(p, "batch", ("b", "again b3", 3), ("c", "c1", 1), ("c", "c2", 2), ("c", "again c2", 2), seq=1)
    _batch(p, "newer", ("c", "", 1), ("d", "d1", 1), ("d", "", 2), ("e", "e0", 0), seq=5)
    _compact_and_read(s, t, c)


def messages_without_key(s):
    """Messages without key are kept: single ones, and those of batches."""
    t = s.topic()
    p, c = s.connect("p", "c")
    p.producer(t)
    p.send("none")
    p.send("a0", partition_key="a", event_time=1)
    _batch(p, "batch", (None, "none", 0), ("a", "a1", 2), ("b", "b0", 1), seq=2)
    _batch(p, "other", ("b", "", 2), (None, "", 0), seq=5)
    p.send("")
    _compact_and_read(s, t, c)
