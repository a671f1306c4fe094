"""Export of message lifecycles as spans to a backend of OpenTelemetry."""

__all__: list[str] = []
