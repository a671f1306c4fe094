"""Schemas of kind ProtobufNative: a change is allowed as long as the root message keeps its name.

Nothing else is compared: that is the whole check of a 4.2.4 broker (ProtobufNativeSchemaCompatibilityCheck).
"""

from __future__ import annotations

from pcli.codec.wire.problems import Problem

__all__ = ["root_message"]


def root_message(data: bytes) -> str | None:
    """Full name of the message that a schema describes; None when it describes none."""
    from pcli.codec.payload.protobuf_native import parse_native  # rare, and it brings all of codec.payload

    kind = parse_native(data)
    return None if isinstance(kind, Problem) else kind.DESCRIPTOR.full_name
