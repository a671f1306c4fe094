"""`pcli broker`: a broker of one's own, to which every client connects."""

from __future__ import annotations

from typing import Annotated

import typer

from pcli.cli.common.options import LogKind, TextOrJson

__all__ = ["broker"]


def broker(
    local: Annotated[
        bool, typer.Option("--local", help="The embedded broker, as without this.", show_default=False)
    ] = True,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port of the binary protocol; 0: any. [6650]")
    ] = None,
    http_port: Annotated[
        int | None, typer.Option("--http-port", min=0, max=65535, help="Port of REST and metrics; 0: any. [8080]")
    ] = None,
    bind: Annotated[str, typer.Option("--bind", metavar="ADDRESS", help="Listen here. [127.0.0.1]")] = "",
    advertised_address: Annotated[
        str, typer.Option("--advertised-address", metavar="HOST", help="The host that clients are told to go to.")
    ] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of broker.conf; again for more.")
    ] = None,
    conf: Annotated[str, typer.Option("--conf", metavar="FILE", help="Settings from a broker.conf.")] = "",
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME[:PARTITIONS]", help="Create this topic; again for more."),
    ] = None,
    max_backlog: Annotated[
        str, typer.Option("--max-backlog", metavar="SIZE", help="Refuse what does not fit: 512M, 2G.")
    ] = "",
    log: Annotated[
        LogKind | None,
        typer.Option("--log", help="Show every frame, or who comes and goes. [events on a terminal, else quiet]"),
    ] = None,
    filter_: Annotated[
        str, typer.Option("-Y", "--filter", metavar="FILTER", help="Of --log only what matches: pulsar.type == 'SEND'.")
    ] = "",
    capture: Annotated[
        str, typer.Option("--capture", metavar="OUT.pcapng", help="Record every byte of every connection.")
    ] = "",
    fault: Annotated[
        list[str] | None,
        typer.Option("--fault", metavar="'DO … on FILTER'", help="Let something go wrong; again for more."),
    ] = None,
    ready_file: Annotated[
        str, typer.Option("--ready-file", metavar="FILE", help="Write the URLs here, as JSON, once it accepts.")
    ] = "",
    output: Annotated[
        TextOrJson, typer.Option("-T", "--format", help="json: an object with the URLs, then one a line of --log.")
    ] = TextOrJson.text,
    dispatchers: Annotated[
        bool, typer.Option("--dispatchers", help="List the dispatchers, and what chooses each; start nothing.")
    ] = False,
) -> None:
    """Run a broker that behaves as Apache Pulsar 4.2.4 does, in this process, until Ctrl-C. Data is gone with it.

    pcli broker

    pcli broker --port 0 --topic orders --topic jobs:4 --log frames -Y 'pulsar.type == "ACK"'

    pcli broker --set maxUnackedMessagesPerConsumer=50 --capture talk.pcapng

    pcli broker --fault "drop after=2 times=1 on pulsar.type == 'FLOW' and pulsar.consumer_name == 'c1'"

    pcli broker --fault "delay ms=200 on pulsar.type == 'SEND_RECEIPT'"

    A fault can drop, delay, duplicate, corrupt, error (error=TopicNotFound) or close: see docs/mini-broker.md.
    """
    from pcli.cli.servers.broker_process import Run, list_dispatchers

    if dispatchers:
        list_dispatchers(output.value)
        return
    Run(
        port=port,
        http_port=http_port,
        bind=bind,
        advertised_address=advertised_address,
        settings=set_ or [],
        conf=conf,
        topics=topic or [],
        max_backlog=max_backlog,
        log=log.value if log is not None else "",
        filter=filter_,
        capture=capture,
        faults=fault or [],
        ready_file=ready_file,
        json=output is TextOrJson.json,
    ).run()
