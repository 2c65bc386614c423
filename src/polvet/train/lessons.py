"""Lessons from a policy that runs in the kernel, and potentials for reward shaping."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, Where
from polvet.kernel.compiled import Words
from polvet.model.infix import parse_expression
from polvet.model.network import Kind
from polvet.policy.binding import Fitted, load_fitted
from polvet.policy.compiled import FAIL, GOAL, bind_policy, compile_policy
from polvet.policy.inputs import kind_over
from polvet.policy.runs import End, raise_what_broke
from polvet.train.q_learning import Potential

LANES = 64
PORTION = 64


def policy_lessons(
    fitted: Fitted,
    teacher: Path | None,
    starts: Words,
    *,
    runs: int,
    max_steps: int,
    noise: float,
    seed: int,
    budget: Budget = UNLIMITED,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return (row, output) of every decision in about so many runs of the teacher; None: it chooses at random."""
    guide = fitted if teacher is None else load_fitted(fitted.task, teacher)
    missing = set(guide.policy.outputs) - set(fitted.policy.outputs)
    if missing:
        raise InputError(
            f"the teacher chooses '{min(missing)}', which is no output.",
            Where("--teacher"),
            "Name it among the outputs in task.toml.",
        )
    bound = compile_policy(guide)
    rows_of = bind_policy(replace(fitted, task=guide.task), bound.compiled).core
    rollout = _core.Rollout(bound.core, starts, FAIL, GOAL, LANES, max_steps, seed)
    place = np.array([fitted.policy.outputs.index(name) for name in guide.policy.outputs], dtype=np.int64)
    rows, taught, finished = [], [], 0
    while finished < runs:
        budget.check()
        batch = rollout.collect(bound.core, PORTION, 1.0 if teacher is None else noise)
        raise_what_broke(bound, batch["status"], batch["faulty"], batch["fault"], batch["policy_broken"])
        useful = batch["end"] != End.FAIL  # what led straight to fail is not worth imitating
        rows.append(rows_of.rows(np.ascontiguousarray(batch["states"][useful])))
        taught.append(place[batch["action"][useful]])
        finished += len(batch["episodes"])
    return np.concatenate(rows), np.concatenate(taught)


def potential_of(fitted: Fitted, text: str, where: Where) -> Potential:
    """Return the expression as a function of packed states."""
    bound = compile_policy(fitted)
    network = fitted.task.network
    expression = network.resolve(parse_expression(text, where), where)
    if kind_over(network, expression) is Kind.BOOL:
        raise InputError("a potential is a number, not a truth value.", where, "Write a numeric expression.")
    value = bound.compiled.semantics.compile(expression)

    def potential(states: Words) -> NDArray[np.float64]:
        return np.array([float(value(state)) for state in bound.compiled.unpack(states)], dtype=np.float64)

    return potential
