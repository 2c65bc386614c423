"""Large plans: 1,000 to 20,000 control states with 1 to 50 variables, planted and random: decided, certified, checked.

Run `python -m benchmarks.termination_scale`; it writes `results/termination-scale.json` and `.md`. *Planted* plans end by a hidden
ranking although every variable also rises; *random* ones mostly run for ever. `decide` is the whole answer, asked once: the complete
test, its certificate with a copy of the plan, and the check of it; `find` and `check` are two parts of that, medians of runs in turn.
Each run has a time limit; no run may exceed it by more than 10% and 2 s.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
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
REPEATS = 5


def seconds_of(work: Callable[[], object]) -> float:
    """Return the CPU seconds of the work, which begins without garbage of others."""
    gc.collect()
    begun = time.process_time()
    work()
    return time.process_time() - begun


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
    claim = result.certificate
    judge = check_ranking if claim["kind"] == "lex-rank" else check_replay
    entry["accepted"] = judge(plan, claim) is None
    finding, checking = [], []
    for _ in range(REPEATS):
        finding.append(seconds_of(lambda: find_ranking(normalise(plan), budget=Budget(LIMIT))))
        checking.append(seconds_of(lambda: judge(plan, claim)))
    entry |= {"find": round(median(finding), 4), "check": round(median(checking), 4)}
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
    options = parser.parse_args()
    rows = []
    for size in options.sizes:
        for count in options.counts:
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
        "# Large plans", "",
        f"CPU seconds; each run had {LIMIT:g} s. *Decide and certify* is the whole answer, asked once: the ranking or the cycle is found "
        "and written as a certificate with a copy of the plan, and the checker looks at it. *Find* and *check* are two parts of that, each "
        f"measured again: medians of {REPEATS} runs in turn. What is left between them and the whole is writing, and what a first run does "
        "once. *Over the limit*: seconds of the clock.", "",
        "| plan | control states | edges | variables | verdict | decide and certify | find | check | accepted | over the limit |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        lines.append(
            f"| {row['kind']} | {row['control_states']:,} | {row['edges']:,} | {row['variables']} | {row['verdict']} | {row['decide']} "
            f"| {row['find']:.3f} | {row['check']:.3f} | {row['accepted']} | {row['over']} |"
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
