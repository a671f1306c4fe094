"""PURE: bytes to values and back. No sockets, paths, clocks, threads, prints.

The rooms, in the order in which bytes pass through them:

- ``proto``    the messages of the protocol and their generated code
- ``wire``     frames, the table of commands, ids, topic names, key hashes, redaction
- ``payload``  what is inside an entry: batches, compression, chunks, encryption, schemas
- ``capture``  pcap and pcapng, link layers, IP, TCP streams with holes as values, frames in them
- ``observe``  fields, filters, request/answer pairing, names behind ids
"""

from pcli.codec.errors import CaptureError, LocalError, PcliError, RemoteError

__all__ = ["CaptureError", "LocalError", "PcliError", "RemoteError"]
