"""The examples of the docs, run as a reader runs them.

A block of the type `console` that names files of this repository is run, and its output is compared with the text:
`…` stands for any characters, and a line `…` for any lines. Each command of all other blocks is parsed. With
PCLI_WRITE_DOCS=1 the test writes the output of a block that differs into the page.
"""

import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from pcli.cli.commands import application

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN_ALL = ("README.md", "tutorial.md", "recipes.md", "coming-from.md")
"""Pages whose console blocks must all be run."""

PORTS = ("6650", "6660", "8080")
"""Ports in the examples; the test replaces them by free ports."""


def blocks(page):
    """Return the type and the text of each block of code."""
    return re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(block):
    """Return the command lines of a block, without prompts."""
    lines = re.sub(r"\\\n", " ", block).splitlines()
    return [line.removeprefix("$ ") for line in lines if re.match(r"(\$ .*\bpcli |pcli (?!:))", line)]


def is_run(kind, text):
    return kind == "console" and re.search(r"\b(tests|docs)/\S+\.(pcap|pcapng)\b|pcli (decode|encode|fields) ", text)


def marks_of(page, text):
    """Return the mark `slow`, except for the first two pages that a reader follows."""
    return [] if page.name in ("README.md", "tutorial.md") and " &\n" not in text else [pytest.mark.slow]


SESSIONS = [
    pytest.param(page, text, id=f"{page.stem}-{number}", marks=marks_of(page, text))
    for page in PAGES
    for number, (kind, text) in enumerate(blocks(page))
    if is_run(kind, text) or (kind == "console" and page.name in RUN_ALL)
]


@pytest.mark.parametrize(("page", "text"), SESSIONS)
def test_a_session_prints_what_the_page_shows(page, text, tmp_path):
    steps = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    assert steps, "the block contains no command"
    marks = "\x1e"
    lines = [re.match(r"(?:.*\\\n)*.*\n", step)[0] for step in steps]
    shown = run("".join(f"{started(line)}printf '{marks}'\n" for line in lines), tmp_path).split(marks)[:-1]
    told = [step.removeprefix(line) for step, line in zip(steps, lines, strict=True)]
    if os.environ.get("PCLI_WRITE_DOCS") and not all(map(agree, told, shown)):
        both = zip(told, shown, lines, strict=True)
        new = "".join(f"$ {line}{old if agree(old, now) else now.rstrip() + chr(10)}" for old, now, line in both)
        page.write_text(page.read_text().replace(text, new))
        return
    for line, old, now in zip(lines, told, shown, strict=True):
        assert agree(old, now), f"$ {line}{now}"


def started(line):
    """Return the line with the default ports of a broker. A server in the background then accepts connections."""
    if not line.endswith(" &\n"):
        return line
    line = line.replace("pcli broker ", "pcli broker --port 6650 --http-port 8080 ")
    port = re.search(r"--(?:port|listen) (\d+)", line)[1]
    return f"{line}until (exec 3<> /dev/tcp/127.0.0.1/{port}) 2> /dev/null; do sleep 0.05; done\n"


def agree(told, shown):
    """Return whether the output of a command is the one in the page. Empty lines at the end do not count."""
    parts = re.split(r"^…\n", told.rstrip() + "\n" if told.strip() else "", flags=re.MULTILINE)
    pattern = "(?:.*\n)*?".join(re.escape(part).replace("…", ".*") for part in parts)
    return re.fullmatch(pattern, shown.rstrip() + "\n" if shown.strip() else "") is not None


def run(script, folder):
    """Return the output of a script in a folder that contains the files of this repository, with free ports."""
    for name in ("docs", "tests"):
        (folder / name).symlink_to(ROOT / name)
    free = {port: str(port_of_nobody()) for port in PORTS}
    for port, other in free.items():
        script = re.sub(rf"\b{port}\b", other, script)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PCLI_", "COLUMNS"))}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "PCLI_URL": f"pulsar://localhost:{free['6650']}",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
    ended = "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\nexec 2>&1\n"
    words = ["bash", "-c", ended + script]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)
    text = done.stdout
    for port, other in free.items():
        text = text.replace(other, port)
    return text


def port_of_nobody():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def spans(page):
    """Return the command lines in the text of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [span.replace("\\|", "|") for span in re.findall(r"`(pcli [a-z][^`]*)`", re.sub(r"\s*\n\s*", " ", text))]


LINES = sorted(
    {(page.name, line) for page in PAGES for _, text in blocks(page) for line in commands(text)}
    | {(page.name, line) for page in PAGES for line in spans(page)}
)


PCLI = get_command(application())


def test_there_are_commands():
    assert len(LINES) > 100


@pytest.mark.parametrize(("page", "line"), LINES, ids=lambda value: value[:60])
def test_every_command_of_the_pages_parses(page, line):
    words = next(part[part.index("pcli") + 1 :] for part in pipeline(line) if "pcli" in part)
    command, context, name = PCLI, None, "pcli"
    while hasattr(command, "commands") and words and words[0] in command.commands:
        context = command.context_class(command, info_name=name, parent=context)
        name, *words = words
        command = command.commands[name]
    context = command.context_class(command, info_name=name, parent=context)
    command.make_parser(context).parse_args(words)


def pipeline(line):
    """Return the words of each command of a pipeline, without comments and redirections."""
    part = []
    for word in shlex.shlex(line, posix=True, punctuation_chars="|&;<>()"):
        if set(word) <= set("|&;<>()"):
            yield part
            part = []
        else:
            part.append(word)
    yield part


@pytest.mark.parametrize("text", [text for kind, text in blocks(ROOT / "docs" / "python.md") if kind == "python"])
def test_the_python_of_the_codec_prints_frames_and_findings(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "capture.pcap").symlink_to(ROOT / "tests" / "captures" / "java" / "refusals.pcap")
    exec(compile(text, "python.md", "exec"), {})
    assert "refus" in capsys.readouterr().out
