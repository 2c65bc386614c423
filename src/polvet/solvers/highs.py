"""The door to HiGHS: linear programs that grow row by row, and mixed-integer ones with a bound.

Answers are proposals in doubles: whoever asks executes them. "Infeasible" is a hint, never evidence.
One thread and a fixed seed, so that equal programs give equal answers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from polvet.budget import UNLIMITED, Budget

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]
Row = tuple[npt.NDArray[Any], Reals]
"""A sparse row: columns and their coefficients."""
LEAST_SECONDS = 0.1  # so that a point that is known already is looked at
GRACE = 1.0  # seconds beyond its time limit after which a solver is stopped from outside


@dataclass(frozen=True, slots=True, eq=False)
class LpAnswer:
    """How a linear program ended; values and row duals only where it is optimal."""

    status: Literal["optimal", "infeasible", "time", "other"]
    values: Reals
    duals: Reals
    objective: float


@dataclass(frozen=True, slots=True, eq=False)
class MilpAnswer:
    """The best point of a mixed-integer program (None: none found) and a bound on every point, both in doubles."""

    values: Reals | None
    objective: float
    bound: float
    status: str
    nodes: int
    timed_out: bool


class GrowingLp:
    """min cost x subject to rows `lower <= a x`; rows and columns may be added, changed and dropped between solutions."""

    def __init__(self, cost: Reals, upper: Reals | None = None) -> None:
        self._solver, self._highspy = _solver()
        self.columns = 0
        self.rows = 0
        self.iterations = 0
        self.add_columns(cost, upper)

    @classmethod
    def by_columns(cls, cost: Reals, ends: tuple[Reals, Reals], columns: tuple[Integers, Integers, Reals]) -> GrowingLp:
        """Return min cost x with every row between its two ends; columns: where each begins, the rows, the coefficients."""
        made = cls(np.zeros(0))
        program = made._highspy.HighsLp()
        program.num_col_, program.num_row_ = len(cost), len(ends[0])
        program.col_cost_, program.col_lower_ = cost, np.zeros(len(cost))
        program.col_upper_ = np.full(len(cost), made._highspy.kHighsInf)
        program.row_lower_, program.row_upper_ = ends
        program.a_matrix_.format_ = made._highspy.MatrixFormat.kColwise
        program.a_matrix_.start_, program.a_matrix_.index_, program.a_matrix_.value_ = columns
        made._solver.passModel(program)
        made.columns, made.rows = len(cost), len(ends[0])
        return made

    def add_columns(self, cost: Reals, upper: Reals | None = None) -> int:
        """Add non-negative columns and return the number of the first one."""
        count, first = len(cost), self.columns
        if count:
            most = np.full(count, self._highspy.kHighsInf) if upper is None else upper
            empty, none = np.zeros(count, dtype=np.int32), np.zeros(0, dtype=np.int32)
            self._solver.addCols(count, cost, np.zeros(count), most, 0, empty, none, np.zeros(0))
        self.columns += count
        return first

    def change_columns(self, columns: npt.NDArray[Any], cost: Reals, upper: Reals) -> None:
        """Give the columns other costs and upper bounds."""
        if len(columns):
            index = columns.astype(np.int32)
            self._solver.changeColsCost(len(index), index, cost)
            self._solver.changeColsBounds(len(index), index, np.zeros(len(index)), upper)

    def add_rows(self, lower: Sequence[float], rows: Sequence[Row]) -> None:
        """Add rows `lower[i] <= rows[i] x`."""
        if not rows:
            return
        sizes = np.array([len(index) for index, _ in rows], dtype=np.int64)
        starts = (np.cumsum(sizes) - sizes).astype(np.int32)
        index = np.concatenate([columns for columns, _ in rows]).astype(np.int32)
        value = np.concatenate([values for _, values in rows])
        least = np.asarray(lower, dtype=np.float64)
        most = np.full(len(rows), self._highspy.kHighsInf)
        self._solver.addRows(len(rows), least, most, len(index), starts, index, value)
        self.rows += len(rows)

    def drop_rows(self, rows: Sequence[int]) -> None:
        """Drop the rows of these numbers; the others close up."""
        if rows:
            self._solver.deleteRows(len(rows), np.array(sorted(rows), dtype=np.int32))
            self.rows -= len(rows)

    def forget(self) -> None:
        """Start the next solution from nothing: quicker than from the last one where many rows have gone."""
        self._solver.clearSolver()

    def solve(self, seconds: float = math.inf, iterations: int | None = None) -> LpAnswer:
        """Return the optimum, starting from the last one; with at most so many simplex iterations."""
        solver, status = self._solver, self._highspy.HighsModelStatus
        # HiGHS counts its time over all runs of one object.
        limit = solver.getRunTime() + max(0.0, seconds) if math.isfinite(seconds) else self._highspy.kHighsInf
        solver.setOptionValue("time_limit", limit)
        solver.setOptionValue("simplex_iteration_limit", self._highspy.kHighsIInf if iterations is None else iterations)
        solver.run()
        outcome = solver.getModelStatus()
        info = solver.getInfo()
        self.iterations += max(0, info.simplex_iteration_count)
        if outcome == status.kOptimal:
            solution = solver.getSolution()
            return LpAnswer(
                "optimal", np.array(solution.col_value), np.array(solution.row_dual), info.objective_function_value
            )
        none = np.zeros(0)
        if outcome in (status.kInfeasible, status.kUnboundedOrInfeasible):
            return LpAnswer("infeasible", none, none, math.inf)
        return LpAnswer("time" if outcome == status.kTimeLimit else "other", none, none, math.inf)


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
    solver, highspy = _solver()
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = len(cost), len(rows)
    program.col_cost_, program.col_lower_ = cost, np.zeros(len(cost))
    program.col_upper_ = np.where(np.isinf(upper), highspy.kHighsInf, upper)
    program.row_lower_ = np.asarray(lower, dtype=np.float64)
    program.row_upper_ = np.full(len(rows), highspy.kHighsInf)
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.cumsum([0, *(len(index) for index, _ in rows)]).astype(np.int32)
    program.a_matrix_.index_ = np.concatenate([index for index, _ in rows]).astype(np.int32)
    program.a_matrix_.value_ = np.concatenate([value for _, value in rows])
    kinds = highspy.HighsVarType
    program.integrality_ = [kinds.kInteger if flag else kinds.kContinuous for flag in integer.tolist()]
    solver.passModel(program)
    if budget.until != math.inf and budget.clock is time.monotonic:  # HiGHS knows no other clock
        solver.setOptionValue("time_limit", max(LEAST_SECONDS, budget.left()))
    if nodes is not None:
        solver.setOptionValue("mip_max_nodes", nodes)
    solver.setOptionValue("mip_rel_gap", 1e-7)
    solver.setOptionValue("mip_abs_gap", 1e-9)
    if start is not None:
        solver.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)
    stopped = _run_interruptibly(solver, budget)
    info, status = solver.getInfo(), solver.getModelStatus()
    values = np.array(solver.getSolution().col_value) if info.primal_solution_status == 2 else None
    return MilpAnswer(
        values,
        info.objective_function_value if values is not None else math.inf,
        info.mip_dual_bound,
        solver.modelStatusToString(status),
        int(info.mip_node_count),
        stopped or status == highspy.HighsModelStatus.kTimeLimit,
    )


def _run_interruptibly(solver: Any, budget: Budget) -> bool:
    """Run the solver in a thread of its own, so that Ctrl-C stops it; a plain run would hear of it at its end only.

    Return whether it had to be stopped: HiGHS looks at its own time limit between nodes, and one node may take minutes.
    """
    grace = GRACE if budget.clock is time.monotonic else 0.0
    patience = UNLIMITED if budget.until == math.inf else Budget(budget.left() + grace, clock=budget.clock)
    stopped = False
    solver.HandleUserInterrupt = True
    solver.startSolve()
    try:
        while not solver.wait(0.2)[0]:
            if not stopped and patience.is_over():
                stopped = True
                solver.cancelSolve()
        return stopped
    except BaseException:  # Ctrl-C, or a limit
        solver.cancelSolve()
        solver.wait()
        raise
    finally:
        solver.HandleUserInterrupt = False


def _solver() -> tuple[Any, Any]:
    import highspy as _highspy

    highspy: Any = _highspy
    solver = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("parallel", "off"), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    return solver, highspy
