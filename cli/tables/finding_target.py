"""The target of `--on-finding`: a command that receives each finding as JSON on its standard input, or a URL."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.errors import LocalError

__all__ = ["FindingTarget"]

_URL_S: Final = 10
_COMMAND_S: Final = 60
"""Seconds that a command may take for one finding."""


@dataclass(frozen=True, slots=True)
class FindingTarget:
    """A command or an HTTP URL."""

    target: str
    rules: Sequence[str] = ()
    """Names of rules whose findings are sent."""
    severities: Sequence[str] = ()
    """Severities of findings that are sent."""

    def check(self) -> None:
        """Raise LocalError if there is no such command."""
        words = self._words()
        if words is not None and (not words or shutil.which(words[0]) is None):
            raise LocalError(f"--on-finding {self.target}: there is no such command")

    def send(self, finding: Mapping[str, Any]) -> None:
        """Send a row of the table `findings`; raise LocalError if the command or the server reports an error."""
        if finding["rule"] not in self.rules and finding["severity"] not in self.severities:
            return
        data = json.dumps(finding, default=str).encode()
        words = self._words()
        if words is None:
            self._post(data)
        else:
            self._run(words, data)

    def _words(self) -> list[str] | None:
        """Return the words of a command, or None if the target is a URL."""
        if self.target.startswith(("http://", "https://")):
            return None
        try:
            return shlex.split(self.target)
        except ValueError as error:
            raise LocalError(f"--on-finding {self.target}: {error}") from None

    def _post(self, data: bytes) -> None:
        request = urllib.request.Request(self.target, data, {"Content-Type": "application/json"})  # noqa: S310
        server = self.target.split("/", 3)[2].rpartition("@")[2]
        try:
            with urllib.request.urlopen(request, timeout=_URL_S):  # noqa: S310  (`_words` has checked the scheme)
                return
        except urllib.error.HTTPError as error:
            raise LocalError(f"--on-finding {server}: HTTP {error.code}") from None
        except (OSError, ValueError) as error:
            raise LocalError(f"--on-finding {server}: {getattr(error, 'reason', error)}") from None

    def _run(self, words: list[str], data: bytes) -> None:
        try:
            done = subprocess.run(words, input=data, timeout=_COMMAND_S, check=False)  # noqa: S603
        except subprocess.TimeoutExpired:
            raise LocalError(f"--on-finding {words[0]}: no end after {_COMMAND_S} s") from None
        except OSError as error:
            raise LocalError(f"--on-finding {words[0]}: {(error.strerror or str(error)).lower()}") from None
        if done.returncode:
            raise LocalError(f"--on-finding {words[0]}: exit code {done.returncode}")
