"""False lassos: cycles of plans that always end, as if a guard, a bound or an amount were another, often or for very many rounds."""

from __future__ import annotations

from contextlib import nullcontext

from polvet.check.checker import Subjects
from polvet.termination.verdicts import Nonterminating
from tests.attack import sketches, starts
from tests.attack.plans import Plan, Step, neighbour, number, random_plan

ROUNDS = (1, 1, 1, 2, 3, 1000, 2**53, 2**63)


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    yield from _wide(rng, folder)
    yield from starts.false_lassos(rng, folder)
    yield from sketches.false_lassos(rng, folder) if rng.random() < 0.2 else ()
    plan = random_plan(rng)
    if plan.is_endless:
        return
    file = plan.save(folder)
    for _ in range(3):
        if (claim := borrowed(rng, plan, "lasso")) is not None:
            yield claim, Subjects(file), nullcontext()
    for _ in range(6):
        if (claim := walked(rng, plan)) is not None:
            yield claim, Subjects(file), nullcontext()
            yield {**claim, "fmp": plan.document}, Subjects(), nullcontext()


def borrowed(rng, plan, kind):
    """The evidence of a plan that differs in one place, where it has that kind."""
    other = neighbour(rng, plan).verdict()
    if not isinstance(other, Nonterminating) or other.certificate["kind"] != kind:
        return None
    return {key: value for key, value in other.certificate.items() if key != "fmp"}


def walk(rng, plan, here, length):
    """Steps from the configuration, some of them as if guards and bounds were not there."""
    steps = []
    for _ in range(length):
        steps_here = plan.steps(here) if rng.random() < 0.8 else []
        if not steps_here:
            edges = [k for k, edge in enumerate(plan.document["edges"]) if edge["from"] == here[0]]
            if not edges:
                break
            number_, edge = (k := rng.choice(edges)), plan.document["edges"][k]
            choice = rng.randrange(len(edge["choices"]))
            amounts = []
            for name in plan.names:
                effect = edge["choices"][choice].get("effects", {}).get(name, 0)
                ends = [effect["lo"], effect["hi"]] if isinstance(effect, dict) else [effect]
                amounts.append(int(rng.choice([end for end in ends if end is not None] or [0, 1, -1])))
            after = tuple(a + b for a, b in zip(here[1], amounts, strict=True))
            steps_here = [Step(number_, choice, tuple(amounts), (edge["to"], after))]
        steps.append(rng.choice(steps_here))
        here = steps[-1].target
    return steps


def walked(rng, plan):
    """A walk that comes back to its control state, with what comes before as prefix; perhaps a later cycle is repeated."""
    start = rng.choice(plan.initial)
    steps = walk(rng, plan, start, rng.randint(1, 12))
    places = [start[0], *(step.target[0] for step in steps)]
    loops = [(i, j) for i in range(len(places)) for j in range(i + 1, len(places)) if places[i] == places[j]]
    if not loops:
        return None
    values = [start[1], *(step.target[1] for step in steps)]
    steady = [(i, j) for i, j in loops if values[i] == values[j]]  # what comes back fails by a guard or a bound alone
    first, last = rng.choice(steady or loops)
    written = [plan.written(step) for step in steps]
    cycle = [{"edges": written[first:last], "repeat": number(rng.choice(ROUNDS))}]
    if last - first > 1 and rng.random() < 0.3:
        cycle = [{"edges": [one], "repeat": 1} for one in written[first:last]]
    return {"kind": "lasso", "initial_valuation": plan.valuation(start[1]), "prefix": written[:first], "cycle": cycle}


def _wide(rng, folder):
    """Plans over a wide window in which every edge moves x towards its upper bound, but for an offset of each control state."""
    low = rng.choice([0, -(2**63), 2**53 - 1])
    high = low + rng.choice([10**6, 2**40, 2**53, 2**62])
    offset = {f"q{k}": rng.randint(-5, 5) for k in range(rng.randint(1, 3))}
    ends = [(a, b) for a in offset for b in offset if a == b or rng.random() < 0.7]
    edges = []
    for k, (source, target) in enumerate(ends):
        least = offset[target] - offset[source] + rng.choice([1, 1, 2, 2**20])
        step = rng.choice([number(least), {"lo": number(least), "hi": rng.choice([None, number(least + 3)])}])
        turn = rng.choice([0, {"lo": None, "hi": None}, {"lo": -1, "hi": 1}])
        edge = {"id": k, "from": source, "to": target, "choices": [{"effects": {"x": step, "y": turn}}]}
        sign = rng.choice(["!=", "<=", "<", "!=", ">="])
        if rng.random() < 0.7:
            name = rng.choice(["x", "y"])
            edge["guard_dnf"] = [[[name, sign, number(rng.choice([low, high, high - 1, 0]))]]]
        edges.append(edge)
    variables = [
        {"name": "x", "lower": number(low), "upper": number(high)}, {"name": "y", "lower": None, "upper": None}
    ]  # fmt: skip
    document = {
        "format": "fmp/1", "variables": variables, "control_states": list(offset), "initial": list(offset),
        "edges": edges,
    }  # fmt: skip
    file = Plan(document).save(folder)
    for _ in range(2):
        edge = rng.choice(edges)
        there = [edge]
        if edge["from"] != edge["to"]:
            back = [one for one in edges if (one["from"], one["to"]) == (edge["to"], edge["from"])]
            if not back:
                continue
            there.append(back[0])
        steps = []
        for one in there:
            effects = one["choices"][0]["effects"]
            amount = effects["x"]["lo"] if isinstance(effects["x"], dict) else effects["x"]
            if rng.random() < 0.3 and isinstance(effects["x"], dict):
                amount = number(int(amount) - rng.choice([1, 2]))
            steps.append({"edge": one["id"], "effects": {"x": amount, "y": rng.choice([0, 0, 1, -1])}})
        begin = {"x": number(rng.choice([low, high, high - 1])), "y": rng.choice([0, 1, number(-(2**63))])}
        cycle = [{"edges": steps, "repeat": number(rng.choice(ROUNDS))}]
        claim = {"kind": "lasso", "initial_valuation": begin, "prefix": [], "cycle": cycle}
        yield claim, Subjects(file), nullcontext()
