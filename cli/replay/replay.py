"""`pcli replay`: replays the clients of a capture against a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pcli.cli.common.completion import complete_setting, complete_topic
from pcli.cli.common.option_groups import Credentials, ReadAs
from pcli.cli.common.options import Captures, ConnectionFilter, OnlyStream, PacketNumbers, option

_Speed = Literal["1", "10", "max"]


_Side = Literal["client", "broker"]


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of `replay`."""

    captures: Captures
    to: Annotated[
        list[str] | None,
        option("--to URL", "Broker URL. Give two URLs to compare two brokers. [a mini-broker in memory]"),
    ] = None
    admin: Annotated[list[str] | None, option("--admin URL", "Web service URL of the broker; one for each --to.")] = (
        None
    )
    speed: Annotated[
        _Speed, option("--speed", "Original speed, ten times that speed, or as fast as causality permits.")
    ] = "max"
    filter: ConnectionFilter = ""
    only: OnlyStream = None
    topics: Annotated[
        list[str] | None,
        option("--map-topic REGEX=REPL", "Rename topics: '/old/=/new/'. Repeatable.", autocompletion=complete_topic),
    ] = None
    repeat: Annotated[int, option("--repeat N", "Number of repetitions.", min=1)] = 1
    dry_run: Annotated[bool, option("--dry-run", "Print the plan without connecting.")] = False
    report: Annotated[str, option("--report FILE", "Write the result to this file as JSON.")] = ""
    settings: Annotated[
        list[str] | None,
        option("--set NAME=VALUE", "Setting of the mini-broker. Repeatable.", autocompletion=complete_setting),
    ] = None
    side: Annotated[_Side, option("--side", "Side to replay: the clients, or the broker for live clients.")] = "client"
    port: Annotated[
        int | None, option("--port PORT", "Port of --side broker; 0 selects any free port. [6650]", min=0, max=65535)
    ] = None
    packet_numbers: PacketNumbers = False

    @property
    def factor(self) -> float:
        """The factor of the original speed; 0 for the highest speed."""
        return 0.0 if self.speed == "max" else float(self.speed)


def replay(options: ReplayOptions, read_as: ReadAs, credentials: Credentials) -> None:
    """Replay the clients of a capture against a broker, and compare each response with the captured response.

    pcli replay capture.pcapng

    pcli replay capture.pcapng --to pulsar://localhost:6650 --admin http://localhost:8080 --report result.json

    pcli replay capture.pcapng --to pulsar://old:6650 --to pulsar://new:6650

    pcli replay capture.pcapng --side broker --port 6650

    Without --to, the command prepares a mini-broker from the capture. Exit codes: 0 if every response is equal or
    explained by a rule, 1 if not, 2 if nothing can be replayed. See docs/replay.md.
    """
    from pcli.cli.replay.replay_session import ReplayRun

    ReplayRun(options, read_as.options(), credentials.security()).run()
