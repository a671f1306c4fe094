"""Redaction of secrets in all output of pcli: the table of secret fields, and their replacement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from google.protobuf.message import Message

__all__ = ["SECRET_FIELDS", "hidden", "secret_values"]

SECRET_FIELDS: Final = frozenset({
    "CommandConnect.auth_data",
    "CommandConnect.original_auth_data",
    "AuthData.auth_data",
    "CommandLookupTopic.original_auth_data",
    "CommandPartitionedTopicMetadata.original_auth_data",
})  # fmt: skip
"""``Message.field`` of every field that contains credentials."""


def hidden(value: bytes | str) -> str:
    """Return the replacement for a secret; it contains only the secret's size."""
    return f"<hidden: {len(value if isinstance(value, bytes) else value.encode())} bytes>"


def secret_values(message: Message) -> Iterator[bytes]:
    """Yield the bytes of every credential in a message and its nested messages; the caller overwrites them."""
    for field, value in message.ListFields():
        if f"{message.DESCRIPTOR.name}.{field.name}" in SECRET_FIELDS:
            yield value if isinstance(value, bytes) else value.encode()
        elif field.message_type is not None:
            for part in value if field.is_repeated else (value,):
                yield from secret_values(part)
