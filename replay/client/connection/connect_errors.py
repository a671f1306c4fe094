"""Why a connection did not come to be, in words that help.

Rules of this file
1. What an OSError says is kept short: no numbers, no Python.
2. TLS against a port without it, and a certificate that is not trusted, are told apart.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from typing import Final

__all__ = ["reason_for"]

_NUMBER: Final = re.compile(r"\[Errno (\d+)\]")
"""Of the first address of a host, where a loop tried several and tells of all."""


def reason_for(fault: Exception, *, tls: bool) -> str:
    """One line; ``tls``: TLS was to be spoken."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {fault.verify_message}"
    if isinstance(fault, ssl.SSLError | ConnectionResetError) and tls:
        return "no TLS is spoken there; a port without it takes pulsar://"
    if isinstance(fault, socket.gaierror):
        return "there is no host of this name"
    number = fault.errno if isinstance(fault, OSError) else None
    found = _NUMBER.search(str(fault))
    if number is None and found is not None:
        number = int(found[1])
    return str(fault) if number is None else os.strerror(number).lower()
