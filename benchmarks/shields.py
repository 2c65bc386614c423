"""Permissive schedulers and safety-constrained learning on the five instances of the paper's Table 1, side by side.

For each instance, each in a process of its own: (a) SMT with greedy enlargement on Z3, (c) MILP on HiGHS, (d) incremental
enlargement (the default); then the learning loop with its bounds per iteration, for deterministic schedulers as in the
paper and with coins. Times are processor time; those of a row come from one run, only ratios mean something. Large models stand
in `benchmarks.shield_scale`. SMT, MILP and default have the same limit; the default ends by itself long before it, as
`polvet permit` does without options. An SMT run that is ended by it counts as a lower bound on its time.
A row tells whether its bound binds: whether allowing everything would break it. FolLine strays more than its first numbers say,
so that the bounds of the table bind; what the paper leaves open stands in `polvet.domains`. Rows that are not asked for are kept.
    python -m benchmarks.shields [--seconds 120] [--learn-seconds 120] [--only 0,1]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from polvet.budget import Budget
from polvet.domains import generate
from polvet.kernel.compiled import Compiled
from polvet.shield import Permitted, World, build_world, permit
from polvet.shield.learning import Learned, LearningOptions, learn
from polvet.shield.milp import permit_by_milp
from polvet.shield.smt import PermissiveSmt
from polvet.shield.world import reached_options

RESULTS = Path(__file__).resolve().parent / "results"
INSTANCES: list[tuple[str, dict[str, int], str, str]] = [
    ("janitor", {"width": 5, "height": 5}, "0.1", "fuel"),
    ("folline", {"length": 30, "width": 15, "stray": 20}, "0.01", "time"),
    ("folline", {"length": 40, "width": 15, "stray": 20}, "0.12", "time"),
    ("comexp", {"width": 6, "height": 6, "distance": 6}, "0.08", "energy"),
    ("comexp", {"width": 8, "height": 8, "distance": 6}, "0.12", "energy"),
]
PAPER = ((84.0, 88.6), (715.9, 716.5), (965.6, 966.7), (0.3, 57.3), (0.42, 78.2))
"""The last lower and upper bound of each row of the paper's Table 1."""
Row = dict[str, Any]


def title(name: str, sizes: dict[str, int]) -> str:
    return f"{name} {','.join(map(str, sizes.values()))}"


def world_of(number: int) -> tuple[World, Fraction]:
    name, sizes, bound, cost = INSTANCES[number]
    return build_world(generate(name, **sizes).task(), cost=cost, exact=True), Fraction(bound)


def processor_time(seconds: float) -> Budget:
    """Return a budget by the time that this process uses: others share the machine."""
    return Budget(seconds, clock=time.process_time)


def say(row: Row) -> None:
    """Print one line for the parent; what was printed last counts."""
    print(json.dumps(row | {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}), flush=True)


def sizes_of(number: int, options: Any) -> None:
    name, sizes, _, _ = INSTANCES[number]
    space = Compiled(generate(name, **sizes).task().network).explore(build=True)
    states = len(space)
    _, branch_start, target, *_ = space.take_matrix()
    say({"states": states, "transitions": len(branch_start) - 1, "branches": len(target)})


def by_default(number: int, options: Any) -> None:
    world, bound = world_of(number)
    begun = time.process_time()
    found = permit(world, bound)  # bounded by work: kernels know the wall clock only
    assert isinstance(found, Permitted)
    assert time.process_time() - begun <= options.seconds
    say({"count": found.count, "options": world.options, "seconds": time.process_time() - begun,
         "risk": float(found.risk), "exact": found.exact, "maximal": found.maximal})  # fmt: skip


def by_smt(number: int, options: Any) -> None:
    world, bound = world_of(number)
    begun = time.process_time()
    say({"count": None, "seconds": options.seconds, "finished": False})
    hard = int(time.process_time() + options.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
    encoding = PermissiveSmt(world, bound)
    mask = encoding.find()
    assert mask is not None
    count = int(reached_options(world, mask).sum())
    say({"count": count, "seconds": options.seconds, "finished": False, "first": time.process_time() - begun})
    mask = encoding.enlarge(mask)
    count = int(reached_options(world, mask).sum())
    say({"count": count, "seconds": time.process_time() - begun, "finished": True})


def by_milp(number: int, options: Any) -> None:
    world, bound = world_of(number)
    budget = processor_time(options.seconds)
    begun = time.process_time()
    found = permit_by_milp(world, bound, budget=budget)
    say({"count": found.count, "seconds": time.process_time() - begun, "bound": found.bound, "status": found.status})


def by_learning(number: int, options: Any, *, randomised: bool) -> None:
    world, bound = world_of(number)
    budget = processor_time(options.learn_seconds)
    begun = time.process_time()
    how = LearningOptions(iterations=options.iterations, randomised=randomised, nodes=options.nodes)
    found = learn(world, bound, options=how, budget=budget)
    assert isinstance(found, Learned)
    rounds = [{"i": k + 1, "t": one.seconds, "unconstrained": one.unconstrained, "lower": one.lower, "upper": one.upper}
              for k, one in enumerate(found.rounds)]  # fmt: skip
    say({"seconds": time.process_time() - begun, "reason": found.reason, "rounds": rounds,
         "gap_percent": 100 * (found.upper - found.lower) / found.upper})  # fmt: skip


ROUTES: dict[str, Callable[[int, Any], None]] = {
    "sizes": sizes_of,
    "default": by_default,
    "smt": by_smt,
    "milp": by_milp,
    "learning": lambda number, options: by_learning(number, options, randomised=False),
    "coins": lambda number, options: by_learning(number, options, randomised=True),
}


def run(route: str, number: int) -> Row:
    """Return the last line that a process of its own printed; a limit may have ended it before its own end."""
    command = [sys.executable, "-m", "benchmarks.shields", *sys.argv[1:], "--route", route, "--number", str(number)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    lines = done.stdout.splitlines()
    if not lines or (done.returncode > 0):
        raise SystemExit(f"{route} {number} ended with {done.returncode}")
    row: Row = json.loads(lines[-1])
    return row


def table(rows: list[Row]) -> str:
    places = {title(name, sizes): number for number, (name, sizes, _, _) in enumerate(INSTANCES)}
    lines = [
        "# Permissive schedulers and learning", "",
        "Allowed reachable options and processor seconds. SMT: `>` where its limit ended it (a lower bound on its time).", "",
        "| instance | bound | binds | options | limit | (a) SMT | (c) MILP | (d) default | SMT time / default time |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        smt, milp, default = row["smt"], row["milp"], row["default"]
        more = "" if smt["finished"] else ">"
        shown = "nothing yet" if smt["count"] is None else smt["count"]
        most = f"{milp['bound']:.0f}" if milp["bound"] < 1e9 else "unknown"
        binds = default["count"] < default["options"]
        faster = f"{more}{smt['seconds'] / default['seconds']:.1f}" if binds else "does not count: nothing is forbidden"
        lines.append(
            f"| {row['instance']} | {row['bound']} | {'yes' if binds else 'no'} | {default['options']} "
            f"| {row.get('limit', '130 s, MILP 20 s')} | {shown} in {more}{smt['seconds']:.1f} s "
            f"| {milp['count']} in {milp['seconds']:.1f} s (at most {most}) "
            f"| {default['count']} in {default['seconds']:.2f} s | {faster} |"
        )
    for key, what in (("learning", "deterministic schedulers"), ("coins", "schedulers that may toss coins")):
        lines += ["", f"Learning: {what}", "",
                  "| benchmark | states | trans. | branch. | bound | i | t | unconstrained lower | lower | upper | gap | paper's gap |",
                  "|---|---|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
        for row in rows:
            size, rounds = row["sizes"], row[key]["rounds"]
            low, high = PAPER[places[row["instance"]]]
            head = f"{row['instance']} | {size['states']} | {size['transitions']} | {size['branches']} | {row['bound']}"
            for one in [rounds[0], *([rounds[len(rounds) // 2]] if len(rounds) > 2 else []), *rounds[1:][-1:]]:
                gap = 100 * (one["upper"] - one["lower"]) / one["upper"]
                lines.append(
                    f"| {head} | {one['i']} | {one['t']:.1f} s | {one['unconstrained']:.2f} | {one['lower']:.2f} "
                    f"| {one['upper']:.2f} | {gap:.2f}% | {100 * (high - low) / high:.2f}% |"
                )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--learn-seconds", type=float, default=120.0)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--only", default="0,1,2,3,4")
    parser.add_argument("--routes", default="sizes,default,smt,milp,learning,coins", help="which to run again")
    parser.add_argument("--route", choices=list(ROUTES))
    parser.add_argument("--number", type=int, default=0)
    options = parser.parse_args()
    if options.route:
        ROUTES[options.route](options.number, options)
        return
    before = json.loads((RESULTS / "shields.json").read_text())
    known: dict[str, Row] = {row["instance"]: row for row in before["instances"]}
    order = [title(name, sizes) for name, sizes, _, _ in INSTANCES]

    def write() -> str:
        rows = [known[instance] for instance in order if instance in known]
        (RESULTS / "shields.json").write_text(json.dumps({"instances": rows}, indent=1) + "\n")
        (RESULTS / "shields.md").write_text(shown := table(rows))
        return shown

    for number in map(int, filter(None, options.only.split(","))):
        row: Row = {**known.get(order[number], {}), "instance": order[number], "bound": INSTANCES[number][2]}
        row["limit"] = f"{options.seconds:g} s each"
        for route in options.routes.split(","):
            row[route] = run(route, number)
            print(row["instance"], route, flush=True)
        known[order[number]] = row
        write()
    print(write(), flush=True)


if __name__ == "__main__":
    main()
