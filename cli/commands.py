"""All commands: the typer application, and the only place that turns errors into exit codes.

Rules of this file
1. `pcli --help` takes at most 150 ms: at the top level, the modules of the commands import only typer and the standard
   library. They import everything else inside functions.
2. PcliError, Ctrl-C and a closed stdout are handled here, not in commands.
3. Messages about usage errors do not contain the wording of the libraries that check the arguments.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from pcli.cli import __version__
from pcli.cli.browse import browse
from pcli.cli.client import consume, produce
from pcli.cli.common.help_pages import PlainCommand
from pcli.cli.common.option_groups import flattened
from pcli.cli.common.options import option
from pcli.cli.common.output import Exit, fail, stop_quietly
from pcli.cli.common.usage_errors import plain_usage_text
from pcli.cli.diagnosis import bundle, diagnose, trace, why
from pcli.cli.frames import capture, decode, dissect, encode, fields, follow, wireshark
from pcli.cli.replay import replay, reproduce
from pcli.cli.servers import broker, proxy, token
from pcli.cli.stats import stats
from pcli.cli.tables import analyze, doctor, report, spark_analyze, spark_stream, sql, tables
from pcli.cli.top import top
from pcli.codec.errors import PcliError

__all__ = ["app", "run"]


class _Edge(TyperGroup):
    """The group of all commands. It reports errors as one line and an exit code."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Print the commands below the titles of their panels. Rich would take three times as long."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            panels.setdefault(command.rich_help_panel, []).append((name, command.get_short_help_str(100)))
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        result, code = None, Exit.FINE.value
        try:
            try:
                result = super().invoke(ctx)
            except typer.Exit as end:
                code = end.exit_code
                sys.stdout.flush()
                raise
            sys.stdout.flush()
        except BrokenPipeError:
            stop_quietly(code)
        except KeyboardInterrupt:
            raise SystemExit(int(Exit.INTERRUPTED)) from None
        except PcliError as error:
            fail(str(error))
        except OSError as error:  # for example, a full disk or a removed file
            from pcli.replay.sources.lazy_file import reason_of

            name = f"{error.filename}: " if error.filename else ""
            print(f"pcli: {name}{reason_of(error)}", file=sys.stderr)
            stop_quietly(Exit.USAGE.value)
        except Exception as error:
            if hasattr(error, "message") and hasattr(error, "exit_code"):  # a usage error of typer
                error.message = plain_usage_text(error)
            raise
        return result


app = typer.Typer(
    name="pcli",
    cls=_Edge,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Toolkit and protocol debugger for the binary protocol of Apache Pulsar.",
    epilog="Exit codes: 0: success; 1: a check failed, or nothing was found; 2: wrong usage, unreadable input, or a "
    "refusal by the peer; 3: damaged or truncated input (everything before the damage is shown).",
)

_FRAMES = "Frames and captures"
_SERVERS = "Brokers and proxies"
_CLIENTS = "Clients of a broker"
_DIAGNOSIS = "Diagnosis of captures"
_TABLES = "Tables from captures of any size"

_COMMANDS: Final = {
    _FRAMES: (
        decode.decode,
        encode.encode,
        dissect.dissect,
        browse.browse,
        follow.follow,
        fields.fields,
        capture.capture,
        wireshark.wireshark,
    ),
    _SERVERS: (broker.broker, proxy.proxy),
    _CLIENTS: (produce.produce, consume.consume, replay.replay, reproduce.reproduce),
    _DIAGNOSIS: (diagnose.diagnose, why.why, top.top, trace.trace, bundle.bundle),
    _TABLES: (
        analyze.analyze,
        spark_analyze.spark_analyze,
        spark_stream.spark_stream,
        report.report,
        sql.sql,
        doctor.doctor,
    ),
}
"""The functions of the commands, by the title of their panel."""

for _panel, _functions in _COMMANDS.items():
    for _function in _functions:
        _name = _function.__name__.replace("_", "-")
        app.command(_name, cls=PlainCommand, rich_help_panel=_panel)(flattened(_function))
app.add_typer(stats.app, name="stats", rich_help_panel=_DIAGNOSIS)
app.add_typer(token.app, name="token", rich_help_panel=_SERVERS)
app.add_typer(tables.app, name="tables", rich_help_panel=_TABLES)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pcli {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, option("--version", "Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Toolkit and protocol debugger for the binary protocol of Apache Pulsar."""


def run() -> None:
    """Run the command that the arguments name. Raises SystemExit with the exit code."""
    if sys.stdout is None:  # the shell closed stdout with >&-
        fail("stdout is closed: nothing can be printed")
    if sys.stderr is None:  # the shell closed stderr with 2>&-
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123  (until the end)
    if hasattr(sys.stdout, "reconfigure"):
        # Names on the wire may contain any character. The command must not fail if the terminal cannot show one.
        sys.stdout.reconfigure(errors="backslashreplace")
    # There are many frames, and they form no cycles. With the default threshold, collection takes 10 % of the time.
    gc.set_threshold(50_000)
    app(prog_name="pcli")
