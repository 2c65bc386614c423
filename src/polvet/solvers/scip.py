"""The door to SCIP (extra `scip`): mixed-integer programs with a bound, asked as `solvers/highs.py` is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.budget import UNLIMITED, Budget
from polvet.errors import MissingExtra
from polvet.solvers.highs import LEAST_SECONDS, MilpAnswer, Reals, Row


def solve_milp(
    cost: Reals,
    upper: Reals,
    integer: npt.NDArray[np.bool_],
    lower: Sequence[float],
    rows: Sequence[Row],
    *,
    start: Reals | None = None,
    budget: Budget = UNLIMITED,
    nodes: int | None = None,
) -> MilpAnswer:
    """Return the best x >= 0 with `lower[i] <= rows[i] x`, x <= upper and some of it integer, and the bound."""
    try:
        import pyscipopt as _pyscipopt
    except ImportError:
        raise MissingExtra("pyscipopt", "scip") from None
    pyscipopt: Any = _pyscipopt
    model = pyscipopt.Model()
    model.hideOutput()
    if budget.until != math.inf:
        model.setParam("limits/time", max(LEAST_SECONDS, budget.left()))
    if nodes is not None:
        model.setParam("limits/nodes", nodes)
    columns = [
        model.addVar(vtype="I" if flag else "C", lb=0.0, ub=None if math.isinf(most) else most, obj=price)
        for flag, most, price in zip(integer.tolist(), upper.tolist(), cost.tolist(), strict=True)
    ]
    for least, (index, values) in zip(lower, rows, strict=True):
        terms = [value * columns[k] for k, value in zip(index.tolist(), values.tolist(), strict=True)]
        model.addCons(pyscipopt.quicksum(terms) >= least)
    if start is not None:
        point = model.createSol()
        for column, value in zip(columns, start.tolist(), strict=True):
            model.setSolVal(point, column, value)
        model.addSol(point)
    model.optimize()
    status = model.getStatus()
    solution: Reals | None = None
    objective = math.inf
    if model.getNSols():
        best = model.getBestSol()
        solution = np.array([model.getSolVal(best, column) for column in columns])
        objective = float(model.getObjVal())
    bound = float(model.getDualbound()) if status != "infeasible" else -math.inf
    return MilpAnswer(solution, objective, bound, status, int(model.getNNodes()), status == "timelimit")
