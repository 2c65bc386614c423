"""Policies of qualitative problems, found with learned clauses, against generating and testing without them.

Run `python -m benchmarks.synthesis`; it writes `results/synthesis.json` and `results/synthesis.md`. Published problems are those
of qnp2fond; random ones come from `tests/termination/problems.py`, seed by seed, those that have no strong-cyclic policy left out,
until 50 were solved. Every policy that is found is certified. Beside them the problem as a FOND problem (`qnp_to_fond`), solved by
`polvet decide --goal-reaching`, with counters of 1, 2, ... bits until a strong-cyclic policy is found. Seconds are CPU time.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.termination.problems import every_policy, random_problem

import polvet
from benchmarks.qnp_to_fond import fond_domain, fond_problem
from polvet.budget import Budget
from polvet.errors import LimitReached, Where
from polvet.policy.finite_memory.qnp import Problem, parse_qnp, starts_of
from polvet.termination.arena import Arena, build_arena
from polvet.termination.incremental import endless
from polvet.termination.synthesis import Synthesis, synthesize

HERE = Path(__file__).resolve().parent
PUBLISHED = HERE.parents[1] / "shared" / "benchmarks" / "qnp2fond"
WANTED, LIMIT = 50, 4.0
"""Random problems to be solved, and the seconds (of the clock) that each search gets."""


def searched(arena: Arena) -> tuple[Synthesis | None, float]:
    """Return what the search finds, None at its limit, and its CPU seconds."""
    begun = time.process_time()
    try:
        found = synthesize(arena, Budget(LIMIT))
    except LimitReached:
        found = None
    return found, time.process_time() - begun


def generated_and_tested(arena: Arena) -> tuple[str, int, float]:
    """Return the answer, how many whole policies were tested, and CPU seconds, without any learning."""
    begun, budget = time.process_time(), Budget(LIMIT)
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
    begun, budget = time.process_time(), Budget(LIMIT)
    most = len(problem.features.names) + 1
    domain, file = folder / "domain.pddl", folder / "problem.pddl"
    for bits in range(1, most + 1):
        domain.write_text(fond_domain(problem, bits))
        words = set()
        for start in starts_of(problem):
            file.write_text(fond_problem(problem, start))
            words.add(polvet.load(file, domain=domain).decide(goal_reaching=True, within=budget).word)
        if words == {"strong-cyclic"}:
            return "solved", bits, time.process_time() - begun
        if "unknown" in words:
            return "limit", None, time.process_time() - begun
    return "none", None, time.process_time() - begun


def row(name: str, text: str, folder: Path) -> dict[str, Any] | None:
    """Return what both searches do with the problem; None where a node of the start has no option at all."""
    problem = parse_qnp(text, Where(name))
    arena = build_arena(problem)
    if any(not arena.choices[node] and node not in arena.goals for node in arena.starts):
        return None
    found, seconds = searched(arena)
    plain_answer, plain_policies, plain_seconds = generated_and_tested(arena)
    fond_answer, fond_bits, fond_seconds = as_fond(problem, folder)
    answer = "limit" if found is None else "impossible" if found.chosen is None else "solved"
    entry: dict[str, Any] = {
        "problem": name, "control_states": len(arena.nodes), "answer": answer, "seconds": round(seconds, 4),
        "proposals": found and found.proposals, "tested": found and found.tested, "cores": found and found.cores,
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
    with TemporaryDirectory() as name:
        for path in sorted(PUBLISHED.rglob("*.qnp")):
            entry = row(str(path.relative_to(PUBLISHED)), path.read_text(), Path(name))
            rows += [{"kind": "published", **entry}] if entry else []
        seed = solved = 0
        while solved < WANTED:
            entry = row(f"random {seed}", random_problem(seed, 3 + seed % 3, 2 + seed % 2), Path(name))
            seed += 1
            if entry:
                rows.append({"kind": "random", **entry})
                solved += entry["answer"] == "solved"
                print(entry, flush=True)
    document = {"limit": LIMIT, "seeds": seed, "rows": rows}
    (HERE / "results" / "synthesis.json").write_text(json.dumps(document, indent=1) + "\n")
    (HERE / "results" / "synthesis.md").write_text(page(document))


def page(document: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    lines = [
        "# Synthesis with learned clauses, and without",
        "",
        f"Each search had {document['limit']:g} s of the clock on a loaded machine; seconds are CPU time.",
        "*Choices tested*: single choices put through the incremental sieve. *Policies tested*: whole ones, without learning.",
        "*As FOND*: translated with a stack of numbers (Bonet & Geffner 2020), solved by `polvet decide --goal-reaching`.",
        "",
        "| problems | solved | certified | impossible | limit | proposals | choices tested | clauses | CPU s | without: solved | limit | policies tested | CPU s | as FOND: solved | limit | CPU s |",  # noqa: E501
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind in ("published", "random"):
        some = [one for one in document["rows"] if one["kind"] == kind]

        def count(key: str, value: Any, some: list[dict[str, Any]] = some) -> int:
            return sum(one.get(key) == value for one in some)

        def total(key: str, some: list[dict[str, Any]] = some) -> Any:
            return sum(one[key] or 0 for one in some)

        lines.append(
            f"| {kind} ({len(some)}) | {count('answer', 'solved')} | {count('certified', True)} | {count('answer', 'impossible')} "
            f"| {count('answer', 'limit')} | {total('proposals'):,} | {total('tested'):,} | {total('cores'):,} | {total('seconds'):.2f} "
            f"| {count('plain_answer', 'solved')} | {count('plain_answer', 'limit')} | {total('plain_policies'):,} "
            f"| {total('plain_seconds'):.2f} | {count('fond_answer', 'solved')} | {count('fond_answer', 'limit')} "
            f"| {total('fond_seconds'):.2f} |"
        )
    lines += [
        "",
        "The problems on which the two differ most:",
        "",
        "| problem | control states | answer | proposals | CPU s | without: answer | policies tested | CPU s | as FOND: answer | bits | CPU s |",  # noqa: E501
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in sorted(document["rows"], key=lambda one: -one["plain_seconds"])[:12]:
        lines.append(
            f"| {one['problem']} | {one['control_states']} | {one['answer']} | {one['proposals']} | {one['seconds']:.3f} "
            f"| {one['plain_answer']} | {one['plain_policies']} | {one['plain_seconds']:.3f} "
            f"| {one['fond_answer']} | {one['fond_bits']} | {one['fond_seconds']:.3f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
