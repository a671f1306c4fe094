"""The examples of docs/testing-in-other-languages.md: complete projects, which are extracted and run.

A script named `pcli` replaces pcli on the path. It writes the process id of the test, and adds options to the broker.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from interop.building import MissingError, digest, fetch, is_current, lock_folder, require_tools

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "testing-in-other-languages.md"
RUN_SECONDS = 120
RUST_SECONDS = 800
"""The crates of the Rust client take minutes to compile."""

FAILING = """--fault "error error='NotAllowedError: no' on pulsar.type == 'PRODUCER'" """
HANGING = """--fault "drop on pulsar.type == 'SEND_RECEIPT'" """


def files_of(section):
    """Return the files in a section of the page: their texts by their names."""
    text = re.search(rf"^## {section}\n(.*?)^## ", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    return dict(re.findall(r"^`([^`]+)`:\n\n```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


def write_files(folder, section):
    for name, text in files_of(section).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def java(folder):
    require_tools("java", "mvn")
    write_files(folder, "Java")
    fetch("mvn", "-B", "-q", "-DskipTests", "test", cwd=folder)
    return ["mvn", "-q", "-B", "test"], {}


def go(folder):
    require_tools("go")
    write_files(folder, "Go")
    module = (HERE / "go" / "go.mod").read_text().replace("module pcli/interop", "module orders")
    (folder / "go.mod").write_text(module)
    shutil.copy(HERE / "go" / "go.sum", folder)
    fetch("go", "list", "-mod=readonly", "-deps", "-test", ".", cwd=folder)
    return ["go", "test", "-mod=readonly", "-count=1", "./..."], {"CGO_ENABLED": "0"}


def node(folder, package="pulsar-client@1.18.0", test="orders.test.js"):
    require_tools("node", "npm")
    write_files(folder, "Node")
    if not (folder / "node_modules" / package.partition("@")[0]).exists():
        fetch("npm", "install", "--no-audit", "--no-fund", package, cwd=folder)
    return ["node", "--test", test], {}


def node_without_addon(folder):
    return node(folder, "pulsar-flex@1.1.1", "flex.test.js")


def rust(folder):
    require_tools("cargo", "protoc")
    write_files(folder, "Rust")
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "lib.rs").touch()
    fetch("cargo", "fetch", cwd=folder)
    environment = {"CARGO_PROFILE_DEV_DEBUG": "0"}
    if not is_current(folder / "made-of", folder / "Cargo.toml"):
        command = ["cargo", "test", "--quiet", "--no-run"]
        subprocess.run(command, cwd=folder, env=os.environ | environment, check=True, timeout=RUST_SECONDS)
        (folder / "made-of").write_text(digest(folder / "Cargo.toml"))
    return ["cargo", "test", "--quiet", "--test", "orders"], environment


@dataclass
class Example:
    """The tests of an example, as a command line."""

    command: list[str]
    folder: Path
    environment: dict[str, str]
    state: Path

    @property
    def ready(self):
        """The file that exists while the broker runs."""
        return self.state / "ready.json"

    def start(self, *, more_options=""):
        """Start the tests, with more options of the broker."""
        pcli = self.state / "pcli"
        words = shlex.join([sys.executable, "-m", "pcli.cli"])
        start = f'#!/bin/sh\necho $PPID > "{self.state}/test"\nexec {words} "$@" --ready-file "{self.ready}" '
        pcli.write_text(f"{start}{more_options}\n")
        pcli.chmod(0o755)
        env = os.environ | self.environment | {"PATH": f"{self.state}{os.pathsep}{os.environ['PATH']}"}
        with (self.state / "output").open("wb") as output:
            return subprocess.Popen(self.command, cwd=self.folder, env=env, stdout=output, stderr=subprocess.STDOUT)

    def run(self, *, more_options=""):
        """Run the tests; return the exit code and the output."""
        code = self.start(more_options=more_options).wait(RUN_SECONDS)
        return code, (self.state / "output").read_text(errors="replace")


def is_open(port):
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module", params=[java, go, node, node_without_addon, rust], ids=lambda one: one.__name__)
def built(request):
    """The command line of an example, its folder and its environment."""
    name = request.param.__name__
    try:
        with lock_folder(Path(request.config.cache.mkdir(f"languages-{name}"))) as folder:
            return request.param(folder), folder
    except (MissingError, subprocess.TimeoutExpired) as reason:
        text = " ".join(str(reason).split())
        pytest.skip(f"the packages of the example {name} are not available: {text[:300]}")


@pytest.fixture
def example(built, tmp_path):
    (command, environment), folder = built
    return Example(command, folder, environment, tmp_path)


@pytest.mark.timeout(RUST_SECONDS + 300)
def test_it_passes_and_stops_its_broker(example):
    code, output = example.run()
    assert code == 0, output
    assert (example.state / "test").exists()
    assert not example.ready.exists()


@pytest.mark.timeout(RUST_SECONDS + 300)
def test_a_test_that_fails_stops_its_broker(example):
    code, output = example.run(more_options=FAILING)
    assert code != 0, output
    assert (example.state / "test").exists()
    assert not example.ready.exists()


@pytest.mark.timeout(RUST_SECONDS + 300)
def test_a_test_that_is_killed_ends_its_broker(example):
    tests = example.start(more_options=HANGING)
    while not example.ready.exists():
        assert tests.poll() is None, (example.state / "output").read_text(errors="replace")
        time.sleep(0.02)
    port = json.loads(example.ready.read_text())["port"]
    os.kill(int((example.state / "test").read_text()), signal.SIGKILL)
    assert tests.wait(RUN_SECONDS) != 0
    end = time.monotonic() + RUN_SECONDS
    while is_open(port):
        assert time.monotonic() < end, "the broker runs"
        time.sleep(0.02)
