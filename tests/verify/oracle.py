"""The slow way to say whether a policy is safe: the interpreter, state by state; and random policies to ask about."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from polvet.model.semantics import Semantics
from polvet.policy.binding import Fitted
from polvet.policy.networks import network_of
from polvet.policy.rounding import possible_choices
from polvet.policy.tables import Table
from polvet.policy.trees import TreeEnsemble, make_tree
from tests.policy.graphs import random_graph


@dataclass(frozen=True)
class Truth:
    """What enumeration says: `safe`, `unsafe`, or `near-tie`; and all states of any evaluation order."""

    verdict: str
    states: frozenset


class TooMany(Exception):
    """More states than a slow test should look at."""


def truth(fitted: Fitted, starts, *, most: int = 3000, stuck: bool = False, deadlock: bool = False) -> Truth:
    semantics = Semantics(fitted.task.network)
    bad, _ = _reach(fitted, semantics, starts, most, False, stuck, deadlock)
    if bad:
        return Truth("unsafe", frozenset())
    bad, states = _reach(fitted, semantics, starts, most, True, stuck, deadlock)
    return Truth("near-tie" if bad else "safe", states)


def _reach(fitted, semantics, starts, most, any_order, stuck, deadlock):
    fails, goals = semantics.compile(fitted.task.fail), semantics.compile(fitted.task.goal)
    seen = set(starts)
    pending = list(seen)
    while pending:
        state = pending.pop()
        if fails(state):
            return True, seen
        if goals(state):
            continue
        moves = semantics.moves(state)
        if not moves and deadlock:
            return True, seen
        labels, may_stick = _choices(fitted, state, moves, any_order)
        if stuck and may_stick:
            return True, seen
        for move in moves:
            if labels is not None and not (move.label in labels or (move.label is None and labels)):
                continue
            for outcome in move.outcomes:
                if outcome.state not in seen:
                    seen.add(outcome.state)
                    pending.append(outcome.state)
                    if len(seen) > most:
                        raise TooMany
    return False, frozenset(seen)


def _choices(fitted, state, moves, any_order):
    """Labels taken (None: nothing but silent operators is enabled), and whether the policy may be stuck."""
    applicable = {move.label for move in moves if move.label is not None}
    if not applicable:
        return None, False
    if not any_order:
        chosen = fitted.choose(state, applicable)
        return ({chosen} if chosen is not None else set()), chosen is None
    names = [fitted.task.network.labels[k] if k >= 0 else None for k in fitted.labels]
    mask = np.array([[name in applicable for name in names]])
    possible = possible_choices(fitted.policy, fitted.row(state), mask if fitted.filtered else None)[0]
    taken = {name for name, may, can in zip(names, possible, mask[0], strict=True) if may and can}
    sticks = not taken or any(may and not can for may, can in zip(possible, mask[0], strict=True))
    return taken, sticks


def random_policy(kind, rng, inputs, outputs, *, hidden=6):
    """A network, a dyadic network full of ties, a graph of units, trees, or a table with a default."""
    n, m = len(inputs), len(outputs)
    if kind in ("network", "dyadic"):
        layers = []
        for width, neurons in pairwise([n, hidden, hidden, m]):
            if kind == "dyadic":
                layers.append((rng.integers(-2, 3, (neurons, width)) / 2, rng.integers(-2, 3, neurons) / 2))
            else:
                layers.append((rng.normal(size=(neurons, width)), rng.normal(size=neurons)))
        return network_of(layers, inputs, outputs)
    if kind == "units":
        return random_graph(rng, inputs, outputs)
    if kind == "trees":
        trees = []
        for k in range(3 * m):
            feature = [int(rng.integers(n)), int(rng.integers(n)), -1, -1, -1]
            cuts = [float(rng.integers(0, 4)) + 0.5, float(rng.integers(0, 4)) + 0.5, 0, 0, 0]
            values = [0, 0, *(rng.integers(-4, 5, 3) / 8)]
            trees.append(make_tree(k % m, feature, cuts, [1, 3, -1, -1, -1], [2, 4, -1, -1, -1], values))
        return TreeEnsemble(tuple(inputs), tuple(outputs), tuple(trees), (0.5,) * m)
    rows = {}
    for _ in range(40):
        rows[tuple(float(v) for v in rng.integers(0, 4, n))] = tuple(float(v) for v in rng.integers(0, 3, m))
    return Table(tuple(inputs), tuple(outputs), rows, int(rng.integers(m)))
