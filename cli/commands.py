"""All commands: the typer app, and the one place that turns errors into exit codes.

Rules of this file
1. `pcli --help` answers in 150 ms: the modules of the commands import nothing but typer and the standard library on
   top; what works is imported inside.
2. PcliError, Ctrl-C and closed pipes end here, in no command.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pcli.cli import __version__
from pcli.cli.client import consume, produce
from pcli.cli.common.output import Exit, fail, stop_quietly
from pcli.cli.diagnosis import bundle, diagnose, trace
from pcli.cli.frames import capture, decode, dissect, encode, fields, follow
from pcli.cli.replay import replay, reproduce
from pcli.cli.servers import broker, proxy
from pcli.cli.stats import stats
from pcli.cli.tables import analyze, doctor, report, spark_analyze, spark_stream
from pcli.cli.top import top
from pcli.codec.errors import PcliError

__all__ = ["app", "run"]


class _Edge(TyperGroup):
    """The group of all commands, around which errors become one line and an exit code."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands under the titles of their panels; rich would do it too, in three times our time."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            panels.setdefault(command.rich_help_panel, []).append((name, command.get_short_help_str(100)))
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            stop_quietly(Exit.FINE)
        except KeyboardInterrupt:
            raise SystemExit(int(Exit.INTERRUPTED)) from None
        except PcliError as error:
            fail(str(error))
        except OSError as error:  # a disk that is full, a file that went away
            from pcli.replay.lazy_file import reason_of

            name = f"{error.filename}: " if error.filename else ""
            print(f"pcli: {name}{reason_of(error)}", file=sys.stderr)
            stop_quietly(Exit.USAGE)
        return result


app = typer.Typer(
    name="pcli",
    cls=_Edge,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Toolkit and protocol debugger for the binary protocol of Apache Pulsar.",
    epilog="Exit codes: 0 read to the end, 1 a question answered no, 2 usage or unreadable input, "
    "3 input damaged or cut (what came before is shown).",
)

_WIRE = "Wire: frames and captures"
_BROKER = "Broker"
_CLIENT = "Client's side: against a live broker"
_DIAGNOSE = "Diagnose: questions to a capture"
_BULK = "Bulk: tables from captures of any size"

app.command("decode", rich_help_panel=_WIRE)(decode.decode)
app.command("encode", rich_help_panel=_WIRE)(encode.encode)
app.command("dissect", rich_help_panel=_WIRE)(dissect.dissect)
app.command("follow", rich_help_panel=_WIRE)(follow.follow)
app.command("fields", rich_help_panel=_WIRE)(fields.fields)
app.command("capture", rich_help_panel=_WIRE)(capture.capture)
app.command("broker", rich_help_panel=_BROKER)(broker.broker)
app.command("produce", rich_help_panel=_CLIENT)(produce.produce)
app.command("consume", rich_help_panel=_CLIENT)(consume.consume)
app.command("replay", rich_help_panel=_CLIENT)(replay.replay)
app.command("reproduce", rich_help_panel=_CLIENT)(reproduce.reproduce)
app.command("proxy", rich_help_panel=_CLIENT)(proxy.proxy)
app.command("diagnose", rich_help_panel=_DIAGNOSE)(diagnose.diagnose)
app.add_typer(stats.app, name="stats", rich_help_panel=_DIAGNOSE)
app.command("top", rich_help_panel=_DIAGNOSE)(top.top)
app.command("trace", rich_help_panel=_DIAGNOSE)(trace.trace)
app.command("bundle", rich_help_panel=_DIAGNOSE)(bundle.bundle)
app.command("analyze", rich_help_panel=_BULK)(analyze.analyze)
app.command("spark-analyze", rich_help_panel=_BULK)(spark_analyze.spark_analyze)
app.command("spark-stream", rich_help_panel=_BULK)(spark_stream.spark_stream)
app.command("report", rich_help_panel=_BULK)(report.report)
app.command("doctor", rich_help_panel=_BULK)(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pcli {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Toolkit and protocol debugger for the binary protocol of Apache Pulsar."""


def run() -> None:
    """Run the command that the arguments name; SystemExit has its exit code."""
    if sys.stdout is None:  # closed by the shell: >&-
        fail("stdout is closed: there is nowhere to print")
    if sys.stderr is None:  # 2>&-: nobody wants to hear it
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123  (until the end)
    if hasattr(sys.stdout, "reconfigure"):
        # Names on the wire may hold anything; a terminal that cannot show a character is no reason to stop.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Frames are many and make no cycles: looking for cycles as often as Python does takes a tenth of the time.
    gc.set_threshold(50_000)
    app(prog_name="pcli")
