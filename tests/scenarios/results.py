"""Results per seed, kept outside the repository and valid while the code under test has not changed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path

from scenarios.comparison import Difference

__all__ = ["Results"]

_ROOT = Path(__file__).parent.parent.parent
_UNDER_TEST = ("minibroker", "codec", "replay/player", "tests/scenarios")


class Results:
    """The results of the current state of the code."""

    def __init__(self, brokers: str) -> None:
        """``brokers`` identifies the pair of brokers."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.folder = cache / "pcli-differential" / f"{code_hash()[:16]}-{brokers}"
        git = ["git", "-C", str(_ROOT), "rev-parse", "--short", "HEAD"]
        self._commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()

    def get(self, seed: int) -> list[Difference] | None:
        """Return the differences of a seed, or None if the seed has no result."""
        try:
            found = json.loads((self.folder / f"{seed}.json").read_text())
        except (OSError, ValueError):
            return None
        return [Difference(**one) for one in found["differences"]]

    def put(self, seed: int, differences: list[Difference]) -> None:
        """Keep a result."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"commit": self._commit, "differences": [asdict(one) for one in differences]})
        (self.folder / f"{seed}.json").write_text(text)


def code_hash() -> str:
    """Return a hash of the files that determine a result."""
    digest = hashlib.sha256()
    for folder in _UNDER_TEST:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            if not path.name.startswith("test_"):
                digest.update(str(path.relative_to(_ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
