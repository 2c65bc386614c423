"""False claims that a policy solves a qualitative problem: played on small numbers it stops outside the goal, or comes back.

The oracle reads the problem and the policy as this file made them, not as polvet reads them: numbers from 0 to 3, every amount.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import product

from polvet.check.checker import Subjects
from polvet.errors import Where
from polvet.policy.finite_memory.qnp import build_from_qnp, parse_qnp
from polvet.termination.decide import terminates
from polvet.termination.verdicts import Terminating
from tests.termination.problems import random_problem

MOST = 3


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    text = random_problem(rng.randrange(10_000), rng.randint(1, 3), rng.randint(0, 2))
    names, numeric, start, goal, actions = _read(text)
    policies = [_policy(rng, names, numeric, actions)]
    for _ in range(3):
        policies.append([rule for rule in policies[0] if rng.random() < 0.9] or policies[0])
    problem = folder / "problem.qnp"
    problem.write_text(text)
    rankings = []
    for rules in policies:
        plan = build_from_qnp(parse_qnp(text, Where("p")), _document(rules), Where("policy"))
        found = terminates(plan)
        if isinstance(found, Terminating):
            rankings.append(found.certificate["components"])
    for number, rules in enumerate(policies):
        if _solves(names, numeric, start, goal, actions, rules):
            continue
        file = folder / f"policy{number}.json"
        file.write_text(_document(rules))
        for components in [*rankings, [], [_component(rng, names, numeric)]]:
            yield {"kind": "solves", "components": components}, Subjects(problem, file), nullcontext()


def _read(text):
    lines = [line.split() for line in text.splitlines()]

    def pairs(words):
        return {words[1 + 2 * i]: int(words[2 + 2 * i]) for i in range(int(words[0]))}

    features = pairs(lines[1])
    actions = {lines[k][0]: (pairs(lines[k + 1]), pairs(lines[k + 2])) for k in range(5, len(lines), 3)}
    numeric = {name for name, is_number in features.items() if is_number}
    return tuple(features), numeric, pairs(lines[2]), pairs(lines[3]), actions


def _policy(rng, names, numeric, actions):
    """Rules with full conditions: some applicable action in every pattern, mostly."""
    rules = []
    for pattern in product((0, 1), repeat=len(names)):
        here = dict(zip(names, pattern, strict=True))
        able = [
            name for name, (needs, does) in actions.items()
            if all(here[f] == v for f, v in needs.items()) and all(here[f] or v or f not in numeric for f, v in does.items())
        ]  # fmt: skip
        lowering = [name for name in able if 0 in (actions[name][1].get(f) for f in numeric)]
        if able:
            rules.append((here, rng.choice(lowering if lowering and rng.random() < 0.8 else able)))
    return rules or [(dict.fromkeys(names, 0), next(iter(actions)))]


def _document(rules):
    listed = []
    for here, action in rules:
        words = [f"{n} {'> 0' if v else '= 0'}" if n.startswith("n") else n if v else f"!{n}" for n, v in here.items()]
        listed.append({"when": " && ".join(words), "action": action})
    return json.dumps({"format": "rules/1", "rules": listed})


def _solves(names, numeric, start, goal, actions, rules):
    """Return False where a run from small numbers stops outside the goal or comes back to where it was."""
    action_in = {tuple(here.values()): action for here, action in rules}
    starts = product(*(range(1, MOST + 1) if n in numeric and start[n] else (start[n],) for n in names))
    steps: dict = {}
    agenda = list(starts)
    for here in agenda:
        if here in steps:
            continue
        signs = tuple(int(value > 0) for value in here)
        steps[here] = []
        if all(signs[names.index(f)] == v for f, v in goal.items()):
            continue
        action = action_in.get(signs)
        if action is None or not all(signs[names.index(f)] == v for f, v in actions[action][0].items()):
            return False
        options = []
        for name, value in zip(names, here, strict=True):
            change = actions[action][1].get(name)
            if change is None:
                options.append((value,))
            elif name not in numeric:
                options.append((change,))
            else:
                options.append(tuple(range(value + 1, MOST + 1)) if change else tuple(range(value)))
        if any(not some and not actions[action][1][name] for some, name in zip(options, names, strict=True)):
            return False  # a number that is 0 cannot fall
        steps[here] = list(product(*options))
        agenda += steps[here]
    colour: dict = {}
    for root in steps:
        stack = [(root, iter(steps[root]))]
        if root in colour:
            continue
        colour[root] = 1
        while stack:
            node, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                colour[node] = 2
                stack.pop()
            elif colour.get(following) == 1:
                return False
            elif following not in colour:
                colour[following] = 1
                stack.append((following, iter(steps[following])))
    return True


def _component(rng, names, numeric):
    """One component of everything, with weights at random."""
    states = [
        ",".join(f"{n}{'>0' if v else '=0'}" if n in numeric else n if v else f"!{n}" for n, v in zip(names, p, strict=True))
        for p in product((0, 1), repeat=len(names))
    ]  # fmt: skip
    weights = {name: rng.choice((0, 1, 1, 2)) for name in sorted(numeric)}
    return {"states": states, "lambda": weights, "potential": {s: rng.randint(0, 2) for s in states}, "children": []}
