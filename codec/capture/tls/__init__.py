"""Decryption of TLS connections whose secrets are in a key log: `TlsSession`, `KeyLog`."""

from __future__ import annotations

from pcli.codec.capture.tls.key_log import KeyLog
from pcli.codec.capture.tls.session import MISSING, TlsError, TlsSession

__all__ = ["MISSING", "KeyLog", "TlsError", "TlsSession"]
