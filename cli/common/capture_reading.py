"""From inputs to observed frames: what every command that reads captures does first."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, cast

from pcli.cli.common.output import Exit, say
from pcli.codec.observe.bit_set import Bits

if TYPE_CHECKING:
    from pcli.codec.capture import Note, ReadOptions, StreamEnd
    from pcli.codec.observe import Facts, Observer
    from pcli.codec.observe.observer_state import Request
    from pcli.codec.observe.payload_contents import Contents
    from pcli.codec.observe.two_pass import AnswerIndex
    from pcli.replay.sources import Input

__all__ = ["Reading", "contents_for", "opened_contents"]

_NOTES_OF_A_KIND = 5
"""Notes of one kind that are told one by one; the rest is counted."""


@dataclass(slots=True)
class Reading:
    """One reading of some inputs; iterate over `facts`, then `finish`."""

    files: Sequence[str] = ()
    interface: str = ""
    filter: str = ""
    decode_as: dict[int, str] = field(default_factory=dict)
    system: bool = False
    """Whether to show the traffic of the broker's own client."""
    both_passes: bool = False
    """Whether requests shall know their answers (-2)."""
    count: int = 0
    """Stop after this frame number; 0: never."""
    silent: bool = False
    """Whether a live interface is listened to without a word; else it is said when that begins."""
    rewindable: bool = False
    """Whether the inputs will be read more than once; stdin is then kept in a temporary file."""
    first_ns: int = 0
    """Time of the first frame."""
    before_ns: int = 0
    """Time of the frame before the current one, shown or not."""
    contents: Contents | None = None
    """What opens payloads; None: nobody looks into them, unless the filter does."""
    on_note: Callable[[Note], None] | None = None
    """Told in the first pass of what the capture says, in its order between the frames."""
    on_end: Callable[[StreamEnd], None] | None = None
    """Told in the first pass of every TCP connection that ends."""
    code: Exit = Exit.FINE
    _notes: Counter[str] = field(default_factory=Counter)
    _observer: Observer | None = None
    _inputs: list[Input] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)
    _matched: Bits = field(default_factory=Bits)
    """The frames that were shown."""

    def __post_init__(self) -> None:
        self.contents = self.contents or contents_for(self.filter)

    def facts(self) -> Generator[Facts, None, None]:
        """Facts of every frame that matches, in order. Notes about the capture go to stderr as they come.

        May be called again, for another pass, when ``rewindable`` was set.
        """
        from pcli.codec.errors import CaptureError

        try:
            yield from self._one_pass()
        except CaptureError:
            # A live capture that is empty knows better why.
            self._stack.__exit__(*sys.exc_info())
            raise

    def _one_pass(self) -> Iterator[Facts]:
        from pcli.cli.common.progress import watched
        from pcli.codec.capture import CapturedFrame, ReadOptions, read_capture
        from pcli.codec.observe import compile_filter

        wanted = compile_filter(self.filter).match if self.filter else None
        options = ReadOptions(decode_as=self.decode_as, ends=self.on_end is not None)
        answers = self._answers(options) if self.both_passes else None
        inputs = self.inputs()
        first_pass = self._observer is None
        observer = self._observer = _observer(answers, self.contents)
        see, everything = observer.see, self.system or "pulsar.system" in self.filter
        learn = self.contents.see if self.contents is not None else None
        before = 0
        files = ((one.name, one.file) for one in inputs)
        for event in watched(read_capture(files, options), inputs):
            if not isinstance(event, CapturedFrame):
                if first_pass:
                    self._tell(event)
                continue
            facts = see(event)
            if learn is not None:
                learn(facts)
            if not before:
                self.first_ns = before = event.time_ns
            if (everything or not facts.system) and (wanted is None or wanted(facts)):
                self.before_ns = before
                self._matched.add(event.number)
                yield facts
            before = event.time_ns
            if event.number == self.count:
                break

    def inputs(self) -> list[Input]:
        """The opened inputs, at their beginnings."""
        from pcli.codec.errors import LocalError
        from pcli.replay.begun import Begun
        from pcli.replay.sources import Input, open_inputs, open_interface
        from pcli.replay.spool import Spool

        if self._inputs:
            for one in self._inputs:
                one.file.seek(0)
        elif not self.interface:
            self._inputs = open_inputs(self.files, rewindable=self.rewindable or self.both_passes)
            for one in self._inputs:
                self._stack.callback(one.file.close)
        else:
            if self.files or self.both_passes:
                raise LocalError("-i reads from a live interface: it goes neither with -r nor with -2")
            live = self._stack.enter_context(open_interface(self.interface))
            if not self.silent:
                live = cast(BinaryIO, Begun(live, self._listening))
            if self.rewindable:
                live = cast(BinaryIO, self._stack.enter_context(Spool(live)))
            self._inputs = [Input(self.interface, live, None)]
        return self._inputs

    def _listening(self) -> None:
        say(f"listening to {self.interface}: Ctrl-C ends it")

    def named_files(self) -> Iterator[tuple[str, BinaryIO]]:
        """The inputs, at their beginnings, as the readers of captures take them."""
        return ((one.name, one.file) for one in self.inputs())

    def _answers(self, options: ReadOptions) -> AnswerIndex:
        from pcli.codec.capture import read_capture
        from pcli.codec.observe import answer_index

        return answer_index(read_capture(self.named_files(), options))

    def _tell(self, event: Note | StreamEnd) -> None:
        from pcli.codec.capture import StreamEnd

        if isinstance(event, StreamEnd):
            if self.on_end is not None:
                self.on_end(event)
            return
        if self.on_note is not None:
            self.on_note(event)
        self._note(event)

    def _note(self, note: Note) -> None:
        if note.kind == "file":
            self.code = Exit.DAMAGED
        self._notes[note.kind] += 1
        if self._notes[note.kind] <= _NOTES_OF_A_KIND:
            say(_placed(note))

    def unanswered(self) -> list[Request]:
        """Requests that were shown and have no answer, as far as the reading went."""
        found = [] if self._observer is None else self._observer.unanswered()
        return [request for request in found if request.number in self._matched]

    def finish(self) -> Exit:
        """Close the inputs, tell what was not told one by one; the exit code."""
        self._stack.close()
        for kind, count in self._notes.items():
            if count > _NOTES_OF_A_KIND:
                say(f"{kind}: {count - _NOTES_OF_A_KIND} more such notes")
        return self.code


def _observer(answers: AnswerIndex | None, contents: Contents | None) -> Observer:
    from pcli.codec.observe import Observer

    return Observer(answers=answers) if contents is None else Observer(answers=answers, opener=contents.open)


def opened_contents(private_keys: Sequence[str]) -> Contents:
    """What opens payloads with the keys in these PEM files; a file that cannot be read ends the command."""
    from pathlib import Path

    from pcli.codec.errors import LocalError
    from pcli.codec.observe.payload_contents import Contents
    from pcli.replay.lazy_file import reason_of

    try:
        return Contents({name: Path(name).read_bytes() for name in private_keys})
    except OSError as error:
        raise LocalError(f"--private-key {error.filename}: {reason_of(error)}") from None


def contents_for(*words: str) -> Contents | None:
    """What opens payloads for filters and columns that ask what is in them, shown or not; None: these do not ask."""
    if not _INSIDE.search(" ".join(words)):
        return None
    from pcli.codec.observe.payload_contents import Contents

    return Contents()


_INSIDE = re.compile(r"\bpulsar\.(opened|value)\b")
"""The fields for which chunks must be joined and schemas known."""


def _placed(note: Note) -> str:
    """A note with its place: the stream and direction, the packet, the file and offset."""
    place = []
    if note.source:
        place.append(note.source)
    if note.stream is not None:
        side = {True: " from the client", False: " from the broker", None: ""}[note.from_client]
        place.append(f"stream {note.stream.number}{side}")
    if note.packet:
        place.append(f"packet {note.packet}")
    offset = f" (at byte {note.offset})" if note.offset is not None and note.source else ""
    return f"{', '.join(place)}: {note.text}{offset}" if place else f"{note.text}{offset}"
