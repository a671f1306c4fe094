"""Message lifecycles as spans of OpenTelemetry, as data: trace ids, spans, attributes, links, events."""

__all__: list[str] = []
