from __future__ import annotations

import json
from itertools import combinations

import pytest

from polvet.cli.app import run
from polvet.policy.finite_memory import Builder, FiniteMemoryPolicy, dump_fmp
from polvet.termination.bound import longest_run
from polvet.termination.decide import is_terminating, terminates
from polvet.termination.why import find_blocking_edges
from polvet.verdict import Verdict
from tests.termination.plans import iter_plans, reachable, sustains_by_z3


def part_of(fmp, edges):
    alive = reachable(fmp)
    return FiniteMemoryPolicy(fmp.variables, fmp.control_states, tuple(sorted(alive)), tuple(edges))


def test_the_blocking_set_is_a_smallest_one_by_trying_all_subsets():
    blocked = 0
    for fmp in iter_plans(31, 60, states=(1, 3), variables=(1, 3)):
        found = find_blocking_edges(fmp)
        assert (found is None) == (terminates(fmp).verdict is Verdict.TERMINATING)
        live = [edge for edge in fmp.edges if edge.source in reachable(fmp)]
        if found is None or len(live) > 6:
            continue
        blocked += 1
        chosen = [edge for edge in fmp.edges if edge.id in found.edges]
        assert sustains_by_z3(part_of(fmp, chosen))
        assert found.smallest
        for smaller in combinations(live, len(chosen) - 1):
            assert not smaller or not sustains_by_z3(part_of(fmp, smaller))
    assert blocked > 10


def test_the_fast_pruning_test_agrees_with_the_verdict():
    for fmp in iter_plans(32, 60):
        assert is_terminating(fmp) == (terminates(fmp).verdict is Verdict.TERMINATING)


def longest_by_search(fmp, most):
    """Return the length of the longest run from all variables at `most`, by following every run."""
    names = [variable.name for variable in fmp.variables]
    leaving = {}
    for edge in fmp.edges:
        effects = edge.choices[0].effects
        leaving.setdefault(edge.source, []).append(
            (edge.target, [effects[n].low if n in effects else 0 for n in names])
        )
    length = {}
    best = 0
    for state in fmp.initial:
        stack = [(state, (most,) * len(names))]
        while stack:
            here, values = stack[-1]
            waiting, longest = False, 0
            for target, change in leaving.get(here, ()):
                after = tuple(a + b for a, b in zip(values, change, strict=True))
                if min(after) < 0:
                    continue
                if (target, after) in length:
                    longest = max(longest, 1 + length[target, after])
                else:
                    waiting = True
                    stack.append((target, after))
            if not waiting:
                length[stack.pop()] = longest
        best = max(best, length[state, (most,) * len(names)])
    return best


def pumping(factor, outer=False):
    """Return x moved to y (times `factor`) and back at the cost of z; with `outer` z is refilled at the cost of u."""
    builder = (
        Builder("a").edge("a", "a", x=-1, y=factor).edge("b", "b", x=1, y=-1)
        .edge("a", "b", z=-1, v=1 if outer else 0).edge("b", "a")
    )  # fmt: skip
    if outer:
        builder.edge("a", "c", u=-1).edge("c", "c", z=1, v=-1).edge("c", "a")
    return builder.build()


PLANS = {
    "one loop": (Builder("q").edge("q", "q", x=-1).build(), "theta", 1),
    "unequal weights": (Builder("q").edge("q", "q", x=-2, y=1).edge("q", "q", x=1, y=-1).build(), "theta", 1),
    "to and fro": (pumping(1), "theta", 2),
    "to and fro, refilled": (pumping(1, outer=True), "theta", 3),
    "doubling": (pumping(2), "exponential", None),
    "no loop": (Builder("a").edge("a", "b", x=-1).build(), "constant", 0),
}


@pytest.mark.parametrize("name", PLANS)
def test_known_plans_have_their_known_order(name):
    fmp, relation, exponent = PLANS[name]
    found = longest_run(fmp)
    assert (found.relation, found.exponent) == (relation, exponent)


@pytest.mark.parametrize(
    ("name", "values"), [("one loop", (4, 8)), ("to and fro", (5, 10)), ("to and fro, refilled", (2, 4))]
)
def test_the_order_is_what_a_search_for_the_longest_run_shows(name, values):
    fmp, _, exponent = PLANS[name]
    short, long = (longest_by_search(fmp, value) for value in values)
    assert 2 ** (exponent - 0.5) < long / short < 2 ** (exponent + 0.5)


def test_a_doubling_loop_outgrows_every_small_power():
    lengths = [longest_by_search(pumping(2), value) for value in (1, 2, 3, 4)]
    assert lengths[3] / lengths[2] > lengths[2] / lengths[1] - 2 > 1
    assert lengths[3] > 4**4


@pytest.mark.parametrize(
    ("builder", "reason"),
    [
        (Builder("q").edge("q", "q", x=1), "does not terminate"),
        (Builder("q").variable("x", None, 3).edge("q", "q", x=1), "bounded below"),
        (Builder("q").edge("q", "q", x=-1, guard="x == 3"), "upward closed"),
        (Builder("q").edge("q", "q", x=-1, y=(1, None)), "upper end"),
    ],
)
def test_where_the_method_does_not_apply_it_says_why(builder, reason):
    found = longest_run(builder.build())
    assert found.relation == "unknown"
    assert reason in (found.reason or "")


def test_the_command_line_explains_bounds_draws_and_exports(tmp_path, capsys):
    file = tmp_path / "plan.json"
    file.write_text(
        json.dumps(dump_fmp(Builder("a").edge("a", "b", x=-1).edge("b", "a", x=1).edge("a", "a", x=-1).build()))
    )
    options = ["--why", "--bound", "--draw", str(tmp_path / "p.dot"), "--export", str(tmp_path / "copy.json"), "--json"]
    assert run(["terminates", str(file), *options]) == 10
    shown = json.loads(capsys.readouterr().out)
    assert shown["why"] == {"edges": [0, 1], "smallest": True}
    assert shown["longest_run"]["relation"] == "unknown"
    assert (tmp_path / "p.dot").read_text().startswith("digraph")
    assert json.loads((tmp_path / "copy.json").read_text())["edges"] == json.loads(file.read_text())["edges"]
    assert run(["terminates", str(file), "--why"]) == 10
    assert "a -> b  x-1" in capsys.readouterr().out
