"""The truth of a load as files: a row for each message in each frame, and the packets that were not captured.

``truth.parquet``: kind (a name of KINDS), msg (number of the message; -1 for a cumulative ack that closes), connection,
owner (producer_id or consumer_id), topic, subscription (index; -1), sequence (of SEND, RECEIPT), ledger, entry,
redelivery (of DISPATCH), request (of acks; -1), time_ns (of the packet in which the frame ends), captured (2: the
capture contains the frame; 1: a part of it, or possibly a retransmission; 0: nothing). ``lost.parquet``: time_ns,
connection, from_client, seq, size of the packets that were not captured. ``load.json``: the settings, the files,
counts.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from load import traffic
from load.participants import Participants
from load.segments import Packets
from load.settings import Load
from load.traffic import ENTRY, EXTRA, KIND, LEDGER, MSG, PARTICIPANT

KINDS = {
    traffic.SEND: "send", traffic.RECEIPT: "receipt", traffic.DISPATCH: "dispatch", traffic.ACK: "ack",
    traffic.ACKS: "ack", traffic.CUMULATIVE: "cumulative", traffic.NACK: "nack", traffic.ANSWER: "answer",
}  # fmt: skip
WORDS = ["send", "receipt", "dispatch", "ack", "cumulative", "nack", "answer"]

_INT64, _INT32, _INT8 = pa.int64(), pa.int32(), pa.int8()
SCHEMA = pa.schema([
    ("kind", pa.dictionary(_INT8, pa.string())), ("msg", _INT64), ("connection", _INT32), ("owner", _INT32),
    ("topic", _INT32), ("subscription", _INT8), ("sequence", _INT64), ("ledger", _INT64), ("entry", _INT64),
    ("redelivery", _INT32), ("request", _INT64), ("time_ns", _INT64), ("captured", _INT8),
])  # fmt: skip
LOST = pa.schema([
    ("time_ns", _INT64), ("connection", _INT32), ("from_client", pa.bool_()), ("seq", _INT64), ("size", _INT32)
])  # fmt: skip


class TruthFiles:
    """Writes the truth, block by block."""

    def __init__(self, folder: Path, load: Load, participants: Participants) -> None:
        self.folder, self.load, self.participants = folder, load, participants
        self.frames: dict[str, int] = {}
        """Number of completely captured frames, by kind."""
        self.packets = self.lost_packets = 0
        self.streams: list[int] = []
        """Connections in order of their first captured packets; the index is `tcp.stream`."""
        self._rows = pq.ParquetWriter(folder / "truth.parquet", SCHEMA, use_dictionary=["kind"], write_statistics=False)
        self._lost = pq.ParquetWriter(folder / "lost.parquet", LOST)
        self._word = np.array([WORDS.index(KINDS[kind]) if kind in KINDS else -1 for kind in range(13)], np.int8)
        self._producer_columns = _columns([(one.connection, one.id, one.topic, -1) for one in participants.producers])
        self._consumer_columns = _columns(
            [(one.connection, one.id, one.topic, one.subscription) for one in participants.consumers]
        )

    def events(self, events: Any, time_ns: Any, captured: Any, first: Any) -> None:
        """Write events with the times of their frames; ``first``: mask of the events that have their own frames."""
        names = {getattr(traffic, name): name for name in traffic.__all__ if name.isupper()}
        whole = events[KIND][first & (captured == 2)]
        for kind, count in enumerate(np.bincount(whole, minlength=13).tolist()):
            if count:
                self.frames[names[kind]] = self.frames.get(names[kind], 0) + count
        recorded = np.flatnonzero(self._word[events[KIND]] >= 0)
        if len(recorded):
            self._rows.write_table(self._table(events[:, recorded], time_ns[recorded], captured[recorded]))

    def _table(self, events: Any, time_ns: Any, captured: Any) -> pa.Table:
        kind, participant, extra = events[KIND], events[PARTICIPANT], events[EXTRA]
        is_producer = (kind == traffic.SEND) | (kind == traffic.RECEIPT)
        owner = [
            np.where(
                is_producer, one[np.where(is_producer, participant, 0)], other[np.where(is_producer, 0, participant)]
            )
            for one, other in zip(self._producer_columns, self._consumer_columns)
        ]
        is_request = (kind == traffic.ACK) | (kind == traffic.ANSWER)
        columns = {
            "msg": events[MSG], "connection": owner[0], "owner": owner[1], "topic": owner[2], "subscription": owner[3],
            "sequence": np.where(is_producer, extra, -1), "ledger": events[LEDGER], "entry": events[ENTRY],
            "redelivery": np.where(kind == traffic.DISPATCH, extra, -1), "request": np.where(is_request, extra, -1),
            "time_ns": time_ns // 1000 * 1000 if self.load.micro else time_ns, "captured": captured,
        }  # fmt: skip
        words = pa.DictionaryArray.from_arrays(pa.array(self._word[kind]), WORDS)
        arrays = [words, *(pa.array(column).cast(SCHEMA.field(name).type) for name, column in columns.items())]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)

    def lost(self, packets: Packets) -> None:
        """Write the packets that were not captured."""
        self.lost_packets += len(packets)
        if len(packets):
            columns = [
                packets.time_ns,
                packets.direction >> 1,
                packets.direction & 1 == 0,
                packets.seq & 0xFFFFFFFF,
                packets.size,
            ]
            arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, LOST)]
            self._lost.write_table(pa.Table.from_arrays(arrays, schema=LOST))

    def record_streams(self, connections: Any) -> None:
        """Record the order in which connections appear in the capture."""
        if len(self.streams) < self.load.connections:
            known = set(self.streams)
            found, first = np.unique(connections, return_index=True)
            self.streams += [one for one in found[np.argsort(first)].tolist() if one not in known]

    def close(self, files: list[Path], written: int, messages: int) -> None:
        """Close the files and write load.json."""
        self._rows.close()
        self._lost.close()
        recorded = {
            "settings": asdict(self.load), "files": [path.name for path in files], "bytes": written,
            "packets": self.packets, "lost_packets": self.lost_packets, "messages": messages,
            "frames": sum(self.frames.values()), "frames_by_kind": self.frames, "topics": self.participants.topics,
            "streams": self.streams,
            "producers": [asdict(one) for one in self.participants.producers],
            "consumers": [asdict(one) for one in self.participants.consumers],
        }  # fmt: skip
        (self.folder / "load.json").write_text(json.dumps(recorded, indent=1) + "\n")


def _columns(rows: list[tuple[int, ...]]) -> list[Any]:
    return [np.array(column, np.int64) for column in zip(*rows)]
