"""Transactions with scalable=true: coordinators, segments, visibility, acknowledgements and conflicts."""


def _open(c, coordinator=1, ttl=600000, connect=True):
    """Begin a transaction; return both numbers of its id."""
    if connect:
        c.TC_CLIENT_CONNECT_REQUEST(tc_id=coordinator, scalable=True)
    c.NEW_TXN(txn_ttl_millis=ttl, tc_id=coordinator, scalable=True)
    answer = c.last("NEW_TXN_RESPONSE")
    return answer.txnid_most_bits, answer.txnid_least_bits


def _old(s, c):
    """Begin a transaction of the coordinator that serves classic topics."""
    s.look_up("persistent://pulsar/system/transaction_coordinator_assign-partition-0")
    c.TC_CLIENT_CONNECT_REQUEST(tc_id=0)
    c.NEW_TXN(txn_ttl_millis=600000, tc_id=0)
    answer = c.last("NEW_TXN_RESPONSE")
    return answer.txnid_most_bits, answer.txnid_least_bits


def _id(txn):
    return {"txnid_most_bits": txn[0], "txnid_least_bits": txn[1]}


def _add(c, txn, *segments, **fields):
    c.ADD_PARTITION_TO_TXN(**_id(txn), partitions=list(segments), **{"scalable": True, **fields})


def _add_subscription(c, txn, *segments, sub="sub"):
    subscriptions = [{"topic": segment, "subscription": sub} for segment in segments]
    c.ADD_SUBSCRIPTION_TO_TXN(**_id(txn), subscription=subscriptions, scalable=True)


def _end(c, txn, action="COMMIT", **fields):
    c.END_TXN(**_id(txn), txn_action=action, **{"scalable": True, **fields})


def connect(s):
    """Every coordinator of the snapshot, and one beyond."""
    c = s.connect("c")
    for coordinator in range(17):
        c.TC_CLIENT_CONNECT_REQUEST(tc_id=coordinator, scalable=True)


def connect_without_scalable(s):
    """The old coordinator on the same connection."""
    s.look_up("persistent://pulsar/system/transaction_coordinator_assign-partition-0")
    c = s.connect("c")
    c.TC_CLIENT_CONNECT_REQUEST(tc_id=0, scalable=False)
    c.TC_CLIENT_CONNECT_REQUEST(tc_id=0, scalable=True)


def new(s):
    """Transactions of two coordinators."""
    c = s.connect("c")
    _open(c, 1)
    _open(c, 2)
    _open(c, 2)


def new_without_connect(s):
    """NEW_TXN without TC_CLIENT_CONNECT_REQUEST, and for a coordinator that does not exist."""
    c = s.connect("c")
    _open(c, 3, connect=False)
    _open(c, 99, connect=False)


def new_with_odd_times(s):
    """Transactions without a time, with 0 and with a very long one."""
    c = s.connect("c")
    c.NEW_TXN(tc_id=1, scalable=True)
    c.NEW_TXN(tc_id=1, scalable=True, txn_ttl_millis=0)
    c.NEW_TXN(tc_id=1, scalable=True, txn_ttl_millis=2**62)


def new_without_coordinator(s):
    """NEW_TXN without a coordinator."""
    c = s.connect("c")
    c.NEW_TXN(scalable=True)


def commit(s):
    """Messages on two segments: delivered after the commit. The entry ids have no gap."""
    t = s.scalable(2)
    p, c, d, x = s.connect("p", "c", "d", "x")
    txn = _open(x)
    for number, reader in (0, c), (1, d):
        p.producer(s.segment(t, number), id=number + 1, txn_enabled=True)
        reader.subscribe(s.segment(t, number), initialPosition="Earliest")
        reader.flow(100)
    _add(x, txn, s.segment(t, 0), s.segment(t, 1))
    p.send("m0", txn=txn)
    p.send("m1", id=2, txn=txn)
    _end(x, txn)
    s.wait(0.6)
    p.send("m2")


def abort(s):
    """Messages of an aborted transaction are never delivered; those behind are."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    _add(x, txn, g)
    p.send("m0", txn=txn)
    p.send("m1")
    _end(x, txn, "ABORT")
    s.wait(0.6)
    p.send("m2")


def visibility(s):
    """Plain messages behind an open transaction wait; another segment goes on."""
    t = s.scalable(2)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x)
    for number in 0, 1:
        p.producer(s.segment(t, number), id=number + 1, txn_enabled=True)
        c.subscribe(s.segment(t, number), id=number + 1, initialPosition="Earliest")
        c.flow(100, id=number + 1)
    _add(x, txn, s.segment(t, 0))
    p.send("m0")
    p.send("m1", txn=txn)
    p.send("m2")
    p.send("n0", id=2)
    _end(x, txn)
    s.wait(0.6)


def visibility_of_two(s):
    """Two transactions on one segment: the messages behind the first open one wait."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    first, second = _open(x), _open(x, 2)
    p.producer(g, txn_enabled=True)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    _add(x, first, g)
    _add(x, second, g)
    p.send("m0", txn=first)
    p.send("m1", txn=second)
    _end(x, second)
    s.wait(0.6)
    _end(x, first, "ABORT")
    s.wait(0.6)


def send_without_adding(s):
    """SEND to a segment that was not added to the transaction."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    p.send("m0", txn=txn)
    _end(x, txn)
    s.wait(0.6)
    p.send("m1")


def send_after_the_end(s):
    """SEND with a transaction that was committed, and with one that was aborted."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    p.producer(g, txn_enabled=True)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    for i, action in enumerate(("COMMIT", "ABORT")):
        txn = _open(x, i + 1)
        _add(x, txn, g)
        p.send(f"m{i}", txn=txn)
        _end(x, txn, action)
        s.wait(0.6)
        p.send(f"n{i}", txn=txn)
    p.send("o0")
    s.wait(0.6)


def send_of_an_unknown_transaction(s):
    """SEND with a transaction that never was."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c = s.connect("p", "c")
    p.producer(g, txn_enabled=True)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    p.send("m0", txn=(1, 99999999))
    p.send("m1")
    s.wait(0.6)


def batch(s):
    """A batch in a transaction."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    _add(x, txn, g)
    p.send("b0", batch=2, txn=txn)
    _end(x, txn)
    s.wait(0.6)


def deduplication(s):
    """The same sequence id in and outside of a transaction."""
    ns = s.namespace(deduplication=True)
    t = s.scalable(1, ns=ns)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    _add(x, txn, g)
    p.send("m0", txn=txn, seq=1)
    p.send("m0", txn=txn, seq=1)
    p.send("m1", seq=1)
    _end(x, txn, "ABORT")
    s.wait(0.6)
    p.send("m2", seq=1)


def end_without_messages(s):
    """Commit and abort of transactions without any message."""
    c = s.connect("c")
    _end(c, _open(c, 4))
    _end(c, _open(c, 5), "ABORT")


def end_twice(s):
    """Every sequence of two ends."""
    c = s.connect("c")
    for i, (first, second) in enumerate((a, b) for a in ("COMMIT", "ABORT") for b in ("COMMIT", "ABORT")):
        txn = _open(c, i)
        _end(c, txn, first)
        s.wait(0.3)
        _end(c, txn, second)


def end_unknown(s):
    """END_TXN of transactions that never were, of a known and of an unknown coordinator."""
    c = s.connect("c")
    for most in 1, 99:
        for action in "COMMIT", "ABORT":
            _end(c, (most, 99999999), action)


def add_unknown(s):
    """A segment and a subscription for a transaction that never was."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    c = s.connect("c")
    _add(c, (1, 99999999), g)
    _add_subscription(c, (1, 99999999), g)
    _add(c, (99, 0), g)


def add_after_the_end(s):
    """A segment and a subscription for a transaction that was committed, and one that was aborted."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    c = s.connect("c")
    for i, action in enumerate(("COMMIT", "ABORT")):
        txn = _open(c, i)
        _end(c, txn, action)
        s.wait(0.3)
        _add(c, txn, g)
        _add_subscription(c, txn, g)


def add_missing_segments(s):
    """A segment that does not exist, a topic name, nonsense, none, and one twice in one command."""
    t = s.scalable(1)
    c = s.connect("c")
    txn = _open(c)
    _add(c, txn, s.segment(t, 0)[:-1] + "9")
    _add(c, txn, t)
    _add(c, txn, "nonsense")
    _add(c, txn)
    _add(c, txn, s.segment(t, 0), s.segment(t, 0))
    _end(c, txn)


def add_twice(s):
    """The same segment twice."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    c = s.connect("c")
    txn = _open(c)
    _add(c, txn, g)
    _add(c, txn, g)
    _end(c, txn, "ABORT")


def without_scalable(s):
    """A transaction of the new coordinators at the old ones."""
    t = s.scalable(1)
    c = s.connect("c")
    txn = _open(c, 2)
    _add(c, txn, s.segment(t, 0), scalable=False)
    _end(c, txn, scalable=False)
    _end(c, txn)


def another_connection(s):
    """Another connection adds a segment and commits."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, x, y = s.connect("p", "x", "y")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    _add(y, txn, g)
    p.send("m0", txn=txn)
    _end(y, txn)
    _end(x, txn)


def lost_connection(s):
    """The connection that began the transaction is lost; another commits."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x, y = s.connect("p", "c", "x", "y")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    _add(x, txn, g)
    p.send("m0", txn=txn)
    x.close(reset=True)
    _end(y, txn)
    s.wait(0.6)


def ack(s):
    """Acknowledgements on two segments, committed: nothing comes again."""
    t = s.scalable(2)
    p, c, d, x = s.connect("p", "c", "d", "x")
    txn = _open(x)
    for number in 0, 1:
        g = s.segment(t, number)
        p.producer(g, id=number + 1)
        p.send(f"m{number}", f"n{number}", id=number + 1)
        c.subscribe(g, id=number + 1, type="Shared", initialPosition="Earliest")
        c.flow(100, id=number + 1)
    _add_subscription(x, txn, s.segment(t, 0), s.segment(t, 1))
    for number in 0, 1:
        c.ack(c.received(number + 1)[0], id=number + 1, **_id(txn))
    _end(x, txn)
    s.wait(0.6)
    c.close()
    for number in 0, 1:
        d.subscribe(s.segment(t, number), id=number + 1, type="Shared")
        d.flow(100, id=number + 1)


def ack_abort(s):
    """An aborted individual acknowledgement: what the connected consumer gets."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, d, x = s.connect("p", "c", "d", "x")
    txn = _open(x)
    p.producer(g)
    ids = p.send("m0", "m1")
    c.subscribe(g, type="Shared", initialPosition="Earliest")
    c.flow(100)
    _add_subscription(x, txn, g)
    c.ack(ids[0], **_id(txn))
    _end(x, txn, "ABORT")
    s.wait(0.6)
    c.close()
    d.subscribe(g, type="Shared")
    d.flow(100)


def ack_cumulative(s):
    """A cumulative acknowledgement, committed."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, d, x = s.connect("p", "c", "d", "x")
    txn = _open(x)
    p.producer(g)
    ids = p.send("m0", "m1", "m2")
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    _add_subscription(x, txn, g)
    c.ack(ids[1], cumulative=True, **_id(txn))
    _end(x, txn)
    s.wait(0.6)
    c.close()
    d.subscribe(g)
    d.flow(100)


def ack_cumulative_abort(s):
    """An aborted cumulative acknowledgement."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, d, x = s.connect("p", "c", "d", "x")
    txn = _open(x)
    p.producer(g)
    ids = p.send("m0", "m1")
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    _add_subscription(x, txn, g)
    c.ack(ids[1], cumulative=True, **_id(txn))
    _end(x, txn, "ABORT")
    s.wait(0.6)
    c.close()
    d.subscribe(g)
    d.flow(100)


def ack_conflict(s):
    """Two transactions acknowledge one message; the loser, and after the end of the winner."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    first, second = _open(x), _open(x, 2)
    p.producer(g)
    ids = p.send("m0", "m1")
    c.subscribe(g, type="Shared", initialPosition="Earliest")
    c.flow(100)
    _add_subscription(x, first, g)
    _add_subscription(x, second, g)
    c.ack(ids[0], **_id(first))
    c.ack(ids[0], **_id(second))
    _end(x, first)
    s.wait(0.6)
    c.ack(ids[0], **_id(second))
    c.ack(ids[1], **_id(second))
    _end(x, second)


def ack_conflict_cumulative(s):
    """Cumulative acknowledgements of two transactions."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    first, second = _open(x), _open(x, 2)
    p.producer(g)
    ids = p.send("m0", "m1", "m2")
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    _add_subscription(x, first, g)
    _add_subscription(x, second, g)
    c.ack(ids[0], cumulative=True, **_id(first))
    c.ack(ids[1], cumulative=True, **_id(second))
    c.ack(ids[1], cumulative=True, **_id(first))
    _end(x, first)
    s.wait(0.6)
    c.ack(ids[2], cumulative=True, **_id(second))
    _end(x, second)


def ack_twice_in_one(s):
    """The same message twice in one transaction, and without a transaction while it is pending."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x)
    p.producer(g)
    ids = p.send("m0", "m1")
    c.subscribe(g, type="Shared", initialPosition="Earliest")
    c.flow(100)
    _add_subscription(x, txn, g)
    c.ack(ids[0], **_id(txn))
    c.ack(ids[0], **_id(txn))
    c.ack(ids[0])
    _end(x, txn)


def ack_of_a_pending_message(s):
    """A message that is acknowledged in an open transaction, for another consumer and for REDELIVER."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, d, x = s.connect("p", "c", "d", "x")
    txn = _open(x)
    p.producer(g)
    ids = p.send("m0", "m1")
    c.subscribe(g, type="Shared", initialPosition="Earliest")
    c.flow(100)
    _add_subscription(x, txn, g)
    c.ack(ids[0], **_id(txn))
    c.redeliver(*ids)
    c.close(reset=True)
    d.subscribe(g, type="Shared")
    d.flow(100)
    _end(x, txn, "ABORT")
    s.wait(0.6)


def ack_without_adding(s):
    """An acknowledgement whose subscription was not added to the transaction."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, d, x = s.connect("p", "c", "d", "x")
    txn = _open(x)
    p.producer(g)
    ids = p.send("m0", "m1")
    c.subscribe(g, type="Shared", initialPosition="Earliest")
    c.flow(100)
    c.ack(ids[0], **_id(txn))
    _end(x, txn)
    s.wait(0.6)
    c.close()
    d.subscribe(g, type="Shared")
    d.flow(100)


def ack_of_an_unknown_transaction(s):
    """An acknowledgement with a transaction that never was, and with one that has ended."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    p.producer(g)
    ids = p.send("m0", "m1")
    c.subscribe(g, type="Shared", initialPosition="Earliest")
    c.flow(100)
    c.ack(ids[0], txnid_most_bits=1, txnid_least_bits=99999999)
    txn = _open(x)
    _end(x, txn)
    s.wait(0.3)
    c.ack(ids[1], **_id(txn))


def ack_batch_index(s):
    """An acknowledgement of a part of a batch, aborted."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, d, x = s.connect("p", "c", "d", "x")
    txn = _open(x)
    p.producer(g)
    (entry,) = p.send("b0", batch=3)
    c.subscribe(g, type="Shared", initialPosition="Earliest")
    c.flow(100)
    _add_subscription(x, txn, g)
    c.ack({"ledgerId": entry.ledgerId, "entryId": entry.entryId, "ack_set": [6], "batch_size": 3}, **_id(txn))
    _end(x, txn, "ABORT")
    s.wait(0.6)
    c.close()
    d.subscribe(g, type="Shared")
    d.flow(100)


def consume_transform_produce(s):
    """Acknowledgement on one segment and message on another in one transaction."""
    t = s.scalable(2)
    a, b = s.segment(t, 0), s.segment(t, 1)
    p, c, d, x = s.connect("p", "c", "d", "x")
    txn = _open(x)
    p.producer(a)
    (source,) = p.send("m0")
    p.producer(b, id=2, txn_enabled=True)
    c.subscribe(a, type="Shared", initialPosition="Earliest")
    c.flow(100)
    d.subscribe(b, initialPosition="Earliest")
    d.flow(100)
    _add_subscription(x, txn, a)
    _add(x, txn, b)
    c.ack(source, **_id(txn))
    p.send("n0", id=2, txn=txn)
    _end(x, txn)
    s.wait(0.6)


def split(s):
    """A split of a segment with an open transaction: SEND, then commit."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    _add(x, txn, g)
    p.send("m0", txn=txn)
    s.admin("POST", s.path(t, "/split/0"), show=["reason"])
    s.wait(0.6)
    _end(x, txn)
    s.wait(0.6)
    c.ack(*c.received(), cumulative=True)
    s.wait(0.6)


def split_and_abort(s):
    """The same with an abort."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    _add(x, txn, g)
    p.send("m0", txn=txn)
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(0.6)
    _end(x, txn, "ABORT")
    s.wait(0.6)


def split_and_child(s):
    """A transaction goes on, on a child of the segment where it began."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    _add(x, txn, g)
    p.send("m0", txn=txn)
    s.admin("POST", s.path(t, "/split/0"))
    child = s.segment(t, 1)
    p.producer(child, id=2, txn_enabled=True)
    _add(x, txn, child)
    p.send("m1", id=2, txn=txn)
    c.subscribe(child, initialPosition="Earliest")
    c.flow(100)
    _end(x, txn)
    s.wait(0.6)


def split_and_ack(s):
    """A split with a pending acknowledgement on the parent, then the commit."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x)
    p.producer(g)
    (entry,) = p.send("m0")
    c.subscribe(g, type="Shared", initialPosition="Earliest")
    c.flow(100)
    _add_subscription(x, txn, g)
    c.ack(entry, **_id(txn))
    s.admin("POST", s.path(t, "/split/0"))
    s.wait(0.6)
    _end(x, txn)
    s.wait(0.6)


def unload(s):
    """After an unload, the message of an open transaction is delivered if it is the first of its segment."""
    ns = s.namespace()
    t = s.scalable(1, ns=ns)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    _add(x, txn, g)
    p.send("m0", txn=txn)
    s.admin("PUT", f"/admin/v2/namespaces/{ns}/unload")
    s.look_up(g)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    _end(x, txn)
    s.wait(0.6)


def unload_and_abort(s):
    """Behind a plain message, the message of an open transaction is held back after an unload; then the abort."""
    ns = s.namespace()
    t = s.scalable(1, ns=ns)
    g = s.segment(t, 0)
    p, c, d, x = s.connect("p", "c", "d", "x")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    _add(x, txn, g)
    p.send("m0")
    p.send("m1", txn=txn)
    s.admin("PUT", f"/admin/v2/namespaces/{ns}/unload")
    s.look_up(g)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    s.wait(1)
    _end(x, txn, "ABORT")
    s.wait(0.6)
    d.subscribe(g, sub="other", initialPosition="Earliest")
    d.flow(100)
    p.producer(g, id=2, txn_enabled=True)
    p.send("m2", id=2)


def unload_with_a_consumer(s):
    """An unload with a consumer; the transaction goes on and is committed."""
    ns = s.namespace()
    t = s.scalable(1, ns=ns)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    c.subscribe(g, initialPosition="Earliest")
    c.flow(100)
    _add(x, txn, g)
    p.send("m0")
    p.send("m1", txn=txn)
    s.admin("PUT", f"/admin/v2/namespaces/{ns}/unload")
    s.look_up(g)
    c.subscribe(g, id=2)
    c.flow(100, id=2)
    s.wait(1)
    p.producer(g, id=2, txn_enabled=True)
    p.send("m2", id=2)
    p.send("m3", id=2, txn=txn)
    s.wait(1)
    _end(x, txn)
    s.wait(0.6)


def statistics(s):
    """The backlog in the statistics while a transaction is open, and after its abort."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, x = s.connect("p", "x")
    s.admin("PUT", s.path(t, "/subscriptions/sub"))
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    _add(x, txn, g)
    p.send("m0", txn=txn)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.sub.msgBacklog"])
    _end(x, txn, "ABORT")
    s.wait(0.6)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.sub.msgBacklog"])


def last_message_id(s):
    """GET_LAST_MESSAGE_ID while a transaction is open, and after it."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, c, x = s.connect("p", "c", "x")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    p.send("m0")
    _add(x, txn, g)
    p.send("m1", txn=txn)
    c.subscribe(g)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    _end(x, txn)
    s.wait(0.6)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)


def classic_topic(s):
    """A classic topic in a scalable transaction: every step succeeds, the messages are never delivered."""
    t, u = s.scalable(1), s.topic("u")
    g = s.segment(t, 0)
    p, c, d, x = s.connect("p", "c", "d", "x")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    p.producer(u, id=2, txn_enabled=True)
    for reader, name in (c, g), (d, u):
        reader.subscribe(name, initialPosition="Earliest")
        reader.flow(100)
    _add(x, txn, g, u)
    p.send("m0", txn=txn)
    p.send("n0", id=2, txn=txn)
    _end(x, txn)
    s.wait(1)
    p.send("n1", id=2)


def end_on_a_segment(s):
    """END_TXN_ON_PARTITION and END_TXN_ON_SUBSCRIPTION for a segment."""
    t = s.scalable(1)
    g = s.segment(t, 0)
    p, x = s.connect("p", "x")
    txn = _open(x)
    p.producer(g, txn_enabled=True)
    _add(x, txn, g)
    p.send("m0", txn=txn)
    x.END_TXN_ON_PARTITION(**_id(txn), topic=g, txn_action="COMMIT", txnid_least_bits_of_low_watermark=0)
    x.END_TXN_ON_SUBSCRIPTION(**_id(txn), subscription={"topic": g, "subscription": "sub"}, txn_action="COMMIT")
