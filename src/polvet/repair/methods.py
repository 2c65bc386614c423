"""The repair methods by name, with the file that each of them ends; the first one that fits a policy is what `auto` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from polvet.choices import Registry

if TYPE_CHECKING:
    from polvet.repair.method import Method

METHODS: Registry[Method] = Registry(
    "--method",
    {
        "leaves": "polvet.repair.leaves:LEAVES",
        "tree": "polvet.repair.leaves:TREE",
        "milp": "polvet.repair.leaves:MILP",
        "penalty": "polvet.repair.penalty_trees:PENALTY",
        "retrain": "polvet.repair.retrain:RETRAIN",
        "last-layer": "polvet.repair.network_repair:LAST_LAYER",
        "units": "polvet.repair.network_repair:UNITS",
        "direct": "polvet.repair.direct:DIRECT",
    },
)
MODES: Mapping[str, str] = {
    "safe": "the new action is one of the fault's safe ones",
    "avoid": "just not the faulty one",
}
SOLVERS: Mapping[str, str] = {"highs": "polvet.solvers.highs:solve_milp", "scip": "polvet.solvers.scip:solve_milp"}
"""Who solves the big-M program of `milp`: the place of the function."""
