"""The client's side and everything between two live peers: where captures come from, and scapy's layer.

- ``sources``      files, globs, folders, stdin and live interfaces as inputs for ``codec.capture``
- ``scapy_layer``  a ``Pulsar`` layer for scapy's users
"""

from pcli.replay.sources import Input, open_inputs, open_interface
from pcli.replay.spool import Spool

__all__ = ["Input", "Spool", "open_inputs", "open_interface"]
