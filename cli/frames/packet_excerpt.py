"""The capture file of `dissect -w`: the packets of the frames that were shown."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from pcli.cli.common.output import complete_file, fail, say

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.codec.observe import Facts
    from pcli.codec.observe.excerpt import SelectedFrames


def written(
    facts: Iterator[Facts], reading: CaptureReading, path: str, *, secrets: bool
) -> Generator[Facts, None, None]:
    """Yield the facts unchanged. After the last frame or at Ctrl-C, write the packets of their frames to the file.

    The file appears when it is complete. If Ctrl-C is pressed before the first frame, no
    file is written. Credentials are masked with ``*`` unless ``secrets`` is set. The command fails if the file cannot
    be written or is an input.
    """
    from pcli.codec.observe.excerpt import SelectedFrames
    from pcli.replay.sources.lazy_file import reason_of

    for name in reading.files:
        with suppress(OSError):
            if Path(name).samefile(path):
                fail(f"-w {path}: this file is an input of the command")
    chosen, shown, stopped = SelectedFrames(), False, None
    try:
        with complete_file(path) as part, part.open("wb") as file:
            try:
                for one in facts:
                    chosen.add(one)
                    shown = True
                    yield one
            except (KeyboardInterrupt, GeneratorExit) as stop:
                if not shown:  # a live interface may not be open yet, and _copy would open it and never end
                    raise
                stopped = stop
            _copy(reading, chosen, file, path, secrets=secrets)
    except OSError as error:
        fail(f"-w {path}: {reason_of(error)}")
    if stopped is not None:
        raise stopped


def _copy(reading: CaptureReading, chosen: SelectedFrames, file: BinaryIO, path: str, *, secrets: bool) -> None:
    from pcli.codec.capture import read_capture, read_packets
    from pcli.codec.capture.tls.plain_packets import decrypted_packets
    from pcli.codec.capture.writer import PcapngWriter
    from pcli.codec.observe.excerpt import copy_packets, packets_of

    options = reading.read_options()
    kept = packets_of(read_capture(reading.named_files(), options), chosen)
    packets = decrypted_packets(read_packets(reading.named_files()), chosen.decrypted, options)
    count = copy_packets(packets, kept, PcapngWriter(file), secrets=secrets)
    file.flush()
    say(f"{count} packets written to {path}")
