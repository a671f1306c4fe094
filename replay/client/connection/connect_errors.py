"""Messages for connections that could not be opened.

Rules of this file
1. The text of an OSError is shortened: it contains no error number and no Python names.
2. The messages for a TLS connection to a plaintext port and for an untrusted certificate are different.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from typing import Final

_NUMBER: Final = re.compile(r"\[Errno (\d+)\]")
"""The first error number in a message. The event loop reports several numbers if it tried several addresses of a
host."""


def reason_for(fault: Exception, *, tls: bool) -> str:
    """Return the reason for a failed connection on one line. ``tls`` is true if TLS was attempted."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {fault.verify_message}"
    if isinstance(fault, ssl.SSLError | ConnectionResetError) and tls:
        return "the port does not use TLS: write pulsar://"
    if isinstance(fault, socket.gaierror):
        return "there is no host with this name"
    number = fault.errno if isinstance(fault, OSError) else None
    found = _NUMBER.search(str(fault))
    if number is None and found is not None:
        number = int(found[1])
    return str(fault) if number is None else os.strerror(number).lower()
