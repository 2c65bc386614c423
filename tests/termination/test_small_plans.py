"""What loops that generate and test plans meet: plans that end at once, exact amounts, cycles within small bounds."""

from __future__ import annotations

import json
from itertools import product

import pytest

from polvet.check.lasso import check_replay
from polvet.check.lex_rank import check_ranking
from polvet.cli.app import run
from polvet.errors import Where
from polvet.policy.finite_memory import Builder, dump_fmp, parse_fmp
from polvet.termination.bounded_search import find_bounded_lasso
from polvet.termination.decide import terminates
from polvet.termination.verdicts import Nonterminating, Terminating


def document(**changed):
    plan = {
        "format": "fmp/1", "semantics": "qualitative", "variables": [{"name": "x"}], "control_states": ["a", "b"], "initial": "a",
        "edges": [{"from": "a", "to": "a", "choices": [{"effects": {"x": {"lo": -1, "hi": -1}}}]}],
    }  # fmt: skip
    return {**plan, **changed}


def test_a_plan_whose_initial_state_has_no_edge_ends_and_is_certified(tmp_path, capsys):
    path, proof = tmp_path / "plan.json", tmp_path / "proof.json"
    path.write_text(json.dumps(document(initial="b")))
    assert run(["terminates", str(path), "-o", str(proof)]) == 0
    assert run(["certify", str(proof), "--task", str(path)]) == 0


def test_an_interval_of_one_number_is_exact_and_survives_writing():
    fmp = parse_fmp(document(), Where("p"))
    assert fmp.effect(fmp.edges[0].choices[0], "x").is_fixed
    assert parse_fmp(dump_fmp(fmp), Where("p")) == fmp
    plain = parse_fmp(document(edges=[{"from": "a", "to": "a", "choices": [{"effects": {"x": -1}}]}]), Where("p"))
    assert not plain.effect(plain.edges[0].choices[0], "x").is_fixed


def test_exact_amounts_decide_under_qualitative_semantics():
    # Down by exactly 1, up by exactly 1, twice down for once up: this ends only because no amount is widened.
    exact = [{"lo": -1, "hi": -1}, {"lo": -1, "hi": -1}, {"lo": 1, "hi": 1}]
    ends = [("a", "b"), ("b", "c"), ("c", "a")]
    edges = [{"from": s, "to": t, "choices": [{"effects": {"x": e}}]} for (s, t), e in zip(ends, exact, strict=True)]
    assert isinstance(
        terminates(parse_fmp(document(control_states=["a", "b", "c"], edges=edges), Where("p"))), Terminating
    )
    for edge, amount in zip(edges, (-1, -1, 1), strict=True):
        edge["choices"] = [{"effects": {"x": amount}}]
    assert isinstance(
        terminates(parse_fmp(document(control_states=["a", "b", "c"], edges=edges), Where("p"))), Nonterminating
    )


def random_guarded_plan(seed):
    """Return a plan of 2 to 4 control states whose variables have two bounds, with guards of all kinds."""
    import random

    draw = random.Random(seed)
    builder = Builder("q0")
    names = ["x", "y", "z"][: 2 + seed % 2]
    for name in names:
        builder.variable(name, 0, draw.randint(1, 3))
    states = 2 + seed % 3
    builder.edge("q0", "q1", guard="x >= 0")
    for _ in range(draw.randint(3, 7)):
        guard = " && ".join(
            f"{n} {draw.choice(['<=', '==', '!=', '>='])} {draw.randint(0, 2)}" for n in names if draw.random() < 0.5
        )
        effects = {n: draw.choice([-2, -1, 1, 2, (-1, 1)]) for n in names if draw.random() < 0.6}
        builder.edge(f"q{draw.randrange(states)}", f"q{draw.randrange(states)}", effects, guard=guard)
    return builder.build()


def has_cycle(fmp):
    """Return whether some configuration that can be reached comes back: all values of all variables are looked at."""
    ranges = [range(v.lower, v.upper + 1) for v in fmp.variables]
    names = [v.name for v in fmp.variables]
    following = {}
    for state in fmp.control_states:
        for point in product(*ranges):
            values = dict(zip(names, point, strict=True))
            after = set()
            for edge in fmp.edges:
                if edge.source == state and edge.is_open(values):
                    for amounts in product(range(-3, 4), repeat=len(names)):
                        if all(fmp.effect(edge.choices[0], n).allows(a) for n, a in zip(names, amounts, strict=True)):
                            new = tuple(p + a for p, a in zip(point, amounts, strict=True))
                            if all(p in r for p, r in zip(new, ranges, strict=True)):
                                after.add((edge.target, new))
            following[state, point] = after
    reached = [("q0", point) for point in product(*ranges)]
    for one in reached:
        reached += [other for other in following[one] if other not in reached]
    left = set(reached)
    while ended := {one for one in left if not following[one] & left}:
        left -= ended
    return bool(left)


@pytest.mark.parametrize("seed", range(60))
def test_guarded_plans_with_small_bounds_are_decided_as_brute_force_says(seed):
    fmp = random_guarded_plan(seed)
    result, lasso = terminates(fmp), find_bounded_lasso(fmp)
    if has_cycle(fmp):
        assert isinstance(result, Nonterminating)
        assert lasso is not None
        assert check_replay(fmp, lasso) is None
    else:
        assert isinstance(result, Terminating)
        assert check_ranking(fmp, result.certificate) is None
        assert lasso is None


@pytest.mark.parametrize("suffix", [".svg", ".dot", ".mmd", ".png"])
def test_pictures_are_what_their_ending_says(suffix, tmp_path, capsys):
    path, picture = tmp_path / "plan.txt", tmp_path / f"plan{suffix}"
    labels = {
        "a a": "y-2",
        "a b": "y-1",
        "b a": "x+6",
        "b c": "x-2",
        "c b": "x-3",
        "c d": "x+1",
        "d c": "x-2",
        "d d": "x-1",
    }
    path.write_text("".join(f'{ends} {{"label": "{label}"}}\n' for ends, label in labels.items()))
    code = run(["terminates", str(path), "--method", "gensieve", "--draw", str(picture)])
    if suffix == ".png":
        assert code == 30
        assert "Write .svg, .dot or .mmd." in capsys.readouterr().err
        return
    assert code == 0
    text = picture.read_text()
    assert text.startswith({".svg": "<svg", ".dot": "digraph", ".mmd": "flowchart"}[suffix])
    if suffix == ".svg":
        from xml.etree import ElementTree

        words = " ".join(one.text or "" for one in ElementTree.fromstring(text).iter() if one.tag.endswith("text"))
        assert "round 1" in words
        assert "elimination forest" in words
        assert "quotient" in words
