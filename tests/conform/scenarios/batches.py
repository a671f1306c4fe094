"""Batches: acknowledged messages, permits and limits."""

STATS = "/stats"
COUNTERS = [f"subscriptions.sub.consumers.0.{name}" for name in ("unackedMessages", "blockedConsumerOnUnackedMsgs")]


def _part(message_id, bits, size):
    return {"ledgerId": message_id.ledgerId, "entryId": message_id.entryId, "ack_set": [bits], "batch_size": size}


def limit_and_acknowledged_messages(s):
    """An ACK of some messages of a batch reduces the unacknowledged messages, but does not unblock the consumer."""
    ns = s.namespace(maxUnackedMessagesPerConsumer=3)
    t = s.topic(ns=ns)
    p, c = s.connect("p", "c")
    p.producer(t)
    c.subscribe(t, type="Shared")
    ids = [p.send(f"b{n}", batch=3)[0] for n in range(3)]
    c.flow(100)
    c.ack(_part(ids[0], 0b100, 3))
    s.admin("GET", s.path(t, STATS), show=COUNTERS)
    c.flow(1)
    s.admin("GET", s.path(t, STATS), show=COUNTERS)
    c.ack(ids[0])
