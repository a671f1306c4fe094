"""Checks of the code style: docstrings, module sizes, `__all__`, help."""

from __future__ import annotations

import ast
import importlib
import tomllib
from collections import Counter
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


@pytest.mark.parametrize("folder", ["minibroker", "replay"])
def test_no_folder_has_more_than_30_modules(folder):
    sizes = Counter(path.parent for path in MODULES if path.is_relative_to(ROOT / folder))
    assert max(sizes.values()) <= 30


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_can_be_imported_and_has_what_it_exports(path):
    if path.name != "__main__.py":
        module = importlib.import_module(name_of(path))
        names = getattr(module, "__all__", [])
        assert [name for name in names if not hasattr(module, name)] == []
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("path", [path for path in MODULES if path.name != "__init__.py"], ids=name_of)
def test_no_todo_and_no_path_of_a_machine(path):
    text = path.read_text()
    assert [word for word in ("TODO", "FIXME", "XXX", "/home/", "/root/", "/work/") if word in text] == []


PURE = [path for folder in ("codec", "spark/columnar") for path in sorted((ROOT / folder).rglob("*.py"))]
IMPURE = {"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint"}


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_pure_code_opens_and_prints_nothing(path):
    """pyproject.toml lists the modules that it may not import; these imports are not needed."""
    called = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    assert [func.id for func in called if isinstance(func, ast.Name) and func.id in IMPURE] == []


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_pure_code_takes_only_the_parser_of_urllib(path):
    """Contracts in pyproject.toml cover whole libraries only; the parser is the only pure part of urllib."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    taken = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    taken |= {
        f"{node.module}.{alias.name}" if node.module == "urllib" else str(node.module)
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {name for name in taken if name.split(".")[0] == "urllib"} <= {"urllib.parse"}


PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_is_in_the_wheel():
    folders = {path.parent for room in ROOMS for path in (ROOT / room).rglob("__init__.py")}
    found = sorted(".".join(("pcli", *folder.relative_to(ROOT).parts)) for folder in folders)
    listed = sorted(PYPROJECT["tool"]["setuptools"]["packages"])
    assert listed == found, "correct packages of [tool.setuptools] in pyproject.toml"


def test_the_version_is_one():
    import pcli.cli

    assert PYPROJECT["project"]["version"] == pcli.cli.__version__
