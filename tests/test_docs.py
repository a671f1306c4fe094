"""The docs compared with the code."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pcli.cli.commands import application

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def test_generated_pages_are_up_to_date(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["generate.py", str(tmp_path)])
    runpy.run_path(str(ROOT / "docs" / "generate.py"), run_name="__main__")
    for page in ("commands.md", "fields.md", "tables.md", "dissect.md", "export.md", "mini-broker.md"):
        assert (tmp_path / page).read_text() == (ROOT / "docs" / page).read_text(), "run make docs"


def test_pages_of_rules_are_up_to_date(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["generate.py", str(tmp_path)])
    runpy.run_path(str(ROOT / "docs" / "generate.py"), run_name="__main__")
    made = {page.name: page.read_text() for page in (tmp_path / "findings").iterdir()}
    kept = {page.name: page.read_text() for page in (ROOT / "docs" / "findings").iterdir()}
    assert kept == made, "run make docs"
    assert all(f"({name})" in made["README.md"] for name in made if name != "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_of_links_exist(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


FOLDERS = ("codec", "minibroker", "replay", "spark", "cli", "tests")


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_in_the_readme_of_a_folder_exist(folder):
    """A path is relative to the root, the folder or one of its packages, or is the name of a test in the folder."""
    files = [path.as_posix() for start in {folder, f"tests/{folder}"} for path in (ROOT / start).rglob("*.*")]
    named = re.findall(r"`([\w./-]*\w\.(?:py|tsv|md|proto|txt))`", (ROOT / folder / "README.md").read_text())
    assert named
    if not (ROOT / "../shared").is_dir():
        named = [name for name in named if not name.startswith("../shared/")]
    stale = [
        name for name in named if not (ROOT / name).exists() and not any(one.endswith(f"/{name}") for one in files)
    ]
    assert stale == [], f"correct these names in {folder}/README.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_docs_do_not_name_the_unrelated_package(page):
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


@pytest.mark.slow
def test_the_pytest_example_of_the_mini_broker_runs_as_written(tmp_path):
    """Run the example in a separate process, with the installed plugin."""
    pytest.importorskip("pulsar", exc_type=ImportError)
    page = (ROOT / "docs" / "mini-broker.md").read_text()
    [example] = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def test_" in block]
    (tmp_path / "test_orders.py").write_text(example)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", "-W", "error"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert f"{example.count('def test_')} passed" in done.stdout


def test_the_other_python_of_the_mini_broker_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "mini-broker.md").read_text()
    blocks = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def test_" not in block]
    start, scalable, tls, tokens, faults = blocks
    for block in (start, scalable):
        exec(compile(block, "block", "exec"), {})
    exec(compile(tls + tokens, "security", "exec"), {})
    from pcli.minibroker import MiniBroker

    with MiniBroker() as broker:
        exec(compile(faults, "faults", "exec"), {"broker": broker})
        assert len(broker.faults) == faults.count("faults.add")


def test_the_python_of_the_client_runs_against_a_broker(capsys):
    from pcli.minibroker import MiniBroker

    page = (ROOT / "docs" / "client.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with MiniBroker() as broker:
        exec(compile(example.replace("pulsar://localhost:6650", broker.service_url), "client", "exec"), {})
    assert capsys.readouterr().out.split() == ["0:0", "b'hello'", "k"]


def test_faults_of_the_command_line_in_the_docs_are_faults():
    from pcli.codec.faults import Fault

    page = (ROOT / "docs" / "mini-broker.md").read_text()
    faults = re.findall(r'--fault "(.*?)"', page)
    assert len(faults) == 2
    for fault in faults:
        Fault.parse(fault)


@pytest.fixture
def pcli_help():
    def run(command):
        result = CliRunner().invoke(application(), [command, "--help"])
        assert result.exit_code == 0
        return result.stdout

    return run
