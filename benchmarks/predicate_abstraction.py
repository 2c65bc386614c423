"""The evaluation of policy predicate abstraction (Vinzent, Steinmetz, Hoffmann, ICAPS 2022), configuration by configuration.

Fig. 1 (a)-(f)  seconds over growing sets of predicates `v >= c`: the five configurations of Table 1, plain predicate abstraction
                without the policy (PA), and our box engine (boxes); every cell of the grid has the same limit
Fig. 1 (g)-(i)  abstract states, abstract start states, and how many of these are proved safe
Fig. 2          the tests of appendix E (selection and applicability), around BnB(Mar) and around our engine
Table 2         bounded model checking: length and seconds of a shortest unsafe run, greatest length refuted; explicit enumeration
9.3             start states proved safe although the policy is unsafe: abstract ones, and by `verify --region` those of the model

Predicates grow as section 8.3 says: per variable in the order of binary search; Blocksworld and SlidingTiles refine move costs last,
Transport the truck first and then one variable after the other, Racetrack all at once. Our instances are generated from the paper's
description, and the policies are ours: networks that imitate a careful rule (`verification_policies`), and networks by deep
Q-learning (`-dqn`), of the paper's sizes. The sums that a model conserves are known in every abstract state, to everybody alike.
    python -m benchmarks.predicate_abstraction [--limit 10] [--only REGEX] [--part growth|tests|starts|lengths] [--learn]
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
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.cpu_limited import Say, forked
from benchmarks.verification_policies import FOLDER, imperfect_instances, instances
from polvet.budget import Budget
from polvet.model.task import Task
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.symbolic.cells import Cell, Row
from polvet.symbolic.conserved import conserved_rows
from polvet.symbolic.operators import SILENT, LinearTask
from polvet.verify.abstraction import Expansion, Options, PaperTests, Space, Stopped, Tests
from polvet.verify.bmc import Frames, bounded
from polvet.verify.box_tester import BoxTester
from polvet.verify.linearized import linearized
from polvet.verify.method import Method
from polvet.verify.methods import PAPER_CONFIGURATIONS
from polvet.verify.portfolio import verify
from polvet.verify.predicates import Predicate
from polvet.verify.questions import Patience, Reply
from polvet.verify.safe_starts import find_safe_starts
from polvet.verify.slicing import sliced
from polvet.verify.unrolling import Unrolling, unrolled

RESULTS = Path(__file__).resolve().parent / "results"
FILE = RESULTS / "predicate-abstraction.json"
PANELS = r"^(blocksworld-4-ca|sliding-tiles-3-ci|transport-4-4|racetrack-barto-small)-2x16(-dqn)?$"
ALL_WIDTHS = (
    r"^(blocksworld-6-ca|blocksworld-8-ci|sliding-tiles-8-c[ia]|transport-10-15|racetrack-barto-small)-2x\d+(-dqn)?$"
)
PLAIN, BOXES = "PA", "boxes"
SOLVERS = (BOXES, PLAIN, *PAPER_CONFIGURATIONS)
TESTS: dict[str, tuple[Tests, Tests]] = {
    "No-Sel-No-App": ("off", "off"),
    "No-Sel-Rel-App": ("off", "relaxed"),
    "Rel-Sel-No-App": ("relaxed", "off"),
    "Rel-Sel-Rel-App": ("relaxed", "relaxed"),
    "Ex-Sel-Ex-App": ("exact", "exact"),
}
IMPERFECT = r"-few$|-dqn$"
READING_SECONDS = 300.0
MEGABYTES = 4_000
LEARNING_STEPS = 300_000
MOST_SETS = 5
MOST_IN_A_ROW = 2
"""Sets of predicates at which a configuration may reach the limit, one after the other, before it is asked about no larger ones."""
LONGEST = 50
LIMIT = "limit"
PAPER_LENGTHS = {  # Table 2: shortest unsafe run, seconds, greatest length checked in 12 h, for 16, 32 and 64 neurons
    "racetrack-barto-small": (("3", "36.9", "12"), ("3", "40.1", "11"), ("3", "316.5", "7")),
    "blocksworld-6-ca": (("-", "-", "6"), ("-", "-", "5"), ("-", "-", "4")),
    "blocksworld-8-ci": (("-", "-", "5"), ("-", "-", "5"), ("-", "-", "4")),
    "sliding-tiles-8-ci": (("2", "72.8", "7"), ("-", "-", "3"), ("-", "-", "0")),
    "sliding-tiles-8-ca": (("-", "-", "3"), ("-", "-", "3"), ("-", "-", "0")),
    "transport-10-15": (("1", "57.0", "2"), ("1", "20548.0", "1"), ("-", "-", "0")),
}
TABLE_1 = {  # relaxed tests, exact tests, and what sections 9.1 and 9.2 say of the outcome
    BOXES: ("boxes", "branch and bound", ""),
    PLAIN: ("-", "-", "cheaper on small sets of predicates, dearer on large ones"),
    "Base": ("-", "Z3", "hopeless: only a few points"),
    "Mar+Z3": ("Marabou", "Z3", "much better, still quite ineffective"),
    "Mar+Z3(Mar)": ("Marabou", "Z3, activations fixed by Marabou", "can be substantially better"),
    "BnB(Mar)": ("Marabou", "branch and bound around Marabou", "the key to scalability"),
    "Mar": ("Marabou", "-", "BnB(Mar) is only mildly less effective"),
}
NAMES = {"growth": "Fig. 1 and Table 1 (CPU)", "tests": "Fig. 2 (CPU)", "starts": "section 9.3", "lengths": "Table 2"}
COLOURS = ("#1b6ca8", "#555555", "#c0392b", "#e67e22", "#8e44ad", "#3d8b37", "#b7950b")


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


def tasks(only: str, learn: bool = False) -> Iterator[tuple[str, Bound]]:
    """Yield the imitated networks and those by deep Q-learning (`-dqn`); with `learn` the latter are trained where they are missing."""
    for name, task, _, hidden, leave_out in chain(instances(), imperfect_instances()):
        for path in (FOLDER / f"{name}.onnx", FOLDER / f"{name}-dqn.onnx"):
            if not re.search(only, path.stem):
                continue
            if learn and path.stem.endswith("-dqn") and not path.exists():
                learn_network(task, hidden, leave_out, path)
            if path.exists():
                yield path.stem, compile_policy(load_fitted(task, path))


def learn_network(task: Task, hidden: tuple[int, ...], leave_out: tuple[str, ...], path: Path) -> None:
    """Train a network by deep Q-learning on the variables it may see, and save it."""
    from polvet.policy.onnx_save import save_onnx
    from polvet.train.course import Course, pupil_of, train

    names = tuple(v.name for v in task.network.variables if not v.is_location and not v.name.startswith(leave_out))
    pupil = pupil_of(replace(task, reading=replace(task.reading, inputs=names)))
    policy, figures = train(
        pupil, Course("mlp", hidden=",".join(map(str, hidden)), steps=LEARNING_STEPS, max_steps=100), seed=0
    )
    print(path.stem, figures["curve"][-1], file=sys.stderr, flush=True)
    save_onnx(policy, str(path))


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
    head: dict[str, Any] = {"part": "tests", "instance": name}
    for share, predicates in growing_sets(name, instance.task)[1:-1:2]:
        for solver in (BOXES, "BnB(Mar)"):
            for tests, (selection, applicability) in TESTS.items():
                options = Options(solver, selection=selection, applicability=applicability)
                cell = head | {"share": round(share, 3), "predicates": len(predicates), "solver": solver}
                cell |= {"tests": tests, "limit": limit}
                yield measured_before(cell) or cell | measured(instance, predicates, options, limit)


def measure_starts(name: str, bound: Bound, limit: float) -> Iterator[dict[str, Any]]:
    """Yield what section 9.3 asks, of the states themselves: how many start states are proved safe, and is the policy."""
    begun = time.process_time()
    region, certificate = find_safe_starts(bound, budget=Budget(limit, MEGABYTES, clock=time.process_time))
    yield {
        "part": "starts",
        "instance": name,
        "starts": region.starts,
        "proved": region.proved,
        "failing": region.failing,
        "certificate": certificate is not None,
        "seconds": round(time.process_time() - begun, 3),
        "limit": limit,
    }


def measure_lengths(name: str, bound: Bound, limit: float) -> Iterator[dict[str, Any]]:
    """Yield Table 2: bounded model checking, ours and by formulas, beside explicit enumeration and our portfolio."""
    for method in (bounded(LONGEST), unrolled(LONGEST), "explicit", "auto"):
        found, seconds = forked(partial(ask_for_lengths, bound, method), limit)
        yield {
            "part": "lengths",
            "instance": name,
            "solver": method if isinstance(method, str) else method.name,
            "seconds": round(seconds, 3),
            "limit": limit,
            **({"verdict": "unknown", "refuted": -1, "states": None, "steps": None} | (found or {})),
        }


def ask_for_lengths(bound: Bound, method: str | Method, say: Say) -> dict[str, Any]:
    """Return what a method finds; lengths are told as they are begun, since then the one before is refuted."""

    def telling(asked: Callable[..., Any]) -> Callable[..., Any]:
        def ask(its: Any, steps: int) -> Any:
            say({"refuted": steps - 1})
            return asked(its, steps)

        return ask

    Frames.refute = telling(Frames.refute)  # type: ignore[method-assign]
    Unrolling.query = telling(Unrolling.query)  # type: ignore[method-assign]
    result = verify(bound, method=method, budget=Budget(None, MEGABYTES))
    return {
        "verdict": result.verdict.value,
        "steps": len(result.run.actions) if result.verdict.value == "unsafe" else None,
        "refuted": result.figures.get("refuted_steps", -1),
        "states": result.figures.get("states"),
        "reason": getattr(result, "reason", None),
    }


PARTS = {"growth": measure_growth, "tests": measure_tests, "starts": measure_starts, "lengths": measure_lengths}


# -- the page


def growth_picture(name: str, rows: Sequence[dict[str, Any]], key: str, title: str) -> str:
    """Return an SVG: a figure over the share of all predicates, logarithmic, one line per solver; what did not end is left out."""
    left, right, top, bottom = 55, 430, 30, 260
    values = [row[key] for row in rows if row.get(key)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    high = max(high, low + 1)

    def x(share: float) -> float:
        return left + (right - left) * share

    def y(value: float) -> float:
        return bottom - (bottom - top) * (math.log10(value) - low) / (high - low)

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="560" height="310" font-family="sans-serif" font-size="11">',
        '<rect width="560" height="310" fill="white"/>',
        f'<text x="{left}" y="18" font-size="13">{name}: {title}</text>',
        f'<text x="{(left + right) / 2}" y="{bottom + 32}" text-anchor="middle">share of all predicates</text>',
    ]
    for power in range(low, high + 1):
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y(10**power):.1f}" y2="{y(10**power):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y(10**power) + 4:.1f}" text-anchor="end">1e{power}</text>')
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<line x1="{x(share):.1f}" x2="{x(share):.1f}" y1="{top}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(share):.1f}" y="{bottom + 14}" text-anchor="middle">{share:g}</text>')
    for k, solver in enumerate(SOLVERS):
        points = [
            (x(row["share"]), y(row[key]))
            for row in rows
            if row["solver"] == solver and row.get(key) and "stopped" not in row
        ]
        if points:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[k]}" stroke-width="1.5"/>')
            parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="{COLOURS[k]}"/>' for a, b in points]
        parts.append(f'<text x="{right + 12}" y="{top + 14 * k + 10}" fill="{COLOURS[k]}">{solver}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def cell_text(row: dict[str, Any] | None) -> str:
    """Return a cell of a table: seconds, or a dash where the limit came first; empty where it was not asked."""
    if row is None or row["seconds"] is None:
        return ""
    return "-" if "stopped" in row else f"{row['seconds']:.2f}"


def configurations_table(growth: Sequence[dict[str, Any]]) -> list[str]:
    """Return Table 1 with what became of each configuration: cells answered, and seconds on cells that it and BnB(Mar) both answer."""
    cells: dict[Any, dict[str, dict[str, Any]]] = {}
    for row in growth:
        if row["share"] is not None:
            cells.setdefault((row["instance"], row["predicates"]), {})[row["solver"]] = row
    whole = [here for here in cells.values() if set(SOLVERS) <= set(here)]
    lines = [
        "",
        "## Table 1: the configurations, over all sets of predicates of Fig. 1",
        "",
        f"*Answered*: of {len(whole)} pairs of an instance and a set of predicates. *Times BnB(Mar)*: "
        "geometric mean of the ratio of CPU seconds, on the pairs that both answer. What was not asked counts as not answered.",
        "",
        "| configuration | relaxed test | exact test | answered | times BnB(Mar) | on pairs | the paper says |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for solver in SOLVERS:
        answered = [here for here in whole if "stopped" not in here[solver]]
        both = [here for here in answered if "stopped" not in here["BnB(Mar)"]]
        ratios = [max(here[solver]["seconds"], 0.001) / max(here["BnB(Mar)"]["seconds"], 0.001) for here in both]
        mean = f"{geometric_mean(ratios):.3g}" if ratios else "-"
        lines.append(
            f"| {solver} | {' | '.join(TABLE_1[solver][:2])} | {len(answered)} | {mean} | {len(both)} | {TABLE_1[solver][2]} |"
        )
    return lines


def starts_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return what section 9.3 asks: start states proved safe although the policy is not safe from everywhere."""
    mine = [row for row in rows if row["part"] == "starts"]
    if not mine:
        return []
    return [
        "",
        "## Section 9.3: start states proved safe, policies that are unsafe included",
        "",
        "`polvet verify --region`: start states of the model, not abstract ones, each proved in one certificate, or shown "
        "unsafe by a run. `-few`: trained on a few samples of the "
        "rule. The paper proves 4,839 of 4,900 abstract start states of the 8-puzzle and all of Blocksworld.",
        "",
        "| policy | start states | proved safe | shown unsafe | open | certificate | CPU s |",
        "|---|---:|---:|---:|---:|---|---:|",
        *(
            f"| {row['instance']} | {told(row['starts'])} | {told(row['proved'])} | {told(row['failing'])} | {open_starts(row)} "
            f"| {'yes' if row['certificate'] else '-'} | {row['seconds']:.2f} |"
            for row in mine
        ),
    ]


def length_cells(row: dict[str, Any]) -> list[str]:
    """Return the shortest unsafe run, the greatest length refuted, and the seconds of a search by lengths."""
    run = "-" if row["steps"] is None else str(row["steps"])
    refuted = "all" if row["verdict"] == "safe" else "-" if row["refuted"] < 0 else str(row["refuted"])
    return [run, refuted, f"{row['seconds']:.2f}"]


def told(count: int | None) -> str:
    """Return a count, or a dash where it is not known."""
    return "-" if count is None else f"{count:,}"


def open_starts(row: dict[str, Any]) -> str:
    """Return how many start states are neither proved nor shown unsafe."""
    parts = [row["starts"], row["proved"], row["failing"]]
    return "-" if None in parts else f"{parts[0] - parts[1] - parts[2]:,}"


def write(rows: list[dict[str, Any]]) -> None:
    """Write the figures, the pictures and the page made of them."""
    FILE.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    seconds = {part: sorted({row["limit"] for row in rows if row["part"] == part}) for part in PARTS}
    limits = "; ".join(
        f"{NAMES[part]} {', '.join(f'{one:g}' for one in each)} s" for part, each in seconds.items() if each
    )
    versions = ", ".join(f"{package} {version(package)}" for package in ("maraboupy", "z3-solver"))
    lines = [
        "# Policy predicate abstraction, the evaluation",
        "",
        f"`python -m benchmarks.predicate_abstraction`; one thread, {versions}. `-`: not within the limit; empty: "
        "not measured, nor are larger sets than those in a table (a solver that reached the limit at two smaller sets in a row is "
        "not asked). "
        f"Limits per cell, everybody alike: {limits} (the paper: 12 h and 4 GB). "
        "PA: predicate abstraction without the policy; boxes: our own engine.",
        "",
        "Differs: policies and instances are made anew from the paper's description (theirs are not published with it); networks "
        "imitate a careful rule or (`-dqn`) learn by deep Q-learning; conserved sums of a model are known to everybody. Not reproduced: "
        "the paper's Fig. 1 is drawn without figures, so that only what its text says can be compared; with 6 and 8 blocks, 8 tiles and "
        "Transport 10-15 beyond the smallest sets, the explicit list "
        "of abstract states does not fit limits of seconds, so that smaller instances stand beside them.",
    ]
    growth = [row for row in rows if row["part"] == "growth"]
    lines += [*configurations_table(growth), *starts_table(rows)]
    for name in dict.fromkeys(row["instance"] for row in growth):
        mine = [row for row in growth if row["instance"] == name]
        lines += ["", f"## Fig. 1: {name}", ""]
        if mine[0]["share"] is None:
            lines.append(f"Not measured: {mine[0]['stopped']}.")
            continue
        shares = list(dict.fromkeys((row["share"], row["predicates"]) for row in mine))
        lines += [
            "| share of predicates | " + " | ".join(SOLVERS) + " | abstract states (PA) | starts | proved safe |",
            "|---" * (len(SOLVERS) + 4) + "|",
        ]
        for share, count in shares:
            here = {row["solver"]: row for row in mine if row["share"] == share}
            ours, plain = here.get(BOXES, {}), here.get(PLAIN, {})
            sizes = f"{ours.get('states', '-')} ({plain.get('states', '-')}) | {ours.get('starts', '-')} | {ours.get('proved', '-')}"
            cells = " | ".join(cell_text(here.get(solver)) for solver in SOLVERS)
            lines.append(f"| {share:.2f} ({count}) | {cells} | {sizes} |")
        for key, title in (("seconds", "seconds"), ("states", "abstract states")):
            if any(row.get(key) and "stopped" not in row for row in mine):
                file = f"predicate-abstraction-{name}-{key}.svg"
                (RESULTS / file).write_text(growth_picture(name, mine, key, title), encoding="utf-8")
                lines += ["", f"![{file}]({file})"]
    tests = [row for row in rows if row["part"] == "tests"]
    if tests:
        lines += [
            "",
            "## Fig. 2: selection and applicability tests",
            "",
            "| instance | share | engine | " + " | ".join(TESTS) + " |",
        ]
        lines.append("|---" * (len(TESTS) + 3) + "|")
        for head in dict.fromkeys((row["instance"], row["share"], row["solver"]) for row in tests):
            here = {row["tests"]: row for row in tests if (row["instance"], row["share"], row["solver"]) == head}
            cells = " | ".join(cell_text(here.get(one)) for one in TESTS)
            lines.append(f"| {head[0]} | {head[1]:.2f} | {head[2]} | {cells} |")
    lengths = [row for row in rows if row["part"] == "lengths"]
    if lengths:
        lines += [
            "",
            "## Table 2: bounded model checking, explicit enumeration, and `auto`",
            "",
            "*Refuted*: the greatest length without an unsafe run; *all*: a frame equals the next one, which is a proof. The paper's: "
            "shortest unsafe run, its seconds, greatest length refuted.",
            "",
            "| instance | bmc: run | refuted | CPU s | unrolling (Z3): run | refuted | CPU s | the paper's three "
            "| explicit | states | auto |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        for name in dict.fromkeys(row["instance"] for row in lengths):
            here = {row["solver"]: row for row in lengths if row["instance"] == name}
            if len(here) < len(("bmc", "unrolling", "explicit", "auto")):
                continue  # not all have answered yet
            explicit, auto = here["explicit"], here["auto"]
            family, width = re.match(r"(.*)-2x(\d+)", name).groups()  # type: ignore[union-attr]
            paper = PAPER_LENGTHS.get(family)
            theirs = ", ".join(paper[("16", "32", "64").index(width)]) if paper else ""
            cells = [
                name, *length_cells(here["bmc"]), *length_cells(here["unrolling"]), theirs,
                f"{explicit['verdict']} {explicit['seconds']:.2f}", explicit["states"] or "-",
                f"{auto['verdict']} {auto['seconds']:.2f}",
            ]  # fmt: skip
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    (RESULTS / "predicate-abstraction.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells a row apart."""
    return tuple(row.get(name) for name in ("part", "instance", "predicates", "solver", "tests"))


def main() -> None:
    """Measure what is asked for; keep the rest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds per cell")
    parser.add_argument("--only", default=None, help="a regular expression for instances")
    parser.add_argument("--part", choices=tuple(PARTS), action="append")
    parser.add_argument(
        "--learn", action="store_true", help="train networks by deep Q-learning that match and are missing"
    )
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for part in options.part or tuple(PARTS):
        only = options.only or {"starts": IMPERFECT, "lengths": ALL_WIDTHS}.get(part, PANELS)
        for name, bound in tasks(only, options.learn):
            for row in PARTS[part](name, bound, options.limit):
                print(row, file=sys.stderr, flush=True)
                write([*(one for one in rows_before() if key(one) != key(row)), row])


if __name__ == "__main__":
    main()
