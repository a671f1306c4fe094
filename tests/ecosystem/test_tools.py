"""pulsar-shell, pulsar-admin and pulsar-perf 4.0.8."""

from __future__ import annotations

import json
import re

import pytest
from ecosystem.running import run

SCRIPT = """\
admin tenants create shell
admin namespaces create shell/orders
admin namespaces set-retention shell/orders --time 1h --size 10M
admin topics create-partitioned-topic persistent://shell/orders/paid -p 3
admin topics list-partitioned-topics shell/orders
client produce -m order-0,order-1,order-2 persistent://shell/orders/new
client consume -s audit -n 3 -p Earliest persistent://shell/orders/new
admin topics delete persistent://shell/orders/new --force
admin topics delete-partitioned-topic persistent://shell/orders/paid
admin namespaces delete shell/orders
admin tenants delete shell
admin tenants list
"""


@pytest.fixture
def configuration(traffic, tmp_path):
    path = tmp_path / "client.conf"
    path.write_text(f"webServiceUrl={traffic.http_url}\nbrokerServiceUrl={traffic.service_url}\n")
    return str(path)


def test_pulsar_shell(traffic, configuration, tmp_path):
    """Without --fail-on-error, because version 4.0.8 with it ends after the first command, also if that succeeds."""
    script = tmp_path / "script"
    script.write_text(SCRIPT)
    arguments = ["-c", configuration, "-np", "-f", str(script)]
    output = run(traffic.java("tools", "org.apache.pulsar.shell.PulsarShell", *arguments))
    lines = output.splitlines()
    assert "persistent://shell/orders/paid" in lines
    assert re.findall(r"content:(\S+)", output) == ["order-0", "order-1", "order-2"]
    assert lines[lines.index("[12/12] Executing admin tenants list") + 1 :][:2] == ["public", "pulsar"]
    assert traffic.findings() == {}


def test_pulsar_admin_and_perf(traffic, configuration):
    topic = "persistent://public/default/perf"
    perf = "org.apache.pulsar.testclient.PulsarPerfTestTool"
    run(traffic.java("tools", perf, configuration, "produce", "-m", "1000", "-r", "2000", topic))
    run(traffic.java("tools", perf, configuration, "consume", "-m", "1000", "-ss", "audit", "-sp", "Earliest", topic))
    admin = "org.apache.pulsar.admin.cli.PulsarAdminTool"
    stats = json.loads(run(traffic.java("tools", admin, configuration, "topics", "stats", topic)))
    # pulsar-perf counts receipts and sends more messages until it has received them.
    assert stats["msgInCounter"] >= 1000
    assert stats["subscriptions"]["audit"]["msgOutCounter"] >= 1000
    assert traffic.findings() == {}
