"""The plan of a request, without files in OUT, and the errors if no file can be read or a strict run fails."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pyarrow import fs

from pcli.codec.errors import CaptureError
from pcli.spark.input.capture_files import CaptureFile, place_of
from pcli.spark.input.read_plan import Entry, Plan, plan
from pcli.spark.request import Request
from pcli.spark.tables.table_store import Store
from pcli.spark.tables.uri_redaction import hidden

__all__ = ["planned", "strict_error"]


def planned(request: Request, store: Store, *, apart: bool, may_be_none: bool = False) -> Plan:
    """Return the plan without files in OUT; ``apart`` determines whether files are divided into splits.

    Raise CaptureError if no file can be read (unless ``may_be_none``), or if the request is strict and a file cannot be
    read.
    """
    found = plan(
        request.paths,
        cluster=request.cluster,
        split=request.split_bytes if apart else None,
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
