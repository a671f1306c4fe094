"""docker/Dockerfile.broker: the entry point and the health check, run without Docker."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "docker" / "Dockerfile.broker").read_text()


def words(instruction):
    """Return the words of an instruction in the exec form, with the programs of this environment."""
    [text] = re.findall(rf"^{instruction}\b[^\[\n]*(\[.*\])$", DOCKERFILE, re.MULTILINE)
    program, *rest = json.loads(text)
    return [str(Path(sys.executable).parent / program) if program in ("pcli", "python") else program, *rest]


@pytest.fixture
def broker(tmp_path):
    ready = tmp_path / "ready.json"
    ports = ["--port", "0", "--http-port", "0", "--ready-file", str(ready)]
    start = [*words("ENTRYPOINT"), *words("CMD"), *ports]
    with subprocess.Popen(start, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not ready.exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        yield process, json.loads(ready.read_text())
        process.kill()


@pytest.mark.slow
def test_the_broker_is_healthy_and_ends_with_sigterm(broker):
    process, urls = broker
    check = [word.replace("8080", str(urlsplit(urls["http_url"]).port)) for word in words("HEALTHCHECK")]
    assert subprocess.run(check, check=False).returncode == 0
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    assert subprocess.run(check, check=False, stderr=subprocess.DEVNULL).returncode == 1


def test_the_files_that_are_copied_exist():
    for source in re.findall(r"^COPY (?!--from)(\S+) ", DOCKERFILE, re.MULTILINE):
        assert (ROOT / source).exists(), source
    assert "requirements/broker.txt" in DOCKERFILE
