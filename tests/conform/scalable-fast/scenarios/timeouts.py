"""Transactions over segments whose time is over, with a sweep of every two seconds."""


def _open(c, ttl):
    c.NEW_TXN(txn_ttl_millis=ttl, tc_id=1, scalable=True)
    answer = c.last("NEW_TXN_RESPONSE")
    return {"txnid_most_bits": answer.txnid_most_bits, "txnid_least_bits": answer.txnid_least_bits}


def _pair(txn):
    return txn["txnid_most_bits"], txn["txnid_least_bits"]


def messages(s):
    """The messages of a transaction whose time is over are never delivered."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x, 3000)
    p.producer(g, txn_enabled=True)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(10)
    x.ADD_PARTITION_TO_TXN(**txn, partitions=[g], scalable=True)
    p.send("m0", txn=_pair(txn))
    p.send("m1")
    s.wait(7)
    x.END_TXN(**txn, txn_action="COMMIT", scalable=True)
    p.send("m2", txn=_pair(txn))


def acknowledgements(s):
    """The acknowledgements of a transaction whose time is over are taken back."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    p.producer(g)
    (entry,) = p.send("m0")
    c.subscribe(g, type="Shared", initialPosition="Earliest")
    c.flow(10)
    txn = _open(x, 3000)
    x.ADD_SUBSCRIPTION_TO_TXN(**txn, subscription=[{"topic": g, "subscription": "sub"}], scalable=True)
    c.ack(entry, **txn)
    s.wait(7)
    x.END_TXN(**txn, txn_action="ABORT", scalable=True)


def in_time(s):
    """A transaction with more time is still open."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x, 60000)
    p.producer(g, txn_enabled=True)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(10)
    x.ADD_PARTITION_TO_TXN(**txn, partitions=[g], scalable=True)
    p.send("m0", txn=_pair(txn))
    s.wait(7)
    x.END_TXN(**txn, txn_action="COMMIT", scalable=True)


def without_time(s):
    """A transaction with the time 0."""
    x = s.connect("x")
    txn = _open(x, 0)
    s.wait(7)
    x.END_TXN(**txn, txn_action="COMMIT", scalable=True)


def abort_after_the_time(s):
    """An abort after the time is over is no error."""
    x = s.connect("x")
    txn = _open(x, 3000)
    s.wait(7)
    x.END_TXN(**txn, txn_action="ABORT", scalable=True)
    x.ADD_PARTITION_TO_TXN(**txn, partitions=["segment://public/default/x/0000-ffff-0"], scalable=True)
