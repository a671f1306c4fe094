"""Redaction of secrets in all output of pcli: the table of secret fields, and their replacement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from google.protobuf.message import Message

from pcli.codec.wire.commands import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pcli.codec.proto import pb
    from pcli.codec.wire.problems import Problem

SECRET_FIELDS: Final = frozenset({
    "CommandConnect.auth_data",
    "CommandConnect.original_auth_data",
    "AuthData.auth_data",
    "CommandLookupTopic.original_auth_data",
    "CommandPartitionedTopicMetadata.original_auth_data",
})  # fmt: skip
"""``Message.field`` of every field that contains credentials."""

_WITH_SECRETS: Final = frozenset(
    BY_NAME[name].number for name in ("CONNECT", "AUTH_CHALLENGE", "AUTH_RESPONSE", "LOOKUP", "PARTITIONED_METADATA")
)
"""The types of the commands that contain these fields."""

_TYPE_END: Final = 10
"""Offset of the end of the command type: two lengths, a tag and a number."""


class _Frame(Protocol):
    """The properties of a frame that `secret_bytes` needs."""

    @property
    def data(self) -> bytes: ...

    @property
    def type(self) -> int: ...

    @property
    def command(self) -> pb.BaseCommand: ...

    @property
    def problems(self) -> Sequence[Problem]: ...


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


def secret_bytes(frame: _Frame) -> Iterator[bytes]:
    """Yield the bytes of every credential in a frame; the caller overwrites them.

    If a command that can contain credentials is malformed or truncated, these are all bytes after its type, because the
    positions of the credentials are unknown.
    """
    if frame.type not in _WITH_SECRETS:
        return
    if frame.problems:
        yield frame.data[_TYPE_END:]
    else:
        yield from secret_values(frame.command)
