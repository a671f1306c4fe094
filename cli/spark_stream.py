"""`pcli spark-stream`: the tables of a folder into which captures are rotated, kept up to date."""

from __future__ import annotations

from typing import Annotated

import typer

from pcli.cli.analyze import Cluster, Only, Out
from pcli.cli.options import DecodeAs, decode_as_ports
from pcli.cli.spark_analyze import Conf, Debug, Master

__all__ = ["spark_stream"]


def spark_stream(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder into which finished captures are moved.")],
    out: Out,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", metavar="FOLDER", help="Where Spark keeps which files were taken.")
    ],
    master: Master = "local[*]",
    conf: Conf = None,
    only: Only = None,
    cluster: Cluster = "",
    every: Annotated[float, typer.Option("--every", min=1, help="Seconds between two looks at the folder.")] = 10,
    most: Annotated[int, typer.Option("--most", metavar="N", min=1, help="Files taken at a time.")] = 1000,
    once: Annotated[bool, typer.Option("--once", help="Take what is there, and end: for cron.")] = False,
    decode_as: DecodeAs = None,
    debug: Debug = False,
) -> None:
    """Take finished captures of a rotation as they come, and keep the tables up to date; Ctrl-C ends it.

    A file is taken once. Stopped or killed, it goes on where it was: the tables are the same as without.
    Move files in when they are finished: tcpdump -G 60 -z does it.

    pcli spark-stream captures/ -o out/ --checkpoint state/

    pcli spark-stream captures/ -o out/ --checkpoint state/ --once
    """
    from pcli.cli import analyze_run, spark_stream_run
    from pcli.cli.spark_analyze_run import traces

    request = analyze_run.request_of(
        paths=[folder],
        out=out,
        only=only or (),
        frames=False,
        cluster=cluster,
        incremental=True,
        since="",
        until="",
        strict=False,
        decode_as=decode_as_ports(decode_as),
    )
    with traces(debug):
        code = spark_stream_run.run(
            request,
            master,
            conf or [],
            checkpoint=checkpoint,
            every_s=every,
            most=most,
            once=once,
            debug=debug,
        )
    raise typer.Exit(code)
