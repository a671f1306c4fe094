"""The comments on the packets of pcapng files."""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.capture.pcap import pcap_windows
from pcli.codec.capture.pcapng import MAGIC, PcapngReader
from pcli.codec.capture.reading import Files, opened
from pcli.codec.errors import CaptureError


def packet_comments(files: Files) -> Iterator[tuple[int, str]]:
    """Yield the number of each packet with a comment, as in ``CapturedFrame.packet``, and the comment.

    A packet may have several comments. A damaged file is read up to the damage. Raise CaptureError if no file is a
    capture.
    """
    before = 0
    for _, source, _ in opened(files):
        if source is None:
            continue
        try:
            if source.data[:4] != MAGIC:
                for _, records in pcap_windows(source):
                    before += len(records)
                continue
            reader = PcapngReader(source)
            reader.comments = []
            for _, records in reader.windows():
                for place, text in reader.comments:
                    yield before + place + 1, text
                reader.comments.clear()
                before += len(records)
        except CaptureError:
            continue
