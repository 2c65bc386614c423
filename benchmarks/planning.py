"""Grounding and exploring planning problems: joins against the naive product of all parameters, CPU time, same run.

The naive way reads with the package `pddl`, instantiates every schema with every object of its parameters' types, and keeps what
its static atoms allow; it ends after `--patience` seconds. polvet reads and grounds (conditions
and effects, too); finds mutex groups and bounds and makes a model; enumerates all states; decides whether a strong-cyclic policy
exists; counts are compared with the published oracle's (`reference.json`). Reading and grounding take turns with the naive way,
`ROUNDS` times, and the least time of each counts.
Then triangles of the tireworld grow (the published pattern: sizes 1 to 3 have the published counts) until one takes longer than `--largest`
seconds in all: reading, grounding, enumerating all states, deciding.
    python -m benchmarks.planning [--benchmarks FOLDER] [--patience 20] [--largest 60] [-o benchmarks/results/planning.json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from itertools import count, product
from pathlib import Path
from typing import Any

from polvet.budget import Budget
from polvet.errors import LimitReached, Where
from polvet.kernel.compiled import Compiled
from polvet.model.instantiate import instantiate
from polvet.model.task import TaskOptions
from polvet.pddl import read_pddl
from polvet.pddl.ground import Grounding, ground
from polvet.pddl.parse import parse_domain, parse_problem
from polvet.safety.strong_cyclic import solve
from polvet.sources import load_task

BENCHMARKS = Path(__file__).resolve().parents[2] / "shared" / "benchmarks"
RESULTS = Path(__file__).resolve().parent / "results"
ROUNDS = 5
PROBLEMS = (
    "blocksworld-new/p5", "elevators/p04", "islands/p5", "rectangle-tireworld-noghost/p06-x11-y11-h4-v3-u40-s6",
    "st_mapfdu/p06", "tireworld-spiky/p1", "triangle-tireworld/p3", "zenotravel/p01",
)  # fmt: skip


def naive_grounding(domain_file: Path, problem_file: Path, patience: float) -> tuple[int, int, bool]:
    """Return how many instances were looked at, how many are left, and whether all were."""
    from pddl.logic.base import And
    from pddl.logic.predicates import Predicate

    import pddl

    domain, problem = pddl.parse_domain(domain_file), pddl.parse_problem(problem_file)
    changing = {str(one.name) for action in domain.actions for one in _predicates(action.effect)}
    init = {(str(one.name), *(str(term.name) for term in one.terms)) for one in problem.init}
    types = {str(name): None if parent is None else str(parent) for name, parent in domain.types.items()}

    def has_type(one: Any, wanted: set[str]) -> bool:
        kind = None if one.type_tag is None else str(one.type_tag)
        while kind is not None and kind not in wanted:
            kind = types.get(kind)
        return not wanted or "object" in wanted or kind is not None

    objects = [*domain.constants, *problem.objects]
    deadline = time.process_time() + patience
    looked = kept = 0
    for action in domain.actions:
        pools = [[one for one in objects if has_type(one, {str(t) for t in v.type_tags})] for v in action.parameters]
        parts = action.precondition.operands if isinstance(action.precondition, And) else [action.precondition]
        static = [one for one in parts if isinstance(one, Predicate) and str(one.name) not in changing]
        for row in product(*pools):
            looked += 1
            if looked % 4096 == 0 and time.process_time() > deadline:
                return looked, kept, False
            values = {str(v.name): str(one.name) for v, one in zip(action.parameters, row, strict=True)}
            atoms = ((str(one.name), *(values.get(str(t.name), str(t.name)) for t in one.terms)) for one in static)
            kept += all(atom in init for atom in atoms)
    return looked, kept, True


def _predicates(effect: Any) -> list[Any]:
    from pddl.logic.predicates import Predicate

    found, pending = [], [effect]
    while pending:
        one = pending.pop()
        if isinstance(one, Predicate):
            found.append(one)
        for name in ("operands", "argument", "effect"):
            inner = getattr(one, name, ())
            pending += inner if isinstance(inner, list | tuple) else [inner]
    return found


def read_and_ground(domain: Path, problem: Path) -> Grounding:
    """Return the ground problem: what is like for like with the naive way, and no model yet."""
    known = parse_domain(domain.read_text(encoding="utf-8"), Where(str(domain)))
    return ground(known, parse_problem(problem.read_text(encoding="utf-8"), Where(str(problem)), known))


def seconds_of(work: Callable[[], object]) -> float:
    """Return the CPU seconds that the work takes."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def row(folder: Path, reference: dict[str, Any], patience: float) -> dict[str, Any]:
    """Measure one problem."""
    domain, problem = folder / reference["domain"], folder / reference["problem"]
    world = read_pddl(problem, domain)
    grounded = time.process_time()
    compiled = Compiled(instantiate(world.model))
    space = compiled.explore()
    explored = time.process_time()
    assert len(space) == reference["states"], problem
    task = load_task(problem, TaskOptions(domain=domain))
    solving = time.process_time()
    (start,) = compiled.semantics.initial_states()
    won = solve(task, [start]).is_won(start)
    solved = time.process_time()
    assert won is reference["strong_cyclic"], problem
    found: dict[str, Any] = {
        "problem": reference["problem"], "atoms": len(world.model.variables), "ground_actions": len(world.model.actions),
        "states": len(space), "explore_seconds": round(explored - grounded, 3),
        "strong_cyclic_seconds": round(solved - solving, 3),
    }  # fmt: skip
    looked, kept, whole = naive_grounding(domain, problem, patience)
    times: dict[str, list[float]] = {"ground": [], "model": [], "naive": []}
    for _ in range(ROUNDS):
        times["ground"].append(seconds_of(lambda: read_and_ground(domain, problem)))
        times["model"].append(seconds_of(lambda: read_pddl(problem, domain)))
        times["naive"].append(seconds_of(lambda: naive_grounding(domain, problem, patience)))
    least = {name: min(many) for name, many in times.items()}
    return {
        **found, **{f"{name}_seconds": round(seconds, 3) for name, seconds in least.items()},
        "naive_instances": looked, "naive_kept": kept, "naive": "all" if whole else f"stopped after {patience:g} s",
        "ratio": round(least["naive"] / least["ground"], 1), "ratio_model": round(least["naive"] / least["model"], 1),
    }  # fmt: skip


def triangle(size: int) -> str:
    """Return the problem of the triangle tireworld of that size, in the published pattern."""
    width, init = 2 * size + 1, ["(vehicle-at l-1-1)", "(not-flattire)"]
    for row in range(1, width + 1, 2):
        across = width - row + 1  # places of this row
        for j in range(1, across):
            init += [f"(road l-{row}-{j} l-{row}-{j + 1})", f"(road l-{row}-{j} l-{row + 1}-{j})"]
            init += [f"(road l-{row + 1}-{j} l-{row}-{j + 1})", f"(spare-in l-{row + 1}-{j})"]
        for j in range(1, across - 1, 2):
            init += [f"(road l-{row + 1}-{j} l-{row + 2}-{j})", f"(road l-{row + 2}-{j} l-{row + 1}-{j + 1})"]
        if row > 1:
            init += {f"(spare-in l-{row}-1)": None, f"(spare-in l-{row}-{across})": None}
    places = " ".join(f"l-{i}-{j}" for i in range(1, width + 1) for j in range(1, width + 1))
    goal = f"(:goal (vehicle-at l-1-{width}))"
    return f"(define (problem t{size}) (:domain triangle-tire) (:objects {places} - location) (:init {' '.join(init)}) {goal})"


def largest_triangles(folder: Path, references: dict[str, Any], patience: float) -> list[dict[str, Any]]:
    """Return what each size takes, up to the first that takes too long."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for size in count(1):
            problem, domain = Path(scratch) / f"t{size}.pddl", folder / "triangle-tireworld" / "domain.pddl"
            problem.write_text(triangle(size), encoding="utf-8")
            begun = time.process_time()
            task = load_task(problem, TaskOptions(domain=domain))
            compiled = Compiled(task.network)
            (start,) = compiled.semantics.initial_states()
            found: dict[str, Any] = {"triangle": size}
            try:
                solved = solve(task, [start], budget=Budget(patience, 6_000, clock=time.process_time))
                found |= {"states": solved.game.states, "strong_cyclic": solved.is_won(start)}
            except LimitReached as limit:
                found |= {"stopped": str(limit)}
            rows.append({**found, "seconds": round(time.process_time() - begun, 2)})
            print(json.dumps(rows[-1]), flush=True)
            known = references.get(f"triangle-tireworld/p{size}")
            assert known is None or found.get("states") == known["states_goal_absorbing"], (found, known)
            if rows[-1]["seconds"] > patience or "stopped" in found:
                return rows
    raise AssertionError("sizes never end")


def page(rows: list[dict[str, Any]], largest: list[dict[str, Any]]) -> str:
    """Return the results for people to read."""
    lines = [
        "# Grounding, exploring and deciding planning problems",
        "",
        "CPU seconds, one run; reading and grounding are the least of several turns. *Naive* reads with the package `pddl`",
        "and goes through the product of all parameters; *ground* reads and grounds, conditions and effects, too; *model*",
        "does that, finds mutex groups and bounds and makes a model. *times* are the naive way's time by theirs. States and",
        "answers are those of the published oracle, or the run fails.",
        "",
        "| problem | atoms | ground actions | states | naive instances | naive "
        "| ground | times | model | times | explore | strong-cyclic |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        counts = f"{one['atoms']} | {one['ground_actions']} | {one['states']:,} | {one['naive_instances']:,}"
        own = f"{one['ground_seconds']} | {one['ratio']} | {one['model_seconds']} | {one['ratio_model']}"
        rest = f"{one['explore_seconds']} | {one['strong_cyclic_seconds']}"
        lines.append(f"| {one['problem']} | {counts} | {one['naive_seconds']} | {own} | {rest} |")
    lines += [
        "",
        "Triangles of the tireworld, until one takes too long in all: reading, grounding, enumerating all states, deciding. The kernel",
        "keeps the limit by the wall clock, so that on a busy machine a size may be stopped with fewer CPU seconds.",
        "",
        "| size | states | strong-cyclic | CPU seconds |",
        "|---|---|---|---|",
    ]
    for one in largest:
        found = f"{one['states']:,} | {one['strong_cyclic']}" if "states" in one else f"| {one['stopped']}"
        lines.append(f"| {one['triangle']} | {found} | {one['seconds']} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure the problems and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmarks", type=Path, default=BENCHMARKS)
    parser.add_argument("--patience", type=float, default=20.0)
    parser.add_argument("--largest", type=float, default=60.0)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "planning.json")
    given = parser.parse_args()
    folder = given.benchmarks / "fond-pddl"
    references = {
        one["problem"].removesuffix(".pddl"): one for one in json.loads((folder / "reference.json").read_text())
    }
    rows = []
    for name in PROBLEMS:
        rows.append(row(folder, references[name], given.patience))
        print(json.dumps(rows[-1]), flush=True)
    largest = largest_triangles(folder, references, given.largest)
    given.output.write_text(
        json.dumps({"unit": "CPU seconds", "rows": rows, "largest": largest}, indent=1) + "\n", encoding="utf-8"
    )
    given.output.with_suffix(".md").write_text(page(rows, largest), encoding="utf-8")


if __name__ == "__main__":
    main()
