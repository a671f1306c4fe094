"""The cells of docs/notebooks run from top to bottom, and their results agree."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.mark.slow
def test_lifecycles(monkeypatch):
    monkeypatch.chdir(ROOT)
    notebook = json.loads((ROOT / "docs" / "notebooks" / "lifecycles.ipynb").read_text())
    names = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert names["states"]["count"].sum() == len(names["messages"]) == 40
    assert {row["consumer"] for row in names["unacked"]} <= {row["consumer"] for row in names["delivered"]}
    assert sum(row["count"] for row in names["delivered"]) == names["messages"]["deliveries"].map(len).sum()
