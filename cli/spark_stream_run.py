"""How `pcli spark-stream` runs: a line on stderr for each batch of files, until Ctrl-C or, with --once, the last."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pcli.cli.output import Exit, say

if TYPE_CHECKING:
    from pcli.spark.request import Request
    from pcli.spark.summary import Summary

__all__ = ["run"]


def run(
    request: Request,
    master: str,
    conf: Sequence[str],
    *,
    checkpoint: str,
    every_s: float,
    most: int,
    once: bool,
    debug: bool,
) -> Exit:
    """Take files until it is stopped; the exit code: 3 when one of them could not be read to its end."""
    from pcli.spark.hiding import hidden
    from pcli.spark.jobs.session import open_spark, parsed_conf
    from pcli.spark.jobs.stream import Stream

    damaged = False

    def told(number: int, files: int, summary: Summary) -> None:
        nonlocal damaged
        damaged = damaged or bool(summary.troubles)
        say(f"batch {number}: {files} file{'s' if files != 1 else ''}; generation {summary.generation}")
        for path, status, error in summary.troubles:
            say(f"{path}: {status}: {error}")

    # `kill` and a stopping service end it like Ctrl-C: after the batch at hand, or in it, which is as good.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with open_spark(master, parsed_conf(conf), debug=debug) as spark:
        stream = Stream(spark, request, checkpoint, most=most, on_batch=told)
        if not once:
            say(f"watching {hidden(request.paths[0])}: Ctrl-C ends it")
        try:
            stream.run(every_s=every_s, once=once)
        except KeyboardInterrupt:
            stream.stop()  # how it is meant to end
    return Exit.DAMAGED if damaged else Exit.FINE
