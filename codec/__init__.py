"""Pure conversion between bytes and values, without sockets, paths, clocks, threads or output.

The packages, in the order in which bytes pass through them:

- ``proto``    the messages of the protocol and their generated code
- ``wire``     frames, the table of commands, ids, topic names, key hashes, redaction
- ``payload``  the contents of an entry: batches, compression, chunks, encryption, schemas
- ``capture``  pcap and pcapng, link layers, IP, TCP streams with gaps as values, and the frames in these streams
- ``observe``  fields, filters, request pairing, tracking, findings, redaction

For live connections, ``session`` contains the state machines of both sides, and ``faults`` injects faults.
"""

from pcli.codec.errors import CaptureError, LocalError, PcliError, RemoteError

__all__ = ["CaptureError", "LocalError", "PcliError", "RemoteError"]
