"""`pcli spark-analyze`: the tables of `pcli analyze`, made by Spark, on this machine or a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from pcli.cli.analyze import Cluster, Frames, Incremental, Only, Out, Paths, Report, Since, Strict, Until
from pcli.cli.options import DecodeAs, decode_as_ports

__all__ = ["Conf", "Debug", "Master", "spark_analyze"]

Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="local[*], local[4], spark://host:7077, yarn, k8s://https://….")
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="A setting of Spark, as spark.executor.memory=4g; again for more."
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show what Spark prints, and traces of errors.")]


def spark_analyze(
    paths: Paths,
    out: Out,
    master: Master = "local[*]",
    conf: Conf = None,
    only: Only = None,
    frames: Frames = False,
    cluster: Cluster = "",
    incremental: Incremental = False,
    since: Since = "",
    until: Until = "",
    strict: Strict = False,
    report: Report = "",
    decode_as: DecodeAs = None,
    debug: Debug = False,
) -> None:
    """Make the tables of `pcli analyze` with Spark: worth it from some gigabytes on, and on many machines.

    pcli spark-analyze captures/ -o out/

    pcli spark-analyze /mnt/captures -o /mnt/out --master spark://host:7077 --conf spark.executor.memory=4g

    pcli spark-analyze captures/ -o out/ --incremental --report report.html
    """
    from pcli.cli import analyze_run, spark_analyze_run

    request = analyze_run.request_of(
        paths=paths,
        out=out,
        only=only or (),
        frames=frames,
        cluster=cluster,
        incremental=incremental,
        since=since,
        until=until,
        strict=strict,
        decode_as=decode_as_ports(decode_as),
    )
    with spark_analyze_run.traces(debug):
        code = spark_analyze_run.run(request, master, conf or [], report, debug=debug)
    raise typer.Exit(code)
