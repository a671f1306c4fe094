"""A client that sends commands as a plan contains them, also commands that no official client sends."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Any

from google.protobuf.json_format import ParseDict

from pcli.codec.payload.batch import join_batch
from pcli.codec.proto import pb
from pcli.codec.session import ClientSession, Event
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.commands import BY_NAME

_ANSWER_S = 10
_TRANSACTION = ("txnid_most_bits", "txnid_least_bits")


class RawClient:
    """One connection. It responds to PING and sends nothing else that the plan does not contain."""

    def __init__(self, service_url: str, fields: dict[str, Any] | None) -> None:
        """Connect. ``fields`` are those of CONNECT; None sends none."""
        host, _, port = service_url.partition("//")[2].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_ANSWER_S)
        self._socket.settimeout(None)
        self._session = ClientSession()
        self._changed = threading.Condition()
        self._messages: list[Event] = []
        self._seen: set[str] = set()
        self._transaction: dict[str, int] = {}
        self._ended = False
        if fields is not None:
            self._session.connect(**fields)
            self._flush()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if fields is not None:
            self._wait(lambda: self._session.connected is not None)

    def send(self, name: str, fields: dict[str, Any], *, wait: bool = True) -> None:
        """Send a command. ``wait``: wait for its response, if it has one with a request id."""
        body = ParseDict(fields, getattr(pb, type(getattr(pb.BaseCommand(), BY_NAME[name].field)).__name__)())
        with self._changed:
            request = self._session.send(body)
            self._flush()
        if wait and BY_NAME[name].paired_by == "request_id" and BY_NAME[name].answers:
            self._wait(lambda: not any(request is one for one in self._session.open_requests))

    def publish(self, fields: dict[str, Any], size: int, metadata: dict[str, Any], batch: int) -> None:
        """Send a SEND with a payload of this size, or with a batch of this many empty messages."""
        now = round(time.time() * 1000)
        about = pb.MessageMetadata(**{"producer_name": "raw", "publish_time": now, **metadata})
        about.sequence_id = fields["sequence_id"]
        payload = b"raw:0:" + bytes(size)
        if batch:
            about.num_messages_in_batch = batch
            payload = join_batch((pb.SingleMessageMetadata(), b"raw:0:") for _ in range(batch))
        with self._changed, suppress(OSError):
            self._session.send(pb.CommandSend(num_messages=max(batch, 1), **fields), push_entry(about, payload))
            self._flush()

    def publish_late(self, fields: dict[str, Any], seconds: int) -> None:
        """Send a SEND whose publish time is this many seconds ago."""
        self.publish(fields, 10, {"publish_time": round((time.time() - seconds) * 1000)}, 0)

    def send_to_transaction(self, name: str, fields: dict[str, Any]) -> None:
        """Send a command with the id of the last transaction."""
        self.send(name, {**fields, **self._transaction})

    def send_bytes(self, data: bytes) -> None:
        """Send bytes that need not be a frame."""
        self._socket.sendall(data)

    def await_messages(self, count: int) -> None:
        """Wait until this number of MESSAGEs has arrived."""
        self._wait(lambda: len(self._messages) >= count)

    def await_command(self, name: str) -> None:
        """Wait until a command of this type has arrived."""
        self._wait(lambda: name in self._seen)

    def ack(self, consumer_id: int, count: int) -> None:
        """Acknowledge the first MESSAGEs that are not acknowledged."""
        chosen, self._messages[:] = self._messages[:count], self._messages[count:]
        for event in chosen:
            ack = pb.CommandAck(consumer_id=consumer_id, ack_type=pb.CommandAck.Individual)
            ack.message_id.add().CopyFrom(event.body.message_id)
            with self._changed:
                self._session.post(ack)
                self._flush()

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join(timeout=_ANSWER_S)
        self._socket.close()

    def _wait(self, is_done) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: is_done() or self._ended, _ANSWER_S) or not is_done():
                raise ValueError("a raw client received no response")

    def _flush(self) -> None:
        self._socket.sendall(self._session.output())

    def _read(self) -> None:
        with suppress(OSError):
            while data := self._socket.recv(1 << 16):
                with self._changed:
                    for event in self._session.receive(data):
                        self._seen.add(event.name)
                        if event.name == "MESSAGE":
                            self._messages.append(event)
                        elif event.name == "NEW_TXN_RESPONSE":
                            self._transaction = {name: getattr(event.body, name) for name in _TRANSACTION}
                    self._flush()
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
