"""The output of `dissect`: lines, trees, JSON and columns, and the -w file with the packets of the printed frames."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pcli.cli.common.output import discard_stdout, fail, json_text, print_json_lines
from pcli.cli.common.times import TimeFormat
from pcli.cli.frames.frame_lines import text_writer

if TYPE_CHECKING:
    from pcli.cli.common.addons import Addon
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.codec.observe import Facts
    from pcli.codec.observe.payload_contents import Contents


@dataclass(frozen=True, slots=True)
class Columns:
    """The layout of -T fields, with the options of tshark's -E."""

    separator: str = "\t"
    header: bool = False
    quote: str = ""
    occurrence: str = "a"
    """The value to print if there are several: f for the first, l for the last, a for all."""
    aggregator: str = ","

    @classmethod
    def parse(cls, words: list[str]) -> Columns:
        """Parse ``separator=/t``, ``header=y``, ``quote=d``, ``occurrence=f``, ``aggregator=,`` or a bare separator."""
        values: dict[str, str] = {}
        for word in words:
            name, sign, value = word.partition("=")
            if not sign or not name:
                name, value = "separator", word
            if name not in _LAYOUT:
                fail(f"-E {word}: write one of {', '.join(_LAYOUT)}")
            values[name] = value
        quotes = {"d": '"', "s": "'", "n": "", "": ""}
        if values.get("quote", "") not in quotes or values.get("occurrence", "a") not in ("f", "l", "a"):
            fail("-E: quote must be d, s or n; occurrence must be f, l or a")
        return cls(
            separator=_unescaped(values.get("separator", "/t")),
            header=values.get("header", "n").lower() in ("y", "yes"),
            quote=quotes[values.get("quote", "")],
            occurrence=values.get("occurrence", "a"),
            aggregator=_unescaped(values.get("aggregator", ",")),
        )

    def cell(self, value: object) -> str:
        """Return one cell. Several values are joined, and an absent value results in an empty cell."""
        if value is None:
            return f"{self.quote}{self.quote}"
        values = value if isinstance(value, list) else [value]
        chosen = {"f": values[:1], "l": values[-1:], "a": values}[self.occurrence]
        text = self.aggregator.join(_cell_text(item) for item in chosen)
        return f"{self.quote}{text}{self.quote}"


_LAYOUT = ("separator", "header", "quote", "occurrence", "aggregator")


def _unescaped(text: str) -> str:
    """Return a separator from its tshark notation: /t is a tab, and /s is a space."""
    return {"/t": "\t", "\\t": "\t", "/s": " "}.get(text, text)


def _cell_text(value: object) -> str:
    import json

    from pcli.codec.observe.text_format import printable

    if isinstance(value, bool):
        return str(value).lower()
    return printable(json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value)


@dataclass(slots=True)
class DissectOutput:
    """The output options of `dissect`."""

    reading: CaptureReading
    output: str
    fields: list[str] = field(default_factory=list)
    layout: list[str] = field(default_factory=list)
    time: TimeFormat = "r"
    hexdump: bool = False
    payload: bool = False
    contents: Contents | None = None
    """The decoder of payload contents for text and trees; None if contents are not shown."""
    secrets: bool = False
    color: bool = True
    packet_numbers: bool = False
    line_buffered: bool = False
    """Whether each line is written at once although stdout is a file or a pipe."""

    def run(self, write: str, addons: Sequence[Addon] = ()) -> None:
        """Read and print the frames. ``write`` is a file that receives the packets of the printed frames."""
        printer = self._printer()
        facts: Generator[Facts, None, None] = self.reading.facts()
        if addons:
            from pcli.cli.common.addons import watched_by

            facts = watched_by(addons, facts)
        if write:
            from pcli.cli.frames.packet_excerpt import written

            facts = written(facts, self.reading, write, secrets=self.secrets)
        # Ctrl-C is the normal end of a live capture. Afterwards `closing` completes the -w file.
        with suppress(*([KeyboardInterrupt] if self.reading.interface else [])), closing(facts):
            try:
                self._print(facts, printer)
            except BrokenPipeError:
                if not write or self.reading.interface:
                    raise
                discard_stdout()
                for _ in facts:  # the -w file still receives all packets
                    pass

    def _print(self, facts: Generator[Facts, None, None], printer: Callable[[Facts], str]) -> None:
        out = sys.stdout.write
        at_once = self.line_buffered or self.reading.interface or sys.stdout.isatty()
        flush = sys.stdout.flush if at_once else None
        if self.output == "json":
            print_json_lines((printer(one).rstrip("\n") for one in facts), "json")
            return
        for one in facts:
            out(printer(one))
            if flush is not None:
                flush()

    def _printer(self) -> Callable[[Facts], str]:
        if self.output != "fields" and (self.fields or self.layout):
            fail("-e and -E require -T fields")
        printer = {
            "text": self._text_printer,
            "tree": self._tree_printer,
            "ndjson": self._ndjson_printer,
            "json": self._ndjson_printer,
            "fields": self._fields_printer,
        }[self.output]()
        return self._with_hex(printer) if self.hexdump else printer

    def _with_hex(self, printer: Callable[[Facts], str]) -> Callable[[Facts], str]:
        from pcli.codec.observe.output.frame_tree import hex_lines, shown_bytes

        def both(facts: Facts) -> str:
            data = shown_bytes(facts.frame, secrets=self.secrets, payload=self.payload)
            masked = "    (credentials and payloads are masked with *: see --show-secrets and --payload)\n"
            lines = "".join(f"    {line}\n" for line in hex_lines(data))
            return printer(facts) + lines + ("" if data == facts.frame.data else masked) + "\n"

        return both

    def _text_printer(self) -> Callable[[Facts], str]:
        line = text_writer(self.reading, self.time, color=self.color, packet_numbers=self.packet_numbers)
        contents = self.contents
        if contents is None:
            return lambda facts: line(facts) + "\n"
        return lambda facts: "\n".join([line(facts), *(f"        {one}" for one in contents.lines(facts)), ""])

    def _tree_printer(self) -> Callable[[Facts], str]:
        from pcli.codec.observe.output.frame_tree import tree_lines

        line = text_writer(self.reading, self.time, color=False, packet_numbers=self.packet_numbers)
        contents = self.contents

        def tree(facts: Facts) -> str:
            lines = [line(facts), *(f"  {one}" for one in tree_lines(facts, secrets=self.secrets))]
            if contents is not None:
                lines += (f"      {one}" for one in contents.lines(facts))
            return "\n".join([*lines, "", ""])

        return tree

    def _ndjson_printer(self) -> Callable[[Facts], str]:
        from pcli.codec.observe import flatten

        payload, secrets = self.payload, self.secrets
        return lambda facts: json_text(flatten(facts, payload=payload, secrets=secrets)) + "\n"

    def _fields_printer(self) -> Callable[[Facts], str]:
        from pcli.codec.observe import column, find_field

        columns = Columns.parse(self.layout)
        if not self.fields:
            fail("-T fields requires columns: -e pulsar.type -e pulsar.message_id (see pcli fields)")
        getters = [column(find_field(name), payload=self.payload, secrets=self.secrets) for name in self.fields]
        if columns.header:
            print(columns.separator.join(self.fields))

        cell = columns.cell
        return lambda facts: columns.separator.join([cell(get(facts)) for get in getters]) + "\n"
