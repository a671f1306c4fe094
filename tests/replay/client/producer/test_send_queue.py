"""Entries during connects and disconnects. test_producer.py tests the use of the queue by a producer."""

from __future__ import annotations

from typing import Any

from pcli.codec.proto import pb
from pcli.codec.session import Event
from pcli.codec.wire.build import command_of, push_frame
from pcli.codec.wire.frame import Frame
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.pending_sends import OpSendMsg
from pcli.replay.client.producer.send_queue import SendQueue

SCHEMA = pb.Schema(name="s", schema_data=b"", type=pb.Schema.Type.Value("String"))


class FakeLink:
    """Stores the written frames and the requests."""

    close_reason = None

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.requested: list[Any] = []

    def write(self, frame: bytes) -> None:
        self.written.append(frame)

    def request(self, body: Any, done: Any) -> None:
        self.requested.append(done)


def op(sequence_id: int, results: list[Any], schema: pb.Schema | None = None) -> OpSendMsg:
    made = OpSendMsg(sequence_id, -1, [results.append], 10, 0)
    made.frame = b"%d" % sequence_id
    if schema is not None:

        def write(version: bytes) -> list[OpSendMsg]:
            ready = op(sequence_id, results)
            ready.frame += version
            return [ready]

        made.schema, made.write = schema, write
    return made


def version(response: bytes) -> Event:
    body = pb.CommandGetOrCreateSchemaResponse(request_id=1, schema_version=response)
    return Event("GET_OR_CREATE_SCHEMA_RESPONSE", body, Frame(push_frame(body), command_of(body).type))


def test_all_entries_are_resent_on_each_connection() -> None:
    box, results = SendQueue("t", lambda _: None), []
    box.add(op(0, results))
    first, second = FakeLink(), FakeLink()
    assert box.resume(first)  # type: ignore[arg-type]
    box.add(op(1, results))
    box.pause()
    box.add(op(2, results))
    assert first.written == [b"0", b"1"]
    assert box.resume(second)  # type: ignore[arg-type]
    assert second.written == [b"0", b"1", b"2"]


def test_a_time_out_during_a_schema_registration() -> None:
    freed: list[int] = []
    box, results, connection = SendQueue("t", freed.append), [], FakeLink()
    box.resume(connection)  # type: ignore[arg-type]
    box.add(op(0, results, SCHEMA))
    box.fail(ClientFailure("TimeOut", ""))
    box.add(op(1, results, SCHEMA))
    box.add(op(2, results))
    assert (results, freed, connection.written) == ([ClientFailure("TimeOut", "")], [10], [])
    connection.requested[0](version(b"v"))
    assert connection.written == [b"1v", b"2"]
    assert len(connection.requested) == 1


def test_other_registration_failures_are_retried() -> None:
    box, results, connection = SendQueue("t", lambda _: None), [], FakeLink()
    box.resume(connection)  # type: ignore[arg-type]
    box.add(op(0, results, SCHEMA))
    connection.requested[0](ClientFailure("ServiceNotReady", ""))
    assert len(connection.requested) == 2
    assert results == []


def test_an_entry_that_cannot_be_built_after_registration_fails_alone() -> None:
    freed: list[int] = []
    box, results, connection = SendQueue("t", freed.append), [], FakeLink()
    box.resume(connection)  # type: ignore[arg-type]
    large = op(0, results, SCHEMA)
    large.write = lambda _: ClientFailure("InvalidMessage", "too large")
    box.add(large)
    box.add(op(1, results))
    connection.requested[0](version(b"v"))
    assert (results, freed, connection.written) == ([ClientFailure("InvalidMessage", "too large")], [10], [b"1"])
