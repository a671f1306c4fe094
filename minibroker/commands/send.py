"""SEND commands with unusual fields (ServerCnx.handleSend).

The connection decodes all other SENDs in place and calls the producer directly.
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
    """Handle SEND.

    If the broker closed the producer recently, the SEND is dropped. Any other unknown producer is an error.
    """
    producer = connection.producers.get(command.producer_id)
    if producer is not None:
        connection.sends += 1
        producer.publish_command(command, frame.data[frame.parts.command_end :])
    elif not connection.is_recently_closed(command.producer_id):
        raise RemoteError(f"SEND of the unknown producer {command.producer_id}")


HANDLERS: Final[dict[str, Handler]] = {"SEND": send}
