"""`dissect -w`: the packets of the frames that were shown, as a capture of their own."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from pcli.cli.common.output import fail, say

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import Reading
    from pcli.codec.observe import Facts
    from pcli.codec.observe.excerpt import Chosen

__all__ = ["written"]


def written(facts: Iterator[Facts], reading: Reading, path: str, *, secrets: bool) -> Generator[Facts, None, None]:
    """The same facts; when they end, by themselves or by Ctrl-C, the packets of their frames are in the file.

    The file appears when it is whole; when Ctrl-C came before the first of them, there is none. Credentials in it are
    stars, unless ``secrets``. The command ends at once when the file can't be written, or is one of the inputs.
    """
    from pcli.codec.observe.excerpt import Chosen
    from pcli.replay.lazy_file import reason_of

    for name in reading.files:
        with suppress(OSError):
            if Path(name).samefile(path):
                fail(f"-w {path}: that is the capture which is being read")
    # A device or a pipe is written as it is, a file beside its place and then moved there.
    regular = not Path(path).exists() or Path(path).is_file()
    part = Path(f"{path}.part") if regular else Path(path)
    chosen, shown = Chosen(), False
    try:
        with part.open("wb") as file:
            try:
                for one in facts:
                    chosen.add(one)
                    shown = True
                    yield one
            except (KeyboardInterrupt, GeneratorExit):
                if shown:  # else a live interface may not be open yet: it would be opened now, and read for ever
                    _copy(reading, chosen, file, path, secrets=secrets)
                    if regular:
                        part.replace(path)
                raise
            _copy(reading, chosen, file, path, secrets=secrets)
        if regular:
            part.replace(path)
    except OSError as error:
        fail(f"-w {path}: {reason_of(error)}")
    finally:
        if regular:
            part.unlink(missing_ok=True)


def _copy(reading: Reading, chosen: Chosen, file: BinaryIO, path: str, *, secrets: bool) -> None:
    from pcli.codec.capture import ReadOptions, read_capture, read_packets
    from pcli.codec.capture.writer import PcapngWriter
    from pcli.codec.observe.excerpt import copy_packets, packets_of

    options = ReadOptions(decode_as=reading.decode_as)
    kept = packets_of(read_capture(reading.named_files(), options), chosen)
    count = copy_packets(read_packets(reading.named_files()), kept, PcapngWriter(file), secrets=secrets)
    file.flush()
    say(f"{count} packets written to {path}")
