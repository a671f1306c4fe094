"""The entries of a producer that wait for their receipts, and the registration of their schemas.

Rules of this file (ProducerImpl.processOpSendMsg, recoverProcessOpSendMsgFrom, tryRegisterSchema; 4.2.4)
1. An entry is sent if there is a connection, and kept until its response. On a new connection all kept entries are
   resent in order.
2. An entry with an unregistered schema is kept while the schema is registered (GET_OR_CREATE_SCHEMA), and all later
   entries wait. If the schema is incompatible, only its entry fails; after any other error the request is sent again.
3. After a checksum error, all entries are resent if the first entry is undamaged. After a NotAllowedError, only one
   entry fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.session import Event
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.pending_sends import OpSendMsg, PendingSends

_DAMAGED: Final = ClientFailure("ChecksumError", "the message was damaged before it was sent")


class SendQueue:
    """The entries of one producer. ``freed`` is called with the bytes of each completed entry, before its callbacks."""

    def __init__(self, topic: str, freed: Callable[[int], None]) -> None:
        self.pending = PendingSends()
        self._topic = topic
        self._freed = freed
        self._connection: ClientConnection | None = None
        self._registering = False
        self._versions: dict[bytes, bytes] = {}

    def version_of(self, schema: pb.Schema) -> bytes | None:
        """Return the broker's version of a schema, or None if it must be registered."""
        return self._versions.get(_key(schema))

    def add(self, op: OpSendMsg) -> None:
        """Send an entry immediately, or after the entries before it."""
        self.pending.add(op)
        if self._registering or self._connection is None:
            return
        if op.schema is None:
            self._connection.write(op.frame)
        else:
            self._register(self._connection, op)

    def resume(self, connection: ClientConnection) -> bool:
        """Resend all entries on a new connection. Return whether there were any entries."""
        self._connection = connection
        self._registering = False
        ops = self.pending.after(None)
        self._write(connection, ops)
        return bool(ops)

    def pause(self) -> None:
        """Stop sending, because the connection or the registration ended."""
        self._connection = None

    def refuse(self, sequence_id: int, failure: ClientFailure) -> None:
        """Fail the first entry if the error applies to it."""
        op = self.pending.named(sequence_id)
        if op is not None:
            self._drop(op, failure)

    def checksum_error(self, sequence_id: int) -> None:
        """Handle a checksum error from the broker (recoverChecksumError)."""
        op = self.pending.named(sequence_id)
        if op is not None and not op.sound:
            self._drop(op, _DAMAGED)
        elif self._connection is not None:
            self._write(self._connection, self.pending.after(None))

    def fail(self, failure: ClientFailure) -> None:
        """Fail all entries."""
        for op in self.pending.drain():
            self._freed(op.size)
            op.fail(failure)

    def _drop(self, op: OpSendMsg, failure: ClientFailure) -> None:
        self.pending.replace(op)
        self._freed(op.size)
        op.fail(failure)

    def _register(self, connection: ClientConnection, op: OpSendMsg) -> None:
        self._registering = True
        body = pb.CommandGetOrCreateSchema(topic=self._topic, schema=op.schema)
        connection.request(body, lambda response: self._on_response(connection, op, response))

    def _on_response(self, connection: ClientConnection, op: OpSendMsg, response: Event | ClientFailure) -> None:
        if self._connection is not connection or connection.close_reason is not None:
            return  # all entries are resent on the next connection
        assert op.schema is not None
        self._registering = False
        waiting = op in self.pending.ops
        # If the entry has timed out, all entries in the queue are newer and still unsent.
        ops = self.pending.after(op if waiting else None)
        if isinstance(response, Event):
            self._versions[_key(op.schema)] = response.body.schema_version
        elif response.error == "IncompatibleSchema" and waiting:
            self._drop(op, response)
            ops.remove(op)
        self._write(connection, ops)

    def _write(self, connection: ClientConnection, ops: Iterable[OpSendMsg]) -> None:
        """Send these entries up to the first entry whose schema must be registered."""
        for op in ops:
            for ready in self._written(op):
                if ready.schema is not None:
                    self._register(connection, ready)
                    return
                connection.write(ready.frame)

    def _written(self, op: OpSendMsg) -> list[OpSendMsg]:
        """Return the entry itself, or the entries that were built from it with its schema version."""
        version = None if op.schema is None else self.version_of(op.schema)
        if version is None or op.write is None:
            return [op]
        ops = op.write(version)
        if isinstance(ops, ClientFailure):
            self._drop(op, ops)
            return []
        self.pending.replace(op, ops)
        ops[-1].flushes = op.flushes
        return ops


def _key(schema: pb.Schema) -> bytes:
    return schema.SerializeToString(deterministic=True)
