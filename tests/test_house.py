"""The house rules that a machine can check: docstrings, sizes, public lists, help."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("cli", "codec", "replay", "minibroker", "spark")
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py") if not path.name.endswith("_pb2.py"))


def name_of(path: Path) -> str:
    words = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("pcli", *(words[:-1] if words[-1] == "__init__" else words)))


def public_definitions(tree: ast.AST, outer: str = ""):
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield f"{outer}{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node, f"{outer}{node.name}.")


def test_the_modules_are_found():
    assert len(MODULES) > 30


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_public_name_has_a_docstring(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "the module opens without a word"
    bare = [name for name, node in public_definitions(tree) if not ast.get_docstring(node)]
    assert bare == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_exceeds_500_lines(path):
    assert len(path.read_text().splitlines()) <= 500


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_promises_names_that_it_has(path):
    if path.name == "__main__.py":
        return
    module = importlib.import_module(name_of(path))
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert len(set(module.__all__)) == len(module.__all__)


@pytest.mark.parametrize("path", [path for path in MODULES if path.name != "__init__.py"], ids=name_of)
def test_no_todo_and_no_path_of_a_machine(path):
    text = path.read_text()
    assert [word for word in ("TODO", "FIXME", "XXX", "/home/", "/root/", "/work/") if word in text] == []
