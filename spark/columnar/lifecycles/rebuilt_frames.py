"""Rows of FORWARDED for frames that were columns, so that the Observer and Tracker of pcli.codec can process them."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame
from pcli.spark.columnar.frame_columns import CRC_NONE, START
from pcli.spark.columnar.lifecycles.partial_tables import ROLES
from pcli.spark.columnar.observation.frame_header_rows import FRAME

__all__ = ["frame_row"]


def frame_row(
    role: str, row: dict[str, Any], what: str, frame: Message | bytes, *, payload: int = 0, from_client: bool
) -> dict[str, Any]:
    """Return a row of FORWARDED with the role ``role``.

    ``what`` is the start of the names of the columns with the frame's number and time, and ``payload`` is the size of
    the payload, which is not in ``frame``.
    """
    data = frame if isinstance(frame, bytes) else push_frame(frame)
    size = len(data) + payload
    return {
        "role": 1 << ROLES[role], "kind": FRAME, "place": row[f"{what}_number"], "order": 0,
        "stream": row["stream"], "time_ns": row[f"{what}_ns"], "from_client": from_client, "type": Frame.of(data).type,
        "sync": START, "crc": CRC_NONE, "kept": size, "size": size, "data": data, "trouble": None,
    }  # fmt: skip
