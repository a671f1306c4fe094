"""Transactions, on a broker with transactionCoordinatorEnabled=true."""

import socket

import wire

ASSIGN = "persistent://pulsar/system/transaction_coordinator_assign"


def _txn(s, *names, tc_id=0):
    """Return the connection of the coordinator and the other connections."""
    tc, *others = s.connect("tc", *names)
    s.look_up(f"{ASSIGN}-partition-{tc_id}")
    tc.TC_CLIENT_CONNECT_REQUEST(tc_id=tc_id)
    return [tc, *others]


def _begin(tc, ttl=60000, tc_id=0):
    tc.NEW_TXN(txn_ttl_millis=ttl, tc_id=tc_id)
    answer = tc.last("NEW_TXN_RESPONSE")
    return answer.txnid_most_bits, answer.txnid_least_bits


def _use_numbers(s, count):
    """Open and end transactions of coordinator 0, unseen, so that their numbers differ from those of coordinator 1."""
    commands = [wire.command("CONNECT", client_version="conform", protocol_version=21)]
    commands += [wire.command("NEW_TXN", request_id=n, txn_ttl_millis=0, tc_id=0) for n in range(count)]
    with socket.create_connection(s.address, timeout=10) as sock:
        sock.sendall(b"".join(map(wire.frame, commands)))
        data = b""
        while len(wire.frames(data)[0]) <= count:
            data += sock.recv(65536)


def _bits(txn):
    return {"txnid_most_bits": txn[0], "txnid_least_bits": txn[1]}


def _end(tc, txn, action="COMMIT"):
    tc.END_TXN(txn_action=action, **_bits(txn))


def _produces(tc, t, txn):
    tc.ADD_PARTITION_TO_TXN(partitions=[t], **_bits(txn))


def _acks(tc, t, txn, sub="sub"):
    tc.ADD_SUBSCRIPTION_TO_TXN(subscription=[{"topic": t, "subscription": sub}], **_bits(txn))


def _part(message_id, bits, size):
    return {"ledgerId": message_id.ledgerId, "entryId": message_id.entryId, "ack_set": [bits], "batch_size": size}


def _received(s, *payloads, kind="Shared", batch=0, **fields):
    """Return a topic, the coordinator, a producer and a consumer that has received the messages, and their ids."""
    tc, p, c = _txn(s, "p", "c")
    t = s.topic()
    p.producer(t, txn_enabled=True)
    c.subscribe(t, type=kind, **fields)
    if kind == "Failover":
        s.wait(2)
    ids = p.send(*payloads, batch=batch)
    c.flow(100)
    return t, tc, p, c, ids


# -- coordinator -------------------------------------------------------------------------------------------------------


def two_coordinators(s):
    """Each coordinator has its own ids; a transaction contains the number of its coordinator."""
    tc, p, c = _txn(s, "p", "c")
    s.look_up(ASSIGN + "-partition-1")
    tc.TC_CLIENT_CONNECT_REQUEST(tc_id=1)
    _use_numbers(s, 50)
    t = s.topic()
    p.producer(t)
    c.subscribe(t)
    c.flow(10)
    one, two = _begin(tc), _begin(tc, tc_id=1)
    _produces(tc, t, one)
    _produces(tc, t, two)
    p.send("one", txn=one)
    p.send("two", txn=two)
    _end(tc, two)
    _end(tc, one)


def coordinator_before_connect(s):
    """A coordinator that no client has connected to does not exist."""
    tc = s.connect("tc")
    tc.NEW_TXN(txn_ttl_millis=1000, tc_id=1000)
    tc.ADD_PARTITION_TO_TXN(partitions=[s.topic()], txnid_most_bits=1000, txnid_least_bits=0)
    tc.ADD_SUBSCRIPTION_TO_TXN(txnid_most_bits=1000, txnid_least_bits=0)
    tc.END_TXN(txn_action="COMMIT", txnid_most_bits=1000, txnid_least_bits=0)


def add_after_the_end(s):
    """Topics and subscriptions cannot be added to an ended transaction."""
    (tc,) = _txn(s)
    t = s.topic()
    txn = _begin(tc)
    _end(tc, txn)
    _produces(tc, t, txn)
    _acks(tc, t, txn)


def short_timeout(s):
    """A timeout below 100 ms ends the transaction at once."""
    tc, p, c = _txn(s, "p", "c")
    t = s.topic()
    p.producer(t)
    c.subscribe(t)
    c.flow(10)
    txn = _begin(tc, 99)
    s.wait(1)
    _produces(tc, t, txn)
    p.send("t0", txn=txn)
    _end(tc, txn)


def missing_topic_and_subscription(s):
    """A transaction ends although its topic and its subscription do not exist."""
    tc, p = _txn(s, "p")
    t, missing = s.topic(), s.topic("missing")
    p.producer(t)
    for action in ("COMMIT", "ABORT"):
        txn = _begin(tc)
        _produces(tc, missing, txn)
        _acks(tc, missing, txn)
        _acks(tc, t, txn)
        _end(tc, txn, action)


# -- transaction buffer ------------------------------------------------------------------------------------------------


def batches(s):
    """Batches and single messages of two transactions, interleaved."""
    tc, p, c = _txn(s, "p", "c")
    t = s.topic()
    p.producer(t)
    c.subscribe(t, type="Shared")
    c.flow(100)
    one, two = _begin(tc), _begin(tc)
    for txn in (one, two):
        _produces(tc, t, txn)
    p.send("a", batch=3, txn=one)
    p.send("b", batch=2, txn=two)
    p.send("c", txn=one)
    _end(tc, one, "ABORT")
    p.send("after")
    _end(tc, two)
    s.admin(
        "GET",
        s.path(t, "/stats"),
        show=[
            "ongoingTxnCount",
            "abortedTxnCount",
            "committedTxnCount",
            "subscriptions.sub.msgBacklog",
            "subscriptions.sub.unackedMessages",
        ],
    )


def send_after_the_end(s):
    """The topic accepts messages of an ended transaction; if the transaction was aborted, they hide nothing."""
    tc, p, c = _txn(s, "p", "c")
    t = s.topic()
    p.producer(t)
    c.subscribe(t)
    c.flow(100)
    for action in ("ABORT", "COMMIT"):
        txn = _begin(tc)
        _produces(tc, t, txn)
        p.send(f"{action}.0", txn=txn)
        _end(tc, txn, action)
        p.send(f"{action}.1", txn=txn)
        p.send(f"after {action}")


def first_send_after_the_abort(s):
    """The abort of a transaction without messages leaves no trace: its later messages hide all others."""
    tc, p, c = _txn(s, "p", "c")
    t = s.topic()
    p.producer(t)
    c.subscribe(t)
    c.flow(100)
    txn = _begin(tc)
    _produces(tc, t, txn)
    _end(tc, txn, "ABORT")
    p.send("late", txn=txn)
    p.send("after")


def low_water_mark(s):
    """The low water mark of END_TXN_ON_PARTITION aborts older transactions and refuses their messages."""
    p, c = s.connect("p", "c")
    t = s.topic()
    p.producer(t)
    c.subscribe(t)
    c.flow(100)
    p.send("old", txn=(900, 3))
    p.send("new", txn=(900, 5))
    p.send("plain")
    c.END_TXN_ON_PARTITION(
        topic=t, txn_action="COMMIT", txnid_most_bits=900, txnid_least_bits=5, txnid_least_bits_of_low_watermark=4
    )
    p.send("late", txn=(900, 4))
    p.send("next", txn=(900, 6))


def end_on_partition(s):
    """END_TXN_ON_PARTITION from a client: COMMIT appends a marker; ABORT of an unused topic does not."""
    p, c = s.connect("p", "c")
    t = s.topic()
    p.producer(t)
    c.subscribe(t)
    c.flow(100)
    for action in ("ABORT", "COMMIT"):
        c.END_TXN_ON_PARTITION(topic=t, txn_action=action, txnid_most_bits=900, txnid_least_bits=8)
        p.send(f"after {action}")
    p.send("t0", txn=(900, 9))
    for action in ("ABORT", "ABORT", "COMMIT"):
        c.END_TXN_ON_PARTITION(topic=t, txn_action=action, txnid_most_bits=900, txnid_least_bits=9)
        p.send(f"then {action}")


def end_on_unloaded_partition(s):
    """END_TXN_ON_PARTITION and END_TXN_ON_SUBSCRIPTION load an existing topic."""
    p, c = s.connect("p", "c")
    t = s.topic()
    p.producer(t)
    p.send("m0")
    s.admin("PUT", s.path(t, "/unload"))
    c.END_TXN_ON_PARTITION(topic=t, txn_action="COMMIT", txnid_most_bits=900, txnid_least_bits=8)
    c.END_TXN_ON_SUBSCRIPTION(
        subscription={"topic": t, "subscription": "sub"}, txn_action="COMMIT", txnid_most_bits=900, txnid_least_bits=8
    )


def end_without_lookup(s):
    """END_TXN_ON_PARTITION and END_TXN_ON_SUBSCRIPTION before the first lookup of a topic in the namespace."""
    c = s.connect("c")
    t = s.topic(ns=s.namespace(), lookup=False)
    for _ in range(2):
        c.END_TXN_ON_PARTITION(topic=t, txn_action="COMMIT", txnid_most_bits=900, txnid_least_bits=8)
        c.END_TXN_ON_SUBSCRIPTION(
            subscription={"topic": t, "subscription": "sub"},
            txn_action="COMMIT",
            txnid_most_bits=900,
            txnid_least_bits=8,
        )
        s.admin("PUT", s.path(t))


def reader(s):
    """A reader stops before an open transaction; its last message id is the entry before it."""
    tc, p, c, d = _txn(s, "p", "c", "d")
    t = s.topic()
    p.producer(t)
    txn = _begin(tc)
    _produces(tc, t, txn)
    c.subscribe(t, durable=False, start_message_id=(-1, -1))
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    p.send("t0", txn=txn)
    p.send("behind")
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    c.flow(100)
    d.subscribe(t, sub="other", durable=False, start_message_id=(2**63 - 1, 2**63 - 1))
    d.flow(100)
    _end(tc, txn, "ABORT")
    c.GET_LAST_MESSAGE_ID(consumer_id=1)


def last_id_of_aborted_messages(s):
    """A topic with aborted messages only has no last message id."""
    tc, p, c = _txn(s, "p", "c")
    t = s.topic()
    p.producer(t)
    c.subscribe(t)
    txn = _begin(tc)
    _produces(tc, t, txn)
    p.send("t0", txn=txn)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    _end(tc, txn, "ABORT")
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    c.flow(10)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)


def last_id_of_a_marker(s):
    """A topic with a marker only has no last message id."""
    p, c = s.connect("p", "c")
    t = s.topic()
    p.producer(t)
    c.subscribe(t)
    p.send("mark", marker=True, marker_type=10)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)


def compaction(s):
    """A compaction ends before an open transaction, and skips aborted messages."""
    tc, p, c = _txn(s, "p", "c")
    t = s.topic()
    p.producer(t)
    aborted, committed, txn = _begin(tc), _begin(tc), _begin(tc)
    for one in (aborted, committed, txn):
        _produces(tc, t, one)
    p.send("a0", partition_key="a")
    p.send("a1", partition_key="a", txn=aborted)
    p.send("b0", partition_key="b", txn=committed)
    _end(tc, aborted, "ABORT")
    _end(tc, committed)
    p.send("c0", partition_key="c")
    p.send("c1", partition_key="c", txn=txn)
    p.send("b1", partition_key="b")
    s.admin("PUT", s.path(t, "/compaction"))
    s.admin("GET", s.path(t, "/compaction"), show=["status"], until=lambda answer: answer["status"] != "RUNNING")
    c.subscribe(t, durable=False, read_compacted=True, start_message_id=(-1, -1))
    c.flow(100)
    _end(tc, txn)


def delayed(s):
    """Delivery of a delayed message starts at the commit."""
    tc, p, c = _txn(s, "p", "c")
    t = s.topic()
    p.producer(t)
    c.subscribe(t, type="Shared")
    c.flow(100)
    txn = _begin(tc)
    _produces(tc, t, txn)
    p.send("t0", txn=txn, deliver_at_time=1)
    p.send("plain")
    _end(tc, txn)


def deduplication(s):
    """A duplicate within a transaction is dropped."""
    tc, p, c = _txn(s, "p", "c")
    t = s.topic(ns=s.namespace(deduplication=True))
    p.producer(t)
    c.subscribe(t)
    c.flow(100)
    txn = _begin(tc)
    _produces(tc, t, txn)
    p.send("t0", txn=txn, seq=5)
    p.send("again", txn=txn, seq=5)
    p.send("plain", seq=5)
    _end(tc, txn, "ABORT")
    p.send("again", seq=5)
    p.send("new", seq=6)


def unload(s):
    """An unload keeps open and aborted transactions."""
    tc, p, c = _txn(s, "p", "c")
    t = s.topic()
    p.producer(t)
    aborted, txn = _begin(tc), _begin(tc)
    for one in (aborted, txn):
        _produces(tc, t, one)
    p.send("aborted", txn=aborted)
    p.send("plain")
    p.send("t0", txn=txn)
    _end(tc, aborted, "ABORT")
    s.admin("PUT", s.path(t, "/unload"))
    s.look_up(t)
    c.subscribe(t, initialPosition="Earliest")
    c.flow(100)
    p.producer(t, id=2)
    p.send("t1", id=2, txn=txn)
    _end(tc, txn)


def terminated(s):
    """A transaction on a terminated topic cannot end: there is no response."""
    tc, p, c = _txn(s, "p", "c")
    t = s.topic()
    p.producer(t)
    c.subscribe(t)
    c.flow(100)
    txn = _begin(tc)
    _produces(tc, t, txn)
    p.send("t0", txn=txn)
    s.admin("POST", s.path(t, "/terminate"), show=["entryId"])
    c.END_TXN_ON_PARTITION(topic=t, txn_action="COMMIT", **_bits(txn))
    c.subscribe(t, id=2, sub="late", initialPosition="Earliest")
    c.flow(100, id=2)


def non_persistent(s):
    """A SEND with a transaction closes the connection; an ACK is refused."""
    p, c = s.connect("p", "c")
    t = s.topic(domain="non-persistent")
    p.producer(t)
    c.subscribe(t)
    c.ack({"ledgerId": 0, "entryId": 0}, txnid_most_bits=900, txnid_least_bits=1)
    c.ack({"ledgerId": 0, "entryId": 0}, cumulative=True, txnid_most_bits=900, txnid_least_bits=1)
    c.END_TXN_ON_PARTITION(topic=t, txn_action="COMMIT", txnid_most_bits=900, txnid_least_bits=1)
    c.END_TXN_ON_SUBSCRIPTION(
        subscription={"topic": t, "subscription": "sub"}, txn_action="COMMIT", txnid_most_bits=900, txnid_least_bits=1
    )
    p.send("t0", txn=(900, 1))


# -- acknowledgements --------------------------------------------------------------------------------------------------


def ack_cumulative(s):
    """Only one transaction can have a cumulative acknowledgement, and only forwards."""
    t, tc, _p, c, ids = _received(s, "m0", "m1", "m2", "m3", kind="Exclusive")
    one, two = _begin(tc), _begin(tc)
    for txn in (one, two):
        _acks(tc, t, txn)
    c.ack(ids[1], cumulative=True, **_bits(one))
    c.ack(ids[2], cumulative=True, **_bits(two))
    c.ack(ids[2], cumulative=True, **_bits(one))
    c.ack(ids[2], cumulative=True, **_bits(one))
    c.ack(ids[0], cumulative=True, **_bits(one))
    c.ack(ids[0], ids[3], cumulative=True, **_bits(one))
    c.redeliver()
    _end(tc, one)
    c.ack(ids[1], cumulative=True, **_bits(two))
    c.redeliver()
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.sub.msgBacklog"])


def ack_cumulative_abort(s):
    """Abort of a cumulative acknowledgement: the client requests redelivery itself."""
    t, tc, _p, c, ids = _received(s, "m0", "m1", "m2", kind="Exclusive")
    txn = _begin(tc)
    _acks(tc, t, txn)
    c.ack(ids[1], cumulative=True, **_bits(txn))
    _end(tc, txn, "ABORT")
    c.redeliver()


def ack_batch_index_twice(s):
    """The messages of a conflict are subtracted again from the unacknowledged messages, which become negative."""
    t, tc, _p, c, ids = _received(s, "b", batch=3)
    txn = _begin(tc)
    _acks(tc, t, txn)
    counter = ["subscriptions.sub.unackedMessages", "subscriptions.sub.consumers.0.unackedMessages"]
    c.ack(_part(ids[0], 0b100, 3))
    s.admin("GET", s.path(t, "/stats"), show=counter)
    c.ack(_part(ids[0], 0, 3), **_bits(txn))
    s.admin("GET", s.path(t, "/stats"), show=counter)
    c.redeliver()
    s.admin("GET", s.path(t, "/stats"), show=counter)


def ack_batch_index_in_two_ways(s):
    """The second half of a batch is acknowledged outside the transaction, and still counts as unacknowledged."""
    t, tc, _p, c, ids = _received(s, "b", batch=2)
    txn = _begin(tc)
    _acks(tc, t, txn)
    counter = ["subscriptions.sub.unackedMessages", "subscriptions.sub.consumers.0.unackedMessages"]
    c.ack(_part(ids[0], 0b10, 2), **_bits(txn))
    s.admin("GET", s.path(t, "/stats"), show=counter)
    c.ack(_part(ids[0], 0b01, 2))
    s.admin("GET", s.path(t, "/stats"), show=counter)
    c.redeliver()
    s.admin("GET", s.path(t, "/stats"), show=counter)


def ack_cumulative_of_a_batch(s):
    """A cumulative acknowledgement up to a message of a batch."""
    t, tc, _p, c, ids = _received(s, "a", "b", kind="Exclusive", batch=4)
    txn = _begin(tc)
    _acks(tc, t, txn)
    c.ack(_part(ids[1], 0b1110, 4), cumulative=True, **_bits(txn))
    c.ack(_part(ids[1], 0b1100, 4), cumulative=True, **_bits(txn))
    c.ack(_part(ids[1], 0b1110, 4), cumulative=True, **_bits(txn))
    c.redeliver()
    _end(tc, txn)
    c.redeliver()


def ack_cumulative_on_shared(s):
    """A cumulative acknowledgement on Shared does nothing, but is answered."""
    t, tc, _p, c, ids = _received(s, "m0", "m1")
    txn = _begin(tc)
    _acks(tc, t, txn)
    c.ack(ids[1], cumulative=True, **_bits(txn))
    _end(tc, txn)
    c.redeliver()


def ack_cumulative_and_individual(s):
    """While a cumulative acknowledgement is pending, the end of other transactions has no effect."""
    t, tc, _p, c, ids = _received(s, "m0", "m1", "m2", "m3", kind="Exclusive")
    one, two, three = _begin(tc), _begin(tc), _begin(tc)
    for txn in (one, two, three):
        _acks(tc, t, txn)
    c.ack(ids[3], **_bits(one))
    c.ack(ids[2], **_bits(three))
    c.ack(ids[0], cumulative=True, **_bits(two))
    _end(tc, one)
    _end(tc, three, "ABORT")
    c.redeliver()
    _end(tc, two)
    c.redeliver()
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.sub.msgBacklog"])


def ack_batch_index(s):
    """Two transactions acknowledge different messages of one batch; the same message is a conflict."""
    t, tc, _p, c, ids = _received(s, "b", batch=4)
    one, two = _begin(tc), _begin(tc)
    for txn in (one, two):
        _acks(tc, t, txn)
    c.ack(_part(ids[0], 0b1110, 4), **_bits(one))
    c.ack(_part(ids[0], 0b1110, 4), **_bits(two))
    c.ack(_part(ids[0], 0b1110, 4), **_bits(one))
    c.ack(_part(ids[0], 0b1101, 4), **_bits(two))
    c.ack(ids[0], **_bits(two))
    c.CONSUMER_STATS(consumer_id=1)
    c.redeliver()
    _end(tc, one)
    c.redeliver()
    _end(tc, two, "ABORT")
    c.redeliver()


def ack_batch_index_and_plain(s):
    """A message of a batch that is acknowledged outside a transaction is a conflict."""
    t, tc, _p, c, ids = _received(s, "b", batch=4)
    txn = _begin(tc)
    _acks(tc, t, txn)
    c.ack(_part(ids[0], 0b1110, 4))
    c.ack(_part(ids[0], 0b1110, 4), **_bits(txn))
    c.ack(_part(ids[0], 0b0011, 4), **_bits(txn))
    c.CONSUMER_STATS(consumer_id=1)
    c.redeliver()
    c.ack(_part(ids[0], 0b1101, 4))
    c.redeliver()
    _end(tc, txn)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.sub.msgBacklog", "subscriptions.sub.unackedMessages"])


def ack_of_a_whole_batch(s):
    """All messages of a batch, each in its own ACK; the transaction is aborted, then the next one commits."""
    t, tc, _p, c, ids = _received(s, "b", "c", batch=2)
    for action in ("ABORT", "COMMIT"):
        txn = _begin(tc)
        _acks(tc, t, txn)
        c.ack(_part(ids[0], 0b10, 2), **_bits(txn))
        c.ack(_part(ids[0], 0b01, 2), **_bits(txn))
        c.CONSUMER_STATS(consumer_id=1)
        _end(tc, txn, action)
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.sub.msgBacklog", "subscriptions.sub.unackedMessages"])


def ack_of_a_finished_batch(s):
    """All messages of a batch are pending: a second acknowledgement of one of them."""
    t, tc, _p, c, ids = _received(s, "b", batch=2)
    one, two = _begin(tc), _begin(tc)
    for txn in (one, two):
        _acks(tc, t, txn)
    c.ack(_part(ids[0], 0b10, 2), **_bits(one))
    c.ack(_part(ids[0], 0b01, 2), **_bits(one))
    c.ack(_part(ids[0], 0b01, 2), **_bits(two))
    c.ack({"ledgerId": ids[0].ledgerId, "entryId": 0, "ack_set": [0b10]}, **_bits(two))
    _end(tc, one, "ABORT")
    _end(tc, two, "ABORT")


def ack_several_ids(s):
    """One ACK with several ids is recorded as a whole or not at all."""
    t, tc, _p, c, ids = _received(s, "m0", "m1", "m2")
    one, two = _begin(tc), _begin(tc)
    for txn in (one, two):
        _acks(tc, t, txn)
    c.ack(ids[1], **_bits(one))
    c.ack(ids[0], ids[1], ids[2], **_bits(two))
    c.redeliver()
    _end(tc, one)
    _end(tc, two)
    c.redeliver()


def ack_twice(s):
    """The same message twice in one transaction is a conflict."""
    t, tc, _p, c, ids = _received(s, "m0")
    txn = _begin(tc)
    _acks(tc, t, txn)
    c.ack(ids[0], **_bits(txn))
    c.ack(ids[0], **_bits(txn))
    _end(tc, txn)
    c.ack(ids[0], **_bits(_begin(tc)))


def ack_plain_while_pending(s):
    """An acknowledgement outside a transaction wins over a pending one."""
    t, tc, _p, c, ids = _received(s, "m0", "m1")
    one, two = _begin(tc), _begin(tc)
    for txn in (one, two):
        _acks(tc, t, txn)
    c.ack(ids[0], **_bits(one))
    c.ack(ids[1], **_bits(two))
    c.ack(ids[0])
    c.ack(ids[1])
    _end(tc, one, "ABORT")
    _end(tc, two)
    c.redeliver()
    s.admin("GET", s.path(t, "/stats"), show=["subscriptions.sub.msgBacklog"])


def ack_of_an_unknown_transaction(s):
    """The subscription does not ask the coordinator; END_TXN_ON_SUBSCRIPTION ends the transaction."""
    t, _tc, _p, c, ids = _received(s, "m0", "m1")
    c.ack(ids[0], txnid_most_bits=900, txnid_least_bits=1)
    c.ack(ids[1], txnid_most_bits=900, txnid_least_bits=2)
    for number, action in ((1, "COMMIT"), (2, "ABORT"), (3, "COMMIT"), (3, "ABORT")):
        c.END_TXN_ON_SUBSCRIPTION(
            subscription={"topic": t, "subscription": "sub"},
            txn_action=action,
            txnid_most_bits=900,
            txnid_least_bits=number,
        )


def ack_low_water_mark(s):
    """The low water mark of END_TXN_ON_SUBSCRIPTION aborts the oldest transaction."""
    t, _tc, _p, c, ids = _received(s, "m0", "m1", "m2")
    for number, one in enumerate(ids):
        c.ack(one, txnid_most_bits=900, txnid_least_bits=number)
    c.END_TXN_ON_SUBSCRIPTION(
        subscription={"topic": t, "subscription": "sub"},
        txn_action="COMMIT",
        txnid_most_bits=900,
        txnid_least_bits=2,
        txnid_least_bits_of_low_watermark=1,
    )


def ack_timeout(s):
    """The timeout of a transaction redelivers its messages."""
    t, tc, _p, c, ids = _received(s, "m0", "m1")
    txn = _begin(tc, 2000)
    _acks(tc, t, txn)
    c.ack(ids[0], **_bits(txn))
    s.wait(4)


def _aborted(s, kind):
    t, tc, _p, c, ids = _received(s, "m0", "m1", "m2", kind=kind)
    txn = _begin(tc)
    _acks(tc, t, txn)
    c.ack(ids[1], **_bits(txn))
    c.CONSUMER_STATS(consumer_id=1)
    c.redeliver()
    _end(tc, txn, "ABORT")


def abort_on_exclusive(s):
    """Abort on Exclusive: delivery restarts at the first unacknowledged entry."""
    _aborted(s, "Exclusive")


def abort_on_failover(s):
    """Abort on Failover."""
    _aborted(s, "Failover")


def abort_on_key_shared(s):
    """Abort on Key_Shared."""
    _aborted(s, "Key_Shared")


def abort_without_permits(s):
    """The messages of an aborted transaction need permits."""
    tc, p, c = _txn(s, "p", "c")
    t = s.topic()
    p.producer(t)
    c.subscribe(t, type="Shared")
    ids = p.send("m0", "m1")
    c.flow(1)
    txn = _begin(tc)
    _acks(tc, t, txn)
    c.ack(ids[0], **_bits(txn))
    c.CONSUMER_STATS(consumer_id=1)
    _end(tc, txn, "ABORT")
    c.flow(1)
    c.flow(1)


def leaving_consumer(s):
    """Messages in a pending acknowledgement are not delivered to the next consumer until the abort."""
    t, tc, _p, c, ids = _received(s, "m0", "m1")
    txn = _begin(tc)
    _acks(tc, t, txn)
    c.ack(ids[0], **_bits(txn))
    c.CLOSE_CONSUMER(consumer_id=1)
    d = s.connect("d")
    d.subscribe(t, type="Shared")
    d.flow(10)
    _end(tc, txn, "ABORT")


def abort_without_consumers(s):
    """An abort increases redelivery counts although there is no consumer."""
    t, tc, _p, c, ids = _received(s, "m0", "m1")
    txn = _begin(tc)
    _acks(tc, t, txn)
    c.ack(ids[0], **_bits(txn))
    c.CLOSE_CONSUMER(consumer_id=1)
    _end(tc, txn, "ABORT")
    d = s.connect("d")
    d.subscribe(t, type="Shared")
    d.flow(10)


def other_consumer(s):
    """A consumer acknowledges in a transaction what another one has received."""
    t, tc, _p, c, ids = _received(s, "m0", "m1")
    d = s.connect("d")
    d.subscribe(t, type="Shared")
    txn = _begin(tc)
    _acks(tc, t, txn)
    d.ack(ids[0], **_bits(txn))
    c.CONSUMER_STATS(consumer_id=1)
    d.CONSUMER_STATS(consumer_id=1)
    _end(tc, txn)
    c.redeliver()


def seek(s):
    """A seek does not end pending acknowledgements."""
    t, tc, _p, c, ids = _received(s, "m0", "m1", "m2")
    one, two = _begin(tc), _begin(tc)
    for txn in (one, two):
        _acks(tc, t, txn)
    c.ack(ids[0], **_bits(one))
    c.ack(ids[1], **_bits(two))
    c.SEEK(consumer_id=1, message_id=ids[0])
    c.subscribe(t, type="Shared", id=2)
    c.flow(10, id=2)
    _end(tc, one)
    _end(tc, two, "ABORT")


def seek_after_batch_ack(s):
    """After a seek, messages of a batch that were acknowledged outside a transaction are not delivered on Shared."""
    t, _tc, _p, c, ids = _received(s, "a", "b", batch=2)
    c.ack(_part(ids[0], 0b10, 2))
    c.SEEK(consumer_id=1, message_id=ids[0])
    c.subscribe(t, type="Shared", id=2)
    c.flow(10, id=2)
    s.admin("PUT", s.path(t, "/unload"))
    s.look_up(t)
    c.subscribe(t, type="Shared", id=3)
    c.flow(10, id=3)


def unsubscribe(s):
    """A transaction ends after its subscription was deleted; a new subscription receives all messages."""
    t, tc, _p, c, ids = _received(s, "m0", "m1")
    txn = _begin(tc)
    _acks(tc, t, txn)
    c.ack(ids[0], **_bits(txn))
    c.UNSUBSCRIBE(consumer_id=1)
    _end(tc, txn)
    c.subscribe(t, type="Shared", id=2, initialPosition="Earliest")
    c.flow(10, id=2)


def unload_with_pending_acks(s):
    """An unload keeps pending acknowledgements."""
    t, tc, _p, c, ids = _received(s, "m0", "m1", "m2")
    one, two = _begin(tc), _begin(tc)
    for txn in (one, two):
        _acks(tc, t, txn)
    c.ack(ids[0], **_bits(one))
    c.ack(ids[1], **_bits(two))
    s.admin("PUT", s.path(t, "/unload"))
    s.look_up(t)
    c.subscribe(t, type="Shared", id=2)
    c.flow(10, id=2)
    c.ack(ids[0], id=2, **_bits(two))
    _end(tc, one)
    _end(tc, two, "ABORT")


def consume_transform_produce(s):
    """Messages and acknowledgements of one transaction."""
    t, tc, _p, c, ids = _received(s, "m0", "m1")
    target = s.topic("out")
    out, d = s.connect("out", "d")
    out.producer(target, txn_enabled=True)
    d.subscribe(target)
    d.flow(10)
    for message_id, action in zip(ids, ("COMMIT", "ABORT"), strict=True):
        txn = _begin(tc)
        _acks(tc, t, txn)
        c.ack(message_id, **_bits(txn))
        _produces(tc, target, txn)
        out.send(f"from {action}", txn=txn)
        _end(tc, txn, action)
    c.CONSUMER_STATS(consumer_id=1)
