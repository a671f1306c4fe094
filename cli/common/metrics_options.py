"""The options of commands that serve metrics for Prometheus."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from pcli.cli.common.options import option
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.codec.observe.metrics.collector import MetricsCollector

Prometheus = Annotated[
    str,
    option(
        "--prometheus [HOST:]PORT",
        "Serve metrics for Prometheus on this port of HOST, by default 127.0.0.1; 0 selects any free port.",
    ),
]
TopObjects = Annotated[
    int,
    option(
        "--top N",
        "With --prometheus: number of topics, of subscriptions and of consumers with series of their own. The other "
        "objects share one series.",
        min=1,
    ),
]

Cluster = Annotated[
    str, option("--cluster NAME", "With --prometheus: name of the Pulsar cluster, which is a part of trace ids.")
]

DEFAULT_TOP = 50
"""The default of --top."""


def metrics_collector(top: int, cluster: str, *, segments: bool = False) -> MetricsCollector:
    """Return a collector; see MetricsCollector for the values.

    Raises LocalError if the library of the endpoint is not installed.
    """
    if find_spec("prometheus_client") is None:
        raise LocalError("--prometheus requires pulsar-pcli[prometheus]")
    from pcli.codec.observe.metrics.collector import MetricsCollector

    return MetricsCollector(top, segments=segments, cluster=cluster)
