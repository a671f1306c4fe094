"""The target of `--on-finding`: a command that receives each finding as JSON on its standard input, or a URL.

Messages contain only the name of the command or the server, because arguments and URLs may contain secrets.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final

from pcli.codec.errors import LocalError

_URL_S: Final = 10
_COMMAND_S: Final = 60
"""Seconds that a command may take for one finding."""

_MAX_PORT: Final = 65_535
_HTTP: Final = re.compile(
    r"https?://(?P<server>(?:\[[0-9a-f:.]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?)(?:[/?#][!-~]*)?", re.ASCII | re.IGNORECASE
)
"""A URL that urllib accepts. It contains no user, because urllib takes a user as a part of the host."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Reports a redirect as an error, because urllib follows it with a GET that does not contain the finding."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse the redirect."""


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


@dataclass(frozen=True, slots=True)
class FindingTarget:
    """A command or an HTTP URL."""

    target: str
    rules: Sequence[str] = ()
    """Names of rules whose findings are sent."""
    severities: Sequence[str] = ()
    """Severities of findings that are sent."""

    def check(self) -> None:
        """Raise LocalError if there is no such command, or if the URL is invalid."""
        words = self._words()
        if words is None:
            self._server()
        elif not words:
            raise LocalError("--on-finding: the command is empty")
        elif shutil.which(words[0]) is None:
            raise LocalError(f"--on-finding {words[0]}: there is no such command")

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
        if any("://" in word for word in self.target.split(None, 1)[:1]):
            return None
        try:
            return shlex.split(self.target)
        except ValueError as error:
            raise LocalError(f"--on-finding: {str(error).lower()}") from None

    def _server(self) -> str:
        """Return the host and port of the URL; raise LocalError if it is not an HTTP URL, or contains a user."""
        found = _HTTP.fullmatch(self.target)
        if found is None or int(found["port"] or 0) > _MAX_PORT:
            text = "write http://HOST:PORT/PATH or https://HOST:PORT/PATH, without user, password and spaces"
            raise LocalError(f"--on-finding: invalid URL: {text}")
        return found["server"]

    def _post(self, data: bytes) -> None:
        server = self._server()
        request = urllib.request.Request(self.target, data, {"Content-Type": "application/json"})  # noqa: S310
        try:
            with _OPENER.open(request, timeout=_URL_S):
                return
        except urllib.error.HTTPError as error:
            error.close()
            raise LocalError(f"--on-finding {server}: HTTP {error.code}") from None
        except HTTPException:  # its text contains the response
            raise LocalError(f"--on-finding {server}: the server does not answer with HTTP") from None
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
