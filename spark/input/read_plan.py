"""The plan of the files, recordings and splits to read, made from the paths that a user names.

Rules of this file
1. A problem with one file does not affect other files: each file found is an `Entry`. If the file will not be read, the
   `Entry` contains the reason. LocalError is raised only if nothing can be read or a label is invalid.
2. All captures of a cluster are the parts of one recording, in the order of `codec.capture.rotated`: connections and
   packet numbers continue from part to part.
3. A plan depends only on the files and the options. Part numbers do not depend on the split size. Split numbers depend
   on it, so they must not be stored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyarrow import fs

from pcli.codec.capture.rotated import Part, order_parts
from pcli.codec.errors import CaptureError, LocalError
from pcli.spark.input.capture_files import CaptureFile, Place, find, open_file, place_of, reason_of
from pcli.spark.input.capture_headers import Head, read_head
from pcli.spark.input.record_boundaries import cuts
from pcli.spark.input.splits import Split
from pcli.spark.request import SPLIT_BYTES, Request
from pcli.spark.tables.table_store import Store
from pcli.spark.tables.uri_redaction import hidden, shown

CLUSTER: Final = "default"
"""The label if the user specified none."""

_MARGIN: Final = 60_000_000_000
"""Timestamps of a file may be out of order by this many ns."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that was found."""

    found: CaptureFile
    head: Head
    cluster: str
    part: int = -1
    """Position among the parts of its recording, from 0; -1 if it will not be read."""


@dataclass(frozen=True, slots=True)
class Recording:
    """All captures of one cluster."""

    cluster: str
    parts: tuple[Entry, ...]
    splits: tuple[Split, ...]
    """The splits in order, at least one for each part, without splits outside the time range."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The files, recordings and splits to read."""

    entries: tuple[Entry, ...]
    """All files by path, including files that are not read."""
    recordings: tuple[Recording, ...]
    """The recordings by cluster."""


def plan(
    paths: Sequence[str],
    *,
    cluster: str = "",
    split: int | None = SPLIT_BYTES,
    since_ns: int | None = None,
    until_ns: int | None = None,
    may_be_none: bool = False,
    place: Place = place_of,
) -> Plan:
    """Find the files that the paths name and decide how to read them.

    ``cluster`` is a label, a pattern for paths that contain the label (``captures/{cluster}/*.pcap``), or a regular
    expression with a group named ``cluster``. ``split`` is the size of a split in bytes, or None for one split per
    file. Splits that are certainly outside ``since_ns`` and ``until_ns`` are omitted. Raise LocalError if there is no
    file, if no capture is readable (unless ``may_be_none``), or if the pattern does not match every file.
    """
    found = find(paths, place)
    labels = _labels(hidden(cluster), found)
    entries = [Entry(one, _head(one, place), label) for one, label in zip(found, labels, strict=True)]
    recordings = []
    for name in sorted(set(labels)):
        parts = ordered([entry for entry in entries if entry.cluster == name and entry.head.status == "read"])
        if parts:
            splits = splits_of(parts, split=split, since_ns=since_ns, until_ns=until_ns, place=place)
            recordings.append(Recording(name, tuple(parts), splits))
    if not recordings and not may_be_none:
        more = f"; {len(entries) - 1} more files are not captures either" if len(entries) > 1 else ""
        raise LocalError(f"no capture to read: {entries[0].found.path}: {entries[0].head.error}{more}")
    places = {part.found.where: part for recording in recordings for part in recording.parts}
    return Plan(tuple(places.get(entry.found.where, entry) for entry in entries), tuple(recordings))


def _head(found: CaptureFile, place: Place) -> Head:
    if found.error:
        return Head("unreadable", found.error)
    try:
        with open_file(found.where, place) as file:
            return read_head(file)
    except OSError as error:
        return Head("unreadable", reason_of(error))


def ordered(entries: Sequence[Entry]) -> list[Entry]:
    """Return the files of a recording in order, each with its part number."""
    named = {entry.found.path: entry for entry in entries}
    order = order_parts(Part(entry.found.path, entry.head.first_ns) for entry in entries)
    return [replace(named[part.name], part=number) for number, part in enumerate(order)]


# -- splits --------------------------------------------------------------------------------------------------------


def splits_of(
    parts: Iterable[Entry],
    *,
    split: int | None,
    since_ns: int | None = None,
    until_ns: int | None = None,
    place: Place = place_of,
) -> tuple[Split, ...]:
    """Return the splits of files, numbered from 0. The options are those of `plan`."""
    found = [one for part in parts for one in _splits(part, split, place)]
    kept = [one for one, first, last in _spans(found) if _overlap(first, last, since_ns, until_ns)]
    return tuple(replace(one, index=index) for index, one in enumerate(kept))


def _splits(entry: Entry, every: int | None, place: Place) -> Iterator[Split]:
    """Yield the splits of a file, without numbers."""
    found, head = entry.found, entry.head
    places = _places(entry, every, place)
    for number, (start, first_ns) in enumerate(places):
        end = places[number + 1][0] if number + 1 < len(places) else -1
        before = head.preamble if start else b""
        yield Split(entry.cluster, found.path, found.where, entry.part, 0, start, end, before, first_ns)


def _places(entry: Entry, every: int | None, place: Place) -> list[tuple[int, int | None]]:
    """Return the start offset of each split of a file, and the time of the split's first packet."""
    out = [(0, entry.head.first_ns)]
    if every is None or entry.found.size < every + every // 4:
        return out
    try:
        with open_file(entry.found.where, place) as file:
            out += cuts(file, entry.head, entry.found.size, every)
    except (OSError, CaptureError):
        return out  # the error is reported when the file is read
    return out


def _spans(splits: Sequence[Split]) -> Iterator[tuple[Split, int | None, int | None]]:
    """Yield each split with the limits of its packet times. A limit is None if it is unknown."""
    for number, split in enumerate(splits):
        follows = splits[number + 1] if number + 1 < len(splits) else None
        last = follows.first_ns if follows is not None and follows.part == split.part else None
        yield split, split.first_ns, last


def _overlap(first: int | None, last: int | None, since: int | None, until: int | None) -> bool:
    if since is not None and last is not None and last + _MARGIN < since:
        return False
    return until is None or first is None or first - _MARGIN < until


# -- labels --------------------------------------------------------------------------------------------------------


def _labels(cluster: str, found: Sequence[CaptureFile]) -> list[str]:
    """Return the label of each file; raise LocalError if a file has none."""
    if shown(cluster) != cluster:
        raise LocalError(f"--cluster {shown(cluster)}: it is not UTF-8")
    pattern = _pattern(cluster)
    if pattern is None:
        return [cluster or CLUSTER] * len(found)
    labels = []
    for one in found:
        match = pattern.search(one.path)
        labels.append(match["cluster"] if match else "")
    wrong = [one.path for one, label in zip(found, labels) if not label]
    if len(wrong) == len(found):
        raise LocalError(f"--cluster {cluster} matches none of {len(found)} files, such as {wrong[0]}")
    if wrong:
        raise LocalError(f"--cluster {cluster} does not match {len(wrong)} of {len(found)} files, such as {wrong[0]}")
    return labels


def _pattern(cluster: str) -> re.Pattern[str] | None:
    """Compile the pattern; return None if ``cluster`` is a label."""
    if "(?P<cluster>" in cluster:
        try:
            return re.compile(cluster)
        except re.error as error:
            raise LocalError(f"--cluster {cluster}: {error}") from None
    if "{cluster}" not in cluster:
        if "{" in cluster or "*" in cluster:
            raise LocalError(f"--cluster {cluster}: a pattern needs {{cluster}} in the position of the label")
        return None
    pieces = re.split(r"(\{cluster\}|\*\*/?|\*|\?)", cluster.removeprefix("./"))
    words = {"{cluster}": "(?P<cluster>[^/]+?)", "**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if pieces.count("{cluster}") > 1:
        raise LocalError(f"--cluster {cluster}: {{cluster}} may occur only once")
    return re.compile("(?:^|/)" + "".join(words.get(piece, re.escape(piece)) for piece in pieces) + "$")


def planned(request: Request, store: Store, *, may_be_none: bool = False) -> Plan:
    """Return the plan without files in OUT. An incremental run divides only the files that are new.

    Raise CaptureError if no file can be read (unless ``may_be_none``), or if the request is strict and a file cannot be
    read.
    """
    found = plan(
        request.paths,
        cluster=request.cluster,
        split=None if request.incremental else request.split_bytes,
        since_ns=request.since_ns,
        until_ns=request.until_ns,
        may_be_none=may_be_none,
    )
    entries = [entry for entry in found.entries if not _is_in_store(store, entry.found)]
    bad = [entry for entry in entries if entry.head.status != "read"]
    if not found.recordings and not may_be_none:
        raise CaptureError(_nothing_readable(request, bad))
    given = {hidden(path) for path in request.paths}
    named = [entry for entry in bad if entry.head.status == "unreadable" or entry.found.path in given]
    if request.strict and named:
        raise CaptureError(strict_error([(one.found.path, one.head.error) for one in named]))
    return Plan(tuple(entries), found.recordings)


def _is_in_store(store: Store, found: CaptureFile) -> bool:
    """Return whether a file is in the store. A path, a symbolic link or a URI may name the file or the store."""
    files, inner = place_of(found.where)
    if store.local and isinstance(files, fs.LocalFileSystem):
        return os.path.realpath(inner).startswith(f"{os.path.realpath(store.root)}/")
    return bool(files.equals(store.files)) and inner.startswith(f"{store.root}/")


def _nothing_readable(request: Request, bad: Sequence[Entry]) -> str:
    if len(bad) == 1:
        return f"{bad[0].found.path}: {bad[0].head.error}"
    more = f", {bad[0].found.path}: {bad[0].head.error}" if bad else ""
    return f"{' '.join(map(hidden, request.paths))}: none of {len(bad)} files is a capture{more}"


def strict_error(bad: Sequence[tuple[str, str]]) -> str:
    """Return the error message of a strict run, given the path and reason of each file that was not read to its end."""
    path, error = bad[0]
    more = f"; {len(bad) - 1} more files are incomplete" if len(bad) > 1 else ""
    return f"{path}: {error}{more} (--strict: nothing was changed)"
