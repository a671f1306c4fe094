"""The diagnosis of large captures in several processes.

Small captures, and input that only one process can read, are diagnosed in this process. If the user has asked for more
processes, one line states the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from pcli.cli.common.output import say

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.diagnosis.rule_settings import RuleSettings
    from pcli.spark.diagnosis import DiagnosedCaptures

__all__ = ["diagnosed_in_processes"]


@contextmanager
def diagnosed_in_processes(
    reading: CaptureReading, rules: RuleSettings, jobs: int | None, *, alone: str = ""
) -> Iterator[DiagnosedCaptures | None]:
    """Yield the diagnosis of the captures, or None if this process must read them.

    ``jobs`` is the number of processes that the user has asked for. ``alone`` is why one process is necessary, or "".
    """
    from pcli.spark.jobs.machine_resources import cpus

    sizes = [] if alone else [one.size for one in reading.inputs()]
    alone = alone or ("stdin and pipes are read" if None in sizes else "")
    if alone and jobs is not None and jobs > 1:
        say(f"-j {jobs}: {alone} in one process")
    if alone or (jobs or cpus()) == 1 or not _is_worth(sum(size for size in sizes if size is not None)):
        yield None
        return
    from pcli.cli.tables.analysis import shown_progress
    from pcli.spark.diagnosis import diagnosed
    from pcli.spark.processes import Processes
    from pcli.spark.request import Request

    paths = tuple(one.name for one in reading.inputs())
    request = Request(paths, "", only=("findings",), decode_as=dict(reading.read_options().decode_as))
    with (
        shown_progress() as on_progress,
        closing(Processes(jobs or cpus(), on_progress)) as engine,
        diagnosed(request, rules.choice(), engine) as found,
    ):
        yield found


def _is_worth(size: int) -> bool:
    """Whether several processes are faster, and the packages that they need are installed."""
    try:
        from pcli.spark.processes import SMALL_BYTES
    except ImportError:  # numpy and pyarrow are optional
        return False
    return size >= SMALL_BYTES
