"""Inputs for codec.capture: files, folders, stdin, live interfaces, and the recording of live traffic."""

__all__: list[str] = []
