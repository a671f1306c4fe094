"""The addons of a proxy or a broker (-s)."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

if TYPE_CHECKING:
    from pcli.cli.common.addons import Addon
    from pcli.codec.capture.tap import Tap
    from pcli.codec.faults import Fault


class LiveAddons:
    """Addons as faults and taps."""

    def __init__(self, scripts: list[str]) -> None:
        """Load the scripts; raise LocalError if one cannot be loaded."""
        self._addons: list[Addon] = []
        self.faults: list[Fault] = []
        self.taps: list[Tap] = []
        if not scripts:
            return
        from pcli.cli.common.addons import Addon, AddonFault, AddonTap

        self._addons = [Addon(path) for path in scripts]
        self.faults = [AddonFault(addon) for addon in self._addons]
        self.taps = [AddonTap(addon) for addon in self._addons]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        """Call ``done`` of each script, and end a command without another error with exit code 1 if one has failed."""
        for addon in self._addons:
            addon.done()
        if kind is None and any(addon.failed for addon in self._addons):
            raise typer.Exit(1)
