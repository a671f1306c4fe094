"""The columns of the table `connections`: one row for each TCP connection with actual or expected Pulsar traffic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord
from pcli.spark.columnar.observation.record_columns import COUNTS, Cell, cell, counts, known, non_negative
from pcli.spark.columnar.table_schema import BOOL, INT, LONG, TEXT, many

__all__ = ["CONNECTION_CELLS", "FinalConnection"]


@dataclass(frozen=True, slots=True)
class FinalConnection:
    """A connection at the end of the recording."""

    record: ConnectionRecord
    client_bytes: int
    """Bytes of the client's frames, including length prefixes."""
    broker_bytes: int


def _of(name: str) -> Callable[[FinalConnection], Any]:
    return lambda one: getattr(one.record, name)


def _known(name: str) -> Callable[[FinalConnection], Any]:
    return lambda one: known(getattr(one.record, name))


CONNECTION_CELLS: Final[tuple[Cell, ...]] = (
    cell("connection", LONG, "tcp.stream", _of("stream")),
    cell("client", TEXT, "address", lambda one: one.record.client[0]),
    cell("client_port", INT, "port", lambda one: one.record.client[1]),
    cell("server", TEXT, "address", lambda one: one.record.server[0]),
    cell("server_port", INT, "port", lambda one: one.record.server[1]),
    cell("kind", TEXT, "pulsar, tls, http, proxy, other, unknown", _of("kind")),
    cell("midstream", BOOL, "true if the connection began before the capture", _of("midstream")),
    cell("system", BOOL, "true if the connection belongs to the broker's internal client", _of("system")),
    cell("first_ns", LONG, "time of its first frame", _known("first_ns")),
    cell("last_ns", LONG, "time of its last frame", _known("last_ns")),
    cell("first_frame", LONG, "number of its first frame", _known("first_frame")),
    cell("last_frame", LONG, "number of its last frame", _known("last_frame")),
    cell("client_frames", LONG, "frames of the client", _of("client_frames")),
    cell("broker_frames", LONG, "frames of the broker", _of("broker_frames")),
    cell("client_bytes", LONG, "bytes of the client's frames", lambda one: one.client_bytes),
    cell("broker_bytes", LONG, "bytes of the broker's frames", lambda one: one.broker_bytes),
    cell("client_version", TEXT, "value in CONNECT", _known("client_version")),
    cell("protocol_version", INT, "value in CONNECT", lambda one: non_negative(one.record.protocol_version)),
    cell("server_version", TEXT, "value in CONNECTED", _known("server_version")),
    cell("server_protocol_version", INT, "value in CONNECTED",
         lambda one: non_negative(one.record.server_protocol_version)),
    cell("max_message_size", LONG, "value in CONNECTED", _known("max_message_size")),
    cell("proxy_to_broker_url", TEXT, "value in CONNECT", _known("proxy_to_broker_url")),
    cell("leg_of", LONG, "tcp.stream of the client's connection if the row is a proxy's connection to the broker",
         lambda one: non_negative(one.record.leg_of)),
    cell("connected_ns", LONG, "time of CONNECTED", lambda one: non_negative(one.record.connected_ns)),
    cell("ended_ns", LONG, "time of its end; null if the connection has not ended",
         lambda one: non_negative(one.record.ended_ns)),
    cell("end", TEXT, "how the connection ended (see docs/tables.md)", _known("end")),
    cell("challenges", LONG, "AUTH_CHALLENGEs on the established connection", lambda one: one.record.challenges.count),
    cell("wrong_crc_client", LONG, "SENDs with a wrong checksum", lambda one: _wrong(one.record, from_client=True)),
    cell("wrong_crc_broker", LONG, "MESSAGEs with a wrong checksum", lambda one: _wrong(one.record, from_client=False)),
    cell("oversize", LONG, "frames larger than max_message_size allows", lambda one: one.record.oversize.count),
    cell("deprecated", COUNTS, "deprecated commands and fields",
         lambda one: counts(one.record.deprecated)),
    cell("answers_out_of_order", LONG,
         "responses for a producer or consumer that arrived before the response to its PRODUCER or SUBSCRIBE",
         lambda one: one.record.out_of_order.count),
    cell("first_bytes", TEXT, "kind of the data that is not Pulsar", _known("first_bytes")),
    cell("doubts", many(TEXT), "reasons why evidence may be incomplete (see docs/tables.md)",
         lambda one: sorted(one.record.doubts)),
)  # fmt: skip
"""All columns except the cluster."""


def _wrong(record: ConnectionRecord, *, from_client: bool) -> int:
    tally = record.wrong_crc.get(from_client)
    return 0 if tally is None else tally.count
