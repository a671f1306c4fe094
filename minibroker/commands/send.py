"""SEND, where there is anything unusual about it (ServerCnx.handleSend).

The usual ones never come here: the connection recognises them by their bytes and calls the producer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.errors import RemoteError

if TYPE_CHECKING:
    from pcli.codec.proto import pb
    from pcli.codec.wire.frame import Frame
    from pcli.minibroker.connection import Connection, Handler

__all__ = ["HANDLERS"]


def send(connection: Connection, command: pb.CommandSend, frame: Frame) -> None:
    """SEND. To a producer that the broker closed lately it is dropped; to one that never was it ends the connection."""
    producer = connection.producers.get(command.producer_id)
    if producer is not None:
        producer.publish_command(command, frame.data[frame.parts.command_end :])
    elif not connection.is_recently_closed(command.producer_id):
        raise RemoteError(f"SEND of producer {command.producer_id}, which is not there")


HANDLERS: Final[dict[str, Handler]] = {"SEND": send}
