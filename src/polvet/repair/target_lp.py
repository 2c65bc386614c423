"""The default repair: a linear program in which every fault has one chosen target action.

Source   section 5.2, Eq. (1): min ||change||_1 such that in every fault some other action leads
Differs  the maximum over actions is not encoded by binary variables: each fault takes the target that leads best, rows are added
         where they are violated, and targets are chosen anew until the objective stops falling. Each new program has the last
         change among its points, so the objective never rises; the optimum of Eq. (1) may still be lower (`big_m.py` bounds it).
         The program is elastic: missing margin has a price, a high one where the demand is hard, so it is never infeasible and
         shows conflicts by itself. Soft demands that pay are given up, the others become hard, and the change is minimised
         again: so retention comes first and the change second.
Cost     one warm-started simplex per round; rows only for demands that were violated once
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polvet.budget import UNLIMITED, Budget
from polvet.repair.demands import Demands, Flags, Reals
from polvet.repair.linear_scores import LinearScores
from polvet.solvers.highs import GrowingLp, Row

TOLERANCE = 2e-7  # of the solver's rows
PRICE = 1000.0  # of a missing unit of a hard demand's margin
HIGH = 0.02  # a price of a row above this share of PRICE marks a partner in a conflict
ROUNDS = 1000
PASSES = 20
BATCH = 100  # at most so many rows are added at once, the most violated ones: later targets are chosen better
BATCHES = 6  # of many demands, a sixth at once: every batch is another program to solve
LEAST_WORK = 10_000  # simplex iterations for choosing targets anew
MORE_WORK = 2  # or so many times those before
MANY = 30
USUAL, LARGE = 500, 2000  # rows
OTHERS = 3  # so many targets of a demand are tried
NOBODY = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A change that meets all hard demands; `lost` are the soft ones it does not meet."""

    change: Reals
    objective: float  # ||change||_1, before rounding to the policy's numbers
    targets: npt.NDArray[np.intp]  # per demand; -1: no row was ever needed
    lost: Flags
    rows: int
    rounds: int


@dataclass(frozen=True, slots=True, eq=False)
class Unmet:
    """No change was found, because hard demands conflict (`torn` cannot be met with their `partners`) or time was over."""

    reason: str
    timed_out: bool
    torn: npt.NDArray[np.intp]
    partners: npt.NDArray[np.intp]


class TargetLp:
    """The growing program of one list of demands."""

    def __init__(self, view: LinearScores, demands: Demands, budget: Budget = UNLIMITED) -> None:
        self.view, self.demands, self.budget = view, demands, budget
        self.width = view.columns
        self.lp = GrowingLp(np.ones(2 * self.width))
        self.change = np.zeros(self.width)
        self.base = view.scores(self.change)
        self.objective = self.total = 0.0  # without and with what missing margins cost
        self.target = np.full(len(demands), -1, dtype=np.intp)
        self.slack_column = np.full(len(demands), -1, dtype=np.int64)
        self.slack = np.zeros(len(demands))
        self.given_up = np.zeros(len(demands), dtype=np.bool_)
        self.soft = np.isfinite(demands.weight)
        self.settled = False  # what is lost is lost: everything else is hard now
        self.owner: list[int] = []  # per row of the program, its demand
        self.known: set[tuple[int, int, int]] = set()
        self.rounds = 0
        self.price = np.zeros(len(demands))  # per demand, the dual price of its rows

    def solve(self, *, passes: int = PASSES, most_work: int | None = None) -> Solution | Unmet:
        """Return the change: add violated rows until there are none, choose targets anew, give up what is lost.

        `most_work` bounds the simplex iterations until all demands are met for the first time.
        """
        if (failed := self._meet(most_work)) is not None or (failed := self._choose_anew(passes)) is not None:
            return failed
        if (failed := self._try_others()) is not None:
            return failed
        torn = np.flatnonzero(~self.soft & (self.slack > TOLERANCE))
        if len(torn):
            partners = np.flatnonzero(~self.soft & (self.price > HIGH * PRICE))
            return Unmet("hard demands conflict", timed_out=False, torn=torn, partners=partners)
        if (self.slack[self.soft] > TOLERANCE).any():
            self._give_up()
            if (failed := self._run()) is not None or (failed := self._meet()) is not None:
                return failed
            if (failed := self._choose_anew(passes)) is not None:
                return failed
        lost = self.demands.leads(self.view.scores(self.change)) < self.demands.margin - TOLERANCE
        return Solution(self.change, self.objective, self.target, lost & self.soft, len(self.owner), self.rounds)

    def _meet(self, work: int | None = None) -> Unmet | None:
        """Add violated rows and solve until every demand is met or paid for."""
        for _ in range(ROUNDS):
            rows, owners, lower = self._violated()
            if not rows:
                return None
            self.lp.add_rows(lower, rows)
            self.owner += owners
            if (failed := self._run(work)) is not None:
                return failed
        return Unmet(f"no end after {ROUNDS} rounds of added rows", timed_out=False, torn=NOBODY, partners=NOBODY)

    def _run(self, work: int | None = None) -> Unmet | None:
        left = None if work is None else max(0, work - self.lp.iterations)
        answer = self.lp.solve(self.budget.left(), left)
        self.rounds += 1
        if answer.status != "optimal":
            return Unmet(f"the linear program ended with: {answer.status}", answer.status == "time", NOBODY, NOBODY)
        values = answer.values
        self.change = values[: self.width] - values[self.width : 2 * self.width]
        self.change[np.abs(self.change) < 1e-12] = 0.0
        self.objective = float(np.abs(self.change).sum())
        self.total = answer.objective
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
        short = np.where(self.given_up, 0.0, demands.margin - leads - self.slack)
        missing = np.flatnonzero(short > TOLERANCE)
        if not len(missing):
            return [], [], []
        most = max(BATCH, len(demands) // BATCHES)
        if len(missing) > most:
            missing = np.sort(missing[np.argsort(-short[missing], kind="stable")[:most]])
        best = np.where(demands.targets[missing], scores[missing], -np.inf).argmax(axis=1)
        rival = np.where(demands.rivals[missing], scores[missing], -np.inf).argmax(axis=1)
        new = self.target[missing] < 0
        self.target[missing[new]] = best[new]
        self._add_slack(missing[self.slack_column[missing] < 0])
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
            parts = up, down, up + self.width, down + self.width, self.slack_column[k : k + 1]
            rows.append((np.concatenate(parts), np.concatenate([more, -less, -more, less, np.ones(1)])))
            owners.append(k)
            lower.append(float(demands.margin[k]) - already)
        return rows, owners, lower

    def _add_slack(self, who: npt.NDArray[np.intp]) -> None:
        if len(who):
            cost = np.minimum(self.demands.weight[who], PRICE)
            upper = None if not self.settled else np.zeros(len(who))
            self.slack_column[who] = self.lp.add_columns(cost, upper) + np.arange(len(who))

    def _choose_anew(self, passes: int) -> Unmet | None:
        """Let demands whose target is not the best one change it, while the objective falls and the work is in proportion."""
        more = MORE_WORK * self.lp.iterations if len(self.owner) < LARGE else self.lp.iterations // 2
        work = self.lp.iterations + max(self._little(), more)
        for _ in range(passes):
            scores = self.view.scores(self.change)
            best = np.where(self.demands.targets, scores, -np.inf).argmax(axis=1)
            everyone = np.arange(len(best))
            gain = scores[everyone, best] - scores[everyone, np.maximum(self.target, 0)]
            # A row without a price does not bind: its target may stay.
            free = (self.target >= 0) & (best != self.target) & (self.price > 1e-9) & ~self.given_up
            moved = np.flatnonzero(free & (gain > 1e-9))
            if not len(moved):
                return None
            before, last = self.total, (self.change, self.objective, self.slack.copy())
            self._retarget(moved, best[moved])
            if len(moved) > MANY:
                self.lp.forget()
            if (failed := self._run(work)) is not None or (failed := self._meet(work)) is not None:
                if failed.timed_out:
                    return failed
                self.change, self.objective, self.slack = last
                return None
            if self.total >= before - 1e-6 * max(1.0, before):
                return None
        return None

    def _little(self) -> int:
        """Return how many more iterations are little work: the more rows, the dearer each of them is."""
        return LEAST_WORK * USUAL // max(USUAL, len(self.owner))

    def _try_others(self) -> Unmet | None:
        """Give single demands, the dearest first, another target, and keep it where everything becomes cheaper."""
        work = self.lp.iterations + self._little()
        tried: set[tuple[int, int]] = set()
        several = self.demands.targets.sum(axis=1) > 1
        while True:
            scores = np.where(self.demands.targets, self.view.scores(self.change), -np.inf)
            dear = np.flatnonzero(several & (self.price > 1e-9) & (self.target >= 0) & ~self.given_up)
            dear = dear[np.argsort(-self.price[dear], kind="stable")]
            options = ((k, t) for k in dear.tolist() for t in np.argsort(-scores[k], kind="stable")[:OTHERS].tolist())
            fresh = (
                (k, t) for k, t in options if t != self.target[k] and self.demands.targets[k, t] and (k, t) not in tried
            )
            if (option := next(fresh, None)) is None:
                return None
            tried.add(option)
            k, old = option[0], int(self.target[option[0]])
            last = self.change, self.objective, self.total, self.slack.copy(), self.price.copy()
            self._retarget(np.array([k]), np.array([option[1]]))
            failed = self._run(work) or self._meet(work)
            if failed is not None and failed.timed_out:
                return failed
            if failed is not None or self.total >= last[2] - 1e-7 * max(1.0, last[2]):
                self._retarget(np.array([k]), np.array([old]))  # its rows come back when they are violated
                self.change, self.objective, self.total, self.slack, self.price = last
                if failed is not None:  # too much work
                    return None

    def _retarget(self, who: npt.NDArray[np.intp], targets: npt.NDArray[np.intp]) -> None:
        self.target[who] = targets
        gone = set(who.tolist())
        self.lp.drop_rows([row for row, k in enumerate(self.owner) if k in gone])
        self.owner = [k for k in self.owner if k not in gone]
        self.known = {key for key in self.known if key[0] not in gone}

    def _give_up(self) -> None:
        """Free the soft demands that are not met, and make the others hard: the last change meets them."""
        self.settled = True
        paid = np.flatnonzero(self.slack_column >= 0)
        lost = self.soft[paid] & (self.slack[paid] > TOLERANCE)
        self.given_up[paid[lost]] = True
        self.slack[paid[~lost]] = 0.0
        self.lp.change_columns(self.slack_column[paid], np.zeros(len(paid)), np.where(lost, np.inf, 0.0))
