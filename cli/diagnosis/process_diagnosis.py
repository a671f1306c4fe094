"""The diagnosis of large captures in several processes.

Small captures, and input that only one process can read, are diagnosed in this process. If the user has asked for more
processes, one line states why one process reads the input.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pcli.cli.common.output import say

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.diagnosis.rule_settings import RuleSettings
    from pcli.spark.diagnosis import DiagnosedCaptures

_SPLITS: Final = 4
"""Number of parts of the captures for each process, so that the parts keep the processes equally busy."""

_LEAST_SPLIT: int = 16 << 20
"""Minimum size in bytes of a part."""


_UNREQUESTED_BYTES: Final = 128 << 20
"""Minimum size in bytes of the captures if the user has not asked for processes. For smaller captures with many
connections, two take at least as long as one, because each split is read twice."""


@contextmanager
def diagnosed_in_processes(
    reading: CaptureReading, rules: RuleSettings, jobs: int | None, *, alone: str = ""
) -> Iterator[DiagnosedCaptures | None]:
    """Yield the diagnosis of the captures, or None if this process must read them.

    ``jobs`` is the number of processes that the user has asked for. ``alone`` is why one process is necessary, or "".
    """
    from pcli.spark import worker_server
    from pcli.spark.jobs.machine_resources import cpus

    paths = () if alone else tuple(one.name for one in reading.inputs())
    alone = alone or ("" if all(Path(path).is_file() for path in paths) else "stdin and pipes are read")
    if alone and jobs is not None and jobs > 1:
        say(f"-j {jobs}: {alone} in one process")
    size, count = worker_server.local_size(paths), jobs or cpus()
    least = _UNREQUESTED_BYTES if jobs is None else worker_server.SMALL_BYTES
    if alone or size < least or count == 1 or not worker_server.has_tables():
        yield None
        return
    worker_server.start_server()
    from pcli.cli.tables.analysis import shown_progress
    from pcli.spark.diagnosis import diagnosed
    from pcli.spark.processes import Processes
    from pcli.spark.request import SPLIT_BYTES, Request

    split_bytes = min(SPLIT_BYTES, max(_LEAST_SPLIT, size // (_SPLITS * count)))
    decode_as = dict(reading.read_options().decode_as)
    request = Request(paths, "", only=("findings",), decode_as=decode_as, split_bytes=split_bytes)
    with (
        shown_progress() as on_progress,
        closing(Processes(count, on_progress)) as engine,
        diagnosed(request, rules.choice(), engine) as found,
    ):
        yield found
