"""The small tables that an incremental run keeps, without old rows that later rows do not need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.wire.commands import BY_NAME
from pcli.spark.columnar.frame_columns import Bools
from pcli.spark.columnar.lifecycles.forwarded_frames import OPENING
from pcli.spark.columnar.lifecycles.partial_tables import ROLES
from pcli.spark.columnar.observation.connection_ties import TRANSACTIONS

_OPENER: Final = 1 << ROLES["opener"]
_LASTING: Final = 1 << ROLES["control"] | _OPENER
"""Roles of frames that are kept as long as the recording, except for `_TEMPORARY`."""

_OF_PRODUCERS: Final = [BY_NAME[name].number for name in ("SEND", "PRODUCER", "CLOSE_PRODUCER")]

_TEMPORARY: Final = [
    BY_NAME[name].number
    for name in (
        "PING",
        "PONG",
        "LOOKUP",
        "LOOKUP_RESPONSE",
        "PARTITIONED_METADATA",
        "PARTITIONED_METADATA_RESPONSE",
        "GET_TOPICS_OF_NAMESPACE",
        "GET_TOPICS_OF_NAMESPACE_RESPONSE",
        "GET_SCHEMA",
        "GET_SCHEMA_RESPONSE",
        "GET_OR_CREATE_SCHEMA",
        "GET_OR_CREATE_SCHEMA_RESPONSE",
        "GET_LAST_MESSAGE_ID",
        "GET_LAST_MESSAGE_ID_RESPONSE",
        "CONSUMER_STATS",
        "CONSUMER_STATS_RESPONSE",
        "NEW_TXN",
    )
] + list(TRANSACTIONS)
"""Commands that do not change the state of a connection, producer or consumer. The end of a transaction changes only
messages whose acknowledgements precede it."""


def without_old_rows(
    known: Mapping[str, pa.Table], forgotten: int, first_open: int, first_halves: int
) -> dict[str, pa.Table]:
    """Return small tables, which have a column ``split``, without old rows.

    ``forgotten`` is the number of splits that are older than twice the horizon. ``first_open`` is the first frame of
    all partial rows of open messages, which may need later cumulative ACKs. ``first_halves`` is the first split with
    ``halves`` of open messages, which are paired again.
    """
    found = dict(known)
    if "forwarded" in known:
        found["forwarded"] = _forwarded(known["forwarded"], forgotten)
    if "sessions" in known:
        found["sessions"] = known["sessions"].filter(pc.greater_equal(known["sessions"]["split"], forgotten))
    if "unpaired" in known:
        since = min(forgotten, first_halves)
        found["unpaired"] = known["unpaired"].filter(pc.greater_equal(known["unpaired"]["split"], since))
    if "cumulative" in known:
        needed = pc.greater_equal(known["cumulative"]["number"], first_open)
        found["cumulative"] = _kept(known["cumulative"], forgotten, needed)
    if "events" in known:
        found["events"] = _kept(known["events"], forgotten, _needed_events(known["events"]))
    if "ledgers" in known:
        found["ledgers"] = _first_of(known["ledgers"], ["stream", "owner_id", "produces", "ledger"], "number")
    if "labels" in known:
        found["labels"] = _first_of(known["labels"], ["id", "text"], "split")
    return found


def _forwarded(table: pa.Table, forgotten: int) -> pa.Table:
    """Return the frames of new splits, and the lasting frames of old splits, which have only lasting roles."""
    old = pc.less(table["split"], forgotten)
    roles = pc.if_else(old, pc.bit_wise_and(table["role"], _LASTING), table["role"])
    table = table.set_column(table.schema.get_field_index("role"), "role", roles)
    temporary = pc.is_in(table["type"], pa.array(_TEMPORARY, table["type"].type))
    lasting = pc.and_(pc.not_equal(roles, 0), pc.invert(temporary))
    repeated = pc.and_(pc.equal(roles, _OPENER), pa.array(_repeated_openers(table)))
    return table.filter(pc.or_(pc.invert(old), pc.and_(lasting, pc.invert(repeated))))


def _repeated_openers(forwarded: pa.Table) -> Bools:
    """Return which frames follow another opener of the same producer or consumer, with no command between them."""
    types, place = forwarded["type"].to_numpy(), forwarded["place"].to_numpy()
    ids = forwarded["stream"].to_numpy(), forwarded["owner"].to_numpy(), np.isin(types, _OF_PRODUCERS)
    command = np.isin(types, list(OPENING))
    opener = pc.not_equal(pc.bit_wise_and(forwarded["role"], _OPENER), 0).to_numpy()
    rows = np.flatnonzero(command | opener)
    order = rows[np.lexsort((place[rows], *(one[rows] for one in ids)))]
    follows = np.zeros(len(order), np.bool_)
    follows[1:] = ~command[order][:-1]
    for one in ids:
        follows[1:] &= one[order][1:] == one[order][:-1]
    found = np.zeros(len(forwarded), np.bool_)
    found[order] = follows
    return found


def _kept(table: pa.Table, first: int, needed: pa.Array) -> pa.Table:
    """Return the rows of the splits from ``first`` on, and the needed rows."""
    return table.filter(pc.or_(pc.greater_equal(table["split"], first), needed))


def _needed_events(events: pa.Table) -> pa.Array:
    """Return a mask of the events except for marks of the last frame in a split that a later mark follows."""
    marks = pc.equal(events["kind"], "last").to_numpy()
    side = events["stream"].to_numpy() * 2 + events["from_client"].to_numpy()
    number = events["number"].to_numpy()
    order = np.lexsort((number, side, marks))
    last = np.ones(len(order), np.bool_)
    last[:-1] = (side[order][1:] != side[order][:-1]) | (marks[order][1:] != marks[order][:-1])
    needed = ~marks
    needed[order[last]] = True
    return pa.array(needed)


def _first_of(table: pa.Table, keys: list[str], order: str) -> pa.Table:
    """Return the first row of each key, in order of ``order``."""
    rest = [name for name in table.column_names if name not in keys]
    table = table.sort_by([(order, "ascending")])
    found = table.group_by(keys, use_threads=False).aggregate([(name, "first") for name in rest])
    return found.rename_columns([name.removesuffix("_first") for name in found.column_names]).select(table.column_names)
