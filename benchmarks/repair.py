"""Repair of tree ensembles side by side: chosen targets (default), the paper's big-M program, and penalty trees.

    python -m benchmarks.repair [--jigs 5 6] [--faults 100 1000 5000 20000] [--milp-seconds 60] [--collect-seconds 120]

Worlds are Beluga with 5, 6 and 8 jigs, policies imitate random lessons (20 rounds of depth 5, as the paper's), so that they
have many faults. A fault is a safe state, met on random walks, in which the policy's action has an unsafe outcome. Every
repair is checked fault by fault in the policy's own arithmetic before it counts. The big-M program runs alone (without the
default's repair as a start; its M comes from that repair) and stops at the time limit; its bound gives the gap of the default.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from polvet.budget import Budget
from polvet.domains import generate
from polvet.kernel.starts import Starts
from polvet.model.task import Task
from polvet.policy.binding import Fitted, fit
from polvet.policy.compiled import FAIL, GOAL, Bound, compile_policy
from polvet.records.fault_files import Fault
from polvet.repair.big_m import solve_big_m
from polvet.repair.demands import Applicability, fault_demands
from polvet.repair.leaf_values import leaf_values
from polvet.repair.repair import MARGIN, Options, repair
from polvet.repair.target_lp import Solution, TargetLp
from polvet.safety.decide import Decider
from polvet.solvers.highs import MilpAnswer, solve_milp
from polvet.train.imitate import imitate

RESULTS = Path(__file__).resolve().parent / "results"


def walked(bound: Bound, count: int, seed: int) -> list[tuple[Any, list[int]]]:
    """Return states of random walks, packed, each with its applicable labels; every state once."""
    rng = random.Random(seed)
    starts = bound.compiled.pack(Starts.of(bound.task).sample(200, rng))
    machine, seen = bound.compiled.machine, {}
    for _ in range(40 * count):
        state = rng.choice(starts)
        for _ in range(60):
            row = state.reshape(1, -1)
            if machine.holds(FAIL, row)[0] or machine.holds(GOAL, row)[0] or not (moves := machine.moves(state)):
                break
            labels = sorted({move[0] for move in moves if move[0] >= 0})
            seen.setdefault(state.tobytes(), (state, labels))
            branches = [branch for move in moves for branch in move[2]]
            state = np.array(rng.choice(branches)[1], dtype=np.uint64)
        if len(seen) >= count:
            break
    return list(seen.values())


def make_policy(task: Task, seed: int) -> Fitted:
    """Return a tree ensemble that imitates random lessons on random walks."""
    from polvet.policy.networks import network_of

    names = tuple(variable.name for variable in task.network.variables if not variable.is_location)
    labels = task.network.labels
    blank = network_of([(np.zeros((len(labels), len(names))), np.zeros(len(labels)))], names, labels)
    bound = compile_policy(fit(task, blank))
    states = walked(bound, 20_000, seed)
    rows = bound.core.rows(np.stack([state for state, _ in states]))
    rng = np.random.default_rng(seed)
    taught = np.array([rng.choice(found) for _, found in states], dtype=np.int64)
    return fit(task, imitate(rows, taught, names, labels).policy)


def collect(fitted: Fitted, bound: Bound, most: int, seconds: float) -> list[Fault]:
    """Return faults of the policy among states of random walks."""
    decider = Decider(fitted.task, compiled=bound.compiled)
    states = walked(bound, 12 * most, 7)
    begun, found = time.monotonic(), []
    for words, _ in states:
        if time.monotonic() > begun + seconds or len(found) >= most:
            break
        state = bound.compiled.unpack(words.reshape(1, -1))[0]
        judged = {label: safe for label, safe in decider.judge_actions(state) if label is not None}
        action = fitted.choose(state, list(judged))
        if action is not None and not judged[action] and any(judged.values()):
            found.append(Fault(state, action, tuple(label for label, safe in judged.items() if safe), ()))
    return found


def plain_milp(fitted: Fitted, bound: Bound, faults: list[Fault], mode: Any, seconds: float) -> dict[str, Any]:
    """Return the big-M program's own answer, without a start."""
    demands = fault_demands(Applicability(fitted, bound.compiled), faults, mode, MARGIN)
    ensemble: Any = fitted.policy
    view = leaf_values(ensemble, demands.rows)
    known = TargetLp(view, demands).solve()
    if not isinstance(known, Solution):
        return {"status": "the leaves alone do not suffice"}
    all_of_them = Solution(known.change, known.objective, np.maximum(known.targets, 0), known.lost, 0, 0)
    answers: list[MilpAnswer] = []

    def alone(*program: Any, **options: Any) -> MilpAnswer:
        answers.append(solve_milp(*program, **(options | {"start": None})))
        return answers[-1]

    begun = time.monotonic()
    bounded = solve_big_m(view, demands, all_of_them, budget=Budget(seconds), solver=alone)
    best = min((answer.objective for answer in answers), default=float("inf"))
    return {
        "seconds": round(time.monotonic() - begun, 1), "objective": None if np.isinf(best) else round(best, 4),
        "bound": None if bounded.bound is None else round(bounded.bound, 4), "status": bounded.status,
        "known": known.objective,
    }  # fmt: skip


def world(jigs: int, sizes: list[int], milp_seconds: float, collect_seconds: float) -> list[dict[str, Any]]:
    """Return the rows of one world."""
    task = generate("beluga", jigs=jigs).task()
    fitted = make_policy(task, seed=1)
    bound = compile_policy(fitted)
    everything = collect(fitted, bound, max(sizes), collect_seconds)
    rows = []
    for size in [size for size in sizes if size <= len(everything)] or [len(everything)]:
        faults = everything[:size]
        for mode in ("safe", "avoid"):
            milp = plain_milp(fitted, bound, faults, mode, milp_seconds) if size <= 1000 else {}
            for method in ("leaves", "penalty"):
                cpu = time.process_time()
                made = repair(fitted, faults, Options(method=method, mode=mode), compiled=bound.compiled)  # type: ignore[arg-type]
                row: dict[str, Any] = {
                    "jigs": jigs, "faults": size, "mode": mode, "method": method, "fixed": len(made.fixed),
                    "seconds": round(made.seconds, 1), "CPU seconds": round(time.process_time() - cpu, 1),
                    "objective": round(made.objective, 3), "trees added": made.trees_added,
                }  # fmt: skip
                if method == "leaves" and "objective" in milp and not made.trees_added:
                    limit = made.bound if milp["bound"] is None else max(milp["bound"], made.bound or 0.0)
                    gap = None if limit is None else round(100 * (made.objective - limit) / made.objective, 2)
                    row |= {"MILP objective": milp["objective"], "MILP bound": limit, "gap (%)": gap,
                            "MILP seconds": milp["seconds"], "MILP status": milp["status"]}  # fmt: skip
                rows.append(row)
                print(row, flush=True)
    return rows


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return the table as Markdown."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["# Repair of tree ensembles\n", "| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
    lines += ["| " + " | ".join(str(row.get(key, "")) for key in keys) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all worlds and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jigs", type=int, nargs="+", default=[5, 6, 8])
    parser.add_argument("--faults", type=int, nargs="+", default=[100, 1000, 5000, 20_000])
    parser.add_argument("--milp-seconds", type=float, default=60.0)
    parser.add_argument("--collect-seconds", type=float, default=300.0)
    options = parser.parse_args()
    rows = []
    for jigs in options.jigs:
        rows += world(jigs, options.faults, options.milp_seconds, options.collect_seconds)
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "repair.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        (RESULTS / "repair.md").write_text(markdown(rows), encoding="utf-8")
    print(markdown(rows))


if __name__ == "__main__":
    main()
