"""Statistics as Pulsar reports them: topic stats, internal stats, partitioned stats, and rates."""

__all__: list[str] = []
