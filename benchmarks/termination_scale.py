"""Large plans: 1,000 to 20,000 control states with 1 to 50 variables, planted and random: decided, certified, checked.

Run `python -m benchmarks.termination_scale`; it writes `results/termination-scale.json` and `.md`. *Planted* plans end by a hidden
ranking although every variable also rises; *random* ones mostly run for ever. `decide` is the complete test with its certificate
(which it checks itself), `check` the independent checker once more, on the finished certificate. Each run has a time limit; no run
may exceed it by more than 10% and 2 s.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

from benchmarks.termination import planted_plan, random_plan
from polvet.budget import Budget
from polvet.check.lasso import check_replay
from polvet.check.lex_rank import check_ranking
from polvet.policy.finite_memory import FiniteMemoryPolicy, normalise
from polvet.termination.complete import find_ranking
from polvet.termination.decide import terminates
from polvet.termination.verdicts import Unknown

RESULTS = Path(__file__).resolve().parent / "results"
SIZES, COUNTS = (1_000, 5_000, 20_000), (1, 5, 20, 50)
LIMIT = 60.0


def measured(kind: str, size: int, count: int) -> dict[str, Any]:
    """Return the figures of one plan; seconds are CPU time, but for `over`, how far the limit was exceeded on the clock."""
    rng = random.Random(size + count)
    plan: FiniteMemoryPolicy = planted_plan(rng, size, count) if kind == "planted" else random_plan(rng, size, count, 2)
    clock, begun = time.monotonic(), time.process_time()
    result = terminates(plan, budget=Budget(LIMIT))
    seconds, over = time.process_time() - begun, max(0.0, time.monotonic() - clock - LIMIT)
    entry: dict[str, Any] = {
        "kind": kind, "control_states": size, "edges": len(plan.edges), "variables": count, "verdict": result.verdict.value,
        "decide": round(seconds, 2), "over": round(over, 2), "find": None, "check": None, "accepted": None,
    }  # fmt: skip
    if isinstance(result, Unknown) or result.certificate is None:
        return {**entry, "reason": getattr(result, "reason", "")}
    begun = time.process_time()
    try:
        find_ranking(normalise(plan), budget=Budget(LIMIT))
        entry["find"] = round(time.process_time() - begun, 2)
    except Exception as limit:
        entry["find_reason"] = str(limit)
    begun = time.process_time()
    checked = check_ranking if result.certificate["kind"] == "lex-rank" else check_replay
    entry["accepted"] = checked(plan, result.certificate) is None
    entry["check"] = round(time.process_time() - begun, 2)
    return entry


def held(size: int, count: int, method: str, limit: float) -> dict[str, Any]:
    """Return how long a test of a planted plan took, on the clock, that had too little time."""
    plan = planted_plan(random.Random(size + count), size, count)
    clock = time.monotonic()
    verdict = terminates(plan, method=method, budget=Budget(limit)).verdict.value
    return {
        "control_states": size, "variables": count, "method": method, "limit": limit, "verdict": verdict,
        "seconds": round(time.monotonic() - clock, 2),
    }  # fmt: skip


def main() -> None:
    """Measure, and write both files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    given = parser.parse_args()
    rows = []
    for size in given.sizes:
        for count in given.counts:
            for kind in ("planted", "random"):
                rows.append(measured(kind, size, count))
                print(rows[-1], flush=True)
    limits = [
        held(size, count, method, limit)
        for size, count in ((5_000, 50), (20_000, 5), (20_000, 50)) for method in ("auto", "gensieve") for limit in (0.5, 2.0)
    ]  # fmt: skip
    document = {"limit": LIMIT, "rows": rows, "limits": limits}
    RESULTS.joinpath("termination-scale.json").write_text(json.dumps(document, indent=1) + "\n")
    lines = [
        "# Large plans", "", f"CPU seconds on a loaded machine; each run had {LIMIT:g} s. *find*: the ranking or the cycle alone.", "",
        "| plan | control states | edges | variables | verdict | decide and certify | find | check | accepted | over the limit |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        lines.append(
            f"| {row['kind']} | {row['control_states']:,} | {row['edges']:,} | {row['variables']} | {row['verdict']} | {row['decide']} "
            f"| {row['find']} | {row['check']} | {row['accepted']} | {row['over']} |"
        )
    lines += ["", "Planted plans with too little time, seconds on the clock:", ""]
    lines += ["| control states | variables | method | limit | took | verdict |", "|---|---|---|---|---|---|"]
    for row in limits:
        lines.append(
            f"| {row['control_states']:,} | {row['variables']} | {row['method']} | {row['limit']} | {row['seconds']} | {row['verdict']} |"
        )
    RESULTS.joinpath("termination-scale.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
