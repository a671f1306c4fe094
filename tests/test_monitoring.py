"""The files of docs/monitoring: the alerts in promtool, and the queries of the dashboard."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pcli.codec.observe.metrics.metric_table import METRICS

ROOT = Path(__file__).parent.parent
MONITORING = ROOT / "docs" / "monitoring"

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="prometheus is not installed")


def promtool(*arguments: object) -> str:
    ran = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_files_are_up_to_date(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["generate.py", str(tmp_path)])
    runpy.run_path(str(ROOT / "docs" / "generate.py"), run_name="__main__")
    for path in MONITORING.iterdir():
        assert (tmp_path / "monitoring" / path.name).read_text() == path.read_text(), "run make docs"


def test_every_metric_has_a_panel_and_every_query_is_of_metrics_in_the_table():
    panels = [one for one in json.loads((MONITORING / "dashboard.json").read_text())["panels"] if one["type"] != "row"]
    assert sorted(one["description"].partition(":")[0] for one in panels) == sorted(METRICS)
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    named = {name.removesuffix("_bucket") for query in queries for name in re.findall(r"(?:pulsar|pcli)_\w+", query)}
    assert named == set(METRICS)


@needs_promtool
def test_promtool_parses_the_rules_and_the_queries(tmp_path):
    promtool("check", "rules", MONITORING / "alerts.yaml")
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    rules = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, query in enumerate(queries)
    ]
    (tmp_path / "queries.yaml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(queries)} rules found" in promtool("check", "rules", tmp_path / "queries.yaml")


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    text = ",".join(f'{label}="{value}"' for label, value in {"instance": "a", **labels}.items())
    return {"series": f"{name}{{{text}}}", "values": values}


WORK = {"namespace": "n", "topic": "t", "subscription": "s"}
OTHER = {"namespace": "other", "topic": "other", "subscription": "other"}
W1 = {**WORK, "consumer_name": "w1"}


def buckets(name: str, seconds: float, **labels: str) -> list[dict[str, str]]:
    """One message a second, all in the bucket of this duration."""
    return [
        series(f"{name}_bucket", "0+60x120" if float(le) >= seconds else "0x120", le=le, **labels)
        for le in ("1.0", "2.5", "30.0", "60.0", "+Inf")
    ]


FIRES: dict[str, tuple[list[dict[str, str]], list[dict[str, str]]]] = {
    "PcliSourceDown": ([series("pcli_source_up", "0x120")], [series("pcli_source_up", "1x120")]),
    "PcliCaptureGaps": ([series("pcli_capture_gaps_total", "0+1x120")], [series("pcli_capture_gaps_total", "7x120")]),
    "PulsarErrorFinding": (
        [series("pcli_findings_total", "0x55 1x65", rule="stuck-no-permits", severity="error")],
        [series("pcli_findings_total", "0x55 1x65", rule="queue-of-one", severity="note")],
    ),
    "PulsarConsumerWithoutPermits": (
        [
            series("pulsar_consumer_available_permits", "0x120", **W1),
            series("pulsar_subscription_back_log", "9x120", **WORK),
        ],
        [
            series("pulsar_consumer_available_permits", "0x120", **W1),
            series("pulsar_subscription_back_log", "0x120", **WORK),
        ],
    ),
    "PulsarBlockedOnUnackedMessages": (
        [series("pulsar_consumer_blocked_on_unacked_messages", "1x120", **W1)],
        [series("pulsar_consumer_blocked_on_unacked_messages", "1x120", **OTHER, consumer_name="other")],
    ),
    "PulsarSubscriptionWithoutConsumer": (
        [
            series("pulsar_subscription_consumers_count", "0x120", **WORK),
            series("pulsar_subscription_back_log", "9x120", **WORK),
        ],
        [
            series("pulsar_subscription_consumers_count", "1x120", **WORK),
            series("pulsar_subscription_back_log", "9x120", **WORK),
        ],
    ),
    "PulsarBacklogGrows": (
        [series("pulsar_subscription_back_log", "0+120x120", **WORK)],
        [series("pulsar_subscription_back_log", "0+30x120", **WORK)],
    ),
    "PulsarRedeliveries": (
        [
            series("pcli_redelivered_messages_total", "0+30x120", **WORK),
            series("pulsar_out_messages_total", "0+60x120", **WORK),
        ],
        [
            series("pcli_redelivered_messages_total", "0+1x120", **WORK),
            series("pulsar_out_messages_total", "0+60x120", **WORK),
        ],
    ),
    "PulsarDeadLetters": (
        [series("pcli_dead_lettered_messages_total", "0+1x120", **WORK)],
        [series("pcli_dead_lettered_messages_total", "5x120", **WORK)],
    ),
    "PulsarSlowPublish": (
        buckets("pcli_publish_latency_seconds", 2.5, namespace="n", topic="t"),
        buckets("pcli_publish_latency_seconds", 0.5, namespace="n", topic="t"),
    ),
    "PulsarSlowAcknowledgements": (
        buckets("pcli_acknowledge_latency_seconds", 60, **WORK),
        buckets("pcli_acknowledge_latency_seconds", 1, **WORK),
    ),
}
"""Two hours of series for which an alert fires, and others for which it does not, by the name of the alert."""


def test_every_alert_is_tested():
    assert re.findall(r"- alert: (\w+)", (MONITORING / "alerts.yaml").read_text()) == list(FIRES)


@needs_promtool
@pytest.mark.parametrize("alert", FIRES)
def test_an_alert_fires_only_for_its_problem(alert, tmp_path):
    """promtool evaluates the rule after an hour; an alert with labels in its text has values for all of them."""
    bad, good = FIRES[alert]
    rules = str(MONITORING / "alerts.yaml")
    quiet = {"rule_files": [rules], "tests": [case(good, {"eval_time": "1h", "alertname": alert, "exp_alerts": []})]}
    (tmp_path / "quiet.yaml").write_text(json.dumps(quiet))
    promtool("test", "rules", tmp_path / "quiet.yaml")
    firing = case(bad)
    firing["promql_expr_test"] = [
        {
            "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})',
            "eval_time": "1h",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
    ]
    (tmp_path / "fires.yaml").write_text(json.dumps({"rule_files": [rules], "tests": [firing]}))
    promtool("test", "rules", tmp_path / "fires.yaml")


def case(input_series: list[dict[str, str]], *alerts: dict[str, Any]) -> dict[str, Any]:
    return {"interval": "1m", "input_series": input_series, "alert_rule_test": list(alerts)}
