"""The evaluation of policy predicate abstraction (Vinzent, Steinmetz, Hoffmann, ICAPS 2022), configuration by configuration.

Fig. 1 (a)-(f)  seconds over growing sets of predicates `v >= c`: the five configurations of Table 1, plain predicate abstraction
                without the policy (PA), and our box engine (boxes); every cell of the grid has the same limit
Fig. 1 (g)-(i)  abstract states, abstract start states, and how many of these are proved safe
Fig. 2          the tests of appendix E (selection and applicability) over the same sets, around BnB(Mar) and around our engine
Table 2         bounded model checking: length and seconds of a shortest unsafe run, greatest length refuted; explicit enumeration
9.3             start states proved safe although the policy is unsafe: abstract ones, and by `verify --region` those of the model

Predicates grow as section 8.3 says: per variable in the order of binary search; Blocksworld and SlidingTiles refine move costs last,
Transport the truck first and then one variable after the other, Racetrack all at once. Our instances are generated from the paper's
description, and the policies are ours: networks that imitate a careful rule, and networks by deep Q-learning (`-dqn`), of the paper's
sizes (`verification_policies`). The sums that a model conserves are known in every abstract state, to everybody alike.
    python -m benchmarks.predicate_abstraction [--limit 10] [--only REGEX] [--part growth|tests|starts|lengths]
It writes results/predicate-abstraction.json, .md and .svg files; cells measured before with the same limit are kept.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import verification_policies
from benchmarks.cpu_clock import with_cpu_clock
from benchmarks.cpu_limited import Say, forked
from benchmarks.predicate_abstraction_page import AROUND, PLAIN, SOLVERS, page, pictures
from polvet.budget import Budget
from polvet.kernel.starts import Starts
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.symbolic.cells import Cell, Row
from polvet.symbolic.conserved import conserved_rows
from polvet.symbolic.operators import SILENT, LinearTask
from polvet.verify.abstraction import Expansion, Options, PaperTests, Space, Stopped
from polvet.verify.bmc import Frames, bounded
from polvet.verify.box_tester import BoxTester
from polvet.verify.linearized import linearized
from polvet.verify.method import Method
from polvet.verify.methods import BOXES, PAPER_CONFIGURATIONS, TEST_CONFIGURATIONS
from polvet.verify.portfolio import verify
from polvet.verify.predicates import Predicate
from polvet.verify.questions import Patience, Reply
from polvet.verify.safe_starts import find_safe_starts
from polvet.verify.slicing import sliced
from polvet.verify.unrolling import Unrolling, unrolled

RESULTS = Path(__file__).resolve().parent / "results"
FILE = RESULTS / "predicate-abstraction.json"
PANELS = (
    r"^((blocksworld-4-ca|sliding-tiles-3-ci|transport-4-4|racetrack-barto-small)-2x16(-dqn)?|transport-4-4-2x16-dqn-shaped"
    r"|one-way-line-(3-4-2x16|8-5-2x32)-dqn-short)$"
)
ALL_WIDTHS = (
    r"^((blocksworld-6-ca|blocksworld-8-ci|sliding-tiles-8-c[ia]|transport-10-15|racetrack-barto-small)-2x\d+(-dqn)?"
    r"|(transport-4-4|one-way-line-\d-\d)-2x\d+-dqn-\w+)$"
)
FIG_2 = r"^(transport-4-4-2x16(-dqn)?|racetrack-barto-small-2x16)$"
IMPERFECT = r"-few$|-dqn(-\w+)?$"
READING_SECONDS = 300.0
MEGABYTES = 4_000
MOST_SETS = 5
MOST_IN_A_ROW = 2
"""Sets of predicates at which a configuration may reach the limit, one after the other, before it is asked about no larger ones."""
LONGEST = 50
LIMIT = "limit"
GRACE = 0.5


# -- predicates


def binary_order(low: int, high: int) -> list[int]:
    """Return the thresholds c of `v <= c` for low <= c < high, each cutting an interval in half.

    >>> binary_order(0, 8)
    [3, 1, 5, 0, 2, 4, 6, 7]
    """
    order, pending = [], [(low, high)]
    while pending:
        following = []
        for a, b in pending:
            if a < b:
                middle = (a + b - 1) // 2
                order.append(middle)
                following += [(a, middle), (middle + 1, b)]
        pending = following
    return order


def growing_sets(name: str, task: LinearTask) -> list[tuple[float, list[Predicate]]]:
    """Return predicate sets from small to all, with their share of all, as section 8.3 grows them."""
    bounds = task.system.bounds
    names = [variable.name for variable in task.task.network.variables]
    orders = {
        place: [Predicate(((place, 1),), c) for c in binary_order(bounds.lower[place], bounds.upper[place])]
        for place in range(len(names))
    }
    if name.startswith("transport"):
        first = [place for place, one in enumerate(names) if one == "truck_0"]
        groups = [first, *([place] for place in orders if place not in first)]
    else:
        costs = [place for place, one in enumerate(names) if "cost" in one]
        groups = [[place for place in orders if place not in costs], costs]
    sets: list[list[Predicate]] = [[]]
    for group in groups:
        depth = max((len(orders[place]) for place in group), default=0)
        step = max(1, math.ceil(depth / 3))
        before = sets[-1]
        for taken in range(step, depth + step, step):
            sets.append([*before, *(p for place in group for p in orders[place][:taken])])
    grown = [one for one in sets if one]
    places = sorted({round(k * (len(grown) - 1) / (MOST_SETS - 1)) for k in range(MOST_SETS)})
    total = len(grown[-1])
    return [(len(grown[k]) / total, grown[k]) for k in places]


class PolicyIgnored:
    """Plain predicate abstraction: whatever is applicable may be chosen."""

    def __init__(self, tester: BoxTester) -> None:
        self.tester = tester

    def answer_all(self, questions: Sequence[tuple[Cell, int]]) -> list[Reply]:
        """Return for each cell whether it has a state."""
        return self.tester.answer_all([(cell, SILENT) for cell, _ in questions])

    def has_state(self, cell: Cell) -> Reply:
        """Return whether the cell has a state."""
        return self.tester.has_state(cell)

    def chooses_in(self, cell: Cell, _: int) -> Reply:
        """Return whether the cell has a state."""
        return self.has_state(cell)


# -- one cell of the grid


@dataclass(frozen=True)
class Instance:
    """A policy in a model that was read as linear data, with the sums that the model conserves."""

    name: str
    bound: Bound
    task: LinearTask
    facts: tuple[Row, ...]


def measured_before(cell: dict[str, Any]) -> dict[str, Any] | None:
    """Return the row of a cell that was measured before with the same limit."""
    return next((row for row in rows_before() if cell.items() <= row.items()), None)


def rows_before() -> list[dict[str, Any]]:
    """Return all rows that are in the results."""
    rows: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else []
    return rows


def measured(
    instance: Instance, predicates: Sequence[Predicate], options: Options | str, limit: float
) -> dict[str, Any]:
    """Return what becomes of one abstraction and its CPU seconds, those of the solvers included."""
    sizes, seconds = forked(lambda _: build(instance, predicates, options), limit)
    return {"seconds": round(seconds, 3), **(sizes or {"stopped": LIMIT})}


def build(instance: Instance, predicates: Sequence[Predicate], options: Options | str) -> dict[str, Any]:
    """Return how large the abstraction is, and how many of its start states are proved; of plain abstraction for `PLAIN`."""
    part, task, patience = instance.bound, instance.task, Patience(Budget(None, MEGABYTES))
    plain = isinstance(options, str)
    how = Options() if plain else options
    tester: Any
    if how.configuration in PAPER_CONFIGURATIONS:
        tester = PaperTests(part, task, how, patience)
    else:
        tester = BoxTester(part, task, patience)
    conserved = {row.terms for row in instance.facts if not row.marks}
    kept = [predicate for predicate in predicates if predicate.terms not in conserved]
    try:
        space = Expansion(task, kept, PolicyIgnored(tester) if plain else tester, how, instance.facts).build()
    except Stopped as stop:
        return {"stopped": str(stop)}
    finally:
        if isinstance(tester, PaperTests):
            tester.close()
    return {
        "states": len(space.reached),
        "starts": len(space.starts),
        "proved": len(proved_starts(space)),
        "unsafe": len(space.unsafe),
    }


def proved_starts(space: Space) -> list[Any]:
    """Return the abstract start states from which no abstract unsafe state is reached."""
    into: dict[Any, list[Any]] = {}
    for edge in space.edges:
        into.setdefault(edge.target, []).append(edge.source)
    leads, pending = set(space.unsafe), list(space.unsafe)
    while pending:
        for source in into.get(pending.pop(), ()):
            if source not in leads:
                leads.add(source)
                pending.append(source)
    return [start for start in space.starts if start not in leads]


# -- instances


def tasks(only: str) -> Iterator[tuple[str, Bound]]:
    """Yield the networks that match: those that imitate, and those by deep Q-learning (`-dqn`)."""
    for name, task in verification_policies.tasks():
        path = verification_policies.FOLDER / f"{name}.onnx"
        if re.search(only, name) and path.exists():
            yield name, compile_policy(load_fitted(task, path))


def read(name: str, bound: Bound) -> Instance | str:
    """Return the part of the task that matters, read as linear data, or why not."""
    part = sliced(bound).bound
    task = linearized(part, Budget(READING_SECONDS))
    return task if isinstance(task, str) else Instance(name, part, task, conserved_rows(task))


# -- the parts


def measure_growth(name: str, bound: Bound, limit: float) -> Iterator[dict[str, Any]]:
    """Yield Fig. 1: every solver over growing sets of predicates."""
    instance = read(name, bound)
    head: dict[str, Any] = {"part": "growth", "instance": name}
    if isinstance(instance, str):
        yield head | {"share": None, "solver": BOXES, "stopped": instance}
        return
    in_a_row = dict.fromkeys(SOLVERS, 0)
    for share, predicates in growing_sets(name, instance.task):
        for solver in SOLVERS:
            options = Options(solver) if solver in PAPER_CONFIGURATIONS else PLAIN if solver == PLAIN else Options()
            cell = head | {"share": round(share, 3), "predicates": len(predicates), "solver": solver, "limit": limit}
            if in_a_row[solver] >= MOST_IN_A_ROW:
                yield cell | {"seconds": None, "stopped": "not asked"}
                continue
            row = measured_before(cell) or cell | measured(instance, predicates, options, limit)
            in_a_row[solver] = in_a_row[solver] + 1 if row.get("stopped") == LIMIT else 0
            yield row


def measure_tests(name: str, bound: Bound, limit: float) -> Iterator[dict[str, Any]]:
    """Yield Fig. 2: selection and applicability tests, around Marabou and around our engine."""
    instance = read(name, bound)
    if isinstance(instance, str):
        return
    in_a_row: dict[tuple[str, str], int] = {}
    for share, predicates in growing_sets(name, instance.task):
        for solver in (BOXES, AROUND):
            for tests, (selection, applicability) in TEST_CONFIGURATIONS.items():
                where = {"instance": name, "share": round(share, 3), "predicates": len(predicates), "solver": solver}
                cell = {"part": "tests", **where, "tests": tests, "limit": limit}
                if in_a_row.get((solver, tests), 0) >= MOST_IN_A_ROW:
                    yield cell | {"seconds": None, "stopped": "not asked"}
                    continue
                options = Options(solver, selection=selection, applicability=applicability)
                known = measured_before(cell)
                if known is None and selection == applicability == "off":  # this one stands in Fig. 1
                    known = measured_before({"part": "growth", **where, "limit": limit})
                row = cell | (known or measured(instance, predicates, options, limit)) | cell
                in_a_row[solver, tests] = in_a_row.get((solver, tests), 0) + 1 if row.get("stopped") == LIMIT else 0
                yield row


def measure_starts(name: str, bound: Bound, limit: float) -> Iterator[dict[str, Any]]:
    """Yield what section 9.3 asks, of the states themselves: how many start states are proved safe, and is the policy."""
    begun = time.process_time()
    region, certificate = find_safe_starts(bound, budget=Budget(limit, MEGABYTES))
    starts, proved, failing = region.starts, region.proved, region.failing
    if region.is_everything and certificate is not None:  # nothing is left to count
        starts = proved = Starts.of(bound.task, Budget(READING_SECONDS)).count
        failing = 0
    yield {
        "part": "starts",
        "instance": name,
        "starts": starts,
        "proved": proved,
        "failing": failing,
        "certificate": certificate is not None,
        "seconds": round(time.process_time() - begun, 3),
        "limit": limit,
    }


def measure_lengths(name: str, bound: Bound, limit: float) -> Iterator[dict[str, Any]]:
    """Yield Table 2: bounded model checking, ours and by formulas, beside explicit enumeration and our portfolio."""
    for method in (bounded(LONGEST), unrolled(LONGEST), "explicit", "auto"):
        solver = method if isinstance(method, str) else method.name
        cell = {"part": "lengths", "instance": name, "solver": solver, "limit": limit}
        if (known := measured_before(cell)) is not None:
            yield known
            continue
        most = limit + GRACE if solver == "auto" else limit  # it stops by itself
        found, seconds = forked(partial(ask_for_lengths, bound, method, limit), most)
        nothing = {"verdict": "unknown", "refuted": -1, "states": None, "steps": None}
        yield {**cell, "seconds": round(seconds, 3), **(nothing | (found or {}))}


def ask_for_lengths(bound: Bound, method: str | Method, limit: float, say: Say) -> dict[str, Any]:
    """Return what a method finds; lengths are told as they are begun, since then the one before is refuted.

    `auto` is told its limit, by which it cuts its turns; the others are stopped at it.
    """

    def telling(asked: Callable[..., Any]) -> Callable[..., Any]:
        def ask(its: Any, steps: int) -> Any:
            say({"refuted": steps - 1})
            return asked(its, steps)

        return ask

    Frames.refute = telling(Frames.refute)  # type: ignore[method-assign]
    Unrolling.query = telling(Unrolling.query)  # type: ignore[method-assign]
    result = verify(bound, method=method, budget=Budget(limit if method == "auto" else None, MEGABYTES))
    return {
        "verdict": result.verdict.value,
        "steps": len(result.run.actions) if result.verdict.value == "unsafe" else None,
        "refuted": result.figures.get("refuted_steps", -1),
        "states": result.figures.get("states"),
        "reason": getattr(result, "reason", None),
    }


PARTS = {"growth": measure_growth, "tests": measure_tests, "starts": measure_starts, "lengths": measure_lengths}


def write(rows: list[dict[str, Any]]) -> None:
    """Write the figures, the pictures and the page made of them."""
    FILE.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for file, picture in pictures(rows):
        (RESULTS / file).write_text(picture, encoding="utf-8")
    versions = ", ".join(f"{package} {version(package)}" for package in ("maraboupy", "z3-solver"))
    (RESULTS / "predicate-abstraction.md").write_text(page(rows, versions), encoding="utf-8")


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells a row apart."""
    return tuple(row.get(name) for name in ("part", "instance", "predicates", "solver", "tests"))


def main() -> None:
    """Measure what is asked for; keep the rest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds per cell")
    parser.add_argument("--only", default=None, help="a regular expression for instances")
    parser.add_argument("--part", choices=tuple(PARTS), action="append")
    options = parser.parse_args()
    with_cpu_clock()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for part in options.part or tuple(PARTS):
        only = options.only or {"starts": IMPERFECT, "lengths": ALL_WIDTHS, "tests": FIG_2}.get(part, PANELS)
        for name, bound in tasks(only):
            for row in PARTS[part](name, bound, options.limit):
                print(row, file=sys.stderr, flush=True)
                write([*(one for one in rows_before() if key(one) != key(row)), row])


if __name__ == "__main__":
    main()
