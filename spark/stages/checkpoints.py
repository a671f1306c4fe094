"""The states of a reader after the files of a recording that independent tasks have read.

The states equal those of `read_in_order`, which can continue them, up to the differences that
`pcli.spark.columnar.split_merge` lists.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from pcli.codec.capture.reading import ReadOptions
from pcli.spark.columnar.split_merge.connection_chains import ChainResult, Context, load_carried
from pcli.spark.columnar.split_merge.merge_results import MergedSplits
from pcli.spark.columnar.split_merge.reader_state import reader_state
from pcli.spark.stages.read_sequentially import Checkpoint, Counters, noted_packets

__all__ = ["checkpoints_of"]


def checkpoints_of(
    counts: Sequence[int],
    options: ReadOptions,
    context: Context,
    chained: Sequence[ChainResult],
    merged: MergedSplits,
    counters: Sequence[Counters],
    times_of: Callable[[Iterable[int]], dict[int, int]],
) -> Iterator[Checkpoint]:
    """Yield the state after each of these numbers of files, at the splits in `Context.kept`.

    ``counters`` contains the position after each number of splits, from 0. ``times_of`` returns the times of packets.
    """
    starts = [stream.opening[0] for stream in merged.streams]
    numbers = {born: number for number, born in enumerate(starts)}
    for index, (count, split) in enumerate(zip(counts, context.kept, strict=True)):
        states = [load_carried(one.states[index]) for one in chained if one.states[index]]
        connections = [one.connection for one in states if one.connection is not None]
        for connection in connections:
            connection.stream.number = numbers[connection.stream.opening[0]]
        reached = replace(counters[split], parts=count)
        begun = bisect_right(starts, reached.packets)
        state = reader_state(options, states, starts[:begun], reached.packets, context.fed[split])
        streams = dict(enumerate(merged.streams[:begun])) | {one.stream.number: one.stream for one in connections}
        noted = noted_packets(connections)
        times = times_of([reached.packets, *(packet for packet, time_ns in noted.items() if time_ns is None)])
        known = {packet: time_ns for packet, time_ns in noted.items() if time_ns is not None}
        yield Checkpoint(reached, state, streams, known | times)
