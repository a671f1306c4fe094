"""Frames from arguments and files, without a capture: the code that `decode` and `encode` share."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcli.cli.common.output import Exit, json_text, print_json_lines, say, write_line
from pcli.codec.errors import CaptureError, LocalError
from pcli.codec.wire import Frame, FrameReader, pull_assignments, pull_bytes, pull_wire_json, push_wire_json
from pcli.codec.wire.commands import COMMANDS
from pcli.replay.sources.lazy_file import reason_of

if TYPE_CHECKING:
    from pcli.codec.observe import Facts


def read_frames(source: str, form: str) -> tuple[list[Frame], Exit]:
    """Return the frames in an argument, a file or stdin (``-``), and the exit code: DAMAGED if bytes are left over.

    Raises LocalError if the argument is neither a file nor bytes in a known notation.
    """
    given = _given(source)
    if given[:4] in _CAPTURES:
        raise LocalError("this is a capture, not a frame: use pcli dissect -r")
    data = pull_bytes(given, form)
    reader = FrameReader(max_frame_size=2**31)
    frames = reader.feed(data)
    if reader.error is not None:
        say(f"not a frame: {reader.error}")
        return frames, Exit.DAMAGED
    if reader.pending:
        rest = data[reader.offset :]
        if reader.pending >= 8:
            frames.append(Frame.of(rest))
        say(
            f"the input ends inside a frame: only {reader.pending} bytes of the frame are present "
            f"(at byte {reader.offset})"
        )
        return frames, Exit.DAMAGED
    if not frames:
        raise LocalError("no bytes to decode")
    return frames, Exit.FINE


_CAPTURES = (b"\x0a\x0d\x0d\x0a", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d")
"""The first bytes of pcapng and pcap files. Read as the size of a frame, they exceed the limit."""


def _given(source: str) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read()
    if "/" in source and Path(source).is_dir():
        raise CaptureError(f"{source}: is a directory")
    if not _is_file(source):
        return source.encode()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise CaptureError(f"{source}: {reason_of(error)}") from None


def _is_file(source: str) -> bool:
    # An argument that is too long for a path, or that contains a NUL, is not a path but a frame.
    try:
        return Path(source).is_file()
    except (OSError, ValueError):
        return False


def print_frames(frames: list[Frame], output: str, *, from_client: bool | None, payload: bool, secrets: bool) -> None:
    """Print frames as ``tree``, ``json``, ``ndjson`` or ``wire``."""
    from pcli.codec.observe.output.frame_tree import tree_lines
    from pcli.codec.observe.payload_contents import Contents
    from pcli.codec.observe.single_frame import flatten_loose, loose_facts

    contents = Contents()

    def opened() -> Iterator[Facts]:
        for number, frame in enumerate(frames, 1):
            client = _client_sends(frame) if from_client is None else from_client
            facts = loose_facts(frame, number, contents.open, from_client=client)
            contents.see(facts)
            yield facts

    if output == "wire":
        for frame in frames:
            write_line(json_text(pull_wire_json(frame)))
    elif output == "tree":
        for facts in opened():
            for line in tree_lines(facts, secrets=secrets):
                write_line(line)
            for line in contents.lines(facts) if payload else ():
                write_line(f"    {line}")
    else:
        lines = (json_text(flatten_loose(facts, payload=payload, secrets=secrets)) for facts in opened())
        print_json_lines(lines, output)


def _client_sends(frame: Frame) -> bool:
    row = COMMANDS.get(frame.type)
    return row is None or row.client_may_send


def encoded_frames(words: list[str]) -> Iterator[bytes]:
    """Yield frames from ``TYPE field=value ...``, or from JSON (objects or arrays) in a file or stdin."""
    first = words[0]
    if len(words) > 1 or not (first == "-" or first.lstrip()[:1] in ("{", "[") or _is_file(first)):
        frame = push_wire_json(pull_assignments(words))
        for name in _missing_fields(Frame.of(frame)):
            say(f"the required field {name} is missing: a broker closes the connection when it receives this frame")
        yield frame
        return
    for wire in _json_values(_text(_given(words[0]))):
        yield from map(push_wire_json, wire if isinstance(wire, list) else [wire])


def _missing_fields(frame: Frame) -> Iterator[str]:
    """Yield the names of the required fields that a frame lacks, as they are written in assignments."""
    row = COMMANDS.get(frame.type)
    body = f"{row.field}." if row is not None else ""
    for prefix, message in (("", frame.command), ("metadata.", frame.metadata)):
        for path in [] if message is None else message.FindInitializationErrors():  # type: ignore[union-attr]
            yield prefix + path.removeprefix(body)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise LocalError("not JSON: the text is not UTF-8", error.start) from None


def _json_values(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    position = _after_blanks(text, 0)
    while position < len(text):
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise LocalError(f"not JSON: {error}", position) from None
        yield value
        position = _after_blanks(text, position)


def _after_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match is not None else position


_BLANKS = re.compile(r"\s+")
