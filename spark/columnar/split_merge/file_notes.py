"""The notes about files, which the splits of a file share.

Rules of this file
1. A note about damage is correct only in the last split of a file, because in other splits a wrong boundary causes it.
2. The packets of a file that cannot be decoded are counted in all its splits and reported in the last split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pcli.codec.capture.unread_packets import UnreadPackets
from pcli.spark.columnar.split_merge.split_reader import SplitEdges

__all__ = ["with_file_notes"]


def with_file_notes(splits: Sequence[SplitEdges], parts: Sequence[int], names: Sequence[str]) -> list[SplitEdges]:
    """Return the splits with correct notes. ``parts`` and ``names`` are the number and name of each split's file."""
    out, unread = [], UnreadPackets()
    for edges, part, following, name in zip(splits, parts, [*parts[1:], -1], names, strict=True):
        unread.counts += edges.unread.counts
        out.append(replace(edges, notes=[] if following == part else [*edges.notes, *unread.take(name, 0)]))
    return out
