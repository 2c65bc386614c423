"""A solver that does not heed its own time limit is stopped from outside, and says so."""

from __future__ import annotations

import random
import time

import numpy as np

from polvet.budget import Budget
from polvet.solvers import highs


def market_split(rng):
    """Equal splits of thirty markets, a family that branch and bound takes hours for."""
    rows, sides = [], []
    for _ in range(4):
        weights = np.array([rng.randrange(100) for _ in range(30)], dtype=np.float64)
        half = float(weights.sum() // 2)
        for sign, slack in ((1.0, 30), (-1.0, 31)):
            place = np.array([*range(30), slack])
            rows.append((place, np.array([*(sign * weights), 1.0])))
            sides.append(sign * half)
    cost = np.array([0.0] * 30 + [1.0, 1.0])
    upper = np.array([1.0] * 30 + [np.inf, np.inf])
    return cost, rows, sides, upper, np.array([True] * 30 + [False] * 2)


def test_a_solver_that_goes_on_is_cancelled(monkeypatch):
    monkeypatch.setattr(highs, "GRACE", 0.2)
    solver, highspy = highs._solver()
    cost, rows, sides, upper, integer = market_split(random.Random(1))
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = len(cost), len(rows)
    program.col_cost_, program.col_lower_ = cost, np.zeros(len(cost))
    program.col_upper_ = np.where(np.isinf(upper), highspy.kHighsInf, upper)
    program.row_lower_ = np.array(sides)
    program.row_upper_ = np.full(len(rows), highspy.kHighsInf)
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.cumsum([0, *(len(index) for index, _ in rows)]).astype(np.int32)
    program.a_matrix_.index_ = np.concatenate([index for index, _ in rows]).astype(np.int32)
    program.a_matrix_.value_ = np.concatenate([value for _, value in rows])
    kinds = highspy.HighsVarType
    program.integrality_ = [kinds.kInteger if flag else kinds.kContinuous for flag in integer.tolist()]
    solver.passModel(program)  # without a time limit of its own
    assert highs._run_interruptibly(solver, Budget(0.3))


def test_the_time_limit_is_reported():
    cost, rows, sides, upper, integer = market_split(random.Random(2))
    found = highs.solve_milp(cost, upper, integer, sides, rows, budget=Budget(0.5))
    assert found.timed_out
    assert found.bound <= found.objective


def test_a_limit_by_another_clock_is_kept_by_that_clock():
    cost, rows, sides, upper, integer = market_split(random.Random(3))
    begun = time.process_time()
    found = highs.solve_milp(cost, upper, integer, sides, rows, budget=Budget(0.5, clock=time.process_time))
    assert found.timed_out
    assert time.process_time() - begun >= 0.5
