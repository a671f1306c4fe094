"""Deprecated name of `pcli.replay.client.producer.outgoing_message`, kept for one version."""

from warnings import warn

from pcli.replay.client.producer.outgoing_message import OutgoingMessage as Outgoing
from pcli.replay.client.producer.outgoing_message import batch_metadata, join_singles, message_metadata

__all__ = ["Outgoing", "batch_metadata", "join_singles", "message_metadata"]

warn(
    "pcli.replay.client.outgoing is deprecated: import pcli.replay.client.producer.outgoing_message",
    DeprecationWarning,
    stacklevel=2,
)
