"""Policies of qualitative problems, found as strategies of a Rabin game, against generating and testing, and against FOND.

Run `python -m benchmarks.synthesis`; it writes `results/synthesis.json` and `results/synthesis.md`. Published problems are those
of qnp2fond; random ones come from `tests/termination/problems.py`, seed by seed, those that have no strong-cyclic policy left out,
until 50 were solved; larger ones have more numbers. Every policy that is found is certified. Generating and testing goes through whole
policies, each put through Sieve. As a FOND problem (`qnp_to_fond`) it is solved by `polvet decide --goal-reaching`, with
counters of 1, 2, ... bits until a strong-cyclic policy is found. Limits and seconds are CPU time.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.termination.problems import every_policy, random_problem

import polvet
from benchmarks.cpu_limited import forked
from benchmarks.qnp_to_fond import fond_domain, fond_problem
from polvet.budget import Budget
from polvet.errors import LimitReached, Where
from polvet.policy.finite_memory.qnp import Problem, parse_qnp, starts_of
from polvet.termination.arena import Arena, build_arena
from polvet.termination.arena_sieve import endless
from polvet.termination.synthesis import synthesize

HERE = Path(__file__).resolve().parent
PUBLISHED = HERE.parents[1] / "shared" / "benchmarks" / "qnp2fond"
WANTED, LIMIT = 50, 4.0
"""Random problems to be solved, and the CPU seconds that each search gets."""
LARGER = [(numbers, seed) for numbers in (6, 7) for seed in (0, 1, 5, 6, 9, 10, 14, 15)]


def searched(arena: Arena) -> tuple[str, float]:
    """Return the answer of the game, and its CPU seconds."""
    begun = time.process_time()
    try:
        found = synthesize(arena, Budget(LIMIT, clock=time.process_time))
    except LimitReached:
        return "limit", time.process_time() - begun
    return "impossible" if found.chosen is None else "solved", time.process_time() - begun


def generated_and_tested(arena: Arena) -> tuple[str, int, float]:
    """Return the answer, how many whole policies were tested, and CPU seconds, without any learning."""
    begun, budget = time.process_time(), Budget(LIMIT, clock=time.process_time)
    answer, tested = "impossible", 0
    for chosen in every_policy(arena):
        tested += 1
        if not endless(arena, list(chosen.values())):
            answer = "solved"
            break
        if budget.is_over():
            answer = "limit"
            break
    return answer, tested, time.process_time() - begun


def as_fond(problem: Problem, folder: Path) -> tuple[str, int | None, float]:
    """Return the answer of the strong-cyclic solver on the translated problem, the bits of its counters, and CPU seconds."""

    def work() -> dict[str, Any]:
        domain, file = folder / "domain.pddl", folder / "problem.pddl"
        for bits in range(1, len(problem.features.names) + 2):
            domain.write_text(fond_domain(problem, bits))
            words = set()
            for start in starts_of(problem):
                file.write_text(fond_problem(problem, start))
                words.add(polvet.load(file, domain=domain).decide(goal_reaching=True).word)
            if words == {"strong-cyclic"}:
                return {"answer": "solved", "bits": bits}
        return {"answer": "none", "bits": None}

    found, seconds = forked(work, LIMIT)
    return ("limit", None, seconds) if found is None else (found["answer"], found["bits"], seconds)


def row(name: str, text: str, folder: Path) -> dict[str, Any] | None:
    """Return what both searches do with the problem; None where a node of the start has no option at all."""
    problem = parse_qnp(text, Where(name))
    arena = build_arena(problem)
    if any(not arena.choices[node] and node not in arena.goals for node in arena.starts):
        return None
    answer, seconds = searched(arena)
    plain_answer, plain_policies, plain_seconds = generated_and_tested(arena)
    fond_answer, fond_bits, fond_seconds = as_fond(problem, folder)
    if {answer, plain_answer} == {"solved", "impossible"} or {answer, fond_answer} == {"impossible", "solved"}:
        raise AssertionError(f"{name}: {answer}, but {plain_answer} by generating and {fond_answer} by FOND")
    entry: dict[str, Any] = {
        "problem": name, "control_states": len(arena.nodes), "answer": answer, "seconds": round(seconds, 4),
        "plain_answer": plain_answer, "plain_policies": plain_policies, "plain_seconds": round(plain_seconds, 4),
        "fond_answer": fond_answer, "fond_bits": fond_bits, "fond_seconds": round(fond_seconds, 4),
    }  # fmt: skip
    if answer == "solved":
        file, plan, claim = (folder / file for file in ("problem.qnp", "plan.json", "claim.json"))
        file.write_text(text)
        solved = polvet.synthesize(file, output=plan, certificate=claim)
        entry["certified"] = bool(solved.checked) and polvet.certify(claim, file, plan).accepted
    return entry


def main() -> None:
    """Measure, and write both files."""
    rows: list[dict[str, Any]] = []

    def add(kind: str, name: str, text: str, folder: Path) -> bool:
        entry = row(name, text, folder)
        if entry is None:
            return False
        rows.append({"kind": kind, **entry})
        print(rows[-1], flush=True)
        return bool(entry["answer"] == "solved")

    with TemporaryDirectory() as name:
        folder = Path(name)
        for path in sorted(PUBLISHED.rglob("*.qnp")):
            add("published", str(path.relative_to(PUBLISHED)), path.read_text(), folder)
        seed = solved = 0
        while solved < WANTED:
            solved += add("random", f"random {seed}", random_problem(seed, 3 + seed % 3, 2 + seed % 2), folder)
            seed += 1
        for numbers, one in LARGER:
            add("larger", f"random {one}, {numbers} numbers", random_problem(one, numbers, 2), folder)
    document = {"limit": LIMIT, "seeds": seed, "rows": rows}
    (HERE / "results" / "synthesis.json").write_text(json.dumps(document, indent=1) + "\n")
    (HERE / "results" / "synthesis.md").write_text(page(document))


def page(document: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    lines = [
        "# Policies of qualitative problems: a game, generating and testing, FOND",
        "",
        f"Each had {document['limit']:g} CPU seconds for a problem; seconds are CPU time, summed over the problems of a row.",
        "*Game*: what `polvet synthesize` does; one policy is put through Sieve, and certified.",
        "*Generating and testing*: whole policies, one after the other, put through Sieve.",
        "*As FOND*: translated with a stack of numbers (Bonet & Geffner 2020), solved by `polvet decide --goal-reaching`.",
        "*None* means proved that there is none; the translation can only say that there is none with so many bits.",
        "",
        "| problems | game: solved | certified | none | limit | CPU s | generating: solved | none | limit | policies tested | CPU s | as FOND: solved | none | limit | CPU s |",  # noqa: E501
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind in ("published", "random", "larger"):
        some = [one for one in document["rows"] if one["kind"] == kind]

        def count(key: str, value: Any, some: list[dict[str, Any]] = some) -> int:
            return sum(one.get(key) == value for one in some)

        def total(key: str, some: list[dict[str, Any]] = some) -> Any:
            return sum(one[key] for one in some)

        lines.append(
            f"| {kind} ({len(some)}) | {count('answer', 'solved')} | {count('certified', True)} | {count('answer', 'impossible')} "
            f"| {count('answer', 'limit')} | {total('seconds'):.2f} "
            f"| {count('plain_answer', 'solved')} | {count('plain_answer', 'impossible')} | {count('plain_answer', 'limit')} "
            f"| {total('plain_policies'):,} | {total('plain_seconds'):.2f} "
            f"| {count('fond_answer', 'solved')} | {count('fond_answer', 'none')} | {count('fond_answer', 'limit')} "
            f"| {total('fond_seconds'):.2f} |"
        )
    lines += [
        "",
        "The problems on which generating and testing takes longest:",
        "",
        "| problem | control states | game | CPU s | generating | policies tested | CPU s | as FOND | bits | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in sorted(document["rows"], key=lambda one: -one["plain_seconds"])[:16]:
        lines.append(
            f"| {one['problem']} | {one['control_states']} | {one['answer']} | {one['seconds']:.4f} "
            f"| {one['plain_answer']} | {one['plain_policies']:,} | {one['plain_seconds']:.2f} "
            f"| {one['fond_answer']} | {one['fond_bits'] or ''} | {one['fond_seconds']:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
