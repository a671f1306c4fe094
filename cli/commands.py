"""All commands: the typer application, and the only place that turns errors into exit codes.

Rules of this file
1. `pcli --help` takes at most 150 ms: at the top level, the modules of the commands import only typer and the standard
   library. They import everything else inside functions. Another command imports no other module of a command.
2. PcliError, Ctrl-C and a closed stdout are handled here, not in commands.
3. Messages about usage errors do not contain the wording of the libraries that check the arguments.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from pcli.cli import __version__
from pcli.cli.common.help_pages import PlainCommand
from pcli.cli.common.option_groups import flattened
from pcli.cli.common.options import option
from pcli.cli.common.output import Exit, fail, stop_quietly
from pcli.cli.common.usage_errors import plain_usage_text
from pcli.codec.errors import PcliError


class _Edge(TyperGroup):
    """The group of all commands. It reports errors as one line and an exit code."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Print the commands below the titles of their panels. Rich would take three times as long.

        The commands need not be added: the texts are those of their modules.
        """
        panels: dict[str, list[tuple[str, str]]] = {}
        for path, title in _MODULES.items():
            module, name = import_module(f"pcli.cli.{path}"), _name(path)
            text = module.app.info.help if hasattr(module, "app") else getattr(module, path.rpartition(".")[2]).__doc__
            panels.setdefault(title, []).append((name, TyperCommand(name, help=text).get_short_help_str(100)))
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


_FRAMES = "Frames and captures"
_SERVERS = "Brokers and proxies"
_CLIENTS = "Clients of a broker"
_DIAGNOSIS = "Diagnosis of captures"
_TABLES = "Tables from captures of any size"

_MODULES: Final = {
    "frames.decode": _FRAMES,
    "frames.encode": _FRAMES,
    "frames.dissect": _FRAMES,
    "browse.browse": _FRAMES,
    "frames.follow": _FRAMES,
    "frames.fields": _FRAMES,
    "frames.capture": _FRAMES,
    "frames.wireshark": _FRAMES,
    "servers.broker": _SERVERS,
    "servers.proxy": _SERVERS,
    "servers.token": _SERVERS,
    "client.produce": _CLIENTS,
    "client.consume": _CLIENTS,
    "replay.replay": _CLIENTS,
    "replay.reproduce": _CLIENTS,
    "diagnosis.diagnose": _DIAGNOSIS,
    "diagnosis.why": _DIAGNOSIS,
    "top.top": _DIAGNOSIS,
    "diagnosis.trace": _DIAGNOSIS,
    "export.export": _DIAGNOSIS,
    "diagnosis.bundle": _DIAGNOSIS,
    "stats.stats": _DIAGNOSIS,
    "tables.analyze": _TABLES,
    "tables.spark_analyze": _TABLES,
    "tables.spark_stream": _TABLES,
    "tables.report": _TABLES,
    "tables.sql": _TABLES,
    "tables.doctor": _TABLES,
    "tables.tables": _TABLES,
}
"""The modules of the commands, and the titles of their panels. A command and its function have the name of the module.
A module with a group of commands has an ``app`` instead."""


def application(only: str = "") -> typer.Typer:
    """Return the application with all commands, or with one of them, whose module alone is then imported.

    With one of its own options, ``--version`` or ``--help``, it needs no command.
    """
    app = typer.Typer(
        name="pcli",
        cls=_Edge,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Toolkit and protocol debugger for the binary protocol of Apache Pulsar.",
        epilog="Exit codes: 0: success; 1: a check failed, or nothing was found; 2: wrong usage, unreadable input, or "
        "a refusal by the peer; 3: damaged or truncated input (everything before the damage is shown).",
    )
    app.callback()(_root)
    for path, panel in _MODULES.items():
        if only not in ("", _name(path)):
            continue
        module = import_module(f"pcli.cli.{path}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=_name(path), rich_help_panel=panel)
        else:
            function = flattened(getattr(module, path.rpartition(".")[2]))
            app.command(_name(path), cls=PlainCommand, rich_help_panel=panel)(function)
    return app


def _name(path: str) -> str:
    """Return the name of the command in a module."""
    return path.rpartition(".")[2].replace("_", "-")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pcli {__version__}")
        raise typer.Exit


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
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    application(first if first in {"--version", "--help", "-h", *map(_name, _MODULES)} else "")(prog_name="pcli")
