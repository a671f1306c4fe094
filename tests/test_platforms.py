"""What docs/platforms.md states about other platforms, checked on this one."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

IMPORT_ALL = """
import importlib, json, pkgutil, sys

LACKING = {"crypt", "fcntl", "grp", "nis", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}

class Windows:
    def find_spec(self, name, path=None, target=None):
        if name in LACKING | {"uvloop"}:
            raise ModuleNotFoundError(name)

for name in LACKING - {"posix"}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Windows())
failed, count = {}, 0
for package in json.load(sys.stdin):
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, package + "."):
        if not module.ispkg and not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
                count += 1
            except ModuleNotFoundError as error:
                failed[module.name] = str(error)
json.dump([count, failed], sys.stdout)
"""


@pytest.mark.slow
def test_modules_can_be_imported_without_the_modules_that_windows_lacks():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    words = [sys.executable, "-W", "ignore", "-c", IMPORT_ALL]
    done = subprocess.run(words, input=json.dumps(packages), capture_output=True, text=True, check=True)
    count, failed = json.loads(done.stdout)
    assert count > 800
    assert set(failed) <= {"pcli.replay.scapy_layer"}, failed
