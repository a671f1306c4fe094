"""Transactions that are open, committed or aborted at a restart of the broker."""

import socket
import time

import wire

ASSIGN = "persistent://pulsar/system/transaction_coordinator_assign"


def _wait_for_coordinator(s):
    """Wait, unseen, until the broker has loaded coordinator 0."""
    commands = [wire.command("CONNECT", client_version="conform", protocol_version=21)]
    commands.append(wire.command("TC_CLIENT_CONNECT_REQUEST", request_id=1, tc_id=0))
    for _ in range(100):
        s.look_up(f"{ASSIGN}-partition-0")
        with socket.create_connection(s.address, timeout=10) as sock:
            sock.sendall(b"".join(map(wire.frame, commands)))
            data = b""
            while len(wire.frames(data)[0]) < 2:
                data += sock.recv(65536)
        answer = wire.BaseCommand.FromString(wire.frames(data)[0][1][0])
        if not answer.tcClientConnectResponse.HasField("error"):
            return
        time.sleep(0.2)


def _txn(s, *names):
    _wait_for_coordinator(s)
    tc, *others = s.connect(f"tc{len(s.conns)}", *names)
    tc.TC_CLIENT_CONNECT_REQUEST(tc_id=0)
    return [tc, *others]


def _begin(tc, ttl=600_000):
    tc.NEW_TXN(txn_ttl_millis=ttl, tc_id=0)
    answer = tc.last("NEW_TXN_RESPONSE")
    return answer.txnid_most_bits, answer.txnid_least_bits


def _bits(txn):
    return {"txnid_most_bits": txn[0], "txnid_least_bits": txn[1]}


def _end(tc, txn, action="COMMIT"):
    tc.END_TXN(txn_action=action, **_bits(txn))


def _published(s, *names):
    """Return a topic with messages of a committed, an aborted and an open transaction."""
    t = s.topic()
    tc, p, c = _txn(s, "p", "c")
    p.producer(t, txn_enabled=True)
    c.subscribe(t, type="Shared")
    found = []
    for text in ("committed", "aborted", "open"):
        txn = _begin(tc)
        tc.ADD_PARTITION_TO_TXN(partitions=[t], **_bits(txn))
        p.send(text, txn=txn)
        found.append(txn)
    p.send("outside")
    _end(tc, found[0])
    _end(tc, found[1], "ABORT")
    s.receive(c, 1)
    return t, found[2]


def _continued(s, action):
    t, txn = _published(s)
    s.restart()
    s.look_up(t)
    tc, c = _txn(s, "c2")
    s.show(t, "/transactionBufferStats") if False else None
    c.subscribe(t, type="Shared")
    s.wait(2)
    c.flow(10)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    _end(tc, txn, action)
    s.wait(1)
    c.GET_LAST_MESSAGE_ID(consumer_id=1)
    s.show(t, "/internalStats")


def committed_after(s):
    """An open transaction is committed after the restart."""
    _continued(s, "COMMIT")


def aborted_after(s):
    """An open transaction is aborted after the restart."""
    _continued(s, "ABORT")


def acknowledged(s):
    """Acknowledgements in an open transaction are pending after the restart, and final when it is committed."""
    t = s.topic()
    tc, p, c = _txn(s, "p", "c")
    p.producer(t)
    c.subscribe(t, type="Shared")
    ids = p.send("m0", "m1", "m2")
    s.receive(c, 3)
    txn = _begin(tc)
    tc.ADD_SUBSCRIPTION_TO_TXN(subscription=[{"topic": t, "subscription": "sub"}], **_bits(txn))
    c.ack(ids[1], **_bits(txn))
    s.restart()
    s.look_up(t)
    tc, c, _ = _txn(s, "c2", "d2")
    c.subscribe(t, type="Shared")
    s.receive(c, 2)
    other = _begin(tc)
    tc.ADD_SUBSCRIPTION_TO_TXN(subscription=[{"topic": t, "subscription": "sub"}], **_bits(other))
    c.ack(ids[1], **_bits(other))
    _end(tc, txn)
    s.wait(1)
    s.show(t, "/internalStats")
    s.restart()
    s.look_up(t)
    c = s.connect("c3")
    c.subscribe(t, type="Shared")
    s.receive(c, 2)


def ended(s):
    """Ended transactions cannot be used after the restart; ids continue."""
    tc = _txn(s)[0]
    first, second = _begin(tc), _begin(tc)
    _end(tc, first)
    s.restart()
    tc = _txn(s)[0]
    third = _begin(tc)
    tc.ADD_PARTITION_TO_TXN(partitions=[s.topic()], **_bits(first))
    _end(tc, first, "ABORT")
    _end(tc, second)
    s.did(("", f"the id is {'new' if third[1] > second[1] else 'used'}"))
    s.settle()


def timed_out(s):
    """The time-out of a transaction continues. The transaction starts shortly before the restart and ends after it.

    The subscription "keep" acknowledges nothing. Without it, a real broker deletes the first ledger or not: two
    mark-deletes within a second are written as one, and only a written one causes a trim
    (ManagedCursorImpl.asyncMarkDelete, markDeleteLimiter).
    """
    t = s.topic()
    tc, p, c = _txn(s, "p", "c")
    p.producer(t, txn_enabled=True)
    c.subscribe(t, "keep")
    s.wait_for_others()
    txn = _begin(tc, 8000)
    tc.ADD_PARTITION_TO_TXN(partitions=[t], **_bits(txn))
    p.send("m0", txn=txn)
    s.restart()
    s.look_up(t)
    tc, c = _txn(s, "c2")
    c.subscribe(t, initialPosition="Earliest")
    c.flow(10)
    s.wait(8)
    _end(tc, txn)
    s.show(t, "/internalStats")
