"""The options that determine how captures are read: ``--decode-as`` and ``--keylog``.

Rules of this file
1. The variable SSLKEYLOGFILE is not read: only ``--keylog`` and the secrets in pcapng files decrypt a capture.
2. A client may write the key log while the capture is read, so the file is read again when a secret is missing.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pcli.cli.common.output import fail

if TYPE_CHECKING:
    from pcli.codec.capture import ReadOptions

_RULE: Final = re.compile(r"(?:tcp\.port\s*==\s*)?(\d{1,5})(?:\s*,\s*(\w*))?", re.ASCII)
_DECODERS: Final = ("pulsar", "other", "data")


def read_options(decode_as: list[str] | None, keylog: str, *, live: bool = False) -> ReadOptions:
    """Return the options for the values of the options. A wrong value ends the command.

    ``live`` states that the capture is live, so that the key log may still be empty.
    """
    from pcli.codec.capture import ReadOptions

    ports = _decode_as_ports(decode_as)
    if not keylog:
        return ReadOptions(decode_as=ports)
    file = _GrowingFile(keylog)
    secrets = _checked_secrets(keylog, file, live=live)
    return ReadOptions(decode_as=ports, key_log=secrets, more_secrets=file.more)


class _GrowingFile:
    """A file that another program may append to."""

    def __init__(self, name: str) -> None:
        self._path = Path(name)
        self._text = b""

    def read(self) -> bytes:
        """Return the present content. Raise OSError if the file cannot be read."""
        if not self._text or self._path.stat().st_size != len(self._text):
            self._text = self._path.read_bytes()
        return self._text

    def more(self) -> bytes:
        """Return the present content, or the last content if the file cannot be read any more."""
        with suppress(OSError):
            self.read()
        return self._text


def _checked_secrets(name: str, file: _GrowingFile, *, live: bool) -> bytes:
    from pcli.codec.capture.tls import MISSING, KeyLog
    from pcli.replay.sources.lazy_file import reason_of

    try:
        import cryptography  # noqa: F401
    except ImportError:
        fail(f"--keylog {name}: {MISSING}")
    try:
        secrets = file.read()
    except OSError as error:
        fail(f"--keylog {name}: {reason_of(error)}")
    if not live and not KeyLog(secrets):
        fail(f"--keylog {name}: the file contains no secrets in the format of SSLKEYLOGFILE")
    return secrets


def _decode_as_ports(rules: list[str] | None) -> dict[int, str]:
    """Return protocols by port from ``-d tcp.port==7000,pulsar`` and ``-d 7000``. A wrong rule ends the command."""
    ports = {}
    for rule in rules or ():
        match = _RULE.fullmatch(rule.strip())
        number, protocol = (int(match[1]), (match[2] or "pulsar").lower()) if match else (0, "")
        if not 0 < number < 65536 or protocol not in _DECODERS:
            fail(f"-d {rule}: write {_right_form(rule)}")
        ports[number] = "pulsar" if protocol == "pulsar" else "other"
    return ports


def _right_form(rule: str) -> str:
    """Return the correct form of a wrong rule, with the port if the rule contains one."""
    meant = re.fullmatch(r"[^\d,]*?=?\s*(\d{1,5})\s*(?:,\s*(\w*))?\s*", rule, re.ASCII)
    number = int(meant[1]) if meant else 0
    if meant is None or not 0 < number < 65536 or meant[2] not in (None, "", *_DECODERS):
        return "tcp.port==7000,pulsar or tcp.port==8080,other"
    return f"tcp.port=={number},{meant[2] or 'pulsar'}"
