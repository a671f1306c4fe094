"""The plan of a seed: a recipe or its near miss, sometimes a second recipe, and healthy traffic."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from scenarios.diagnosis.partial_captures import PARTS
from scenarios.diagnosis.plan import Plan, Recipe, Track
from scenarios.diagnosis.recipes import RECIPES
from scenarios.diagnosis.traffic import healthy

__all__ = ["plan_of_seed", "recipes_for"]

_NEAR, _SECOND, _OPEN, _JAVA, _PARTIAL = 0.35, 0.3, 0.5, 0.2, 0.08


def recipes_for(
    *, quick: bool = False, sniffing: bool = True, java: bool = True, settings: bool = True, restarts: bool = True
) -> list[Recipe]:
    """Return the recipes that can run.

    ``sniffing``: tcpdump captures; ``java``: applications with the Java client can run; ``settings``: brokers with
    other settings can be started; ``restarts``: brokers can be killed and started again with their data.
    """
    return [
        one
        for one in RECIPES.values()
        if (one.quick or not quick)
        and (sniffing or not one.sniffed)
        and (java or not one.java)
        and (settings or not one.settings)
        and (restarts or not one.own_broker)
    ]


def plan_of_seed(seed: int, recipes: Sequence[Recipe], token: str = "test") -> Plan:
    """Return the plan of a seed. ``token`` is part of the names of the namespaces, so that runs do not share topics.

    Consecutive seeds use all recipes, in an order that differs from block to block. If the list contains recipes
    for the Java client, one plan in five uses this client for all applications.
    """
    block, place = divmod(seed, len(recipes))
    order = list(recipes)
    Random(f"order {block}").shuffle(order)
    random = Random(f"plan {seed}")
    chosen = [order[place]]
    others = [one for one in recipes if one is not order[place] and one.quick and not _is_single(one)]
    if others and not _is_single(order[place]) and random.random() < _SECOND:
        chosen.append(random.choice(others))
    python = any(one.python for one in chosen)
    java = any(one.java for one in recipes) and random.random() < _JAVA and not python
    tracks, names = [], []
    for letter, recipe in zip("ab", chosen, strict=False):
        near = random.random() < _NEAR
        track = Track(letter, f"public/{token}-{seed}-{letter}", Random(random.random()), near, java or recipe.java)
        recipe.build(track)
        tracks.append(track)
        names.append(f"{recipe.name}{' (near miss)' if near else ''}{' with Java' if java else ''}")
    background = Track("bg", f"public/{token}-{seed}-bg", Random(random.random()), java=java)
    healthy(background)
    if order[place].own_broker:  # statistics cannot be requested while it is down
        background.steps = [step for step in background.steps if step["do"] != "stats"]
    if order[place].alone:
        background.features |= tracks[0].features
        background.allowed |= tracks[0].allowed
    of = order[place]
    plan = Plan(seed, names, [*tracks, background], of.settings, of.own_broker, ends_open=random.random() < _OPEN)
    if random.random() < _PARTIAL:
        plan.part = random.choice(PARTS)
        names.append(f"capture: {plan.part}")
    if not plan.ends_open:
        for track in plan.tracks:
            track.features.add("close")
    return plan


def _is_single(recipe: Recipe) -> bool:
    """Return whether no second recipe may run at the same time."""
    return recipe.alone or recipe.own_broker or bool(recipe.settings)
