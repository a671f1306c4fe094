"""Defects of the broker that the simulation must detect. `table` runs them; the other modules define them."""

from simulation.mutants import acknowledgements, dispatch, durability, flow_control, publishing, scalable, transactions
from simulation.mutants.registry import MUTANTS, Mutant

__all__ = [
    "MUTANTS",
    "Mutant",
    "acknowledgements",
    "dispatch",
    "durability",
    "flow_control",
    "publishing",
    "scalable",
    "transactions",
]
