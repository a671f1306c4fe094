"""Reading of captures and interfaces as observed frames, the first step of commands that read captures."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, BinaryIO, cast

from pcli.cli.common.input_notes import InputNotes, no_frames_text, repeated_lines
from pcli.cli.common.output import Exit, counted, say
from pcli.codec.errors import LocalError
from pcli.codec.observe.bit_set import Bits

if TYPE_CHECKING:
    from pcli.codec.capture import CaptureTotals, Note, ReadOptions, StreamEnd
    from pcli.codec.capture.frame_streams import FrameStreams
    from pcli.codec.observe import Facts, Observer
    from pcli.codec.observe.observer_state import Request
    from pcli.codec.observe.payload_contents import Contents
    from pcli.codec.observe.tracking.connections.connection_tracker import ConnectionTracker
    from pcli.codec.observe.tracking.connections.repeated_connections import RepeatDetector
    from pcli.codec.observe.two_pass import AnswerIndex
    from pcli.replay.sources.capture_sources import Input
    from pcli.spark.diagnosis import DiagnosedCaptures


@dataclass(slots=True)
class CaptureReading:
    """A reading of some inputs. To use it, iterate over `facts`, then call `finish`."""

    files: Sequence[str] = ()
    interface: str = ""
    capture_filter: str = ""
    """The BPF filter of a live capture; "" captures every packet."""
    filter: str = ""
    options: ReadOptions | None = None
    """The options of the capture reader, except ``ends`` and ``totals``."""
    system: bool = False
    """Whether to include the traffic of the broker's internal client."""
    both_passes: bool = False
    """Whether requests contain the number of their response (option -2), which needs two passes."""
    count: int = 0
    """Number of the last frame to read; 0 for no limit."""
    silent: bool = False
    """Whether to omit the message that a live capture prints at its start."""
    carriers: bool = False
    """Whether the output needs all packets that contain bytes of a frame."""
    rewindable: bool = False
    """Whether the inputs are read more than once. If so, stdin is copied to a temporary file."""
    first_ns: int = 0
    """Time of the first frame."""
    before_ns: int = 0
    """Time of the previous frame, whether or not it was shown."""
    contents: Contents | None = None
    """The decoder of payloads; None if neither the filter nor the output needs them."""
    on_frame: Callable[[Facts], None] | None = None
    """A function that is called in every pass for every frame, whether or not it matches."""
    on_note: Callable[[Note], None] | None = None
    """A function that is called in the first pass for every note, in order with the frames."""
    on_end: Callable[[StreamEnd], None] | None = None
    """A function that is called in the first pass for every TCP connection that ends."""
    tracks_again: bool = False
    """Whether these two functions are also called in later passes."""
    connections: ConnectionTracker | RepeatDetector | DiagnosedCaptures | None = None
    """The detector of connections that repeat others. If a command tracks the frames, it sets this field; otherwise the
    first pass creates a detector."""
    code: Exit = Exit.FINE
    _notes: InputNotes = field(default_factory=InputNotes)
    _totals: CaptureTotals | None = None
    _shown: bool = False
    """Whether any frame matched."""
    _frames: int = 0
    """Number of Pulsar frames, whether or not they were shown."""
    _observer: Observer | None = None
    _inputs: list[Input] = field(default_factory=list)
    _started: bool = False
    """Whether the inputs have been read from. Before that, they need no rewinding, which a pipe does not allow."""
    _stack: ExitStack = field(default_factory=ExitStack)
    _matched: Bits = field(default_factory=Bits)
    """Numbers of the frames that were shown."""
    _streams: FrameStreams | DiagnosedCaptures | None = None
    """The connections of all frames, if the inputs are read more than once."""

    def __post_init__(self) -> None:
        if self.capture_filter and not self.interface:
            raise LocalError("-f filters the packets of a live capture and requires -i; -Y filters frames")
        self.contents = self.contents or contents_for(self.filter)

    def facts(self) -> Generator[Facts, None, None]:
        """Yield the facts of every frame that matches, in order.

        If ``rewindable`` is set, each call makes a new pass.
        """
        from pcli.codec.errors import CaptureError

        try:
            yield from self._one_pass()
        except CaptureError:
            # If a live capture is empty, the capture program reports the reason.
            self._stack.__exit__(*sys.exc_info())
            raise

    def _one_pass(self) -> Iterator[Facts]:
        from pcli.cli.common.progress import watched
        from pcli.codec.capture import CapturedFrame, CaptureTotals, StreamEnd, read_capture
        from pcli.codec.capture.frame_streams import FrameStreams
        from pcli.codec.capture.frames import SkippedFrames
        from pcli.codec.observe import compile_filter
        from pcli.codec.observe.observer import unneeded_types
        from pcli.codec.observe.tracking.connections.repeated_connections import RepeatDetector

        condition = compile_filter(self.filter) if self.filter else None
        wanted = None if condition is None else condition.match
        options = replace(self.read_options(), ends=self.on_end is not None)
        answers = self._answers(options) if self.both_passes else None
        inputs = self.inputs()
        self._started = True
        first_pass = self._observer is None
        totals = CaptureTotals()
        options = replace(options, totals=totals)
        observer = self._observer = _observer(answers, self.contents)
        see, everything = observer.see, self.system or "pulsar.system" in self.filter
        learn = self.contents.see if self.contents is not None else None
        streams = self._streams = FrameStreams() if first_pass and self.rewindable else None
        before, stream = 0, None
        detector = None
        if first_pass and self.connections is None:
            self.connections = detector = RepeatDetector()
        track = None if detector is None else detector.see
        unneeded = frozenset[int]()
        if condition is not None and self.contents is None and self.on_frame is None:
            unneeded = unneeded_types(lambda number: condition.constant(number) is not False)
        files = [(one.name, one.file) for one in inputs]
        events: Iterator[CapturedFrame | Note | StreamEnd | SkippedFrames] = read_capture(files, options)
        if condition is not None and detector is not None and self._may_use_columns(inputs):
            from pcli.spark.filtered_frames import FilteredReader, has_long_connections

            if has_long_connections(files, options):
                events = FilteredReader(condition, unneeded, observer, detector.is_settled).events(files, options)
            self.inputs()
        for event in watched(events, inputs):
            if isinstance(event, SkippedFrames):
                if not before:
                    self.first_ns = event.first_ns
                self._frames, before = event.last, event.last_ns
                continue
            if not isinstance(event, CapturedFrame):
                if isinstance(event, StreamEnd):
                    observer.close(event.stream.number)
                if first_pass or self.tracks_again:
                    self._report(event)
                continue
            if streams is not None and event.stream is not stream:
                stream = event.stream
                streams.begin(event.number, stream.number)
            if not before:
                self.first_ns = before = event.time_ns
            self._frames = event.number
            if event.type in unneeded and (detector is None or not detector.needs(event)):
                observer.skip(event.stream)
            else:
                facts = see(event)
                if learn is not None:
                    learn(facts)
                if track is not None:
                    track(facts)
                if self.on_frame is not None:
                    self.on_frame(facts)
                if (everything or not facts.system) and (wanted is None or wanted(facts)):
                    self.before_ns = before
                    self._shown = True
                    self._matched.add(event.number)
                    yield facts
            before = event.time_ns
            if event.number == self.count:
                return
        self._totals = totals

    def _may_use_columns(self, inputs: Sequence[Input]) -> bool:
        """Whether frames that do not match need not become objects."""
        from pcli.spark.worker_server import SMALL_BYTES, has_tables

        sizes = [one.size for one in inputs]
        unneeded = self.contents is None and self.on_frame is None and not (self.count or self.both_passes)
        if not unneeded or self.carriers or self.rewindable or self.interface or None in sizes:
            return False
        return sum(size or 0 for size in sizes) >= SMALL_BYTES and has_tables()

    def facts_of(self, numbers: Collection[int]) -> Iterator[Facts]:
        """Yield the facts of these frames after a complete pass over inputs that are rewindable.

        Only the connections of these frames are read, and only their frames up to the last of these frames are decoded.
        """
        from pcli.codec.capture import CapturedFrame, read_capture

        streams = self._streams
        if streams is None or not streams.complete:
            yield from (facts for facts in self.facts() if facts.frame.number in numbers)
            return
        left, numbers_of = len(numbers), streams.numbers_until(numbers)
        options, see = replace(self.read_options(), streams=numbers_of), _observer(None, self.contents).see
        for event in read_capture(self.named_files(), options) if left else ():
            if isinstance(event, CapturedFrame):
                number = next(numbers_of[event.stream.number], 0)
                if number:
                    event.number = number
                    facts = see(event)
                    if number in numbers:
                        yield facts
                        left -= 1
            if not left:
                return

    def take_first_pass(self, found: DiagnosedCaptures) -> None:
        """Take the results of a first pass that other processes have made."""
        from pcli.codec.capture import CaptureTotals

        self.on_note = None
        for note in found.notes:
            self._report(note)
        self.first_ns, self._shown = found.first_ns, True
        self._totals, self._streams = CaptureTotals(found.packets, found.files), found
        self.connections = found

    def origin(self, packet: int) -> tuple[str, int]:
        """Return the file of a packet after a complete pass, and the number of the packet in this file."""
        files = self._totals.files if self._totals is not None else []
        index = bisect_left(files, packet, key=itemgetter(1)) - 1
        return (files[index][0], packet - files[index][1]) if index >= 0 else ("", packet)

    def read_options(self) -> ReadOptions:
        """Return the options of the capture reader."""
        from pcli.codec.capture import ReadOptions

        return self.options or ReadOptions()

    def inputs(self) -> list[Input]:
        """Return the opened inputs, each positioned at its start."""
        from pcli.replay.sources.capture_sources import Input, open_inputs, open_interface
        from pcli.replay.sources.live_recording import SpooledStream, StartNotifier

        if self._inputs:
            for one in self._inputs if self._started else ():
                one.file.seek(0)
        elif not self.interface:
            self._inputs = open_inputs(self.files, rewindable=self.rewindable or self.both_passes)
            for one in self._inputs:
                self._stack.callback(one.file.close)
        else:
            if self.files or self.both_passes:
                raise LocalError("-i captures live: it cannot be combined with -r or -2")
            live = self._stack.enter_context(open_interface(self.interface, self.capture_filter))
            if not self.silent:
                live = cast(BinaryIO, StartNotifier(live, self._listening))
            if self.rewindable:
                live = cast(BinaryIO, self._stack.enter_context(SpooledStream(live)))
            self._inputs = [Input(self.interface, live, None)]
        return self._inputs

    def _listening(self) -> None:
        say(f"capturing on {self.interface}; press Ctrl-C to stop")

    def named_files(self) -> Iterator[tuple[str, BinaryIO]]:
        """Return the names and files of the inputs, each positioned at its start."""
        inputs = self.inputs()
        self._started = True
        return ((one.name, one.file) for one in inputs)

    def _answers(self, options: ReadOptions) -> AnswerIndex:
        from pcli.codec.capture import read_capture
        from pcli.codec.observe import answer_index

        return answer_index(read_capture(self.named_files(), options))

    def _report(self, event: Note | StreamEnd) -> None:
        from pcli.codec.capture import StreamEnd

        if isinstance(event, StreamEnd):
            if self.on_end is not None:
                self.on_end(event)
            return
        if self.on_note is not None:
            self.on_note(event)
        if self.tracks_again:
            return  # the first pass has added the note
        if event.kind == "file":
            self.code = Exit.DAMAGED
        self._notes.add(event)

    @property
    def repeats(self) -> bool:
        """Whether the frame of the last facts in the first pass repeats a frame of another connection."""
        return self.connections is not None and self.connections.repeats

    def unanswered(self) -> list[Request]:
        """Return the shown requests that have no response in the part of the capture that was read."""
        found = [] if self._observer is None else self._observer.unanswered()
        return [request for request in found if request.number in self._matched]

    def finish(self) -> Exit:
        """Close the inputs and print the notes. If the output is empty, print the reason. Return the exit code."""
        self._stack.close()
        self._notes.print()
        for line in repeated_lines(self.connections.repeated() if self.connections is not None else ()):
            say(line)
        if self._totals is not None and not self._shown:
            say(self._why_empty(self._totals))
        return self.code

    def _why_empty(self, totals: CaptureTotals) -> str:
        if not self._frames:
            return no_frames_text(totals)
        frames = counted(self._frames, "Pulsar frame")
        if self.filter:
            return f"none of {frames} matches the filter"
        return f"no frame of an application in {frames}: use --system for the frames of the broker's internal client"


def _observer(answers: AnswerIndex | None, contents: Contents | None) -> Observer:
    from pcli.codec.observe import Observer

    return Observer(answers=answers) if contents is None else Observer(answers=answers, opener=contents.open)


def opened_contents(private_keys: Sequence[str]) -> Contents:
    """Return a decoder of payloads with the keys in these PEM files. Raises LocalError if a file cannot be read."""
    from pathlib import Path

    from pcli.codec.observe.payload_contents import Contents
    from pcli.replay.sources.lazy_file import reason_of

    try:
        return Contents({name: Path(name).read_bytes() for name in private_keys})
    except OSError as error:
        raise LocalError(f"--private-key {error.filename}: {reason_of(error)}") from None


def contents_for(*words: str) -> Contents | None:
    """Return a decoder of payloads if these filters and columns refer to payload contents, or else None."""
    if not _INSIDE.search(" ".join(words)):
        return None
    from pcli.codec.observe.payload_contents import Contents

    return Contents()


_INSIDE = re.compile(r"\bpulsar\.(opened|value)\b")
"""The fields that require joined chunks and known schemas."""
