"""TLS connections between two OpenSSL endpoints in memory, with their key log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SCRIPT = Path(__file__).with_name("openssl_conversation.py")

TLS13 = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_CCM_SHA256"]


class TlsConversation(NamedTuple):
    """The bytes of a connection in their order, and what was sent."""

    key_log: bytes
    pieces: list[tuple[bool, bytes]]
    """Whether the client sent the bytes, and the bytes as one flight."""
    sent: dict[bool, bytes]
    """Application data by direction."""


@pytest.fixture(scope="session")
def tls_conversation(tmp_path_factory: Any) -> Callable[[str], TlsConversation]:
    """Return the conversation of a cipher suite. OpenSSL reads the suites of TLS 1.3 from its configuration."""
    made: dict[str, TlsConversation] = {}

    def make(suite: str) -> TlsConversation:
        if suite not in made:
            folder = tmp_path_factory.mktemp("tls")
            config = folder / "openssl.cnf"
            config.write_text(
                "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = system\n[system]\n"
                + (f"Ciphersuites = {suite}\n" if suite in TLS13 else "MaxProtocol = TLSv1.2\n")
            )
            done = subprocess.run(
                [sys.executable, str(SCRIPT), str(folder), "" if suite in TLS13 else suite],
                env={**os.environ, "OPENSSL_CONF": str(config)},
                capture_output=True,
                check=True,
                text=True,
            )
            found = json.loads(done.stdout)
            assert found["suite"] == suite
            pieces = [(client, bytes.fromhex(data)) for client, data in found["pieces"]]
            sent = {True: bytes.fromhex(found["client"]), False: bytes.fromhex(found["server"])}
            made[suite] = TlsConversation((folder / "keys.log").read_bytes(), pieces, sent)
        return made[suite]

    return make
