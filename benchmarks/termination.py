"""Measure the termination tests side by side: published plans, random plans, growth, QNPs, transition systems.

Run `python -m benchmarks.termination`; it writes `results/termination.json` and `results/termination.md`.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.check.test_termination_certificates import lasso_mutants, ranking_mutants
from tests.termination.plans import sustains_by_walks, sustains_by_z3
from tests.termination.test_qualitative import POLICIES, PROBLEMS

from polvet.check.its_run import find_flaw
from polvet.check.lasso import check_replay
from polvet.check.lex_rank import check_ranking
from polvet.errors import LimitReached, Where
from polvet.policy.finite_memory import Builder, FiniteMemoryPolicy, load_fmp, normalise
from polvet.policy.finite_memory.its_text import parse_its
from polvet.termination.decide import terminates
from polvet.termination.elimination import lowest_remaining_height, random_vertex
from polvet.termination.gensieve import gensieve
from polvet.termination.its import its_terminates
from polvet.termination.progress_sieve import progress_sieve
from polvet.termination.sieve import sieve
from polvet.termination.verdicts import Nonterminating, Terminating, TerminationResult

HERE = Path(__file__).resolve().parent
PUBLISHED = HERE.parents[1] / "shared" / "benchmarks"
RESULTS = HERE / "results"


def random_plan(rng: random.Random, size: int, count: int, highest: int) -> FiniteMemoryPolicy:
    """Return a random plan with effects from -3 to `highest`."""
    builder = Builder("q0")
    for index in range(count):
        builder.variable(f"x{index}")
    for number in range(rng.randint(size, 2 * size)):
        source = number if number < size else rng.randrange(size)
        chosen = rng.sample(range(count), min(count, rng.randint(1, 2)))
        effects = {f"x{index}": rng.randint(-3, highest) for index in chosen}
        builder.edge(f"q{source}", f"q{rng.randrange(size)}", effects)
    return builder.build()


def planted_plan(rng: random.Random, size: int, count: int) -> FiniteMemoryPolicy:
    """Return a strongly connected plan that terminates by a hidden ranking, although every variable also rises."""
    weights = [rng.randint(1, 3) for _ in range(count)]
    potential = [rng.randint(0, 2) for _ in range(size)]
    builder = Builder("q0")
    for index in range(count):
        builder.variable(f"x{index}")
    order = list(range(size))
    rng.shuffle(order)
    pairs = [(order[i], order[(i + 1) % size]) for i in range(size)]
    pairs += [(rng.randrange(size), rng.randrange(size)) for _ in range(2 * size)]
    for source, target in pairs:
        chosen = rng.sample(range(count), min(count, 3))
        effects = {index: rng.randint(-3, 3) for index in chosen}
        while sum(weights[i] * d for i, d in effects.items()) + potential[target] - potential[source] >= 0:
            effects[rng.choice([index for index in chosen if effects[index] > -3])] -= 1
        builder.edge(f"q{source}", f"q{target}", {f"x{index}": amount for index, amount in effects.items()})
    return builder.build()


def accepted(fmp: FiniteMemoryPolicy, result: TerminationResult) -> bool:
    """Return whether the independent checker accepts the certificate, after a trip through JSON."""
    if isinstance(result, Terminating):
        return check_ranking(fmp, json.loads(json.dumps(result.certificate))) is None
    return isinstance(result, Nonterminating) and check_replay(fmp, json.loads(json.dumps(result.certificate))) is None


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return the answer and the processor seconds it took."""
    start = time.process_time()
    answer = run()
    return answer, time.process_time() - start


def proves(fmp: FiniteMemoryPolicy, forests: int, budget: int, seed: int) -> tuple[bool, bool, int]:
    """Return whether GenSieve proves termination with some forest, whether the budget ended it, and its steps."""
    graph = normalise(fmp)
    rng = random.Random(seed)
    steps = 0
    for number in range(forests):
        try:
            trace = gensieve(graph, lowest_remaining_height if number == 0 else random_vertex(rng), most_steps=budget)
        except LimitReached:
            return False, True, budget
        steps += trace.steps
        if trace.proves_termination:
            return True, False, steps
    return False, False, steps


def published() -> list[dict[str, Any]]:
    """Return a row for each published edge list."""
    if not PUBLISHED.exists():
        return []
    entries = json.loads((PUBLISHED / "reference.json").read_text())
    rows = []
    for entry in entries:
        if entry["collection"] != "fmp-sieve":
            continue
        fmp = load_fmp(PUBLISHED / entry["file"])
        graph = normalise(fmp)
        result, seconds = timed(lambda fmp=fmp: terminates(fmp))
        rows.append({
            "plan": Path(entry["file"]).stem, "authors' label": entry["value"],
            "recheck": entry["recheck"]["structurally_terminating_as_VASS"],
            "sieve": sieve(graph).proves_termination, "progress-sieve": progress_sieve(graph).proves_termination,
            "gensieve 1": proves(fmp, 1, 2_000_000, 0)[0], "gensieve 20": proves(fmp, 20, 2_000_000, 0)[0],
            "complete": result.verdict.value, "certificate accepted": accepted(fmp, result),
            "milliseconds": round(1000 * seconds, 2),
        })  # fmt: skip
    return rows


def random_table(count: int) -> dict[str, Any]:
    """Return how many of the terminating random plans each method proves; every other plan hides a ranking."""
    rng = random.Random(2026)
    table: dict[str, Any] = dict.fromkeys(
        ["plans", "terminating", "nonterminating", "acyclic", "contradictions", "certificates rejected",
         "asked z3", "z3 disagrees", "asked walk search", "walk search disagrees", "mutants", "mutants accepted",
         "sieve", "progress-sieve", "gensieve 1 forest", "gensieve 20 forests", "budget ended"], 0)  # fmt: skip
    seconds = {"complete": 0.0, "gensieve 20 forests": 0.0}
    for number in range(count):
        size, variables = rng.randint(3, 12), rng.randint(1, 7)
        if number % 2:
            fmp = planted_plan(rng, size, variables)
        else:
            fmp = random_plan(rng, size, variables, (1, 2, 3)[number % 3])
        result, used = timed(lambda fmp=fmp: terminates(fmp))
        seconds["complete"] += used
        table["plans"] += 1
        table["certificates rejected"] += not accepted(fmp, result)
        judge(fmp, result, table)
        graph = normalise(fmp)
        one = proves(fmp, 1, 100_000, number)[0]
        (twenty, ended, _), used = timed(lambda fmp=fmp, number=number: proves(fmp, 20, 100_000, number))
        seconds["gensieve 20 forests"] += used
        answers = {"sieve": sieve(graph).proves_termination, "progress-sieve": progress_sieve(graph).proves_termination,
                   "gensieve 1 forest": one, "gensieve 20 forests": twenty}  # fmt: skip
        if isinstance(result, Terminating):
            if not (result.certificate or {}).get("components"):
                table["acyclic"] += 1
                continue
            table["terminating"] += 1
            table["budget ended"] += ended
            for name, answer in answers.items():
                table[name] += answer
        else:
            table["nonterminating"] += 1
            table["contradictions"] += any(answers.values())
    table["complete"] = table["terminating"]
    table["seconds"] = {name: round(value, 2) for name, value in seconds.items()}
    return table


def judge(fmp: FiniteMemoryPolicy, result: TerminationResult, table: dict[str, Any]) -> None:
    """Count what slow oracles say about small plans, and mutated certificates."""
    small = len(fmp.control_states) <= 5 and len(fmp.variables) <= 3
    if small:
        table["asked z3"] += 1
        table["z3 disagrees"] += sustains_by_z3(fmp) != isinstance(result, Nonterminating)
        table["asked walk search"] += 1
        table["walk search disagrees"] += sustains_by_walks(fmp, 4, 2000) and isinstance(result, Terminating)
    certificate = json.loads(json.dumps(getattr(result, "certificate", None)))
    if isinstance(result, Terminating):
        flaws = [check_ranking(fmp, mutant) for _, mutant in ranking_mutants(certificate)]
    else:
        flaws = [check_replay(fmp, mutant) for _, mutant in lasso_mutants(fmp, certificate)]
    table["mutants"] += len(flaws)
    table["mutants accepted"] += flaws.count(None)


def qualitative() -> list[dict[str, Any]]:
    """Return a row for each hand-made policy of a published qualitative numeric planning problem."""
    rows = []
    for policy in sorted(POLICIES.glob("*.txt")) if PUBLISHED.exists() else []:
        problem = PUBLISHED / "qnp2fond" / f"{PROBLEMS[policy.stem.removesuffix('-looping')]}.qnp"
        fmp = load_fmp(problem, policy=policy)
        result, seconds = timed(lambda fmp=fmp: terminates(fmp))
        rows.append({
            "problem": problem.stem, "policy": policy.stem, "control states": len(fmp.control_states),
            "progress-sieve": "terminating" if progress_sieve(normalise(fmp)).proves_termination else "nonterminating",
            "verdict": result.verdict.value, "certificate accepted": accepted(fmp, result),
            "milliseconds": round(1000 * seconds, 1),
        })  # fmt: skip
    return rows


def transition_systems() -> list[dict[str, Any]]:
    """Return a row for each integer transition system of the Termination Problem Data Base."""
    rows = []
    for path in sorted((PUBLISHED / "tpdb-its").glob("*/*.*")):
        system = parse_its(path.read_text(), Where(str(path)))
        result, seconds = timed(lambda system=system: its_terminates(system))
        certificate = json.loads(json.dumps(getattr(result, "certificate", None)))
        if isinstance(result, Terminating):
            fine: bool | None = check_ranking(load_fmp(path), certificate) is None
        else:
            fine = find_flaw(system, certificate) is None if isinstance(result, Nonterminating) else None
        rows.append({
            "system": path.name, "transitions": len(system.transitions), "verdict": result.verdict.value,
            "certificate accepted": fine, "milliseconds": round(1000 * seconds, 1),
        })  # fmt: skip
    return rows


def growth(sizes: list[int], budget: int) -> list[dict[str, Any]]:
    """Return rows of processor seconds: complete test with certificate against GenSieve with one forest, one budget."""
    rows = []
    for size in sizes:
        for count in (3, 10):
            for kind in ("planted", "random"):
                rng = random.Random(size * 100 + count)
                fmp = planted_plan(rng, size, count) if kind == "planted" else random_plan(rng, size, count, 1)
                result, seconds = timed(lambda fmp=fmp: terminates(fmp))
                (proved, ended, steps), slow = timed(lambda fmp=fmp: proves_without_heuristic(fmp, budget))
                rows.append({
                    "control states": size, "variables": count, "kind": kind, "complete": result.verdict.value,
                    "certificate accepted": accepted(fmp, result), "complete seconds": round(seconds, 4),
                    "gensieve": "budget" if ended else "terminating" if proved else "unknown", "gensieve steps": steps,
                    "gensieve seconds": round(slow, 4), "ratio": round(slow / max(seconds, 1e-6), 2),
                })  # fmt: skip
                print(rows[-1], flush=True)
    return rows


def proves_without_heuristic(fmp: FiniteMemoryPolicy, budget: int) -> tuple[bool, bool, int]:
    """Return GenSieve's answer with one random forest, as the paper's implementation draws it."""
    try:
        trace = gensieve(normalise(fmp), random_vertex(random.Random(0)), most_steps=budget)
    except LimitReached:
        return False, True, budget
    return trace.proves_termination, False, trace.steps


def markdown(results: dict[str, Any]) -> str:
    """Return the results as tables."""
    parts = [
        "# Termination\nSeconds are processor time of one run; compare them with each other, not with a clock.\n",
        "Where GenSieve says `budget` it was stopped undecided, so the ratio is a lower bound. Of the random plans\n"
        "every other one hides a ranking; the methods' rows count the terminating plans they prove.\n",
    ]
    for title, rows in results.items():
        parts.append(f"## {title}\n")
        rows = rows if isinstance(rows, list) else [{"what": key, "value": value} for key, value in rows.items()]
        if rows:
            keys = list(rows[0])
            parts += ["| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
            parts += ["| " + " | ".join(str(row.get(key, "")) for key in keys) + " |" for row in rows]
        parts.append("")
    return "\n".join(parts)


def main() -> None:
    """Run all parts and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=3000)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10, 30, 100, 300, 1000, 3000, 10000])
    parser.add_argument("--budget", type=int, default=300_000)
    options = parser.parse_args()
    results = {
        "Published plans": published(),
        "Random plans": random_table(options.plans),
        "Qualitative numeric planning": qualitative(),
        "Integer transition systems": transition_systems(),
        "Growth": growth(options.sizes, options.budget),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "termination.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "termination.md").write_text(markdown(results))
    print(markdown(results))


if __name__ == "__main__":
    main()
