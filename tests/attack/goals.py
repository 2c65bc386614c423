"""False claims about goals: plans that can stop elsewhere or never stop, and runs that stop inside the goal or not at all."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from polvet.budget import Budget
from polvet.check.checker import Subjects
from polvet.errors import InputError, Where
from polvet.policy.finite_memory import load_fmp, parse_fmp
from polvet.policy.finite_memory.goal import parse_goal
from polvet.termination.decide import terminates
from polvet.termination.verdicts import Terminating
from tests.attack import starts
from tests.attack.lasso import walk
from tests.attack.lex_rank import borrowed, nearly
from tests.attack.plans import COMPARE, SECONDS, random_plan
from tests.attack.systems import random_system


def _goal(rng, plan):
    """A goal as text, and what it means: cases of (control states, comparisons)."""
    cases, texts = [], []
    likely = [here for here in plan.stops if rng.random() < 0.7][:3]
    for k in range(rng.choice([1, 1, 2, 2, 3])):
        states, atoms, parts = set(plan.document["control_states"]), [], []
        if rng.random() < 0.5:
            state = likely[k][0] if k < len(likely) else rng.choice(plan.document["control_states"])
            if rng.random() < 0.8:
                states &= {state}
                parts.append(f"state {rng.choice(['=', '=='])} {state}")
            else:
                states -= {state}
                parts.append(f"state != {state}")
        for place, (name, (low, high)) in enumerate(zip(plan.names, plan.windows, strict=True)):
            if rng.random() < 0.5:
                sign = rng.choice(list(COMPARE))
                value = likely[k][1][place] if k < len(likely) else rng.randint(low - 1, high + 1)
                atoms.append([name, sign, value])
                parts.append(f"{name} {'=' if sign == '==' and rng.random() < 0.3 else sign} {value}")
        if not parts:
            parts = ["true"]
        cases.append((states, atoms))
        glue = " && " if any("state" in part for part in parts) else rng.choice([" && ", " and "])
        texts.append(glue.join(parts))
    glue = " || " if any("state" in text for text in texts) else rng.choice([" || ", " or ", " or "])
    return glue.join(texts), cases


def _is_goal(plan, cases, configuration):
    state, values = configuration
    return any(state in states and plan.holds(atoms, values) for states, atoms in cases)


def _reads(plan, text):
    try:
        parse_goal(text, parse_fmp(plan.document, Where("plan")))
    except InputError:
        return False
    return True


def false_reaching(rng, folder):
    """Yield claims that every execution ends in the goal, of plans that may stop outside or run for ever."""
    yield from _systems(rng, folder)
    yield from starts.false_goals(rng, folder, _goal, _is_goal)
    plan = random_plan(rng)
    text, cases = _goal(rng, plan)
    if (not plan.is_endless and all(_is_goal(plan, cases, here) for here in plan.stops)) or not _reads(plan, text):
        return
    file = plan.save(folder)
    found = plan.verdict()
    for _ in range(4):
        ranking = found.certificate if isinstance(found, Terminating) else borrowed(rng, plan) or nearly(rng, plan)
        if ranking is None:
            continue
        reach = {}
        for name, (low, high) in zip(plan.names, plan.windows, strict=True):
            if rng.random() < 0.5:
                first = low + rng.randint(-1, 2)
                reach[name] = [str(first), str(rng.choice([first - 1, high, high + 1, max(first - 1, high - 1)]))]
        claim = {key: value for key, value in ranking.items() if key != "fmp"}
        yield {**claim, "kind": "goal-reaching", "goal": text, "reach": reach}, Subjects(file), nullcontext()


def _systems(rng, folder):
    """Claims that runs of a transition system end in g, where one of them ends in f."""
    system = random_system(rng)
    if system.is_endless or not any(here[0] == "f" and not steps for here, steps in system.graph.items()):
        return
    if rng.random() < 0.5:  # without windows: f is left only where a product allows it, so not with A = 0
        least = rng.choice([1, 10, 2**53, 2**64])
        products = ("A*A", "A*(A*A)", "(2*A)*A", "A*A - A*A + A*A")
        guard = f"{rng.choice(products)} {rng.choice(['>=', '=', '>'])} {least}"
        rule = f"  f(A) -> Com_1(g({rng.choice(['A', 'A - 1', 'A*A', '0'])})) :|: {guard}"
        system = replace(system, texts=[rule, *rng.choice([[], ["  g(A) -> Com_1(g(A - 1)) :|: A >= 1"]])])
    file = system.save(folder)
    try:
        policy = load_fmp(file)
        parse_goal("state == g", policy)
        found = terminates(policy, budget=Budget(SECONDS))
    except InputError:
        return
    if isinstance(found, Terminating) and found.certificate is not None:
        claim = {key: value for key, value in found.certificate.items() if key != "fmp"}
        yield {**claim, "kind": "goal-reaching", "goal": "state == g", "reach": {}}, Subjects(file), nullcontext()
        if "tracked" in claim:
            reach = claim["tracked"]
            yield (
                {**claim, "kind": "goal-reaching", "goal": "state == g", "reach": reach},
                Subjects(file),
                nullcontext(),
            )


def false_missing(rng, folder):
    """Yield claims that an execution stops outside the goal, of plans that can stop inside it only."""
    plan = random_plan(rng)
    text, cases = _goal(rng, plan)
    if any(not _is_goal(plan, cases, here) for here in plan.stops) or not _reads(plan, text):
        return
    file = plan.save(folder)
    for _ in range(5):
        start = rng.choice(plan.initial)
        here, steps = start, []
        for _ in range(rng.randint(0, 6)):
            following = plan.steps(here)
            if not following:
                break
            steps.append(rng.choice(following))
            here = steps[-1].target
        if rng.random() < 0.4:
            steps += walk(rng, plan, here, rng.randint(1, 2))
        claim = {
            "kind": "goal-missed", "goal": text, "initial_state": start[0],
            "initial_valuation": plan.valuation(start[1]), "steps": [plan.written(step) for step in steps],
        }  # fmt: skip
        yield claim, Subjects(file), nullcontext()
        yield {**claim, "fmp": plan.document}, Subjects(), nullcontext()
