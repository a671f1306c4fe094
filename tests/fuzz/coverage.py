"""Coverage-guided fuzzing of one target: `python -m tests.fuzz.coverage TARGET FOLDER [OPTIONS OF LIBFUZZER]`.

FOLDER receives the inputs that reach new code. An input that raises an error is written to the current folder. After
the error is corrected, add it to corpus/TARGET.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["pcli"]):
    from tests.fuzz.targets import TARGETS, seeds


def main() -> None:
    name, folder, *options = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for data in seeds(name):
        (Path(folder) / hashlib.sha1(data).hexdigest()).write_bytes(data)
    target = TARGETS[name]
    atheris.Setup(
        [sys.argv[0], folder, "-timeout=20", "-rss_limit_mb=2048", *options], lambda data: target(bytes(data))
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
