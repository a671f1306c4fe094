"""The generated parts of docs/monitoring.md and the files of docs/monitoring, from the table of metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pcli.codec.observe.metrics.metric_table import METRICS, Metric
from pcli.codec.observe.metrics.object_series import OTHER


def metric_rows() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of metrics."""
    for one in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in one.labels)
        yield f"`{one.name}`", one.type, one.unit or "0 or 1", labels, one.source, one.help


# -- alerts


class Alert(NamedTuple):
    """An alert rule."""

    name: str
    severity: str
    expression: str
    """PromQL, with the names of metrics in angle brackets."""
    minutes: int
    """Time for which the expression must hold."""
    summary: str


_OWN: Final = f'topic!="{OTHER}"'

_ALERTS: Final = (
    Alert(
        "PcliSourceDown", "critical", "<pcli_source_up> == 0", 1,
        "pcli on {{ $labels.instance }} reads no traffic any more.",
    ),
    Alert(
        "PcliCaptureGaps", "warning", "increase(<pcli_capture_gaps_total>[5m]) > 0", 0,
        "The capture on {{ $labels.instance }} lacks packets: values that depend on them have no samples.",
    ),
    Alert(
        "PulsarErrorFinding", "critical", 'increase(<pcli_findings_total>{severity="error"}[10m]) > 0', 0,
        "pcli diagnose found {{ $labels.rule }} on {{ $labels.instance }}.",
    ),
    Alert(
        "PulsarConsumerWithoutPermits", "warning",
        f"<pulsar_consumer_available_permits>{{{_OWN}}} <= 0 and on (instance, topic, subscription) "
        f"<pulsar_subscription_back_log>{{{_OWN}}} > 0", 5,
        "Consumer {{ $labels.consumer_name }} of {{ $labels.subscription }} on {{ $labels.topic }} has no permits, "
        "although messages wait.",
    ),
    Alert(
        "PulsarBlockedOnUnackedMessages", "warning",
        f"<pulsar_subscription_blocked_on_unacked_messages>{{{_OWN}}} == 1 or "
        f"<pulsar_consumer_blocked_on_unacked_messages>{{{_OWN}}} == 1", 5,
        "The limit of unacknowledged messages stops the dispatch of {{ $labels.subscription }} on {{ $labels.topic }}.",
    ),
    Alert(
        "PulsarSubscriptionWithoutConsumer", "warning",
        f"<pulsar_subscription_consumers_count>{{{_OWN}}} == 0 and "
        f"<pulsar_subscription_back_log>{{{_OWN}}} > 0", 10,
        "Messages of {{ $labels.topic }} wait for {{ $labels.subscription }}, which has no consumer.",
    ),
    Alert(
        "PulsarBacklogGrows", "warning", f"deriv(<pulsar_subscription_back_log>{{{_OWN}}}[15m]) > 1", 30,
        "The backlog of {{ $labels.subscription }} on {{ $labels.topic }} grows by {{ $value | humanize }} entries "
        "per second.",
    ),
    Alert(
        "PulsarRedeliveries", "warning",
        "rate(<pcli_redelivered_messages_total>[10m]) > 0.1 * rate(<pulsar_out_messages_total>[10m])", 10,
        "More than a tenth of the messages that {{ $labels.subscription }} on {{ $labels.topic }} receives are "
        "redeliveries.",
    ),
    Alert(
        "PulsarDeadLetters", "warning", "increase(<pcli_dead_lettered_messages_total>[10m]) > 0", 0,
        "Consumers of {{ $labels.subscription }} on {{ $labels.topic }} sent messages to the dead letter topic.",
    ),
    Alert(
        "PulsarSlowPublish", "warning", "<pcli_publish_latency_seconds> > 1", 10,
        "One of a hundred messages to {{ $labels.topic }} waits for its receipt for more than a second.",
    ),
    Alert(
        "PulsarSlowAcknowledgements", "warning", "<pcli_acknowledge_latency_seconds> > 30", 10,
        "Consumers of {{ $labels.subscription }} on {{ $labels.topic }} take more than 30 seconds to acknowledge one "
        "of a hundred messages.",
    ),
)  # fmt: skip


def _promql(expression: str) -> str:
    """Return PromQL with the names of metrics; a histogram becomes its 99th percentile."""
    for name, metric in METRICS.items():
        expression = expression.replace(f"<{name}>", _percentile(metric, 0.99) if metric.type == "histogram" else name)
    assert "<p" not in expression, f"unknown metric: {expression}"
    return expression


def _percentile(metric: Metric, share: float, selector: str = "", interval: str = "10m") -> str:
    labels = ", ".join(("le", "instance", *metric.labels))
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric.name}_bucket{selector}[{interval}])))"


def alert_rows() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of alerts."""
    for one in _ALERTS:
        yield f"`{one.name}`", one.severity, f"{one.minutes} min" if one.minutes else "at once", _plain(one.summary)


def _plain(summary: str) -> str:
    words = summary.replace("{{ $value | humanize }}", "…").replace("{{ $labels.", "`").replace(" }}", "`")
    return str(words)


def alert_rules() -> str:
    """Return the alert rules as YAML. Strings of JSON are strings of YAML."""
    lines = ["# Generated from the table of metrics by `make docs`.", "groups:", "  - name: pcli", "    rules:"]
    for one in _ALERTS:
        lines += [
            f"      - alert: {one.name}",
            f"        expr: {json.dumps(_promql(one.expression))}",
            *([f"        for: {one.minutes}m"] if one.minutes else []),
            "        labels:",
            f"          severity: {one.severity}",
            "        annotations:",
            f"          summary: {json.dumps(one.summary)}",
        ]
    return "\n".join(lines) + "\n"


# -- dashboard

_WIDTH: Final = 12
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_VARIABLES: Final = (
    ("job", "label_values(pcli_source_up, job)"),
    ("instance", 'label_values(pcli_source_up{job=~"$job"}, instance)'),
    ("topic", 'label_values(pulsar_in_messages_total{job=~"$job", instance=~"$instance"}, topic)'),
)
_UNITS: Final = {"seconds": "s", "bytes": "Bps"}
_ROWS: Final = (("Topics", 2), ("Subscriptions", 3), ("Consumers", 4))
"""Rows of panels, and the numbers of labels of their metrics."""


def dashboard() -> str:
    """Return the dashboard for Grafana as JSON: a panel for each metric, in a row for each kind of object."""
    panels: list[dict[str, Any]] = []
    groups = [("Findings and source", [one for one in METRICS.values() if "topic" not in one.labels])]
    groups += [
        (title, [one for one in METRICS.values() if "topic" in one.labels and len(one.labels) == count])
        for title, count in _ROWS
    ]
    top = 0
    for title, metrics in groups:
        place = {"h": 1, "w": 2 * _WIDTH, "x": 0, "y": top}
        panels.append({"type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []})
        for number, metric in enumerate(metrics):
            left, line = number % 2 * _WIDTH, number // 2 * _HEIGHT
            panels.append(_panel(metric, {"h": _HEIGHT, "w": _WIDTH, "x": left, "y": top + 1 + line}))
        top += 1 + (len(metrics) + 1) // 2 * _HEIGHT
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    board = {
        "title": "Pulsar on the wire (pcli)",
        "uid": "pcli-top",
        "tags": ["pulsar", "pcli"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source_variable(), *(_variable(*one) for one in _VARIABLES)]},
        "panels": panels,
    }
    return json.dumps(board, indent=1) + "\n"


def _source_variable() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(metric: Metric, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "datasource": _SOURCE, "exemplar": metric.type == "histogram"} | target
        for number, target in enumerate(_targets(metric))
    ]
    per_second = metric.type == "counter" and metric.unit not in _UNITS
    return {
        "type": "timeseries",
        "title": f"{metric.help}{' (per second)' if metric.type == 'counter' else ''}",
        "description": f"{metric.name}: a metric of {metric.source}.",
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": "cps" if per_second else _UNITS.get(metric.unit, "short")},
            "overrides": [],
        },
        "targets": targets,
    }


def _targets(metric: Metric) -> Iterator[dict[str, str]]:
    """Yield the queries of a panel with their legends."""
    filters = ['job=~"$job"', 'instance=~"$instance"', *(['topic=~"$topic"'] if "topic" in metric.labels else [])]
    selector = f"{{{', '.join(filters)}}}"
    names = [label for label in metric.labels if label != "namespace"] or ["instance"]
    legend = " ".join(f"{{{{{name}}}}}" for name in names)
    if metric.type == "histogram":
        for share in (0.5, 0.95, 0.99):
            query = _percentile(metric, share, selector, "$__rate_interval")
            yield {"expr": query, "legendFormat": f"{share * 100:g} % {legend}"}
    elif metric.type == "counter":
        yield {"expr": f"rate({metric.name}{selector}[$__rate_interval])", "legendFormat": legend}
    else:
        yield {"expr": f"{metric.name}{selector}", "legendFormat": legend}
