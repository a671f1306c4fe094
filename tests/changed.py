"""Print the test folders and files for the files that differ from a commit, for `make check`.

A changed module selects the test folder of its package. A changed test file selects itself. Usage: ``changed.py
COMMIT``.
"""

import subprocess
import sys
from pathlib import Path

PACKAGES = {"cli", "codec", "minibroker", "replay", "spark"}


def git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.splitlines()


def tests_of(path: Path) -> Path:
    """Return the test file of a changed test, the test folder of a changed module, or the tests of the docs."""
    if path.parts[0] == "tests":
        return path if path.name.startswith("test_") or len(path.parts) == 2 else path.parent
    if path.parts[0] in PACKAGES:
        return Path("tests") / path.parent
    return Path("tests/test_docs.py")


def main() -> None:
    changed = git("diff", "--name-only", sys.argv[1]) + git("ls-files", "--others", "--exclude-standard")
    found = {tests_of(Path(name)) for name in changed if name.endswith((".py", ".md"))}
    found = {path for path in found if path.exists()} | ({Path("tests/test_house.py")} if found else set())
    print(*sorted(path for path in found if not found & set(path.parents)))


main()
