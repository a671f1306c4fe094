"""TLS secrets in the format of SSLKEYLOGFILE, which Wireshark also reads (RFC 9850)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

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

    def __init__(self, text: bytes = b"", more: Callable[[], bytes] | None = None) -> None:
        """``more`` is called when a secret is missing. It returns the present text of a key log file that may grow."""
        self._secrets: dict[bytes, dict[str, bytes]] = {}
        self._more = more
        self._size = 0
        """Size of the text that ``more`` last returned."""
        self.add(text)

    def __len__(self) -> int:
        """Return the number of connections with secrets."""
        return len(self._secrets)

    def __bool__(self) -> bool:
        """Whether TLS connections are decrypted."""
        return bool(self._secrets) or self._more is not None

    def __reduce__(self) -> tuple[type[KeyLog], tuple[()]]:
        """Pickle an empty key log: the state of a reader does not contain secrets of other connections."""
        return KeyLog, ()

    def add(self, text: bytes) -> None:
        """Add the secrets of a key log file. Lines in other formats, such as comments, are ignored."""
        for label, random, secret in _LINE.findall(text):
            if (name := label.decode("ascii")) in LABELS:
                self._secrets.setdefault(bytes.fromhex(random.decode("ascii")), {})[name] = bytes.fromhex(
                    secret.decode("ascii")
                )

    def secret(self, client_random: bytes, label: str) -> bytes | None:
        """Return a secret, or None if the key log does not contain it."""
        found = self._secrets.get(client_random, {}).get(label)
        if found is None and self._grown():
            found = self._secrets.get(client_random, {}).get(label)
        return found

    def _grown(self) -> bool:
        """Add the secrets that the key log file received. Return False if there are none."""
        text = b"" if self._more is None else self._more()
        if len(text) == self._size:
            return False
        self._size = len(text)
        self.add(text)
        return True
