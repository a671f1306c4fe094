"""The subcommands of `stats` that show the state of objects at a given time: one implementation for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pcli.cli.common.option_groups import CaptureFiles, ReadAs, flattened
from pcli.cli.common.options import At, Output, PacketNumbers, Segments, System, option
from pcli.cli.common.output import print_json

if TYPE_CHECKING:
    from pcli.cli.stats.capture_state import CaptureState


@dataclass(frozen=True, slots=True)
class StateView:
    """A subcommand: what it finds, and how it prints this."""

    name: str
    text: str
    """The first line of the help."""
    find: Callable[[CaptureState, int, str, bool], Any]
    """Takes the state, its time (ns), a name (empty: all) and whether to include system topics. Returns the objects."""
    show: Callable[[Any, CaptureState, int], None]
    """Prints the objects as text."""
    noun: str
    """What the message names if no object is found."""
    objects: Callable[[Any], Any] = lambda found: found
    """Returns JSON from the objects: a list, or a mapping by topic."""
    option: str = ""
    """The option that selects objects by name. With it, the subcommand also has the option for packet numbers."""
    example: str = ""
    """A value of this option."""
    sum: Callable[[Any, CaptureState], Any] | None = None
    """Returns the objects with those of scalable topics in place of those of segments. With it, the subcommand has the
    option ``--segments``, which omits this step."""

    @property
    def help(self) -> str:
        """The help page."""
        command = f"pcli stats {self.name} -r capture.pcap"
        selection = f" {self.option} {self.example}" if self.option else ""
        return f"{self.text}\n\n{command}\n\n{command}{selection} --at 2026-11-20T18:15:11Z -T json"

    def command(self) -> Callable[..., None]:
        """Return the function of the subcommand."""

        def run(
            captures: CaptureFiles,
            *,
            name: str = "",
            at: At = "",
            packet_numbers: PacketNumbers = False,
            segments: Segments = False,
            output: Output = "text",
            read_as: ReadAs,
            system: System = False,
        ) -> None:
            from pcli.cli.stats.capture_state import read_state

            state = read_state(captures.names, read_as.options(), at, packet_numbers=packet_numbers)
            until_ns = state.moment() if at or not self.option else state.tracker.capture.last_ns
            found = self.find(state, until_ns, name, system)
            if self.sum is not None and not segments:
                found = self.sum(found, state)
            if output != "text":
                print_json(self.objects(found), output)
            elif found:
                self.show(found, state, until_ns)
            nothing = f"{self.option} {name}: no {self.noun} with this name" if name else f"no {self.noun}"
            raise typer.Exit(state.finish("" if found else nothing))

        text = f"Show only {self.option[2:]}s with this name."
        run.__annotations__["name"] = Annotated[str, option(f"{self.option} NAME", text)]
        omitted = [] if self.option else ["name", "packet_numbers"]
        return flattened(run, without=omitted if self.sum else [*omitted, "segments"])
