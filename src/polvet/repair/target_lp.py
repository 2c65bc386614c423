"""The default repair: a linear program in which every fault has one chosen target action.

Source   section 5.2, Eq. (1): min ||change||_1 such that in every fault some other action leads
Differs  the maximum over actions is not encoded by binary variables: each fault takes the target that leads best, rows are added
         where they are violated, and targets are chosen anew until the objective stops falling. Each new program has the last
         change among its points, so the objective never rises; the optimum of Eq. (1) may still be lower (`big_m.py` bounds it).
         Soft demands may miss their margin at a price; those that do are then given up, the others become hard, and the
         change is minimised again: so retention comes first and the change second.
Cost     one warm-started simplex per round; rows only for demands that were violated once
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polvet.repair.demands import Demands, Flags, Reals
from polvet.repair.linear_scores import LinearScores
from polvet.solvers.highs import GrowingLp, Row

TOLERANCE = 2e-7  # of the solver's rows
ROUNDS = 500
PASSES = 20


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A change that meets all hard demands; `lost` are the soft ones it does not meet."""

    change: Reals
    objective: float  # ||change||_1, before rounding to the policy's numbers
    targets: npt.NDArray[np.intp]  # per demand; -1: no row was ever needed
    lost: Flags
    rows: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Unmet:
    """No change was found: the solver called the rows infeasible, or time was over."""

    reason: str
    timed_out: bool


class TargetLp:
    """The growing program of one list of demands."""

    def __init__(self, view: LinearScores, demands: Demands, deadline: float = math.inf) -> None:
        self.view, self.demands, self.deadline = view, demands, deadline
        self.width = view.columns
        self.lp = GrowingLp(np.ones(2 * self.width))
        self.change = np.zeros(self.width)
        self.base = view.scores(self.change)
        self.objective = 0.0
        self.target = np.full(len(demands), -1, dtype=np.intp)
        self.slack_column = np.full(len(demands), -1, dtype=np.int64)
        self.slack = np.zeros(len(demands))
        self.given_up = np.zeros(len(demands), dtype=np.bool_)
        self.soft = np.isfinite(demands.weight)
        self.owner: list[int] = []  # per row of the program, its demand
        self.known: set[tuple[int, int, int]] = set()
        self.rounds = 0
        self.price = np.zeros(len(demands))  # per demand, the dual price of its rows

    def solve(self, *, passes: int = PASSES, give_up: bool = True) -> Found | Unmet:
        """Return the change: add violated rows until there are none, choose targets anew, give up what is lost."""
        if (failed := self._meet()) is not None or (failed := self._choose_anew(passes)) is not None:
            return failed
        soft = self.soft.copy()
        if give_up and (self.slack_column >= 0).any():
            self._give_up()
            if (failed := self._run()) is not None or (failed := self._meet()) is not None:
                return failed
            if (failed := self._choose_anew(passes)) is not None:
                return failed
        lost = self.demands.leads(self.view.scores(self.change)) < self.demands.margin - TOLERANCE
        return Found(self.change, self.objective, self.target, lost & soft, len(self.owner), self.rounds)

    def _meet(self) -> Unmet | None:
        """Add violated rows and solve until every demand is met or paid for."""
        for _ in range(ROUNDS):
            rows, owners, lower = self._violated()
            if not rows:
                return None
            self.lp.add_rows(lower, rows)
            self.owner += owners
            if (failed := self._run()) is not None:
                return failed
        return Unmet(f"no end after {ROUNDS} rounds of added rows", timed_out=False)

    def _run(self) -> Unmet | None:
        answer = self.lp.solve(self.deadline - time.monotonic())
        self.rounds += 1
        if answer.status != "optimal":
            return Unmet(f"the linear program ended with: {answer.status}", answer.status == "time")
        values = answer.values
        self.change = values[: self.width] - values[self.width : 2 * self.width]
        self.change[np.abs(self.change) < 1e-12] = 0.0
        self.objective = float(np.abs(self.change).sum())
        paid = self.slack_column >= 0
        self.slack[paid] = values[self.slack_column[paid]]
        self.price[:] = 0.0
        np.add.at(self.price, np.array(self.owner, dtype=np.intp), np.abs(answer.duals))
        return None

    def _violated(self) -> tuple[list[Row], list[int], list[float]]:
        """Return a row for every demand that is neither met nor paid for, toward its target, against its best rival."""
        demands = self.demands
        scores = self.view.scores(self.change)
        leads = demands.leads(scores)
        missing = np.flatnonzero((leads + self.slack < demands.margin - TOLERANCE) & ~self.given_up)
        if not len(missing):
            return [], [], []
        best = np.where(demands.targets[missing], scores[missing], -np.inf).argmax(axis=1)
        rival = np.where(demands.rivals[missing], scores[missing], -np.inf).argmax(axis=1)
        new = self.target[missing] < 0
        self.target[missing[new]] = best[new]
        self._add_slack(missing[self.soft[missing] & (self.slack_column[missing] < 0)])
        rows: list[Row] = []
        owners: list[int] = []
        lower: list[float] = []
        for k, c in zip(missing.tolist(), rival.tolist(), strict=True):
            t = int(self.target[k])
            if (k, t, c) in self.known:  # met within the solver's tolerance
                continue
            self.known.add((k, t, c))
            (up, more), (down, less) = self.view.terms(k, t), self.view.terms(k, c)
            already = float(self.base[k, t] - self.base[k, c])
            parts, weights = [up, down, up + self.width, down + self.width], [more, -less, -more, less]
            if self.slack_column[k] >= 0:
                parts.append(self.slack_column[k : k + 1])
                weights.append(np.ones(1))
            rows.append((np.concatenate(parts), np.concatenate(weights)))
            owners.append(k)
            lower.append(float(demands.margin[k]) - already)
        return rows, owners, lower

    def _add_slack(self, who: npt.NDArray[np.intp]) -> None:
        if len(who):
            first = self.lp.add_columns(self.demands.weight[who])
            self.slack_column[who] = first + np.arange(len(who))

    def _choose_anew(self, passes: int) -> Unmet | None:
        """Let demands whose target is not the best one change it, while the objective falls."""
        for _ in range(passes):
            scores = self.view.scores(self.change)
            best = np.where(self.demands.targets, scores, -np.inf).argmax(axis=1)
            everyone = np.arange(len(best))
            gain = scores[everyone, best] - scores[everyone, np.maximum(self.target, 0)]
            moved = np.flatnonzero((self.target >= 0) & (best != self.target) & (gain > 1e-9) & ~self.given_up)
            if not len(moved):
                return None
            before = self.objective
            self._retarget(moved, best[moved])
            if (failed := self._run()) is not None or (failed := self._meet()) is not None:
                return failed
            if self.objective >= before - 1e-9 * max(1.0, before):
                return None
        return None

    def _retarget(self, who: npt.NDArray[np.intp], targets: npt.NDArray[np.intp]) -> None:
        self.target[who] = targets
        gone = set(who.tolist())
        self.lp.drop_rows([row for row, k in enumerate(self.owner) if k in gone])
        self.owner = [k for k in self.owner if k not in gone]
        self.known = {key for key in self.known if key[0] not in gone}

    def _give_up(self) -> None:
        """Free the soft demands that are not met, and make the others hard: the last change meets them."""
        paid = np.flatnonzero(self.slack_column >= 0)
        lost = self.slack[paid] > TOLERANCE
        self.given_up[paid[lost]] = True
        self.soft[:] = False
        self.slack[paid[~lost]] = 0.0
        upper = np.where(lost, np.inf, 0.0)
        self.lp.change_columns(self.slack_column[paid], np.zeros(len(paid)), upper)
