"""The list of recipes. A recipe is a function that adds the steps and the expectation to a track."""

from __future__ import annotations

from collections.abc import Callable

from scenarios.diagnosis.plan import Recipe, Track

RECIPES: dict[str, Recipe] = {}
"""All recipes by name."""


def recipe(
    *rules: str,
    quick: bool = True,
    alone: bool = False,
    settings: tuple[str, ...] = (),
    own_broker: bool = False,
    sniffed: bool = False,
    clients: tuple[str, ...] = ("python", "java"),
    network: bool = False,
) -> Callable[[Callable[[Track], None]], Callable[[Track], None]]:
    """Register a function as a recipe; its name is that of the function."""

    def register(build: Callable[[Track], None]) -> Callable[[Track], None]:
        name = build.__name__.replace("_", "-")
        RECIPES[name] = Recipe(name, rules, build, quick, alone, settings, own_broker, sniffed, clients, network)
        return build

    return register
