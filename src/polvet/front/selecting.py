"""Rules of a sketch, or edges of a plan, chosen so that every execution surely ends in the goal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from polvet.confirm.outcome import NO_KIND
from polvet.errors import InputError, LimitReached, Where
from polvet.front.limits import Work
from polvet.front.plans import Undecided, terminates
from polvet.front.result import why

if TYPE_CHECKING:
    from polvet.front.synthesizing import Solved, Unsolvable
    from polvet.policy.finite_memory import FiniteMemoryPolicy
    from polvet.policy.finite_memory.load import PlanFile
    from polvet.policy.finite_memory.sketch import Sketch
    from polvet.termination.selection import Candidates


@dataclass(frozen=True, slots=True)
class Wish:
    """What is chosen from, and to what end: the file of candidates, what must stay, the goal, and the starts."""

    file: Path
    policy: Path | None
    goal: str
    start: str | None


def select(wish: Wish, work: Work, output: Path | None, certificate: Path | None) -> Solved | Unsolvable | Undecided:
    """Return the plan that is left, with its `goal-reaching` certificate, or that no choice will do."""
    from polvet.files import write_whole
    from polvet.front.synthesizing import Solved, Unsolvable
    from polvet.policy.finite_memory.goal import parse_goal
    from polvet.policy.finite_memory.load import read_plan
    from polvet.policy.finite_memory.sketch import goal_of, region_of
    from polvet.policy.finite_memory.starts import goal_or_no_start, started
    from polvet.system import memory_limited
    from polvet.termination.selection import select as search

    figures: dict[str, int] = {}
    with memory_limited(work.budget.megabytes), TemporaryDirectory() as folder:
        read = read_plan(wish.file, budget=work.budget)
        if read.system is not None:
            raise InputError(
                "of a transition system nothing is chosen.", Where(str(wish.file)), "Give a plan or a sketch."
            )
        candidates = _candidates(read, wish, work)
        goal, start = wish.goal, wish.start
        if read.sketch is not None:
            states, first = candidates.plan.control_states, candidates.plan.initial
            goal, start = goal_of(read.sketch, goal, states), region_of(read.sketch, start or "true", first)
        if start is not None:
            candidates = replace(
                candidates, plan=started(candidates.plan, parse_goal(start, candidates.plan, "--start"))
            )
        region = parse_goal(goal, candidates.plan)
        region = region if start is None else goal_or_no_start(region, candidates.plan)
        figures["candidates"] = len(set(candidates.owner.values()))
        work.tell(f"choosing among {figures['candidates']} candidates")
        try:
            selection = search(candidates, region, work.budget)
        except LimitReached as limit:
            return Undecided(**why(limit), figures=figures, method="selection", **work.account())
        figures |= {"proposals": selection.proposals, "loops": selection.loops, "stops": selection.stops}
        if selection.taken is None:
            reason = "no choice of the candidates surely ends in the goal"
            return Unsolvable(reason=reason, figures=figures, confirmation=NO_KIND, **work.account())
        figures["chosen"] = len(selection.taken)
        text, document = _written(read, selection.taken)
        place = output or Path(folder) / ("plan.json" if read.sketch is None else "sketch.txt")
        write_whole(place, text)
        proof = terminates(place, goal=wish.goal, start=wish.start, output=certificate, within=work.budget)
        if proof.word != "goal-reaching":
            reason = f"rules were chosen, but not proved: {getattr(proof, 'reason', proof.word)}"
            return Undecided(reason=reason, limit=getattr(proof, "limit", None), figures=figures, **work.account())
    return Solved(
        figures=figures,
        certificate=proof.certificate,
        confirmation=proof.confirmation,
        written=proof.written,
        source=selection,
        policy=document,
        policy_file=None if output is None else str(output),
        **work.account(),
    )


def _candidates(read: PlanFile, wish: Wish, work: Work) -> Candidates:
    """Return the rules, or the edges, as candidates."""
    from polvet.policy.finite_memory.load import read_plan
    from polvet.policy.finite_memory.sketch import expand
    from polvet.termination.selection import Candidates

    kept = None if wish.policy is None else read_plan(wish.policy, budget=work.budget)
    where = Where(str(wish.policy))
    if read.sketch is not None:
        sketch = _numbered(read.sketch)
        plan = expand(sketch, work.budget)
        owner = {edge.id: str(edge.choices[0].action) for edge in plan.edges}
        fixed = [] if kept is None else _fixed_rules(sketch, kept.sketch, where)
        owner |= {f"rule {name}": name for name in fixed if name not in owner.values()}  # a rule that is never open
        return Candidates(plan, owner, frozenset(fixed))
    plan = read.whole(work.budget)
    staying = [] if kept is None or kept.plan is None else _same_edges(plan, kept.plan, where)
    return Candidates(plan, {edge.id: str(edge.id) for edge in plan.edges}, frozenset(staying))


def _numbered(sketch: Sketch) -> Sketch:
    """Return the sketch with a label of its own for each rule."""
    return replace(sketch, rules=tuple(replace(rule, label=f"rule {k}") for k, rule in enumerate(sketch.rules)))


def _fixed_rules(sketch: Sketch, kept: Sketch | None, where: Where) -> list[str]:
    if kept is None or kept.features.names != sketch.features.names:
        raise InputError(
            "the partial plan is no sketch of the same features.", where, "Declare the features as the candidates do."
        )
    by_rule = {_meaning(rule): rule.label for rule in sketch.rules}
    return _known([(_meaning(rule), rule.label) for rule in kept.rules], by_rule, where)


def _meaning(rule: Any) -> str:
    return repr(
        (rule.conditions, sorted(rule.changes.items()), rule.memory, rule.following, sorted(rule.after.items()))
    )


def _same_edges(plan: FiniteMemoryPolicy, kept: FiniteMemoryPolicy, where: Where) -> list[str]:
    def meaning(edge: Any) -> str:
        return repr((edge.source, edge.target, edge.choices, edge.guard))

    by_edge = {meaning(edge): str(edge.id) for edge in plan.edges}
    return _known([(meaning(edge), str(edge.id)) for edge in kept.edges], by_edge, where)


def _known(wanted: Sequence[tuple[str, str]], known: Mapping[str, str], where: Where) -> list[str]:
    for meaning, name in wanted:
        if meaning not in known:
            raise InputError(
                f"'{name}' of the partial plan is none of the candidates.", where, "Write it as it stands there."
            )
    return [known[meaning] for meaning, _ in wanted]


def _written(read: PlanFile, taken: Sequence[str]) -> tuple[str, Mapping[str, Any]]:
    """Return the chosen plan as text, and as a document."""
    from polvet.policy.finite_memory import dump_fmp
    from polvet.policy.finite_memory.sketch_lines import dump_lines

    if read.sketch is None:
        assert read.plan is not None
        plan = replace(read.plan, edges=tuple(edge for edge in read.plan.edges if str(edge.id) in taken))
        document = dump_fmp(plan)
        return json.dumps(document, ensure_ascii=False, indent=1) + "\n", dict(document)
    sketch = _numbered(read.sketch)
    rules = [rule for rule in sketch.rules if rule.label in taken]
    text = dump_lines(sketch.features, rules, sketch.where)
    return text, {"rules": [line for line in text.splitlines() if "->" in line]}
