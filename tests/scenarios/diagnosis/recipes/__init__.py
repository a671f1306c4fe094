"""The recipes, by the kind of object that has the problem."""

from scenarios.diagnosis.recipes import (
    administrators,
    connections,
    consumers,
    java_clients,
    logins,
    networks,
    orders,
    producers,
    raw_clients,
    redeliveries,
    scalable_consumers,
    scalable_faults,
    scalable_topics,
    transactions,
)
from scenarios.diagnosis.recipes.registry import RECIPES

__all__ = [
    "RECIPES",
    "administrators",
    "connections",
    "consumers",
    "java_clients",
    "logins",
    "networks",
    "orders",
    "producers",
    "raw_clients",
    "redeliveries",
    "scalable_consumers",
    "scalable_faults",
    "scalable_topics",
    "transactions",
]
