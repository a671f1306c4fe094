"""Replay the conversations of real brokers against `pcli broker`, with the conformance tool.

    python tests/conform/run.py [TOOL] [--pulsar VERSION] [--suite SUITE] [--jobs N] [--record START]

TOOL is the folder of the tool with its scenarios and transcripts (``../shared/conform``). The script replays the
scenarios of the tool and those in this folder, and those with restarts of the broker (``restarts.py``), for each
version of Pulsar. It exits with code 1 if anything differs. With ``--record``, it plays them with a real broker of this
version, and writes the transcripts that differ from those of the earlier versions; START is the script that starts the
real broker. Only 5.0.1 has the scenarios on scalable topics (``conform5.py``). A scenario in DIFFERENT must differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from pcli.minibroker.versions import NAMES

HERE = Path(__file__).parent
SHARED = HERE.parent.parent.parent / "shared" / "conform"

ENABLED = ("transactionCoordinatorEnabled=true", "enableShadowTopics=true")
"""Settings of the broker for all scenarios. A setting that a version does not have has no effect."""


class Suite(NamedTuple):
    """Scenarios for a broker with the same settings."""

    name: str
    settings: tuple[str, ...] = ()
    shared: str | None = None
    """The folder in the tool, or None for a folder here."""
    folder: str = ""
    """The folder here."""
    faster: int = 1
    """Factor of the number of scenarios that run at a time."""
    scalable: bool = False
    """Whether the scenarios are on scalable topics."""


SUITES = (
    Suite("shared", shared="."),
    Suite(
        "variant",
        (
            "subscriptionKeySharedUseConsistentHashing=false",
            "acknowledgmentAtBatchIndexLevelEnabled=false",
            "activeConsumerFailoverDelayTimeMillis=0",
            "exposingBrokerEntryMetadataToClientEnabled=true",
            "brokerEntryMetadataInterceptors=org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor,"
            "org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor",
        ),
        shared="variant",
    ),
    Suite("additional"),
    Suite(
        "intervals",
        ("backlogQuotaCheckIntervalInSeconds=5", "brokerServiceCompactionMonitorIntervalInSeconds=5"),
        folder="intervals",
        faster=2,
    ),
    Suite(
        "compactor",
        (
            "topicCompactionRetainNullKey=true",
            "compactionServiceFactoryClassName=org.apache.pulsar.compaction.EventTimeCompactionServiceFactory",
        ),
        folder="compactor",
    ),
    Suite("forced", ("forceDeleteTenantAllowed=true", "forceDeleteNamespaceAllowed=true"), folder="forced"),
    Suite("scalable", folder="scalable", faster=2, scalable=True),
    Suite(
        "scalable-fast",
        (
            "scalableTopicConsumerSessionGracePeriodSeconds=2",
            "scalableTopicAutoScaleIntervalSeconds=2",
            "scalableTopicLoadReportIntervalSeconds=1",
            "statsUpdateInitialDelayInSecs=1",
            "statsUpdateFrequencyInSecs=4",
            "transactionCoordinatorScalableTopicsTimeoutSweepIntervalSeconds=2",
        ),
        folder="scalable-fast",
        faster=2,
        scalable=True,
    ),
)
_SCALABLE_SINCE = "5.0.1"

DIFFERENT: Final = {
    "automatic.merge": "The two segments of an automatic merge are named in another order.",
    "automatic.merge_three": "The two segments of an automatic merge are named in another order.",
    "checkpoint.stream_after_checkpoint": "The first consumer is told its segments once, not twice.",
    "checkpoint.same_name_of_both_kinds": "A name taken over by the other type is not told its segments once more.",
    "grace.two_consumers_of_one_connection": "The others are told after each of two consumers that were lost together.",
    "stream.same_consumer_id": "Two names with one consumer id get their segments in another order.",
    "transactions5.unload": "The message of an open transaction stays hidden after an unload.",
}
"""The scenarios in which this broker differs from a real one, and how."""


@contextmanager
def pcli_broker(version: str, settings: tuple[str, ...]):
    """Run a broker in its own process; yield its two URLs."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready"
        command = [sys.executable, "-m", "pcli.cli", "broker", "--port", "0", "--http-port", "0", "--log", "quiet"]
        command += ["--pulsar", version]
        for setting in settings:
            command += ["--set", setting]
        process = subprocess.Popen(
            [*command, "--ready-file", str(ready)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            for _ in range(200):
                if ready.exists() and ready.read_text():
                    break
                time.sleep(0.05)
            urls = json.loads(ready.read_text())
            yield urls["service_url"], urls["http_url"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=10)


@contextmanager
def real_broker(start: Path, settings: tuple[str, ...]):
    """Run a real broker; yield its two URLs when it lists the topics of the default namespace."""
    ports = []
    for _ in range(2):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            ports.append(found.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        command = [str(start), f"{folder}/data", *settings]
        command += [f"brokerServicePort={ports[0]}", f"webServicePort={ports[1]}"]
        with Path(folder, "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            http = f"http://127.0.0.1:{ports[1]}"
            for _ in range(240):
                try:
                    urllib.request.urlopen(f"{http}/admin/v2/persistent/public/default", timeout=10).close()
                    break
                except OSError:
                    time.sleep(0.5)
            yield f"pulsar://127.0.0.1:{ports[0]}", http
        finally:
            process.terminate()
            process.wait(timeout=60)


@contextmanager
def folder_of(suite: Suite, tool: Path, version: str):
    """Yield a folder with the scenarios of a suite and the transcripts of a version.

    The transcripts of each version replace those of the earlier versions.
    """
    source = HERE / suite.folder if suite.shared is None else tool / suite.shared
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "scenarios").symlink_to((source / "scenarios").resolve())
        shutil.copytree(source / "transcripts", folder / "transcripts")
        for one in NAMES[: NAMES.index(version) + 1]:
            for path in (HERE / one / suite.name).glob("*.json"):
                shutil.copy(path, folder / "transcripts")
        yield folder


def conform(
    suite: Suite, tool: Path, verb: str, folder: Path, urls: tuple[str, str], *options: str
) -> subprocess.CompletedProcess:
    """Run the tool with the scenarios of a folder that the options name."""
    script = HERE / ("conform5.py" if suite.scalable else "error_texts.py")
    command = [sys.executable, str(script), verb, "--tool", str(tool), "--dir", str(folder), "--url", urls[0]]
    return subprocess.run([*command, "--http", urls[1], *options], capture_output=True, text=True, check=False)


def play(suite: Suite, tool: Path, version: str, jobs: int) -> bool:
    """Replay a suite against a new broker; return whether all responses are equal, except in DIFFERENT.

    An earlier version replays only the scenarios that were recorded with it.
    """
    with folder_of(suite, tool, version) as folder, pcli_broker(version, ENABLED + suite.settings) as urls:
        recorded = sorted(path.stem for path in (folder / "transcripts").glob("*.json"))
        names = ["*"] if version == NAMES[-1] else recorded
        result = conform(suite, tool, "check", folder, urls, "--jobs", str(jobs * suite.faster), *names)
    known = DIFFERENT.keys() & set(recorded)
    failed, lines, shown = set(), [], True
    for line in result.stdout.splitlines():
        if line.startswith("FAIL "):
            failed.add(line.split()[1])
            shown = line.split()[1] not in known
        elif not line.startswith(" "):
            shown = not line.startswith("PASS")
        lines += [line] if shown else []
    lines += [f"KNOWN {name}: {DIFFERENT[name]}" for name in sorted(known & failed)]
    lines += [f"EQUAL {name}: remove it from DIFFERENT" for name in sorted(known - failed)]
    print(f"{version} {suite.name}:", "\n".join(lines) + result.stderr, flush=True)
    return failed == known and (bool(known) or result.returncode == 0)


def record(suite: Suite, tool: Path, version: str, start: Path) -> bool:
    """Record the scenarios of a suite whose responses differ from the transcripts; return whether all were recorded."""
    patience = ("--patience", "30")
    with folder_of(suite, tool, version) as folder, real_broker(start, ENABLED + suite.settings) as urls:
        checked = conform(suite, tool, "check", folder, urls, "*", "--json", *patience)
        results = [json.loads(line) for line in checked.stdout.splitlines() if line.startswith("{")]
        different = [one["name"] for one in results if one["result"] != "PASS"]
        if not different:
            print(f"{version} {suite.name}: {len(results)} equal", flush=True)
            return bool(results)
        result = conform(suite, tool, "record", folder, urls, "--runs", "2", "--jobs", "2", *patience, *different)
        print(f"{version} {suite.name}:", result.stdout + result.stderr, flush=True)
        target = HERE / version / suite.name
        target.mkdir(parents=True, exist_ok=True)
        for line in result.stdout.splitlines():
            if line.startswith("RECORDED"):
                shutil.copy(folder / "transcripts" / f"{line.split()[1]}.json", target)
    return result.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", nargs="?", type=Path, default=SHARED)
    parser.add_argument("--pulsar", choices=NAMES, help="only this version")
    parser.add_argument("--suite", choices=[*(suite.name for suite in SUITES), "restart"], help="only this suite")
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--record", type=Path, metavar="START", help="record from a real broker of --pulsar")
    arguments = parser.parse_args()
    if arguments.record and not arguments.pulsar:
        parser.error("--record requires --pulsar")
    if not (arguments.tool / "conform.py").exists():
        print(f"conform: no tool in {arguments.tool}", file=sys.stderr)
        return 1 if os.environ.get("PCLI_NEED_SHARED") else 0
    fine = True
    for version in [arguments.pulsar] if arguments.pulsar else NAMES:
        for suite in SUITES:
            unknown = suite.scalable and NAMES.index(version) < NAMES.index(_SCALABLE_SINCE)
            if unknown or arguments.suite not in (None, suite.name):
                continue
            if arguments.record:
                fine &= record(suite, arguments.tool, version, arguments.record)
            else:
                fine &= play(suite, arguments.tool, version, arguments.jobs)
        if arguments.suite in (None, "restart"):
            restarts = [sys.executable, str(HERE / "restarts.py"), "record" if arguments.record else "check"]
            restarts += ["--tool", str(arguments.tool), "--pulsar", version]
            restarts += ["--real", str(arguments.record)] if arguments.record else []
            fine &= subprocess.run(restarts, check=False).returncode == 0
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
