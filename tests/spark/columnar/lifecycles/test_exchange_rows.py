"""The rows of `exchanges` equal the pairs of the Observer, for every capture."""

from __future__ import annotations

import pytest

from pcli.codec.capture import CapturedFrame
from pcli.codec.observe import Observer
from pcli.codec.wire.commands import COMMANDS, name_of
from pcli.codec.wire.frame import SEND


def pairs_of(recording):
    """Return each request with its first response, if any: numbers, types, id, duration, owner."""
    observer, found = Observer(), {}
    for frame in recording.items:
        if isinstance(frame, CapturedFrame):
            facts = observer.see(frame)
            if facts.request is not None:
                answer = (frame.number, name_of(frame.type), facts.latency_ns)
                found.setdefault(facts.request.number, (facts.request, answer))
    for request in observer.unanswered():
        if request.type != SEND:
            found.setdefault(request.number, (request, (None, None, None)))
    return [(number, *told(*pair)) for number, pair in sorted(found.items())]


def told(request, answer):
    ordered = COMMANDS[request.type].paired_by == "order"
    number = None if ordered else request.id - ((request.id >> 63 == 1) << 64)
    peer = request.peer
    return name_of(request.type), request.time_ns, number, answer, request.system, peer and (peer.id, peer.topic != "")


def told_by_row(row, peer):
    answer = (row["answered_frame"], row["answer"], row["latency_ns"])
    owner = peer and (row["owner_id"], row["topic"] is not None)
    return (row["asked_frame"], row["request"], row["asked_ns"], row["request_id"], answer, row["system"], owner)


@pytest.mark.slow
def test_exchanges_are_the_pairs_of_the_observer(whole):
    count = errors = 0
    for name in whole:
        recording, bulk = whole.made(name)
        want, rows = pairs_of(recording), bulk.exchanges()
        assert len(rows) == len(want), name
        assert [told_by_row(row, one[-1]) for row, one in zip(rows, want, strict=True)] == want, name
        assert all((row["answered_ns"] is None) == (row["answer"] is None) for row in rows)
        count += len(rows)
        errors += sum(row["error"] is not None for row in rows)
    assert count > 4_000
    assert errors > 20


def test_ends_and_names_of_an_exchange(few):
    rows = [row for name in few for row in few.made(name)[1].exchanges()]
    acks = [row for row in rows if row["request"] == "ACK" and not row["error"]]
    assert acks
    assert {row["answer"] for row in acks} <= {"ACK_RESPONSE", None}
    assert all(row["subscription"] and row["topic"].startswith("persistent://") for row in acks if row["answer"])
    assert all(row["from_client"] and row["client"].count(":") and row["client"] != row["server"] for row in acks)
