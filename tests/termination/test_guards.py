from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from polvet.check.lasso import check_replay
from polvet.check.lex_rank import check_ranking
from polvet.check.recurrent_set import find_leak
from polvet.policy.finite_memory import Builder, Effect
from polvet.termination.decide import terminates
from polvet.termination.verdicts import Nonterminating, Terminating
from polvet.verdict import Verdict


def check(fmp, result):
    certificate = json.loads(json.dumps(result.certificate))
    if certificate["kind"] == "lex-rank":
        assert check_ranking(fmp, certificate) is None
    elif certificate["kind"] == "lasso":
        assert check_replay(fmp, certificate) is None
    else:
        assert find_leak(fmp, certificate) is None


def random_guarded_plan(rng):
    builder = Builder("q0")
    names = ["x", "y", "z"][: rng.randint(1, 3)]
    for name in names:
        builder.variable(name, *rng.choice([(0, None), (0, None), (0, None), (0, 3), (None, None), (None, 2)]))
    size = rng.randint(1, 3)
    for index in range(rng.randint(size, 3 * size)):
        atoms = [
            f"{rng.choice(names)} {rng.choice(['>=', '<=', '==', '!=', '<', '>'])} {rng.randint(0, 3)}"
            for _ in range(rng.randint(0, 2))
        ]
        guard = rng.choice([" && ", " || "]).join(atoms) or "true"
        effects = {
            name: rng.choice([-2, -1, -1, 1, 1, 2, Effect(-1, 1), Effect(-2, -1)])
            for name in rng.sample(names, rng.randint(0, len(names)))
        }
        source = index if index < size else rng.randrange(size)
        builder.edge(f"q{source}", f"q{rng.randrange(size)}", effects, guard=guard)
    return builder.build()


def runs_into_a_cycle(fmp, limit=1500):
    """Return whether some small start can reach a configuration twice, by depth-first search over configurations."""
    variables = fmp.variables
    starts = [(0,) * len(variables), (1,) * len(variables), (3,) * len(variables), *[
        tuple(2 if i == j else 0 for i in range(len(variables))) for j in range(len(variables))]]  # fmt: skip
    colour = {}

    def following(state, values):
        by_name = {v.name: value for v, value in zip(variables, values, strict=True)}
        for edge in fmp.edges:
            if edge.source != state or not edge.is_open(by_name):
                continue
            for choice in edge.choices:
                options = [()]
                for variable, value in zip(variables, values, strict=True):
                    effect = fmp.effect(choice, variable.name)
                    options = [
                        (*o, value + d) for o in options for d in range(-2, 3)
                        if effect.allows(d) and variable.admits(value + d)
                    ]  # fmt: skip
                for option in options:
                    yield edge.target, option

    for start in starts:
        if not all(v.admits(value) for v, value in zip(variables, start, strict=True)):
            continue
        for state in fmp.initial:
            root = (state, start)
            if root in colour:
                continue
            colour[root] = "open"
            stack = [(root, following(*root))]
            while stack:
                node, rest = stack[-1]
                for target in rest:
                    if colour.get(target) == "open":
                        return True
                    if target not in colour and len(colour) < limit:
                        colour[target] = "open"
                        stack.append((target, following(*target)))
                        break
                else:
                    colour[node] = "done"
                    stack.pop()
    return False


def test_random_guarded_plans_never_contradict_concrete_search():
    rng = random.Random(7)
    verdicts = Counter()
    for _ in range(400):
        fmp = random_guarded_plan(rng)
        result = terminates(fmp)
        verdicts[result.verdict] += 1
        if isinstance(result, Terminating):
            assert not runs_into_a_cycle(fmp)
        if result.verdict is not Verdict.UNKNOWN:
            check(fmp, result)
    assert verdicts[Verdict.TERMINATING] > 80
    assert verdicts[Verdict.NONTERMINATING] > 80
    assert verdicts[Verdict.UNKNOWN] < 20


def doubling():
    """Return x, y := 0, 2x and back: it runs for ever from x = 1, and never twice through the same round."""
    return (
        Builder("a")
        .edge("a", "a", x=-1, y=2, guard="x > 0").edge("a", "b", guard="x == 0 && y > 0")
        .edge("b", "b", x=1, y=-1, guard="y > 0").edge("b", "a", guard="y == 0 && x > 0").build()
    )  # fmt: skip


def test_a_doubling_loop_never_ends_and_a_recurrent_set_shows_it():
    result = terminates(doubling())
    assert isinstance(result, Nonterminating)
    certificate = json.loads(json.dumps(result.certificate))
    assert certificate["kind"] == "recurrent-set"
    assert find_leak(doubling(), certificate) is None


def test_recurrent_sets_with_a_leak_are_rejected():
    good = json.loads(json.dumps(terminates(doubling()).certificate))
    for change in (lambda c: c["sets"].pop("b"), lambda c: c["sets"].update(a=[]), lambda c: c["moves"].update(a=[]),
                   lambda c: c["initial_valuation"].update(x=0, y=0), lambda c: c["moves"]["a"].pop(),
                   lambda c: c["sets"].update(b=[{"x": 1, "": -1}]),
                   lambda c: c.update(initial_state="b")):  # fmt: skip
        bad = json.loads(json.dumps(good))
        change(bad)
        assert find_leak(doubling(), bad) is not None


@pytest.mark.parametrize(
    ("guard", "effect", "bounds", "verdict"),
    [
        ("x <= 10", 1, (0, None), Verdict.TERMINATING),
        ("x == 3", 1, (0, None), Verdict.TERMINATING),
        ("x >= 1", -1, (None, None), Verdict.TERMINATING),
        ("x != 0", -1, (None, None), Verdict.NONTERMINATING),
        ("x < 5", -1, (None, None), Verdict.NONTERMINATING),
        ("x <= 5", 0, (0, None), Verdict.NONTERMINATING),
        ("x <= 3 || x >= 7", 2, (0, None), Verdict.NONTERMINATING),
        ("x <= 3 || x == 7", 2, (0, None), Verdict.TERMINATING),
    ],
)
def test_single_loops_with_guards(guard, effect, bounds, verdict):
    fmp = Builder("q").variable("x", *bounds).edge("q", "q", x=effect, guard=guard).build()
    result = terminates(fmp)
    assert result.verdict is verdict
    check(fmp, result)


def test_values_between_two_bounds_are_followed_exactly():
    plans = {
        Verdict.TERMINATING: (3, 3, -6),
        Verdict.NONTERMINATING: (3, 2, -5),
    }
    for verdict, (first, second, third) in plans.items():
        builder = Builder("a").variable("x", 0, 5).edge("a", "b", x=first)
        fmp = builder.edge("b", "c", x=second).edge("c", "a", x=third).build()
        result = terminates(fmp)
        assert result.verdict is verdict
        check(fmp, result)


def test_a_counter_refilled_under_guards_ends_only_while_something_pays():
    def refill(paid):
        return (
            Builder("a").edge("a", "a", x=-1, guard="x > 0").edge("a", "b", y=paid, guard="x == 0")
            .edge("b", "b", x=1, guard="x < 5").edge("b", "a", guard="x == 5").build()
        )  # fmt: skip

    assert isinstance(terminates(refill(-1)), Terminating)
    assert isinstance(terminates(refill(0)), Nonterminating)


def test_an_unknown_verdict_lists_what_was_tried():
    result = terminates(doubling(), method="complete")
    assert result.verdict is Verdict.UNKNOWN
    assert "guards" in result.reason
