"""The options of an export to OpenTelemetry, which `export`, `proxy` and `broker` share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from pcli.cli.common.options import option

if TYPE_CHECKING:
    from pcli.codec.capture.tap import Tap

_PANEL: Final[dict[str, Any]] = {"rich_help_panel": "Export to OpenTelemetry"}


@dataclass(frozen=True, slots=True)
class OtlpOptions:
    """The backend, and which messages it receives."""

    otlp: Annotated[
        str,
        option(
            "--otlp URL", "Export spans to this OTLP backend: http://localhost:4318, or port 4317 for gRPC.", **_PANEL
        ),
    ] = ""
    otlp_protocol: Annotated[
        Literal["auto", "http/protobuf", "grpc"],
        option(
            "--otlp-protocol",
            "Protocol of --otlp; auto: OTEL_EXPORTER_OTLP_PROTOCOL, or grpc for port 4317, else http/protobuf.",
            **_PANEL,
        ),
    ] = "auto"
    otlp_headers: Annotated[
        list[str] | None,
        option(
            "--otlp-header NAME=VALUE",
            "Header of all requests. Repeatable. OTEL_EXPORTER_OTLP_HEADERS keeps it out of the process list.",
            **_PANEL,
        ),
    ] = None
    otlp_trust: Annotated[
        str, option("--otlp-trust PEM", "Trusted certificates that verify the backend.", **_PANEL)
    ] = ""
    otlp_timeout: Annotated[
        float,
        option("--otlp-timeout SECONDS", "Time for which a failing request is repeated.", min=0.1, **_PANEL),
    ] = 30.0
    otlp_queue: Annotated[
        int, option("--otlp-queue N", "Maximum number of spans that wait for the backend.", min=1, **_PANEL)
    ] = 8_192
    sample: Annotated[
        float,
        option(
            "--sample RATE",
            "Share of the traces to export, from 0 to 1. Messages with findings are always exported.",
            min=0,
            max=1,
            **_PANEL,
        ),
    ] = 1.0
    cluster: Annotated[
        str, option("--cluster NAME", "Name of the Pulsar cluster: an attribute, and a part of trace ids.", **_PANEL)
    ] = ""
    service: Annotated[
        str, option("--service NAME", "service.name of the spans. [OTEL_SERVICE_NAME, or pulsar]", **_PANEL)
    ] = ""
    horizon: Annotated[
        float,
        option(
            "--horizon SECONDS",
            "Export a message of live traffic after this time, even if it is not acknowledged.",
            min=1,
            **_PANEL,
        ),
    ] = 300.0

    @contextmanager
    def exporting(self, taps: list[Tap], filter_: str = "") -> Iterator[None]:
        """Add a tap that exports spans if --otlp is given, and export the rest at the end.

        Raises LocalError if an option is wrong, and typer.Exit if spans were lost.
        """
        if not self.otlp:
            yield
            return
        from pcli.cli.export.export_tap import ExportTap

        tap = ExportTap(self, filter_)
        taps.append(tap)
        tap.watch()
        yield
        if code := tap.finish():
            raise typer.Exit(code)
