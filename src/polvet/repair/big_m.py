"""The paper's program: binary variables choose which action leads in each fault.

Source   section 5.2: min ||change||_1 with, per fault, sum_a b_a >= 1 and (score of a) - (score of the faulty action) > -M (1 - b_a)
Differs  `>` becomes `>= margin`. M is not a guess: with a known repair of size z, no better one moves a difference of two scores by
         more than z, so M = margin - (difference now) + z cuts off nothing better. Several rivals (mode `safe`) share one
         variable above all of them. Demands are added when they are violated: what is left out only lowers the bound.
Limits   objective and bound in doubles. "Infeasible" is never believed: the known repair is the fallback
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polvet.budget import UNLIMITED, Budget
from polvet.repair.demands import Demands, Reals
from polvet.repair.linear_scores import LinearScores
from polvet.repair.target_lp import TOLERANCE, Solution
from polvet.solvers.highs import MilpAnswer, Row, solve_milp

ROUNDS = 6
Milp = Callable[..., MilpAnswer]
"""`solvers.highs.solve_milp`, or another solver's function of the same shape."""


@dataclass(frozen=True, slots=True, eq=False)
class Bounded:
    """The better of the known repair and the program's, with a lower bound on every repair (None: the solver gave none)."""

    change: Reals
    objective: float
    bound: float | None
    status: str
    timed_out: bool


def binaries(demands: Demands) -> int:
    """Return how many binary variables the program has at most."""
    several = demands.targets.sum(axis=1) > 1
    return int(demands.targets[several].sum())


def coefficients(view: LinearScores, demands: Demands, known: Solution) -> int:
    """Return about how many coefficients the program has at first."""
    active = np.flatnonzero(~known.lost & (known.targets >= 0))
    if not len(active):
        return 0
    scores = int(demands.targets[active].sum() + demands.rivals[active].sum())
    first = int(np.flatnonzero(demands.targets[active[0]])[0])
    return 2 * scores * len(view.terms(int(active[0]), first)[0])


def solve_big_m(
    view: LinearScores,
    demands: Demands,
    known: Solution,
    *,
    budget: Budget = UNLIMITED,
    nodes: int | None = None,
    solver: Milp = solve_milp,
) -> Bounded:
    """Return a smallest change that meets all demands but the ones the known repair has lost."""
    kept = np.flatnonzero(~known.lost)
    active = kept[known.targets[kept] >= 0]
    best, objective = known.change, known.objective
    bound: float | None = 0.0 if not len(active) else None
    status, late = "no rows", False
    for _ in range(ROUNDS):
        if not len(active):
            break
        program = _Program(view, demands, active, objective)
        answer = solver(
            program.cost,
            program.upper,
            program.integer,
            program.lower,
            program.rows,
            start=program.start(best),
            budget=budget,
            nodes=nodes,
        )
        status, late = answer.status, answer.timed_out
        if math.isfinite(answer.bound):
            bound = max(0.0 if bound is None else bound, min(answer.bound, objective))
        if answer.values is None:
            break
        change = program.change(answer.values)
        size = float(np.abs(change).sum())
        leads = demands.leads(view.scores(change))
        violated = kept[leads[kept] < demands.margin[kept] - TOLERANCE]
        new = np.setdiff1d(violated, active)
        if not len(violated):
            if size < objective:
                best, objective = change, size
            break
        if not len(new) or late:
            break
        active = np.union1d(active, new)
    return Bounded(best, objective, bound, status, late)


class _Program:
    """Columns: change up, change down, then one variable above the rivals and binary variables of some demands."""

    def __init__(self, view: LinearScores, demands: Demands, active: npt.NDArray[np.intp], size: float) -> None:
        self.view, self.demands, self.active = view, demands, active.tolist()
        self.width, self.size = view.columns, size
        self.columns = 2 * view.columns
        self.base = view.scores(np.zeros(view.columns))
        self.rows: list[Row] = []
        self.lower: list[float] = []
        self.levels: dict[int, int] = {}
        self.choices: dict[tuple[int, int], int] = {}
        for k in self.active:
            self._demand(k)
        self.cost = np.zeros(self.columns)
        self.cost[: 2 * self.width] = 1.0
        self.upper = np.full(self.columns, np.inf)
        self.integer = np.zeros(self.columns, dtype=np.bool_)
        chosen = list(self.choices.values())
        self.upper[chosen] = 1.0
        self.integer[chosen] = True

    def _demand(self, k: int) -> None:
        targets, rivals = np.flatnonzero(self.demands.targets[k]), np.flatnonzero(self.demands.rivals[k])
        margin, top = float(self.demands.margin[k]), float(self.base[k, rivals].max())
        several = len(rivals) > 1
        if several:  # level = score above all rivals - (top - size) >= 0
            level = self.levels[k] = self._column()
            for c in rivals.tolist():
                columns, signs = self._score(k, c)
                row = np.append(columns, level), np.append(-signs, 1.0)
                self._row(row, float(self.base[k, c]) - top + self.size)
        choices = []
        for t in targets.tolist():
            columns, signs = self._score(k, t)
            gap = margin - float(self.base[k, t]) + top
            if several:
                columns, signs, need = np.append(columns, level), np.append(signs, -1.0), gap - self.size
            else:
                others, against = self._score(k, int(rivals[0]))
                columns, signs, need = np.append(columns, others), np.append(signs, -against), gap
            if len(targets) > 1:
                big = max(0.0, gap + self.size + 1e-6)
                choice = self.choices[k, t] = self._column()
                choices.append(choice)
                columns, signs, need = np.append(columns, choice), np.append(signs, -big), need - big
            self._row((columns, signs), need)
        if choices:
            self._row((np.array(choices), np.ones(len(choices))), 1.0)

    def _score(self, k: int, output: int) -> Row:
        columns, values = self.view.terms(k, output)
        return np.concatenate([columns, columns + self.width]), np.concatenate([values, -values])

    def _column(self) -> int:
        self.columns += 1
        return self.columns - 1

    def _row(self, row: Row, lower: float) -> None:
        self.rows.append(row)
        self.lower.append(lower)

    def start(self, change: Reals) -> Reals:
        """Return the known change as a point of the program."""
        point = np.zeros(self.columns)
        point[: self.width] = np.maximum(change, 0.0)
        point[self.width : 2 * self.width] = np.maximum(-change, 0.0)
        scores = self.view.scores(change)
        for k, column in self.levels.items():
            rivals = self.demands.rivals[k]
            point[column] = scores[k, rivals].max() - self.base[k, rivals].max() + self.size
        for k in self.active:
            best = int(np.where(self.demands.targets[k], scores[k], -np.inf).argmax())
            if (k, best) in self.choices:
                point[self.choices[k, best]] = 1.0
        return point

    def change(self, values: Reals) -> Reals:
        """Return the change that a point of the program describes."""
        change = values[: self.width] - values[self.width : 2 * self.width]
        change[np.abs(change) < 1e-12] = 0.0
        return np.asarray(change)
