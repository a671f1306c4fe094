"""The docs against the code."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def test_tables_made_from_the_code_are_fresh(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["generate.py", str(tmp_path)])
    runpy.run_path(str(ROOT / "docs" / "generate.py"), run_name="__main__")
    for page in ("fields.md", "dissect.md"):
        assert (tmp_path / page).read_text() == (ROOT / "docs" / page).read_text(), "run make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nobody_is_sent_to_the_strangers_package(page):
    assert not re.search(r"pip install pcli\b", page.read_text())


def test_filters_in_the_docs_compile():
    from pcli.codec.observe import compile_filter

    text = (ROOT / "docs" / "filters.md").read_text()
    filters = text.split("```")[1].strip().splitlines()
    assert len(filters) > 5
    for line in filters:
        compile_filter(line)


def test_every_option_of_dissect_is_in_the_docs(pcli_help):
    page = (ROOT / "docs" / "dissect.md").read_text()
    options = set(re.findall(r"^\s+(-\w)\b", pcli_help("dissect"), re.MULTILINE)) - {"-h", "-i"}
    assert options >= {"-r", "-Y", "-T", "-e", "-E", "-c", "-t", "-x", "-V", "-2", "-w", "-d"}
    missing = [option for option in options if f"{option} " not in page and f"`{option}`" not in page]
    assert missing == []


@pytest.fixture
def pcli_help():
    import subprocess
    import sys

    def run(command):
        words = [sys.executable, "-m", "pcli.cli", command, "--help"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    return run
