"""Secrets are hidden wherever text leaves pcli: the table of which fields are secret, and how they are hidden."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message

__all__ = ["SECRET_FIELDS", "hidden", "redact"]

SECRET_FIELDS: Final = frozenset({
    "CommandConnect.auth_data",
    "CommandConnect.original_auth_data",
    "AuthData.auth_data",
    "CommandLookupTopic.original_auth_data",
    "CommandPartitionedTopicMetadata.original_auth_data",
})  # fmt: skip
"""``Message.field`` of everything that holds credentials."""


def hidden(value: bytes | str) -> str:
    """What stands in place of a secret: its size alone."""
    return f"<hidden: {len(value if isinstance(value, bytes) else value.encode())} bytes>"


def redact(message: Message) -> None:
    """Replace every secret inside a message, in place, by bytes of the same length: frames keep their size."""
    for field, value in message.ListFields():
        if f"{message.DESCRIPTOR.name}.{field.name}" in SECRET_FIELDS:
            setattr(message, field.name, b"*" * len(value) if isinstance(value, bytes) else "*" * len(value.encode()))
        elif field.message_type is not None:
            for part in value if isinstance(value, Message) is False else (value,):
                redact(part)
