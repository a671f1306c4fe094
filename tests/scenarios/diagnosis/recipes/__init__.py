"""The recipes, by the kind of object that has the problem."""

from scenarios.diagnosis.recipes import (
    connections,
    consumers,
    java_clients,
    producers,
    raw_clients,
    redeliveries,
    transactions,
)
from scenarios.diagnosis.recipes.registry import RECIPES

__all__ = [
    "RECIPES",
    "connections",
    "consumers",
    "java_clients",
    "producers",
    "raw_clients",
    "redeliveries",
    "transactions",
]
