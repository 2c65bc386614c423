"""Grounding and exploring planning problems: joins against the naive product of all parameters, CPU time, same run.

The naive way reads with the package `pddl`, instantiates every schema with every object of its parameters' types, and keeps what
its static atoms allow; it ends after `--patience` seconds. polvet reads, grounds, enumerates all states and decides whether a
strong-cyclic policy exists; counts are compared with the published oracle's (`reference.json`).
    python -m benchmarks.planning [--benchmarks FOLDER] [--patience 20] [-o benchmarks/results/planning.json]
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product
from pathlib import Path
from typing import Any

from polvet.kernel.compiled import Compiled
from polvet.model.instantiate import instantiate
from polvet.model.task import TaskOptions
from polvet.pddl import read_pddl
from polvet.safety.strong_cyclic import solve
from polvet.sources import load_task

BENCHMARKS = Path(__file__).resolve().parents[2] / "shared" / "benchmarks"
RESULTS = Path(__file__).resolve().parent / "results"
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


def row(folder: Path, reference: dict[str, Any], patience: float) -> dict[str, Any]:
    """Measure one problem."""
    domain, problem = folder / reference["domain"], folder / reference["problem"]
    begun = time.process_time()
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
        "states": len(space), "ground_seconds": round(grounded - begun, 3),
        "explore_seconds": round(explored - grounded, 3), "strong_cyclic_seconds": round(solved - solving, 3),
    }  # fmt: skip
    begun = time.process_time()
    try:
        looked, kept, whole = naive_grounding(domain, problem, patience)
    except Exception as error:  # the package does not read every domain
        return {**found, "naive": f"not read: {type(error).__name__}"}
    seconds = time.process_time() - begun
    return {
        **found, "naive_instances": looked, "naive_kept": kept, "naive_seconds": round(seconds, 3),
        "naive": "all" if whole else f"stopped after {patience:g} s",
        "ratio": round(seconds / max(found["ground_seconds"], 1e-3), 1),
    }  # fmt: skip


def main() -> None:
    """Measure the problems and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmarks", type=Path, default=BENCHMARKS)
    parser.add_argument("--patience", type=float, default=20.0)
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
    given.output.write_text(json.dumps({"unit": "CPU seconds", "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
