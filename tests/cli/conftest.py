"""The command line as a user has it: a process of its own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest


@dataclass
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str
    raw: bytes

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@pytest.fixture(scope="session")
def pcli():
    """Run ``pcli`` with these arguments; stdin is bytes. A traceback fails the test, whatever it is about."""

    def run(*words: object, stdin: bytes = b"") -> Ran:
        command = [sys.executable, "-m", "pcli.cli", *map(str, words)]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False)
        err = done.stderr.decode()
        assert "Traceback" not in err, err
        return Ran(done.returncode, done.stdout.decode(errors="surrogateescape"), err, done.stdout)

    return run
