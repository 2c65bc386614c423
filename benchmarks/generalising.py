"""Repairs that generalise: retraining against one repair by a tree over all faults, on start states that neither has met.

    python -m benchmarks.generalising [--rows "Beluga (6"] [--seconds 900]

Policies (20 rounds of depth 5) imitate random lessons, so that they are at fault nearly everywhere (Beluga), or 100 runs of a teacher
who reaches the goal, with 70% of its decisions replaced by random ones: they reach the goal, and fail, now and then. `followed`
starts are debugged on, up to 1,000 others are evaluated on: %Unsafe exactly (a start is unsafe where some run from it may fail),
%Goal by ten runs of each. `retrain` follows the policy from these starts alone; `all` goes on over every start of the task until none
is unsafe, and is then verified, with the certificate checked. Seconds are CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import polvet
from benchmarks.teachers import line_rules, transport_rules
from polvet.budget import Budget
from polvet.check.checker import Subjects, check
from polvet.debug.faults import all_faults
from polvet.domains import generate
from polvet.errors import LimitReached, Where
from polvet.kernel.compiled import Words
from polvet.kernel.starts import Starts
from polvet.policy.binding import Fitted, fit, load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.runs import End, Inspection, simulate
from polvet.policy.save import save_policy
from polvet.repair.repair import Options, repair
from polvet.repair.retrain import Plan, retrain
from polvet.safety.decide import Decider
from polvet.sources import load_task
from polvet.train.imitate import imitate
from polvet.verify.certificates import certificate_of
from polvet.verify.portfolio import verify

RESULTS = Path(__file__).resolve().parent / "results"
Rules = tuple[dict[str, str], ...]
WRONG = 0.7
ROWS: dict[str, tuple[str, dict[str, Any], int]] = {
    "Beluga (6 jigs)": ("beluga", {"jigs": 6}, 100),
    "Beluga (7 jigs)": ("beluga", {"jigs": 7}, 300),
    "Beluga (8 jigs)": ("beluga", {"jigs": 8}, 500),
    "Transport (5, 4)": ("transport", {"locations": 5, "packages": 4}, 100),
    "1 way line (6, 4)": ("one-way-line", {"n": 6, "p": 4}, 100),
    "2 way line (6, 4)": ("two-way-line", {"n": 6, "p": 4}, 100),
    "6 blocks": ("blocksworld", {"n": 6, "cost": 0}, 100),
}
TEACHERS: dict[str, Rules | str] = {
    "Transport (5, 4)": transport_rules(5),
    "1 way line (6, 4)": line_rules(4, two_way=False, park=False),
    "2 way line (6, 4)": line_rules(4, two_way=True, park=False),
    "6 blocks": "optimal",
}
"""Of rows whose policies are not taught at random."""
OTHERS = 1_000


@dataclass(frozen=True, slots=True)
class Measured:
    """A policy on starts that were not followed, and what it took to make it."""

    how: str
    unsafe_percent: float | None
    goal_percent: float | None
    seconds: float
    kept_percent: float | None = None
    note: str = ""


def poor_policy(fitted_task: Any, starts: Words, compiled: Any) -> Fitted:
    """Return a policy that learnt random lessons."""
    rows = compiled.machine.unpack(np.ascontiguousarray(starts[:200])).astype(np.float32)
    rng = np.random.default_rng(0)
    names = tuple(variable.name for variable in fitted_task.network.variables)
    labels = tuple(fitted_task.network.labels)
    return fit(fitted_task, imitate(rows, rng.integers(0, len(labels), len(rows)), names, labels).policy)


def distracted_policy(row: str, fitted_task: Any) -> Fitted:
    """Return a policy that learnt from the row's teacher, whose decisions are replaced by random ones now and then."""
    name, options, _ = ROWS[row]
    teacher = TEACHERS[row]
    with tempfile.TemporaryDirectory() as folder:
        _, file = generate(name, **options).write(Path(folder) / "task.jani")
        task = polvet.load(file)
        if isinstance(teacher, str):
            who = task.train("trees", teacher=teacher, runs=200, max_steps=300, seed=0).policy
        else:
            rules = Path(folder) / "rules.json"
            rules.write_text(json.dumps({"format": "rules/1", "rules": list(teacher)}), encoding="utf-8")
            who = task.policy(rules)
        names, labels = tuple(task.variables), tuple(task.labels)
        steps = [
            ([float(state[name]) for name in names], labels.index(action))
            for run in who.simulate(runs=100, max_steps=300, seed=0).runs
            for state, action in zip(run.states, run.actions, strict=False)
            if action is not None
        ]
    rng = np.random.default_rng(0)
    taught = np.array([label for _, label in steps])
    wrong = rng.random(len(taught)) < WRONG
    taught[wrong] = rng.integers(0, len(labels), wrong.sum())
    rows = np.array([state for state, _ in steps], dtype=np.float32)
    return fit(fitted_task, imitate(rows, taught, names, labels).policy)


def measured(how: str, fitted: Fitted, others: Words, seconds: float, **more: Any) -> Measured:
    """Return how the policy does on the other starts."""
    bound = compile_policy(fitted)
    unsafe = len(Inspection(bound).unsafe(others))
    runs = simulate(bound, others, runs_per_start=10, max_steps=1_000)
    goal = runs.count(End.GOAL) / len(runs.ends)
    return Measured(how, round(100 * unsafe / len(others), 2), round(100 * goal, 2), round(seconds, 1), **more)


def by_tree(fitted: Fitted, followed: Words, others: Words, seconds: float) -> Measured:
    """Repair all faults on runs from the followed starts once, by a tree."""
    begun, bound, budget = time.process_time(), compile_policy(fitted), Budget(seconds)
    try:
        found = all_faults(bound, Decider(fitted.task), starts=followed, budget=budget)
        if found.limit is not None:
            raise found.limit
        done = repair(fitted, found.faults, Options("tree"), budget=budget)
    except LimitReached as limit:
        return Measured("tree", None, None, round(time.process_time() - begun, 1), note=str(limit))
    spent = time.process_time() - begun
    return measured("tree", fit(fitted.task, done.policy), others, spent, note=f"{len(found.faults):,} faults")


def by_retraining(fitted: Fitted, followed: Words, others: Words, seconds: float) -> Measured:
    """Retrain from the followed starts alone."""
    begun = time.process_time()
    made = retrain(fitted, Plan(starts=len(followed)), starts=followed, budget=Budget(seconds))
    spent = time.process_time() - begun
    note = f"{made.teacher}; {made.decisions:,} right decisions" + ("" if made.limit is None else f"; {made.limit}")
    kept = round(100 * made.kept, 1)
    return measured("retrain", replace(fitted, policy=made.policy), others, spent, kept_percent=kept, note=note)


def to_the_end(row: str, fitted: Fitted, others: Words, seconds: float) -> Measured:
    """Retrain over all starts, verify, and check the certificate."""
    name, options, followed = ROWS[row]
    begun = time.process_time()
    made = retrain(fitted, Plan(starts=followed), budget=Budget(seconds))
    spent = time.process_time() - begun
    with tempfile.TemporaryDirectory() as folder:
        _, file = generate(name, **options).write(Path(folder) / "task.jani")
        save_policy(made.policy, Path(folder) / "policy.json")
        task = load_task(file)
        begun = time.process_time()
        bound = compile_policy(load_fitted(task, Path(folder) / "policy.json"))
        result = verify(bound, method="explicit")
        verifying = time.process_time() - begun
        verdict = result.verdict.value
        note = f"{verdict}, verified in {verifying:.1f} s"
        if verdict == "safe":
            begun = time.process_time()
            document = json.loads(json.dumps(certificate_of(bound, result)))
            checked = check(document, Subjects(file, Path(folder) / "policy.json"), Where("certificate"))
            note += f"; {type(checked).__name__.lower()} in {time.process_time() - begun:.1f} s ({document['count']:,} states)"
    kept = round(100 * made.kept, 1)
    return measured("all", replace(fitted, policy=made.policy), others, spent, kept_percent=kept, note=note)


def run_row(row: str, seconds: float, ways: list[str]) -> dict[str, Any]:
    """Return what became of one row."""
    name, options, count = ROWS[row]
    task = generate(name, **options).task()
    compiled = Decider(task).compiled
    starts = Starts.of(task)
    every = compiled.pack_starts(starts, 60_000)
    order = np.random.default_rng(7).permutation(len(every))
    count = min(count, len(every) // 2)
    followed = np.ascontiguousarray(every[np.sort(order[:count])])
    others = np.ascontiguousarray(every[np.sort(order[count : count + OTHERS])])
    fitted = distracted_policy(row, task) if row in TEACHERS else poor_policy(task, every[order], compiled)
    results = [measured("first", fitted, others, 0.0)]
    if "tree" in ways:
        results.append(by_tree(fitted, followed, others, min(seconds, 120)))
    if "retrain" in ways:
        results.append(by_retraining(fitted, followed, others, seconds))
    if "all" in ways and name == "beluga":
        results.append(to_the_end(row, fitted, others, seconds))
    for one in results:
        print(row, one, flush=True)
    return {
        "row": row,
        "starts": len(every),
        "followed": count,
        "others": len(others),
        "ways": [asdict(r) for r in results],
    }


def page(rows: list[dict[str, Any]]) -> str:
    """Return the results as a table."""
    lines = [
        "# Repairs that generalise",
        "",
        "`python -m benchmarks.generalising`: policies that learnt random lessons (Beluga), or from a teacher who reaches the goal, with",
        f"{WRONG:.0%} of its decisions replaced by random ones; `tree` repairs all faults on runs from the followed starts once, `retrain`",
        "learns from the same starts, `all` goes over every start until none is unsafe and is verified. %Unsafe (exact) and %Goal are",
        "those of starts that were not followed (`all` has met them). CPU seconds of one thread.",
        "",
        "| row | starts | followed | policy | %Unsafe | %Goal | seconds | right decisions kept | |",
        "|---|---:|---:|---|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        for way in row["ways"]:
            shown = ["-" if way[k] is None else f"{way[k]:,}" for k in ("unsafe_percent", "goal_percent", "seconds")]
            kept = "" if way["kept_percent"] is None else f"{way['kept_percent']}%"
            head = f"| {row['row']} | {row['starts']:,} | {row['followed']} | {way['how']} "
            lines.append(f"{head}| {' | '.join(shown)} | {kept} | {way['note']} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the rows that were asked for, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="")
    parser.add_argument("--ways", default="tree,retrain,all")
    parser.add_argument("--seconds", type=float, default=900)
    asked = parser.parse_args()
    file = RESULTS / "generalising.json"
    for row in ROWS:
        if row.startswith(asked.rows):
            measurement = run_row(row, asked.seconds, asked.ways.split(","))
            known = {one["row"]: one for one in json.loads(file.read_text())} if file.exists() else {}
            known[row] = measurement
            rows = [known[name] for name in ROWS if name in known]
            file.write_text(json.dumps(rows, indent=1) + "\n")
            (RESULTS / "generalising.md").write_text(page(rows))


if __name__ == "__main__":
    main()
