"""The last message id of topics with markers: the flag of SEND, the type in the metadata, or both."""

ASSIGN = "persistent://pulsar/system/transaction_coordinator_assign"


def _scene(s, *names):
    t = s.topic()
    p, *others = s.connect("p", *names)
    p.producer(t, txn_enabled=True)
    return (t, p, *others)


def _last(s, c, t, number=1, **fields):
    c.subscribe(t, id=number, initialPosition="Earliest", **fields)
    c.GET_LAST_MESSAGE_ID(consumer_id=number)
    c.flow(10, id=number)
    c.GET_LAST_MESSAGE_ID(consumer_id=number)


def _reload(s, c, t, number):
    s.admin("PUT", s.path(t, "/unload"))
    s.look_up(t)
    _last(s, c, t, number)


def _begin(s):
    tc = s.connect("tc")
    s.look_up(f"{ASSIGN}-partition-0")
    tc.TC_CLIENT_CONNECT_REQUEST(tc_id=0)
    tc.NEW_TXN(txn_ttl_millis=60000, tc_id=0)
    answer = tc.last("NEW_TXN_RESPONSE")
    return tc, {"txnid_most_bits": answer.txnid_most_bits, "txnid_least_bits": answer.txnid_least_bits}


def type_without_flag(s):
    """A marker that was sent without the flag is the last message until the topic is loaded again."""
    t, p, c = _scene(s, "c")
    p.send("mark", marker_type=10)
    _last(s, c, t)
    _reload(s, c, t, 2)


def flag_and_type(s):
    """A marker that was sent with the flag is no message."""
    t, p, c = _scene(s, "c")
    p.send("mark", marker=True, marker_type=10)
    _last(s, c, t)
    _reload(s, c, t, 2)


def flag_without_type(s):
    """An entry with the flag alone is delivered."""
    t, p, c = _scene(s, "c")
    p.send("m0", "m1")
    p.send("mark", marker=True)
    _last(s, c, t)
    _reload(s, c, t, 2)


def flag_without_type_alone(s):
    """A topic with no other entry."""
    t, p, c = _scene(s, "c")
    p.send("mark", marker=True)
    _last(s, c, t)


def after_messages(s):
    """Messages, then markers of both kinds, then a message."""
    t, p, c = _scene(s, "c")
    p.send("m0", "m1")
    p.send("flagged", marker=True, marker_type=11)
    c.subscribe(t, initialPosition="Earliest")
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    p.send("mark", marker_type=12)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    p.send("flagged", marker=True, marker_type=13)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    p.send("m2")
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    s.admin("GET", s.path(t, "/lastMessageId"), show=["entryId"])


def batch(s):
    """The batch index of a marker that is a batch."""
    t, p, c = _scene(s, "c")
    p.send("mark", batch=3, marker_type=10)
    _last(s, c, t)


def before_a_transaction(s):
    """The end of a transaction forgets a marker without flag."""
    t, p, c = _scene(s, "c")
    p.send("m0")
    p.send("mark", marker_type=10)
    c.subscribe(t, initialPosition="Earliest")
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    tc, txn = _begin(s)
    tc.ADD_PARTITION_TO_TXN(partitions=[t], **txn)
    p.send("m1", txn=(txn["txnid_most_bits"], txn["txnid_least_bits"]))
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    tc.END_TXN(txn_action="ABORT", **txn)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    p.send("mark", marker_type=10)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)


def in_a_transaction(s):
    """A marker without flag behind an open transaction."""
    t, p, c = _scene(s, "c")
    p.send("m0")
    c.subscribe(t, initialPosition="Earliest")
    tc, txn = _begin(s)
    tc.ADD_PARTITION_TO_TXN(partitions=[t], **txn)
    p.send("m1", txn=(txn["txnid_most_bits"], txn["txnid_least_bits"]))
    p.send("mark", marker_type=10)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    tc.END_TXN(txn_action="COMMIT", **txn)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)


def without_a_consumer(s):
    """A reader at the end, and one on Shared."""
    t, p, c = _scene(s, "c")
    p.send("mark", marker_type=10)
    c.subscribe(t, "r1", id=1, durable=False, start_message_id=(2**63 - 1, 2**63 - 1))
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    _last(s, c, t, 2, sub="shared", type="Shared")
