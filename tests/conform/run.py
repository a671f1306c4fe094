"""Replay the conversations of a real broker against `pcli broker`, with the conformance tool.

    python tests/conform/run.py [TOOL] [--jobs N] [--scalable]

TOOL is the folder of the tool with its scenarios and transcripts (``../shared/conform``). The script replays the
scenarios of the tool, those for a broker with different settings, and those in this folder (recorded from a real 4.2.4
with the same tool), and those with restarts of the broker (``restarts.py``). It exits with code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
SHARED = HERE.parent.parent.parent / "shared" / "conform"

ENABLED = "transactionCoordinatorEnabled=true"
"""Setting of the broker that the tool's README requires for all scenarios."""

VARIANT = (
    "subscriptionKeySharedUseConsistentHashing=false",
    "acknowledgmentAtBatchIndexLevelEnabled=false",
    "activeConsumerFailoverDelayTimeMillis=0",
    "exposingBrokerEntryMetadataToClientEnabled=true",
    "brokerEntryMetadataInterceptors=org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor,"
    "org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor",
)
"""Settings of the broker that the tool's README requires for the scenarios in ``variant/``."""

INTERVALS = ("backlogQuotaCheckIntervalInSeconds=5", "brokerServiceCompactionMonitorIntervalInSeconds=5")
"""Settings of the broker for the scenarios in ``intervals/``."""

COMPACTOR = (
    "topicCompactionRetainNullKey=true",
    "compactionServiceFactoryClassName=org.apache.pulsar.compaction.EventTimeCompactionServiceFactory",
)
"""Settings of the broker for the scenarios in ``compactor/``."""

FORCED = ("forceDeleteTenantAllowed=true", "forceDeleteNamespaceAllowed=true")
"""Settings of the broker for the scenarios in ``forced/``."""


SCALABLE = {
    "scalable": (),
    "scalable-fast": (
        "scalableTopicConsumerSessionGracePeriodSeconds=2",
        "scalableTopicAutoScaleIntervalSeconds=2",
        "scalableTopicLoadReportIntervalSeconds=1",
        "statsUpdateInitialDelayInSecs=1",
        "statsUpdateFrequencyInSecs=4",
        "transactionCoordinatorScalableTopicsTimeoutSweepIntervalSeconds=2",
    ),
}
"""Settings of the broker for the scenarios on scalable topics, which `conform5.py` plays, by folder."""


@contextmanager
def broker(*settings: str, options: tuple[str, ...] = ()):
    """Run a broker in its own process; yield its two URLs."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready"
        command = [
            sys.executable,
            "-m",
            "pcli.cli",
            "broker",
            "--port",
            "0",
            "--http-port",
            "0",
            "--log",
            "quiet",
            *options,
        ]
        for setting in settings:
            command += ["--set", setting]
        process = subprocess.Popen([*command, "--ready-file", str(ready)], stdout=subprocess.DEVNULL)
        try:
            for _ in range(200):
                if ready.exists() and ready.read_text():
                    break
                time.sleep(0.05)
            yield json.loads(ready.read_text())
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=10)


def play(tool: Path, folder: Path, jobs: int, *settings: str) -> bool:
    """Replay the scenarios in a folder against a new broker; return whether all responses are equal."""
    with broker(ENABLED, *settings) as urls:
        command = [sys.executable, str(tool / "conform.py"), "check", "*", "--dir", str(folder), "--jobs", str(jobs)]
        command += ["--url", urls["service_url"], "--http", urls["http_url"]]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = result.stdout.splitlines()
    print("\n".join(line for line in lines if not line.startswith("PASS")) + result.stderr, flush=True)
    return result.returncode == 0


def play_variant(tool: Path, jobs: int) -> bool:
    """Replay the scenarios for different settings. The transcripts of two of them are in this folder."""
    ours = sorted((HERE / "variant").glob("*.json"))
    with tempfile.TemporaryDirectory() as folder:
        merged = Path(folder)
        (merged / "scenarios").symlink_to((tool / "variant" / "scenarios").resolve())
        shutil.copytree(tool / "variant" / "transcripts", merged / "transcripts")
        for path in ours:
            shutil.copy(path, merged / "transcripts")
            print(f"OURS {path.stem}: recorded anew, see {HERE.name}/README.md")
        return play(tool, merged, jobs, *VARIANT)


def play_scalable(tool: Path, jobs: int) -> bool:
    """Replay the scenarios on scalable topics, which were recorded from a real 5.0.1."""
    fine = True
    for folder, settings in SCALABLE.items():
        with broker(ENABLED, *settings, options=("--pulsar", "5.0.1")) as urls:
            command = [sys.executable, str(HERE / "conform5.py"), "check", "*", "--tool", str(tool)]
            command += ["--dir", str(HERE / folder), "--jobs", str(4 * jobs if settings else jobs)]
            command += ["--url", urls["service_url"], "--http", urls["http_url"]]
            fine &= subprocess.run(command, check=False).returncode == 0
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", nargs="?", type=Path, default=SHARED)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--scalable", action="store_true", help="only the scenarios on scalable topics, on 5.0.1")
    arguments = parser.parse_args()
    if not (arguments.tool / "conform.py").exists():
        print(f"conform: no tool in {arguments.tool}", file=sys.stderr)
        return 1 if os.environ.get("PCLI_NEED_SHARED") else 0
    if arguments.scalable:
        return 0 if play_scalable(arguments.tool, arguments.jobs) else 1
    fine = play(arguments.tool, arguments.tool, arguments.jobs)
    fine &= play_variant(arguments.tool, arguments.jobs)
    fine &= play(arguments.tool, HERE, arguments.jobs)
    fine &= play(arguments.tool, HERE / "intervals", 2 * arguments.jobs, *INTERVALS)
    fine &= play(arguments.tool, HERE / "compactor", arguments.jobs, *COMPACTOR)
    fine &= play(arguments.tool, HERE / "forced", arguments.jobs, *FORCED)
    restarts = [sys.executable, str(HERE / "restarts.py"), "check", "--tool", str(arguments.tool)]
    fine &= subprocess.run(restarts, check=False).returncode == 0
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
