"""False recurrent sets: constraints around configurations of plans that always end, with moves that lead out or are blocked."""

from __future__ import annotations

from contextlib import nullcontext

from polvet.check.checker import Subjects
from tests.attack.lasso import borrowed, walk
from tests.attack.plans import number, random_plan


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    plan = random_plan(rng)
    if plan.is_endless:
        return
    file = plan.save(folder)
    for _ in range(2):
        if (claim := borrowed(rng, plan, "recurrent-set")) is not None:
            yield claim, Subjects(file), nullcontext()
    for _ in range(6):
        claim = _surrounded(rng, plan)
        yield claim, Subjects(file), nullcontext()
        yield {**claim, "fmp": plan.document}, Subjects(), nullcontext()


def _surrounded(rng, plan):
    start = rng.choice(plan.initial)
    steps = walk(rng, plan, start, rng.randint(0, 6))
    before = rng.randint(0, len(steps))
    visited = [start, *(step.target for step in steps)]
    sets, moves = {}, {}
    for state in {here[0] for here in visited[before:]}:
        mine = [values for here, values in visited[before:] if here == state]
        sets[state] = _rows(rng, plan, mine)
        edges = [(k, edge) for k, edge in enumerate(plan.document["edges"]) if edge["from"] == state]
        taken = [plan.written(step) for here, step in zip(visited, steps, strict=False) if here[0] == state]
        for k, edge in edges:
            for choice in range(len(edge["choices"])):
                values = rng.choice(mine)
                options = list(plan.amounts(edge["choices"][choice], values))
                if options:
                    amounts = {n: number(a) for n, a in zip(plan.names, rng.choice(options), strict=True)}
                    taken.append({"edge": plan.document["edges"][k]["id"], "choice": choice, "effects": amounts})
        moves[state] = rng.sample(taken, min(len(taken), rng.randint(0, 4)))
    return {
        "kind": "recurrent-set", "initial_state": start[0], "initial_valuation": plan.valuation(start[1]),
        "prefix": [plan.written(step) for step in steps[:before]], "sets": sets, "moves": moves,
    }  # fmt: skip


def _rows(rng, plan, values):
    """Constraints that all these values satisfy, and perhaps one that cuts between integers."""
    rows = []
    for place, name in enumerate(plan.names):
        low, high = min(v[place] for v in values), max(v[place] for v in values)
        factor = rng.choice([1, 1, 2, 3, 2**53])
        if rng.random() < 0.7:
            rows.append({name: number(factor), "": number(-factor * low + rng.choice([0, factor - 1]))})
        if rng.random() < 0.7:
            rows.append({name: number(-factor), "": number(factor * high + rng.choice([0, factor - 1]))})
    if len(plan.names) > 1 and rng.random() < 0.5:
        one, other = 0, 1
        sums = [v[one] - 2 * v[other] for v in values]
        rows.append({plan.names[one]: 1, plan.names[other]: -2, "": number(-min(sums))})
    if rng.random() < 0.1:
        rows.append({"": rng.choice([0, 1])})
    return rows
