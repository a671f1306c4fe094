"""A split's frames made part of the recording: what stands is renamed, what stitching adds comes in between.

Rules of this file
1. What comes out, window after window, is what one reader over the whole recording would give here: the same frames,
   notes and ends in the same order, with the recording's own numbers.
2. A window has all rows of its packets, so whatever stitching adds at these packets belongs into it; the rest comes
   behind the last window.
3. Ordinary windows get nothing added: they are renamed, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from pcli.codec.capture.frames import CapturedFrame, Note, StreamEnd
from pcli.spark.columnar.fields import places_of
from pcli.spark.columnar.frame_columns import Longs, Places
from pcli.spark.columnar.split_merge.merge_results import Extra, MergedSplit, insertion_points

__all__ = ["Aside", "Joining"]

Aside = tuple[int, Note | StreamEnd]
"""A note or end, and the row before which it stands."""

_COLUMNS: Final = tuple(one.name for one in fields(Places) if one.name not in ("data", "trouble"))


class Joining:
    """Takes a split's windows, gives the recording's."""

    def __init__(self, joined: MergedSplit) -> None:
        """``joined``: what stitching says of this split."""
        self._renaming = joined.renaming
        self._extra = joined.extra
        self._taken = 0
        self._rows = 0
        """Rows of the split before the window."""

    def window(self, places: Places, packets: int) -> tuple[Places, list[Aside]]:
        """A window's places, and what stands between them; ``packets``: of the split up to its end."""
        last = packets + self._renaming.packets
        end = self._taken
        while end < len(self._extra) and self._extra[end].turn <= last:
            end += 1
        return self._joined(places, self._next(end))

    def rest(self) -> tuple[Places, list[Aside]]:
        """What comes behind the last window."""
        return self._joined(places_of([]), self._next(len(self._extra)))

    def _next(self, end: int) -> Sequence[Extra]:
        extra = self._extra[self._taken : end]
        self._taken = end
        return extra

    def _joined(self, places: Places, extra: Sequence[Extra]) -> tuple[Places, list[Aside]]:
        stands = self._renaming.stands(places.stream)
        own = self._renaming.places(places if stands.all() else _picked(places, np.flatnonzero(stands)))
        if extra:
            before = np.concatenate((np.zeros(1, np.int64), np.cumsum(stands)))
            at: Longs = before[insertion_points(extra, places.turn + self._renaming.packets, self._rows)].astype(
                np.int64
            )
        self._rows += len(places)
        if not extra:
            return own, []
        framed = np.array([isinstance(one.item, CapturedFrame) for one in extra], np.bool_)
        asides = [
            (int(row), one.item)
            for one, row in zip(extra, at + np.cumsum(framed) - framed, strict=True)
            if not isinstance(one.item, CapturedFrame)
        ]
        return (_merged(own, extra, framed, at[framed]) if framed.any() else own), asides


def _merged(own: Places, extra: Sequence[Extra], framed: Any, at: Longs) -> Places:
    """Places with frames of their own bytes put before the rows ``at``."""
    chosen = [one for one, is_frame in zip(extra, framed.tolist(), strict=True) if is_frame]
    more = places_of([one.item for one in chosen if isinstance(one.item, CapturedFrame)])
    more = replace(more, start=more.start + len(own.data), turn=np.array([one.turn for one in chosen], np.int64))
    order = np.argsort(np.concatenate((np.arange(len(own)) * 2 + 1, at * 2)), kind="stable")
    columns = {name: np.concatenate((getattr(own, name), getattr(more, name))) for name in _COLUMNS}
    trouble = own.trouble | {row + len(own): problems for row, problems in more.trouble.items()}
    both = Places(data=np.concatenate((own.data, more.data)), trouble=trouble, **columns)
    return _picked(both, order)


def _picked(places: Places, rows: Longs) -> Places:
    columns = {name: getattr(places, name)[rows] for name in _COLUMNS}
    at = {row: index for index, row in enumerate(rows.tolist())} if places.trouble else {}
    trouble = {at[row]: problems for row, problems in places.trouble.items() if row in at}
    return Places(data=places.data, trouble=trouble, **columns)
