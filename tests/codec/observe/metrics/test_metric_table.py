"""The table of metrics, compared with what a real broker exposes."""

from __future__ import annotations

import re
from pathlib import Path

from pcli.codec.observe.metrics.metric_table import METRICS

BROKER = (Path(__file__).parent / "pulsar-4.2.4.prom").read_text()


def test_metrics_of_pulsar_have_the_names_and_labels_of_a_broker():
    """pcli does not show the cluster and the consumer's id."""
    exposed = {
        (name, tuple(re.findall(r'(\w+)="', labels)))
        for name, labels in re.findall(r"^(\w+)\{(.*)\} ", BROKER, re.MULTILINE)
    }
    shown = {(name, tuple(one for one in labels if one not in ("cluster", "consumer_id"))) for name, labels in exposed}
    assert {(one.name, one.labels) for one in METRICS.values() if one.source == "Pulsar"} <= shown


def test_the_names_follow_the_conventions_of_prometheus():
    for metric in METRICS.values():
        assert metric.name.startswith("pulsar_" if metric.source == "Pulsar" else "pcli_")
        assert metric.name.endswith("_total") == (metric.type == "counter")
        if metric.type == "histogram":
            assert metric.name.endswith(f"_{metric.unit}")
