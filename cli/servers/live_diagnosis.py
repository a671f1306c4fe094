"""The diagnosis of the traffic of a proxy or a broker (--diagnose, --prometheus)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from pcli.cli.common.metrics_options import metrics_collector

if TYPE_CHECKING:
    from pcli.cli.servers.diagnosis_tap import DiagnosisTap


@contextmanager
def live_diagnosis(
    prometheus: str, top: int, cluster: str, *, prints: bool
) -> Iterator[tuple[list[DiagnosisTap], dict[str, str]]]:
    """Run a diagnosis if findings are printed or metrics are served. Yield its taps, and the URL of the metrics.

    ``prometheus``, ``top`` and ``cluster`` are the values of the options. Raises LocalError if the metrics cannot be
    served.
    """
    with ExitStack() as stack:
        metrics, urls, taps = None, {}, []
        if prometheus:
            metrics = metrics_collector(top, cluster)
            from pcli.cli.common.metrics_endpoint import MetricsEndpoint

            urls["metrics_url"] = stack.enter_context(MetricsEndpoint(prometheus, metrics.read)).url
        stop = threading.Event()
        if prints or metrics is not None:
            from pcli.cli.diagnosis.capture_diagnosis import repeat
            from pcli.cli.servers.diagnosis_tap import DiagnosisTap

            taps = [DiagnosisTap(metrics, prints=prints)]
            threading.Thread(target=repeat, args=(taps[0].evaluate, stop), daemon=True).start()
        try:
            yield taps, urls
        finally:
            stop.set()
    for tap in taps if prints else ():
        tap.finish()
