"""`dissect -w`: the packets of the frames that were shown, as a capture of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pcli.cli.output import say

if TYPE_CHECKING:
    from pcli.cli.reading import Reading
    from pcli.codec.observe import Facts

__all__ = ["written"]


def written(facts: Iterator[Facts], reading: Reading, path: str) -> Iterator[Facts]:
    """The same facts; when they end, by themselves or by Ctrl-C, the packets of their frames are in the file.

    LocalError at once when the file can't be written.
    """
    from pcli.codec.capture import ReadOptions, read_capture, read_packets
    from pcli.codec.capture.writer import PcapngWriter
    from pcli.codec.errors import LocalError
    from pcli.codec.observe.excerpt import Chosen, copy_packets, packets_of

    try:
        file = Path(path).open("wb")  # noqa: SIM115  (closed below, after the last frame)
    except OSError as error:
        raise LocalError(f"-w {path}: {(error.strerror or str(error)).lower()}") from None
    chosen = Chosen()
    with file:
        try:
            for one in facts:
                chosen.add(one)
                yield one
        finally:
            options = ReadOptions(decode_as=reading.decode_as)
            kept = packets_of(read_capture(((one.name, one.file) for one in reading.inputs()), options), chosen)
            files = ((one.name, one.file) for one in reading.inputs())
            count = copy_packets(read_packets(files), kept, PcapngWriter(file))
            say(f"{count} packets written to {path}")
