"""How `dissect` prints: lines, trees, JSON, columns; and the packets of what was printed (-w)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pcli.cli.common.output import fail, json_text
from pcli.cli.common.times import TimeFormat, time_writer

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import Reading
    from pcli.codec.observe import Facts
    from pcli.codec.observe.payload_contents import Contents

__all__ = ["Columns", "Printing", "text_writer"]

_RED, _CYAN, _GREEN, _PLAIN, _DIM = "\x1b[31m", "\x1b[36m", "\x1b[32m", "\x1b[0m", "\x1b[2m"


@dataclass(frozen=True, slots=True)
class Columns:
    """The layout of -T fields, tshark's -E."""

    separator: str = "\t"
    header: bool = False
    quote: str = ""
    occurrence: str = "a"
    """f: the first of several values, l: the last, a: all."""
    aggregator: str = ","

    @classmethod
    def parse(cls, words: list[str]) -> Columns:
        """``separator=/t``, ``header=y``, ``quote=d``, ``occurrence=f``, ``aggregator=,``, or a bare separator."""
        values: dict[str, str] = {}
        for word in words:
            name, sign, value = word.partition("=")
            if not sign or not name:
                name, value = "separator", word
            if name not in _LAYOUT:
                fail(f"-E {word}: one of {', '.join(_LAYOUT)}")
            values[name] = value
        quotes = {"d": '"', "s": "'", "n": "", "": ""}
        if values.get("quote", "") not in quotes or values.get("occurrence", "a") not in ("f", "l", "a"):
            fail("-E: quote is d, s or n; occurrence is f, l or a")
        return cls(
            separator=_unescaped(values.get("separator", "/t")),
            header=values.get("header", "n").lower() in ("y", "yes"),
            quote=quotes[values.get("quote", "")],
            occurrence=values.get("occurrence", "a"),
            aggregator=_unescaped(values.get("aggregator", ",")),
        )

    def cell(self, value: object) -> str:
        """One cell; several values are joined, and nothing stands for what is not there."""
        if value is None:
            return f"{self.quote}{self.quote}"
        values = value if isinstance(value, list) else [value]
        chosen = {"f": values[:1], "l": values[-1:], "a": values}[self.occurrence]
        text = self.aggregator.join(_cell_text(item) for item in chosen)
        return f"{self.quote}{text}{self.quote}"


_LAYOUT = ("separator", "header", "quote", "occurrence", "aggregator")


def _unescaped(text: str) -> str:
    """Tshark's words for separators: /t a tab, /s a blank, a character itself."""
    return {"/t": "\t", "\\t": "\t", "/s": " "}.get(text, text)


def _cell_text(value: object) -> str:
    import json

    from pcli.codec.observe.text_format import printable

    if isinstance(value, bool):
        return str(value).lower()
    return printable(json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value)


@dataclass(slots=True)
class Printing:
    """Everything that `dissect` was told about printing."""

    reading: Reading
    output: str
    fields: list[str] = field(default_factory=list)
    layout: list[str] = field(default_factory=list)
    time: TimeFormat = TimeFormat.r
    hexdump: bool = False
    payload: bool = False
    contents: Contents | None = None
    """What tells the contents of payloads in text and trees; None: they are not shown."""
    secrets: bool = False
    color: bool = True

    def run(self, write: str) -> None:
        """Read and print; with ``write``, a path, copy the packets of what was printed there as well."""
        printer = self._printer()
        facts: Generator[Facts, None, None] = self.reading.facts()
        if write:
            from pcli.cli.frames.packet_excerpt import written

            facts = written(facts, self.reading, write, secrets=self.secrets)
        out = sys.stdout.write
        flush = sys.stdout.flush if self.reading.interface or sys.stdout.isatty() else None
        # Closed also when nobody reads any more, or on Ctrl-C: what was shown until then is written.
        # Ctrl-C is how a live view ends.
        with suppress(*([KeyboardInterrupt] if self.reading.interface else [])), closing(facts):
            for one in facts:
                out(printer(one))
                if flush is not None:
                    flush()

    def _printer(self) -> Callable[[Facts], str]:
        if self.output != "fields" and (self.fields or self.layout):
            fail("-e and -E are for -T fields")
        printer = {
            "text": self._text_printer,
            "tree": self._tree_printer,
            "ndjson": self._ndjson_printer,
            "fields": self._fields_printer,
        }[self.output]()
        return self._with_hex(printer) if self.hexdump else printer

    def _with_hex(self, printer: Callable[[Facts], str]) -> Callable[[Facts], str]:
        from pcli.codec.observe.output.frame_tree import hex_lines, shown_bytes

        def both(facts: Facts) -> str:
            data = shown_bytes(facts.frame, secrets=self.secrets, payload=self.payload)
            masked = "    (credentials and payloads are masked by *: --show-secrets, --payload)\n"
            lines = "".join(f"    {line}\n" for line in hex_lines(data))
            return printer(facts) + lines + ("" if data == facts.frame.data else masked) + "\n"

        return both

    def _text_printer(self) -> Callable[[Facts], str]:
        line = text_writer(self.reading, self.time, color=self.color)
        contents = self.contents
        if contents is None:
            return lambda facts: line(facts) + "\n"
        return lambda facts: "\n".join([line(facts), *(f"        {one}" for one in contents.lines(facts)), ""])

    def _tree_printer(self) -> Callable[[Facts], str]:
        from pcli.codec.observe.output.frame_tree import tree_lines

        line = text_writer(self.reading, self.time, color=False)
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
            fail("-T fields wants columns: -e pulsar.type -e pulsar.message_id (see pcli fields)")
        getters = [column(find_field(name), payload=self.payload, secrets=self.secrets) for name in self.fields]
        if columns.header:
            print(columns.separator.join(self.fields))

        cell = columns.cell
        return lambda facts: columns.separator.join([cell(get(facts)) for get in getters]) + "\n"


def text_writer(reading: Reading, style: TimeFormat, *, color: bool) -> Callable[[Facts], str]:
    """A function that gives one line for one frame.

    Columns: number, time, the client's address with the direction, type, what it says, latency, problems.
    """
    from pcli.codec.observe.fields.general_fields import problems_of
    from pcli.codec.observe.output.frame_summary import describe
    from pcli.codec.observe.text_format import latency_text, printable
    from pcli.codec.wire import name_of

    write_time = time_writer(style)
    painted = color and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    peers: dict[int, str] = {}
    shown_before = 0

    def line(facts: Facts) -> str:
        nonlocal shown_before
        frame = facts.frame
        now = frame.time_ns
        before = shown_before or now if style is TimeFormat.dd else reading.before_ns
        shown_before = now
        peer = peers.get(frame.stream.number)
        if peer is None:
            if len(peers) > _MAX_PEERS:
                peers.clear()
            address, port = frame.stream.client
            peer = peers[frame.stream.number] = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        arrow = "→" if frame.from_client else "←"
        name = name_of(frame.type)
        problems = problems_of(facts)
        tail = f"  ({latency_text(facts.latency_ns)})" if facts.latency_ns >= 0 else ""
        head = f"{frame.number:>6} {write_time(now, reading.first_ns, before):>12}  {peer} {arrow} "
        if not painted:
            for problem in problems:
                tail += f"  [{printable(problem)}]"
            return f"{head}{name:<20} {describe(facts)}{tail}".rstrip()
        tint = _RED if problems or "ERROR" in name else _CYAN if frame.from_client else _GREEN
        warned = "".join(f"  {_RED}[{printable(problem)}]{_PLAIN}" for problem in problems)
        return f"{_DIM}{head}{_PLAIN}{tint}{name:<20}{_PLAIN} {describe(facts)}{_DIM}{tail}{_PLAIN}{warned}"

    return line


_MAX_PEERS = 10_000
"""Addresses of streams kept as text."""
