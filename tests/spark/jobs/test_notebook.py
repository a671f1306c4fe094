"""The cells of docs/notebooks run from top to bottom, and their results agree."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent.parent

CHECKS = """
assert states["count"].sum() == len(messages) == 40
assert {row["consumer"] for row in unacked} <= {row["consumer"] for row in delivered}
assert sum(row["count"] for row in delivered) == messages["deliveries"].map(len).sum()
"""


@pytest.mark.slow
def test_lifecycles():
    notebook = json.loads((ROOT / "docs" / "notebooks" / "lifecycles.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    script = "\n".join([*cells, CHECKS])
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
