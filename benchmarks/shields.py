"""Permissive schedulers and safety-constrained learning on the five instances of the paper's Table 1, side by side.

For each instance: (a) SMT with greedy enlargement on Z3, (c) MILP on HiGHS, (d) incremental enlargement; then the learning
loop with its bounds per iteration. All figures come from one run; only ratios mean something.
    python -m benchmarks.shields [--smt-seconds 60] [--milp-seconds 30] [--iterations 20] [--only janitor]
"""

from __future__ import annotations

import argparse
import json
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

from polvet.domains import generate
from polvet.shield import Permitted, build_world, permit
from polvet.shield.learning import Learned, LearningOptions, learn
from polvet.shield.milp import permit_by_milp
from polvet.shield.smt import PermissiveSmt, reachable_options

RESULTS = Path(__file__).resolve().parent / "results"
INSTANCES: list[tuple[str, dict[str, int], str, str]] = [
    ("janitor", {"width": 5, "height": 5}, "0.1", "fuel"),
    ("folline", {"length": 30, "width": 15}, "0.01", "time"),
    ("folline", {"length": 40, "width": 15}, "0.12", "time"),
    ("comexp", {"width": 6, "height": 6, "distance": 6}, "0.08", "energy"),
    ("comexp", {"width": 8, "height": 8, "distance": 6}, "0.12", "energy"),
]


def measure(name: str, sizes: dict[str, int], bound_text: str, cost: str, options: Any) -> dict[str, Any]:
    bound = Fraction(bound_text)
    world = build_world(generate(name, **sizes).task(), cost=cost, exact=True)
    title = f"{name} {','.join(map(str, sizes.values()))}"
    row: dict[str, Any] = {
        "instance": title, "bound": bound_text, "states": world.mdp.states, "options": world.options,
    }  # fmt: skip
    for key, attempts in (("default_one", 1), ("default", options.attempts)):
        begun = time.perf_counter()
        found = permit(world, bound, attempts=attempts)
        assert isinstance(found, Permitted)
        row[key] = {"count": found.count, "seconds": time.perf_counter() - begun, "risk": float(found.risk)}
        row[key]["maximal"] = found.maximal
    begun = time.perf_counter()
    encoding = PermissiveSmt(world, bound, seconds=options.smt_seconds)
    mask = encoding.find()
    if mask is not None:
        mask = encoding.enlarge(mask)
    spent = time.perf_counter() - begun
    count = None if mask is None else int(reachable_options(world, mask).sum())
    row["smt"] = {"count": count, "seconds": spent, "finished": spent < options.smt_seconds}
    begun = time.perf_counter()
    milp = permit_by_milp(world, bound, seconds=options.milp_seconds)
    row["milp"] = {
        "count": milp.count, "seconds": time.perf_counter() - begun, "bound": milp.bound, "status": milp.status,
    }  # fmt: skip
    learned = learn(world, bound, options=LearningOptions(iterations=options.iterations), seconds=options.learn_seconds)
    assert isinstance(learned, Learned)
    row["learning"] = [
        {"i": k + 1, "t": one.seconds, "unconstrained": one.unconstrained, "lower": one.lower,
         "upper_deterministic": one.upper_deterministic, "upper": one.upper}
        for k, one in enumerate(learned.rounds)
    ]  # fmt: skip
    row["reason"] = learned.reason
    row["gap_percent"] = 100 * (learned.upper - learned.lower) / learned.upper
    return row


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| instance | bound | options | (a) SMT | (c) MILP | (d) one order | (d) default | SMT time / (d) default time |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        smt, milp, one, default = row["smt"], row["milp"], row["default_one"], row["default"]
        late = "" if smt["finished"] else " (time was up)"
        lines.append(
            f"| {row['instance']} | {row['bound']} | {row['options']} | {smt['count']} in {smt['seconds']:.1f} s{late} "
            f"| {milp['count']} in {milp['seconds']:.1f} s (at most {milp['bound']:.0f}) "
            f"| {one['count']} in {one['seconds']:.2f} s | {default['count']} in {default['seconds']:.2f} s "
            f"| {smt['seconds'] / default['seconds']:.1f} |"
        )
    lines += ["", "| instance | i | t | unconstrained lower | lower | upper | gap |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        rounds = row["learning"]
        for one in [rounds[0], *([rounds[len(rounds) // 2]] if len(rounds) > 2 else []), *rounds[1:][-1:]]:
            gap = 100 * (one["upper"] - one["lower"]) / one["upper"]
            lines.append(
                f"| {row['instance']} | {one['i']} | {one['t']:.1f} s | {one['unconstrained']:.2f} | {one['lower']:.2f} "
                f"| {one['upper']:.2f} | {gap:.2f}% |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smt-seconds", type=float, default=60.0)
    parser.add_argument("--milp-seconds", type=float, default=30.0)
    parser.add_argument("--learn-seconds", type=float, default=60.0)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--attempts", type=int, default=20)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for instance in INSTANCES:
        if options.only and instance[0] not in options.only:
            continue
        rows.append(measure(*instance, options))
        print(table(rows[-1:]), flush=True)
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "shields.json").write_text(json.dumps(rows, indent=1) + "\n")
        (RESULTS / "shields.md").write_text("# Permissive schedulers and learning\n\n" + table(rows))


if __name__ == "__main__":
    main()
