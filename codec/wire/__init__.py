"""Frames, the table of commands, ids, topic names, key hashes, redaction."""

from pcli.codec.wire.frame import Frame
from pcli.codec.wire.problems import Problem

__all__ = ["Frame", "Problem"]
