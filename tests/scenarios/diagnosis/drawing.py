"""The plan of a seed: a recipe or its near miss, sometimes a second recipe, and healthy traffic."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from random import Random

from scenarios.diagnosis.networks import Route
from scenarios.diagnosis.partial_captures import PARTS
from scenarios.diagnosis.plan import CLIENTS, V5_CLIENT, Plan, Recipe, Track
from scenarios.diagnosis.recipes import RECIPES
from scenarios.diagnosis.traffic import healthy

_NEAR, _SECOND, _OPEN, _PARTIAL, _TRANSLATED = 0.35, 0.3, 0.5, 0.08, 0.08

_SHARES = {"python": 6, "java": 2, "go": 2, "java5": 2}
"""How often the applications use each client, relatively."""


def recipes_for(
    *,
    quick: bool = False,
    sniffing: bool = True,
    clients: Collection[str] = (*CLIENTS, V5_CLIENT),
    networks: bool = True,
    settings: bool = True,
    restarts: bool = True,
) -> list[Recipe]:
    """Return the recipes that can run, with the clients that can run them.

    ``sniffing``: tcpdump captures; ``clients``: the clients that are available; ``networks``: namespaces can be
    created; ``settings``: brokers with other settings can be started; ``restarts``: brokers can be killed and started
    again with their data.
    """
    available = [
        replace(one, clients=tuple(name for name in one.clients if name in clients)) for one in RECIPES.values()
    ]
    return [
        one
        for one in available
        if one.clients
        and (one.quick or not quick)
        and (sniffing or not one.sniffed)
        and (networks or not one.network)
        and (settings or not one.settings)
        and (restarts or not one.own_broker)
    ]


def plan_of_seed(seed: int, recipes: Sequence[Recipe], token: str = "test") -> Plan:
    """Return the plan of a seed. ``token`` is part of the names of the namespaces, so that runs do not share topics.

    Consecutive seeds use all recipes, in an order that differs from block to block. All applications of a plan use the
    same client, except those of recipes that need another.
    """
    block, place = divmod(seed, len(recipes))
    order = list(recipes)
    Random(f"order {block}").shuffle(order)
    random = Random(f"plan {seed}")
    chosen = [order[place]]
    others = [one for one in recipes if one is not order[place] and one.quick and not _is_single(one)]
    if others and not _is_single(order[place]) and random.random() < _SECOND:
        chosen.append(random.choice(others))
    able = chosen if chosen[0].settings else recipes  # settings can require a client, such as one with a token
    available = [name for name in _SHARES if any(name in one.clients for one in able)]
    [client] = random.choices(available, [_SHARES[name] for name in available])
    tracks, names = [], []
    for letter, recipe in zip("ab", chosen, strict=False):
        near = random.random() < _NEAR
        of_track = client if client in recipe.clients else recipe.clients[0]
        track = Track(letter, f"public/{token}-{seed}-{letter}", Random(random.random()), near, of_track)
        recipe.build(track)
        tracks.append(track)
        names.append(f"{recipe.name}{' (near miss)' if near else ''}{'' if client == 'python' else f' with {client}'}")
    background = Track("bg", f"public/{token}-{seed}-bg", Random(random.random()), client=client)
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
    translated = random.random() < _TRANSLATED and any(one.network for one in recipes)
    if translated and not any(track.route or "raw" in track.features for track in tracks):
        tracks[0].route = Route("any", *random.choice([(True, False), (False, True), (True, True)]))
        names.append("translated addresses")
    if not plan.ends_open:
        for track in plan.tracks:
            track.features.add("close")
    return plan


def _is_single(recipe: Recipe) -> bool:
    """Return whether no second recipe may run at the same time."""
    return recipe.alone or recipe.own_broker or recipe.network or bool(recipe.settings)
