"""False claims with starts, and with relations that need not hold: what is true is found by trying every execution out."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from polvet.budget import Budget
from polvet.check.checker import Subjects
from polvet.errors import InputError, LimitReached, Where
from polvet.policy.finite_memory import normalise, parse_fmp
from polvet.policy.finite_memory.goal import parse_goal
from polvet.policy.finite_memory.relations import Relation
from polvet.policy.finite_memory.starts import started
from polvet.termination.complete import Ranking
from polvet.termination.decide import terminates
from polvet.termination.guarded_ranking import find_guarded_ranking
from polvet.termination.relations import written
from polvet.termination.verdicts import Nonterminating, Terminating
from tests.attack.plans import COMPARE, SECONDS, random_plan


@dataclass(frozen=True)
class Starts:
    """A region as text, and the configurations in it."""

    text: str
    configurations: list


def random_starts(rng, plan):
    """Return starts: comparisons, perhaps in a control state that is named."""
    state = rng.choice([None, *plan.document["control_states"]])
    atoms = []
    for name, (low, high) in zip(plan.names, plan.windows, strict=True):
        if rng.random() < 0.6:
            atoms.append([name, rng.choice(list(COMPARE)), rng.randint(low, high)])
    parts = ([] if state is None else [f"state == {state}"]) + [f"{n} {sign} {value}" for n, sign, value in atoms]
    values = {v for _, v in plan.initial if plan.holds(atoms, v)}
    states = {s for s, _ in plan.initial} if state is None else {state}
    return Starts(" && ".join(parts) or "true", [(s, v) for s in sorted(states) for v in sorted(values)])


def reached(plan, starts):
    """The steps of every configuration that is reached from the starts."""
    graph, pending = {}, list(starts.configurations)
    while pending:
        here = pending.pop()
        if here not in graph:
            graph[here] = plan.steps(here)
            pending += [step.target for step in graph[here]]
    return graph


def is_endless(graph):
    left = dict(graph)
    while True:
        ended = [here for here, steps in left.items() if not any(step.target in left for step in steps)]
        if not ended:
            return bool(left)
        for here in ended:
            del left[here]


def judged(plan, starts):
    """What the engine says of executions from the starts; None where it refuses."""
    try:
        fmp = parse_fmp(plan.document, Where("plan"))
        return terminates(started(fmp, parse_goal(starts.text, fmp)), budget=Budget(SECONDS))
    except InputError:
        return None


def _claim(found):
    return {key: value for key, value in found.certificate.items() if key != "fmp"}


def false_rankings(rng, folder):
    """Yield rankings for starts from which the plan runs for ever, as other starts or false relations would have them."""
    plan = random_plan(rng)
    here, other = random_starts(rng, plan), random_starts(rng, plan)
    if is_endless(reached(plan, here)):
        found = judged(plan, other)
        if isinstance(found, Terminating) and found.certificate is not None:
            yield {**_claim(found), "start": here.text}, Subjects(plan.save(folder)), nullcontext()
            yield {**_claim(found), "start": here.text, "fmp": plan.document}, Subjects(), nullcontext()
            if plan.is_endless:
                yield _claim(found), Subjects(plan.save(folder)), nullcontext()
    if plan.is_endless and len(plan.names) > 1:
        for _ in range(4):
            if (claim := related(rng, plan)) is not None:
                yield claim, Subjects(plan.save(folder)), nullcontext()


def related(rng, plan):
    """A ranking that would be right if relations held which do not."""
    try:
        fmp = parse_fmp(plan.document, Where("plan"))
        relations = {
            state: [random_relation(rng, plan) for _ in range(rng.randint(1, 3))]
            for state in plan.document["control_states"] if rng.random() < 0.7
        }  # fmt: skip
        ranking = find_guarded_ranking(normalise(fmp, relations=relations, max_nodes=300), budget=Budget(SECONDS))
    except (InputError, LimitReached):
        return None
    if not isinstance(ranking, Ranking):
        return None
    return {"kind": "lex-rank", "relations": written(fmp, relations), "components": ranking.components}


def random_relation(rng, plan):
    """A relation of two counters, as bounds of one configuration or nearly so."""
    one, other = sorted(rng.sample(range(len(plan.names)), 2))
    form = ((one, rng.choice([1, -1])), (other, rng.choice([1, -1, 2])))
    values = rng.choice(plan.initial)[1]
    return Relation(form, sum(a * values[k] for k, a in form) + rng.choice([-1, 0, 0, 1]))


def false_lassos(rng, folder):
    """Yield endless runs from starts from which every execution ends."""
    plan = random_plan(rng)
    here, other = random_starts(rng, plan), random_starts(rng, plan)
    if is_endless(reached(plan, here)):
        return
    found = judged(plan, other)
    if isinstance(found, Nonterminating) and found.certificate["kind"] == "lasso":
        claim = _claim(found)
        yield {**claim, "start": here.text}, Subjects(plan.save(folder)), nullcontext()
        renamed = [f"start 0: {str(step).partition(': ')[2]}" for step in claim["prefix"][:1]]
        yield (
            {**claim, "start": here.text, "prefix": renamed + claim["prefix"][1:]},
            Subjects(plan.save(folder)),
            nullcontext(),
        )


def false_goals(rng, folder, random_goal, is_goal):
    """Yield claims that executions from the starts end in the goal, of plans that may stop outside, or run for ever."""
    plan = random_plan(rng)
    here = random_starts(rng, plan)
    goal, cases = random_goal(rng, plan)
    graph = reached(plan, here)
    if not is_endless(graph) and all(steps or is_goal(plan, cases, place) for place, steps in graph.items()):
        return
    found = judged(plan, here)
    ranking = _claim(found) if isinstance(found, Terminating) and found.certificate is not None else {"components": []}
    claim = {**ranking, "kind": "goal-reaching", "goal": goal, "start": here.text, "reach": {}}
    try:
        parse_goal(goal, parse_fmp(plan.document, Where("plan")))
    except InputError:
        return
    yield claim, Subjects(plan.save(folder)), nullcontext()
    if len(plan.names) > 1:
        fmp = parse_fmp(plan.document, Where("plan"))
        for _ in range(4):
            some = {state: [random_relation(rng, plan) for _ in range(3)] for state in plan.document["control_states"]}
            yield {**claim, "relations": written(fmp, some)}, Subjects(plan.save(folder)), nullcontext()
