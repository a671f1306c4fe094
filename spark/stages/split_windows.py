"""The requested packets of a split, and the position at which the split ended. Each reading yields the same results."""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.capture.frames import Note
from pcli.codec.capture.packets import Secrets
from pcli.codec.errors import CaptureError
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.input.capture_files import reason_of
from pcli.spark.input.splits import Split, SplitEnd, SplitReader, open_split
from pcli.spark.request import Request
from pcli.spark.stages.read_sequentially import between

__all__ = ["SplitWindows"]


class SplitWindows:
    """The requested packets of a split, window by window, and the note about its file."""

    def __init__(self, request: Request, split: Split) -> None:
        self._request, self._split = request, split
        self.notes: list[Note] = []
        """Notes about the file; complete after the last window."""
        self.secrets: list[Secrets] = []
        """TLS secrets of the file in the windows so far."""
        self.ended = SplitEnd(split.start, split.preamble)
        self.read = False
        """Whether the file exists, is a capture, and was read to its end or to damage."""

    def __iter__(self) -> Iterator[Records]:
        """Yield all windows once."""
        try:
            with open_split(self._split) as file:
                reader = SplitReader(self._split, file)
                for item in reader.windows():
                    if isinstance(item, Note):
                        self.notes.append(item)
                    elif isinstance(item, Secrets):
                        self.secrets.append(item)
                    else:
                        yield between(item, self._request.since_ns, self._request.until_ns)
                self.ended, self.read = reader.ended, True
        except CaptureError as error:
            self.notes.append(Note("file", error.text, offset=error.offset, source=self._split.path))
        except OSError as error:
            self.notes.append(Note("file", reason_of(error), source=self._split.path))
