"""The merge of all connections. It determines the recording's numbers and the order of all items.

Rules of this file
1. Connections are numbered in the order of their first packets, as a single reader numbers them.
2. An end that the start of a different connection would have caused is moved to that start (`deferred_tcp_ends`),
   because only the merge processes all starts.
3. Truncated packets are reported once for each file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pcli.codec.capture.frames import CapturedFrame, Note, Stream, StreamEnd
from pcli.spark.columnar.split_merge.connection_chains import ChainResult, Context, EarlierPackets, ValidConnection
from pcli.spark.columnar.split_merge.deferred_tcp_ends import IMMEDIATE, first_start
from pcli.spark.columnar.split_merge.merge_results import AFTER, Extra, MergedSplit, MergedSplits, SplitRenumbering
from pcli.spark.columnar.split_merge.packet_replay import END, LAST
from pcli.spark.columnar.split_merge.split_reader import SplitEdges

_CLOSING: Final = 2
_OWN: Final = 3
"""Ranks at one place of a turn: timers (0) and the end of a replaced connection (1) are first, then ends of other
connections, then the items of the packet itself."""


def merge_splits(
    context: Context,
    splits: Sequence[SplitEdges],
    parts: Sequence[int],
    chained: Sequence[ChainResult],
    earlier: EarlierPackets,
) -> MergedSplits:
    """Assign all numbers.

    ``parts`` contains the number of each split's file, and ``chained`` all connections. None of them has a
    `RereadOrder`. ``earlier`` contains the streams that keep their numbers.
    """
    streams = dict(earlier.streams) | {born: stream for one in chained for born, stream in one.streams.items()}
    numbers = {born: number for number, born in enumerate(sorted(streams))}
    for born, stream in streams.items():
        stream.number = numbers[born]
    extra = _sorted(context, chained, streams, _ConnectionStarts(context, splits, chained, sorted(streams)))
    reported: set[int] = set()
    out, number = [], earlier.frames + 1
    for index, edges in enumerate(splits):
        base = context.packets[index]
        extra[index] += [Extra(context.packets[index + 1], LAST, _placed(note, context, index)) for note in edges.notes]
        extra[index].sort(key=_order)
        extra[index] = _without_repetitions(extra[index], reported, parts[index])
        renaming = SplitRenumbering.of_none(base, edges.streams)
        out.append(MergedSplit(index, renaming, extra[index]))
    ending = MergedSplit(len(splits), SplitRenumbering.of_none(context.packets[-1], 0), extra[-1])
    last = parts[max(0, bisect_left(context.packets, context.packets[-1]) - 1)] if parts else -1
    ending.extra = _without_repetitions(sorted(ending.extra, key=_order), reported, last)
    for one in chained:
        for standing in one.standing:
            _add_connection(out[standing.split], standing, numbers[standing.born])
    for joined in (*out, ending):
        joined.first_number = number
        joined.rows += sum(isinstance(one.item, CapturedFrame) for one in joined.extra)
        number += joined.rows
    return MergedSplits(out, ending, [streams[born] for born in sorted(streams)])


def _order(extra: Extra) -> tuple[int, int, int, int]:
    return extra.turn, extra.place, extra.rank, extra.ticket


def _placed(note: Note, context: Context, index: int) -> Note:
    return replace(note, packet=context.packets[index + 1])


def _sorted(
    context: Context,
    chained: Sequence[ChainResult],
    streams: Mapping[int, Stream],
    connection_starts: _ConnectionStarts,
) -> list[list[Extra]]:
    """Return the extra items of each split with their streams, and then those of the end of the recording.

    Ends are moved to the turns at which they are reported.
    """
    out: list[list[Extra]] = [[] for _ in context.packets]
    names = {id(stream): born for one in chained for born, stream in one.streams.items()}
    for one in chained:
        for extra in (*one.extra, *one.ending):
            stream = extra.item.stream
            assert stream is not None
            born = names.get(id(stream), stream.number)
            if isinstance(extra.item, CapturedFrame):
                extra.item.stream = streams[born]
            else:
                extra.item = replace(extra.item, stream=streams[born])
            extra.rank = max(extra.rank, _OWN if extra.turn == born else 0)
            if connection_starts.bring_forward(extra):
                split = len(out) - 1 if extra.place == END else bisect_left(context.packets, extra.turn) - 1
                out[max(0, split)].append(extra)
    return out


class _ConnectionStarts:
    """The starts of connections, with their places within the turns of their packets."""

    def __init__(
        self, context: Context, splits: Sequence[SplitEdges], chained: Sequence[ChainResult], packets: Sequence[int]
    ) -> None:
        self._packets = packets
        self._places: dict[int, int] = {}
        """Places of the valid connections that started in a split, by the packet that started them."""
        for one in chained:
            for standing in one.standing:
                row = splits[standing.split].connection_starts.get(standing.born - context.packets[standing.split])
                if row is not None:
                    self._places[standing.born] = row

    def bring_forward(self, extra: Extra) -> bool:
        """Move an end to the first start that would have caused it.

        Return False if no start would have caused the end and the end requires a start.
        """
        ready, extra.ready = extra.ready, IMMEDIATE
        # The start at the last packet precedes the end of the recording.
        found = first_start(ready.times, self._packets, extra.turn + (extra.place == END))
        if found is None:
            return not ready.only
        extra.turn, time = found
        extra.place = self._places.get(extra.turn, AFTER - 1)
        extra.rank, extra.ticket = _CLOSING, ready.closing
        assert isinstance(extra.item, StreamEnd)
        extra.item = replace(extra.item, refused=time.refused, silent=time.silent)
        return True


def _without_repetitions(extra: list[Extra], reported: set[int], part: int) -> list[Extra]:
    """Remove repeated notes about truncated packets, so that one note for each file remains."""
    out = []
    for one in extra:
        if isinstance(one.item, Note) and one.item.is_once_per_file:
            if part in reported:
                continue
            reported.add(part)
        out.append(one)
    return out


def _add_connection(joined: MergedSplit, standing: ValidConnection, number: int) -> None:
    renaming, stream = joined.renaming, standing.stream
    renaming.streams[stream] = number
    for column, values in (
        (renaming.offsets, standing.offsets),
        (renaming.sync, standing.sync),
        (renaming.anchored, standing.anchored),
        (renaming.lost, standing.lost),
    ):
        column[2 * stream : 2 * stream + 2] = values
    joined.rows += standing.rows
