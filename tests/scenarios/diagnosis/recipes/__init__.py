"""The recipes, by the kind of object that has the problem."""

from scenarios.diagnosis.recipes import connections, consumers, producers, raw_clients, redeliveries
from scenarios.diagnosis.recipes.registry import RECIPES

__all__ = ["RECIPES", "connections", "consumers", "producers", "raw_clients", "redeliveries"]
