"""TLS secrets in the format of SSLKEYLOGFILE, which Wireshark also reads (RFC 9850)."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["LABELS", "KeyLog"]

LABELS: Final = frozenset(
    (
        "CLIENT_RANDOM",
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_TRAFFIC_SECRET_0",
    )
)
"""The labels that are needed. The secret of CLIENT_RANDOM is the master secret of TLS 1.2."""

_LINE: Final = re.compile(rb"^([A-Z0-9_]+) ([0-9a-fA-F]{64}) ((?:[0-9a-fA-F]{2})+)\r?$", re.MULTILINE)


class KeyLog:
    """The secrets of TLS connections by their client random (32 bytes) and label."""

    def __init__(self, text: bytes = b"") -> None:
        self._secrets: dict[bytes, dict[str, bytes]] = {}
        self.add(text)

    def __len__(self) -> int:
        """Return the number of connections with secrets."""
        return len(self._secrets)

    def add(self, text: bytes) -> None:
        """Add the secrets of a key log file. Lines in other formats, such as comments, are ignored."""
        for label, random, secret in _LINE.findall(text):
            if (name := label.decode("ascii")) in LABELS:
                self._secrets.setdefault(bytes.fromhex(random.decode("ascii")), {})[name] = bytes.fromhex(
                    secret.decode("ascii")
                )

    def secret(self, client_random: bytes, label: str) -> bytes | None:
        """Return a secret, or None if the key log does not contain it."""
        return self._secrets.get(client_random, {}).get(label)
