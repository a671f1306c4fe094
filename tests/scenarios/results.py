"""Results per seed, kept outside the repository and valid while the code under test has not changed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scenarios.comparison import Difference

_ROOT = Path(__file__).parent.parent.parent
_DIFFERENTIAL = ("minibroker", "codec", "replay/player", "tests/scenarios")


class Results:
    """The results of the current state of the code."""

    def __init__(
        self, brokers: str, folder: str = "pcli-differential", under_test: Sequence[str] = _DIFFERENTIAL
    ) -> None:
        """``brokers`` identifies the brokers; ``under_test`` lists the folders that determine a result."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.folder = cache / folder / f"{code_hash(under_test)[:16]}-{brokers}"
        git = ["git", "-C", str(_ROOT), "rev-parse", "--short", "HEAD"]
        self._commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()

    def get(self, seed: int) -> list[Difference] | None:
        """Return the differences of a seed, or None if the seed has no result."""
        found = self.read(seed)
        return None if found is None else [Difference(**one) for one in found["differences"]]

    def put(self, seed: int, differences: list[Difference]) -> None:
        """Keep the differences of a seed."""
        self.write(seed, {"differences": [asdict(one) for one in differences]})

    def read(self, seed: int) -> dict[str, Any] | None:
        """Return the result of a seed, or None if it has none."""
        try:
            found: dict[str, Any] = json.loads((self.folder / f"{seed}.json").read_text())
        except (OSError, ValueError):
            return None
        return found

    def write(self, seed: int, result: dict[str, Any]) -> None:
        """Keep a result, with the commit."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{seed}.json").write_text(json.dumps({"commit": self._commit, **result}))


def code_hash(under_test: Sequence[str] = _DIFFERENTIAL) -> str:
    """Return a hash of the files that determine a result."""
    digest = hashlib.sha256()
    for folder in under_test:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            if not path.name.startswith("test_"):
                digest.update(str(path.relative_to(_ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
