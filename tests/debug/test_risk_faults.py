"""Faults relative to a bound on the risk are those of the definition: all policies and environments are tried, in fractions."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

from polvet.debug.risk_faults import find_risk_faults
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from tests.attack.risk_bound import expected, ruled_world

WORLDS = 40
NEAR = 1 + Fraction(1, 10**9)


def worlds(folder, count=WORLDS, seed=0):
    """Yield random worlds in which there is something to choose and to lose."""
    found = 0
    while found < count:
        rng = random.Random(seed)
        seed += 1
        world = ruled_world(rng, folder)
        if world is None or not world.worst or not _chooses(world):
            continue
        found += 1
        yield rng, world, compile_policy(load_fitted(world.task, world.subjects.policy))


def _chooses(world):
    """Whether the policy has a choice in some state it reaches."""
    return any(len(groups(world.small, state)) > 1 for state in world.reached())


def groups(small, state):
    """By label, the distributions that the environment may take once it is chosen."""
    operators = small.operators[state]
    if state in (small.fail, small.goal):
        return {}
    labels = {one.label for one in operators} - {None} or ({None} if operators else set())
    return {label: [o.chances for o in operators if o.label in (None, label)] for label in sorted(labels, key=str)}


def least_risk(small):
    """The least risk of each state over all policies: one label per state, against all that the environment does."""
    mine = [groups(small, state) for state in range(len(small.operators))]
    best = [Fraction(1)] * len(mine)
    for picked in product(*(list(one) or [False] for one in mine)):
        risk = small.worst([one[label] if one else [] for one, label in zip(mine, picked, strict=True)])
        best = [min(a, b) for a, b in zip(best, risk, strict=True)]
    return best


def brute(world, fitted, most, delta):
    """The faults by the definition, {state: labels that mend it}; the least risk of each state; whether it is raised unseen."""
    small, least = world.small, least_risk(world.small)
    pending = [s for s in small.starts if world.true[s] > most * NEAR]
    reached = set(pending)
    while pending:
        for target in {t for row in world.choices[pending.pop()] for t in row if row[t]} - reached:
            reached.add(target)
            pending.append(target)

    def at_fault(state, rows):
        after = max(expected(row, least) for row in rows)
        return after > (least[state] + delta) * NEAR or least[state] <= most * NEAR < after

    found, slight = {}, False
    for state in reached:
        mine = groups(small, state)
        if not mine or None in mine:
            continue
        label = fitted.choose((small.base + state,), tuple(mine))
        if label is not None and at_fault(state, mine[label]):
            found[state] = {one for one, rows in mine.items() if not at_fault(state, rows)}
        elif label is not None:
            slight |= max(expected(row, least) for row in mine[label]) > least[state]
    return found, least, slight


def compared(rng, world, bound):
    """Compare with brute force, for four bounds; return how many faults, how often despite a delta, how often there must be some."""
    met, crossing, shown = 0, 0, 0
    worst = world.worst
    for most in {worst, worst / 2, worst * Fraction(9, 10), Fraction(1, 20)}:
        delta = rng.choice([Fraction(0), Fraction(0), most / 2, Fraction(1, 10)])
        analysis = find_risk_faults(bound, most, delta=delta)
        if analysis.open:
            continue  # doubles do not tell: nothing is claimed to be complete
        faults, least, slight = brute(world, bound.fitted, most, delta)
        base = world.small.base
        assert {one.state[0] - base: set(one.safe_actions) for one in analysis.faults} == faults
        assert all(one.kind == "risk" for one in analysis.faults)
        beyond = {s for s in world.small.starts if least[s] > most * NEAR}
        assert {state[0] - base for state in analysis.unsafe_starts} == beyond
        # A step of 1e-17 that is taken again and again raises the risk by less than NEAR each time: it is not seen.
        if worst > most * NEAR and not beyond and not delta and not slight:
            assert faults  # a policy without any keeps the bound wherever one does
            shown += 1
        met += len(faults)
        crossing += bool(faults) and delta > 0
    return met, crossing, shown


def test_faults_are_those_of_the_definition(tmp_path):
    met, crossing, shown = map(sum, zip(*(compared(*world) for world in worlds(tmp_path)), strict=True))
    assert met > 20
    assert min(crossing, shown) > 5
