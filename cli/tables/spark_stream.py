"""`pcli spark-stream`: keeps the tables of a folder with rotated captures up to date."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pcli.cli.common.completion import complete_severity_or_rule
from pcli.cli.common.option_groups import ReadAs
from pcli.cli.common.options import argument, option
from pcli.cli.common.output import Exit, counted, say
from pcli.cli.tables.table_options import AnalysisOptions, Cluster, Conf, Debug, Horizon, Keep, Master, Only, Out

if TYPE_CHECKING:
    from pcli.cli.tables.finding_target import FindingTarget
    from pcli.spark.jobs.stream import Batch
    from pcli.spark.jobs.stream_record import OnFinding
    from pcli.spark.request import Request


def spark_stream(
    folder: Annotated[str, argument("DIR", "Folder that receives finished captures.")],
    out: Out,
    checkpoint: Annotated[str, option("--checkpoint FOLDER", "Folder where Spark records the files that it has read.")],
    *,
    master: Master = "local[*]",
    conf: Conf = None,
    only: Only = None,
    cluster: Cluster = "",
    every: Annotated[float, option("--every SECONDS", "Time between two scans of the folder.", min=1)] = 10,
    most: Annotated[int, option("--most N", "Maximum number of files in a batch.", min=1)] = 1000,
    once: Annotated[bool, option("--once", "Read the files that exist, then exit; use this option with cron.")] = False,
    horizon: Horizon = 24,
    keep: Keep = None,
    on_finding: Annotated[
        str,
        option(
            "--on-finding COMMAND|URL",
            "Send each new finding as JSON to the standard input of this command, or to this HTTP URL (POST).",
        ),
    ] = "",
    finding: Annotated[
        list[str] | None,
        option(
            "--finding RULE|error|warning|any",
            "Send only such findings. Repeatable; default: any.",
            autocompletion=complete_severity_or_rule,
        ),
    ] = None,
    read_as: ReadAs,
    debug: Debug = False,
) -> None:
    """Read the files of a rotated capture as they are finished, and keep the tables up to date, until Ctrl-C.

    Each file is read once, even after an interruption or a crash: the next run continues with the remaining files.
    Move files into the folder when they are finished, for example with tcpdump -G 60 -z.

    pcli spark-stream captures/ -o out/ --checkpoint state/

    pcli spark-stream captures/ -o out/ --checkpoint state/ --once

    pcli spark-stream captures/ -o out/ --checkpoint state/ --on-finding ./page-me --finding error
    """
    from pcli.cli.tables.analysis import request_from
    from pcli.cli.tables.spark_analyze import print_traces
    from pcli.codec.errors import LocalError

    if master.startswith("sc://"):
        raise LocalError("--master: spark-stream cannot use Spark Connect; use spark-analyze --incremental")
    options = AnalysisOptions(only=only, cluster=cluster, incremental=True, horizon=horizon, keep=keep)
    request = request_from([folder], out, options, read_as)
    target = _target(request, on_finding, finding or ("any",))
    with print_traces(debug):
        code = _run(
            request,
            master,
            conf or [],
            checkpoint=checkpoint,
            every_s=every,
            most=most,
            once=once,
            key_log=read_as.keylog,
            on_finding=None if target is None else target.send,
            debug=debug,
        )
    raise typer.Exit(code)


def _target(request: Request, on_finding: str, findings: Sequence[str]) -> FindingTarget | None:
    """Return the target of findings; raise LocalError if it cannot be used."""
    from pcli.cli.diagnosis.capture_diagnosis import FAIL_WORDS, checked_rules
    from pcli.cli.tables.finding_target import FindingTarget
    from pcli.codec.errors import LocalError

    checked_rules(findings, "--finding", FAIL_WORDS)
    if not on_finding:
        return None
    if all(table.name != "findings" for table in request.tables):
        raise LocalError("--on-finding needs the table findings: add it to --only")
    severities = [severity for word in findings for severity in FAIL_WORDS.get(word, ())]
    target = FindingTarget(on_finding, findings, severities)
    target.check()
    return target


def _run(
    request: Request,
    master: str,
    conf: Sequence[str],
    *,
    checkpoint: str,
    every_s: float,
    most: int,
    once: bool,
    key_log: str,
    on_finding: OnFinding | None,
    debug: bool,
) -> Exit:
    """Read files until stopped.

    Return the exit code: 1 if findings could not be sent, or else 3 if a file could not be read to its end.
    """
    from pcli.spark.jobs.session import open_spark, parsed_conf
    from pcli.spark.jobs.stream import Stream
    from pcli.spark.tables.uri_redaction import hidden

    damaged = False

    def print_batch(batch: Batch) -> None:
        nonlocal damaged
        damaged = damaged or bool(batch.summary.troubles)
        say(_batch_text(batch))
        for path, status, error in batch.summary.troubles:
            say(f"{path}: {status}: {error}")

    def print_unreported(reason: str) -> None:
        say(f"{reason}; the findings are sent again after the next batch, and when the command starts again")

    # SIGTERM, from `kill` or a service manager, has the effect of Ctrl-C. The next run repeats an interrupted batch.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with open_spark(master, parsed_conf(conf), debug=debug) as spark:
        hooks: dict[str, Any] = {
            "on_batch": print_batch,
            "on_finding": on_finding,
            "on_unreported": print_unreported,
        }
        stream = Stream(spark, request, checkpoint, most=most, key_log=key_log, **hooks)
        if not once:
            say(f"watching {hidden(request.paths[0])}: Ctrl-C ends it")
        try:
            stream.run(every_s=every_s, once=once)
        except KeyboardInterrupt:
            stream.stop()  # this is the regular way to end
    if stream.unreported:
        return Exit.NO
    return Exit.DAMAGED if damaged else Exit.FINE


def _batch_text(batch: Batch) -> str:
    """Return the line of a batch."""
    from pcli.codec.observe.text_format import size_text

    rows = sum(table.rows for table in batch.summary.tables)
    words = [
        counted(batch.files, "file"), f"{rows:,} rows", f"lag {batch.lag_s:.0f} s",
        f"state {size_text(batch.state_bytes)}",
    ]  # fmt: skip
    if batch.summary.late:
        words.append(f"{counted(batch.summary.late, 'message')} after the horizon")
    if batch.new_findings is not None:
        words.append(counted(batch.new_findings, "new finding"))
    return f"batch {batch.number}: {', '.join(words)}; run {batch.summary.run}"
