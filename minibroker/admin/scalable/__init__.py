"""Endpoints of scalable topics and of their segments. They exist if the setting scalableTopicsEnabled is true."""

__all__: list[str] = []
