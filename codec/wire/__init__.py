"""Decoding and encoding of frames, the command table, message ids, topic names, key hashes and redaction.

Start with ``frame`` (one frame and its parts), ``reader`` (chunks of bytes to frames), ``build`` (messages to frames)
and ``commands`` (the table of commands). ``hot`` reads and writes the five most frequent commands without protobuf,
``lossless`` converts between a frame and JSON, ``hextext`` and ``assignments`` parse typed input, and ``texts``
converts strings with invalid UTF-8.
"""

from typing import TYPE_CHECKING

from pcli.codec.lazy_names import lazy_names

if TYPE_CHECKING:
    from pcli.codec.wire.assignments import pull_assignments
    from pcli.codec.wire.build import push_entry, push_frame
    from pcli.codec.wire.commands import BY_NAME, COMMANDS, CommandRow, name_of
    from pcli.codec.wire.frame import Frame
    from pcli.codec.wire.hextext import pull_bytes
    from pcli.codec.wire.lossless import pull_wire_json, push_wire_json
    from pcli.codec.wire.message_id import MessageId
    from pcli.codec.wire.problems import Problem
    from pcli.codec.wire.reader import FrameReader
    from pcli.codec.wire.topic_name import TopicName

__all__ = [
    "BY_NAME",
    "COMMANDS",
    "CommandRow",
    "Frame",
    "FrameReader",
    "MessageId",
    "Problem",
    "TopicName",
    "name_of",
    "pull_assignments",
    "pull_bytes",
    "pull_wire_json",
    "push_entry",
    "push_frame",
    "push_wire_json",
]

__getattr__ = lazy_names(
    __name__,
    {
        "assignments": "pull_assignments",
        "build": "push_entry push_frame",
        "commands": "BY_NAME COMMANDS CommandRow name_of",
        "frame": "Frame",
        "hextext": "pull_bytes",
        "lossless": "pull_wire_json push_wire_json",
        "message_id": "MessageId",
        "problems": "Problem",
        "reader": "FrameReader",
        "topic_name": "TopicName",
    },
)
