"""False claims about how likely a policy fails: bounds a hair off, values that loops keep up, operators and states forgotten.

What is true is computed by trying out all that the environment may do in a few states, in fractions.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from polvet.check import bulk
from polvet.check.checker import Subjects
from polvet.errors import InputError
from polvet.policy.binding import load_fitted
from polvet.records.packed import pack_columns
from polvet.sources import TaskOptions, load_task
from tests.attack.bulk import in_bulk
from tests.attack.permissive import HAIRS, Small, _random


@dataclass(frozen=True)
class Ruled:
    """A small model with a policy, in files; `choices` are the distributions that the environment may take in each state."""

    small: Small
    task: object
    subjects: Subjects
    digest: str
    choices: list
    true: list  # the greatest chance of failing from each state

    @property
    def worst(self):
        return max(self.true[state] for state in self.small.starts)

    def reached(self):
        seen, pending = set(self.small.starts), list(self.small.starts)
        while pending:
            for target in {t for row in self.choices[pending.pop()] for t in row} - seen:
                seen.add(target)
                pending.append(target)
        return sorted(seen)

    def claim(self, kind, bound, values, states=None, **more):
        """A certificate that lists the states (all that are reached) with their values."""
        listed = self.reached() if states is None else states
        rows = np.array([[self.small.base + state] for state in listed], dtype=np.int64).reshape(len(listed), 1)
        return {
            "kind": kind, "format": "certificate/1", "task_sha256": self.task.sha256, "policy_sha256": self.digest,
            "bound": str(bound), "count": len(listed), "states": pack_columns(self.task.network.variables, rows),
            "values": [str(values[state]) for state in listed], **more,
        }  # fmt: skip


def ruled_world(rng, folder):
    """Return a random small model with a random policy; None where it is refused, as in every Markov chain."""
    small, document = _random(rng)
    (folder / "small.jani").write_text(json.dumps(document), encoding="utf-8")
    task, policy = folder / "small.toml", folder / "ruled.json"
    lines = ['model = "small.jani"', f'fail = "s == {small.base + small.fail}"']
    lines += [] if small.goal is None else [f'goal = "s == {small.base + small.goal}"']
    lines.append(f'start = "{" || ".join(f"s == {small.base + state}" for state in small.starts)}"')
    lines.append(f'[policy]\nmode = "{rng.choice(["filtered", "raw"])}"')
    task.write_text("\n".join(lines) + "\n", encoding="utf-8")
    labels = [action["name"] for action in document["actions"]]
    rules = [{"when": f"s == {small.base + k}", "action": rng.choice(labels)} for k in range(len(small.operators))]
    rules.append({"when": "true", "action": labels[0]})
    policy.write_text(json.dumps({"format": "rules/1", "rules": rules}), encoding="utf-8")
    try:
        loaded = load_task(task, TaskOptions())
        fitted = load_fitted(loaded, policy)
    except InputError:
        return None
    choices = [_taken(small, state, fitted) for state in range(len(small.operators))]
    return Ruled(small, loaded, Subjects(task, policy), fitted.sha256, choices, small.worst(choices))


def _taken(small, state, fitted):
    """The distributions of the operators that the policy's choice leaves to the environment."""
    operators = small.operators[state]
    if state in (small.fail, small.goal) or not operators:
        return []
    if labels := {one.label for one in operators if one.label is not None}:
        chosen = fitted.choose((small.base + state,), labels)
        operators = [one for one in operators if one.label in (None, chosen)] if chosen in labels else []
    return [one.chances for one in operators]


def expected(row, values):
    return sum((chance * values[target] for target, chance in row.items()), Fraction(0))


def false_bounds(rng, folder):
    """Yield (certificate, subjects, context) for bounds that are too low, or that the list does not show."""
    if (world := ruled_world(rng, folder)) is None:
        return
    true, fail = world.true, world.small.fail
    made = []
    if world.worst:
        below = world.worst * (1 - rng.choice(HAIRS))
        made.append((below, [min(v, below) if s != fail else v for s, v in enumerate(true)]))
        made.append((below, true))
        made.append((below, [v if s != fail else below for s, v in enumerate(true)]))
        made += [(max(g[s] for s in world.small.starts), g) for g in _too_low(rng, world)]
    for bound, values in made:
        if bound < world.worst:
            made = world.claim("risk-bound", bound, values)
            yield made, world.subjects, nullcontext()
            yield made, world.subjects, in_bulk(bulk)
    listed = world.reached()
    missing = rng.choice(listed)
    rest = [state for state in listed if state != missing]
    made = world.claim("risk-bound", world.worst, true, rest)
    yield made, world.subjects, nullcontext()
    yield made, world.subjects, in_bulk(bulk)
    if world.worst:
        twice = sorted([*listed, *world.small.starts])
        made = world.claim("risk-bound", world.worst / 2, true, twice)
        yield made, world.subjects, nullcontext()
        yield made, world.subjects, in_bulk(bulk)


def _too_low(rng, world):
    """Values from below as iteration has them, rounded ones, and those of an environment that forgets operators."""
    true, small = world.true, world.small
    guess = [Fraction(int(s == small.fail)) for s in range(len(true))]
    for _ in range(rng.randint(0, 12)):
        guess = [max((expected(row, guess) for row in mine), default=guess[s]) for s, mine in enumerate(world.choices)]
    rounded = [Fraction(f"{float(v):.15f}") for v in true]
    forgetful = small.worst([mine[:1] for mine in world.choices])
    return [guess, [min(v, Fraction(1)) for v in rounded], forgetful]


def false_excesses(rng, folder):
    """Yield (certificate, subjects, context) for claims that more is risked than is."""
    if (world := ruled_world(rng, folder)) is None:
        return
    small, size = world.small, len(world.true)
    # Greater than true, and as if attained: loops keep any value they are given.
    above = [
        v
        if s == small.fail or (not world.choices[s] and rng.random() < 0.8)
        else rng.choice([v, Fraction(1), (v + 1) / 2])
        for s, v in enumerate(world.true)
    ]
    for _ in range(size):
        if rng.random() < 0.8:
            above = [
                max((expected(row, above) for row in mine), default=above[s]) for s, mine in enumerate(world.choices)
            ]
    values = rng.choice([above, [min(Fraction(1), v * (1 + rng.choice(HAIRS))) for v in world.true]])
    listed = [state for state in range(size) if values[state] or rng.random() < 0.5]
    for ranks in (_distances(world), [0] * size, [rng.randint(0, 3) for _ in range(size)]):
        for place, state in enumerate(listed):
            # False: no start at all, or the bound is not below the risk of that start.
            risk = world.true[state] if state in small.starts else Fraction(0)
            if values[state] > risk:
                more = {"ranks": [ranks[k] for k in listed], "start": place}
                made = world.claim("risk-exceeds", risk, values, listed, **more)
                yield made, world.subjects, nullcontext()
                yield made, world.subjects, in_bulk(bulk)


def _distances(world):
    """Steps to a fail state along any choice at all, whether it attains a value or not."""
    found = {world.small.fail: 0}
    for _ in world.choices:
        for state, mine in enumerate(world.choices):
            near = [found[t] for row in mine for t in row if t in found]
            if near and state not in found:
                found[state] = 1 + min(near)
    return [found.get(state, len(world.choices)) for state in range(len(world.choices))]
