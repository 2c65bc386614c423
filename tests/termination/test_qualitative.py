from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from polvet.check.lasso import check_replay
from polvet.check.lex_rank import check_ranking
from polvet.cli.app import run
from polvet.errors import InputError, Where
from polvet.policy.finite_memory import load_fmp, normalise
from polvet.policy.finite_memory.features import Features, parse_condition
from polvet.policy.finite_memory.sketch import parse_sketch
from polvet.termination.decide import terminates
from polvet.termination.progress_sieve import progress_sieve
from polvet.termination.verdicts import Nonterminating, Terminating
from polvet.verdict import Verdict
from tests.termination.plans import BENCHMARKS

POLICIES = Path(__file__).parent / "qnp_policies"
PROBLEMS = {
    "ecai20-gripper": "ecai20-talk/gripper/gripper", "rewards": "ecai20-talk/rewards/rewards", "grid": "other/grid",
    "gripper04_5_10": "other/gripper04_5_10", "blocks_clear": "qnp-paper/blocks_clear/blocks_clear",
    "delivery": "qnp-paper/delivery/delivery", "delivery2": "qnp-paper/delivery/delivery2",
    "qnp-paper-gripper": "qnp-paper/gripper/gripper", "q1": "qnp-paper/synthetic/q1", "q3": "qnp-paper/synthetic/q3",
}  # fmt: skip
published = pytest.mark.skipif(not (BENCHMARKS / "qnp2fond").exists(), reason="the published problems are not here")


@published
@pytest.mark.parametrize("policy", sorted(path.stem for path in POLICIES.glob("*.txt")))
def test_hand_made_policies_of_the_published_problems_are_decided(policy):
    problem = BENCHMARKS / "qnp2fond" / f"{PROBLEMS[policy.removesuffix('-looping')]}.qnp"
    fmp = load_fmp(problem, policy=POLICIES / f"{policy}.txt")
    result = terminates(fmp)
    # Progress-Sieve is sound and complete for qualitative semantics: the published oracle.
    assert progress_sieve(normalise(fmp)).proves_termination == (not policy.endswith("-looping"))
    if policy.endswith("-looping"):
        assert isinstance(result, Nonterminating)
        assert check_replay(fmp, result.certificate) is None
    else:
        assert isinstance(result, Terminating)
        assert check_ranking(fmp, result.certificate or {}) is None


def test_a_number_lowered_to_zero_and_raised_again_loops_through_both_zero_patterns():
    fmp = parse_sketch("numeric n\nn > 0 -> n-down\nn = 0 -> n-up", Where("s"))
    result = terminates(fmp)
    assert isinstance(result, Nonterminating)
    assert check_replay(fmp, result.certificate) is None


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("boolean H\nnumeric n\n!H, n > 0 -> H, n-down\nH -> !H", Verdict.TERMINATING),
        ("boolean H\nnumeric n\n!H, n > 0 -> H, n?\nH -> !H", Verdict.NONTERMINATING),
        ("boolean H\nnumeric n m\nn > 0 -> n-down, m-up\nn = 0, m > 0 -> m↓", Verdict.TERMINATING),
        ("numeric n m\nn > 0 -> n-down, m?\nm > 0 -> m-down, n-up", Verdict.NONTERMINATING),
        ("boolean H\nH -> !H\n!H -> H", Verdict.NONTERMINATING),
        ("boolean H\nH -> H?", Verdict.NONTERMINATING),
        ("boolean H\n{H} -> {!H}", Verdict.TERMINATING),
    ],
)
def test_sketches_are_decided_as_sieve_says(text, verdict):
    fmp = parse_sketch(text, Where("s"))
    assert terminates(fmp).verdict is verdict
    assert progress_sieve(normalise(fmp)).proves_termination == (verdict is Verdict.TERMINATING)


@pytest.mark.parametrize(
    "text",
    ["numeric n\nn > 1 -> n-down", "numeric n\nm > 0 -> n-down", "numeric n\nn > 0 -> n", "boolean H\nH -> H-up",
     "boolean H\nH > 0 -> !H", "numeric n\nn > 0", "numeric n", "numeric n n\nn > 0 -> n-down",
     "numeric n\nn > 0, n = 0 -> n-down", "numeric n\nn > 0 -> n-down, n-up"],
)  # fmt: skip
def test_a_bad_sketch_is_an_input_error(text):
    with pytest.raises(InputError):
        parse_sketch(text, Where("s"))


PROBLEM = "p\n2 n 1 H 0\n2 n 1 H 0\n1 n 0\n2\nPick\n2 n 1 H 0\n2 n 0 H 1\nPut\n1 H 1\n1 H 0\n"


@pytest.mark.parametrize(
    ("change", "policy", "place"),
    [
        (("2 n 1 H 0\n2", "3 n 1 H 0\n2"), "H -> Put", ":2"), (("1 n 0\n", "1 m 0\n"), "H -> Put", ":4"),
        (("1 n 0\n2", "1 n 0\n9"), "H -> Put", "ends before"), (("2 n 0 H 1", "2 n 0 H 2"), "H -> Put", ":8"),
        (("", ""), "H -> Throw", ":1"), (("", ""), "K -> Put", ":1"), (("", ""), "Put", ":1"),
        (("", ""), "", "no rules"),
    ],
)  # fmt: skip
def test_a_bad_problem_or_policy_is_an_input_error_with_the_line(change, policy, place, tmp_path):
    (tmp_path / "p.qnp").write_text(PROBLEM.replace(*change, 1) if change[0] else PROBLEM)
    (tmp_path / "policy.txt").write_text(policy)
    with pytest.raises(InputError, match=place):
        load_fmp(tmp_path / "p.qnp", policy=tmp_path / "policy.txt")


def test_conditions_may_be_nested_and_name_features_with_brackets():
    features = Features(("H", "delta(X)", "n", "K"), frozenset(["delta(X)", "n"]))

    def brute(text):
        found = parse_condition(text, features, Where("c"))
        return {p for p in product([False, True], repeat=4) if any(all(p[i] == v for i, v in c.items()) for c in found)}

    table = {
        "H && (delta(X) > 0 || n = 0)": lambda h, d, n, k: h and (d or not n),
        "!(H || n >= 1), K": lambda h, d, n, k: not (h or n) and k,
        "!H && !(n = 0 && (K || H)) || delta(X) <= 0": lambda h, d, n, k: (not h and (n or not (k or h))) or not d,
        "not H and n != 0 or K": lambda h, d, n, k: (not h and n) or k,
        "": lambda h, d, n, k: True,
    }  # fmt: skip
    for text, meaning in table.items():
        assert brute(text) == {p for p in product([False, True], repeat=4) if meaning(*p)}, text
    for text in ("H &&", "(H", "H H", "n > 2", "n", "H = 0", "Q", "H, !H"):
        with pytest.raises(InputError):
            parse_condition(text, features, Where("c"))


@published
def test_a_solution_has_no_dead_ends_and_an_incomplete_policy_has_one(tmp_path, capsys):
    problem = BENCHMARKS / "qnp2fond" / f"{PROBLEMS['blocks_clear']}.qnp"
    assert run(["terminates", str(problem), "--policy", str(POLICIES / "blocks_clear.txt"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["solves"] is True
    (tmp_path / "half.txt").write_text("n > 0, !holding -> Pick-above-x")
    assert run(["terminates", str(problem), "--policy", str(tmp_path / "half.txt"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["solves"], shown["dead_ends"]) == (False, ["n>0,holding"])


def test_a_policy_with_memory_alternates_its_rules(tmp_path):
    (tmp_path / "p.qnp").write_text(PROBLEM)
    (tmp_path / "policy.json").write_text(
        '{"format": "rules/1", "rules": [{"when": "n > 0 && !H", "action": "Pick", "memory": "a", "next": "b"},'
        ' {"when": "H", "action": "Put", "memory": "b", "next": "a"}]}'
    )
    fmp = load_fmp(tmp_path / "p.qnp", policy=tmp_path / "policy.json")
    assert {state.split(":")[0] for state in fmp.control_states} == {"a", "b"}
    assert terminates(fmp).verdict is Verdict.TERMINATING
    with pytest.raises(InputError, match="needs a policy"):
        load_fmp(tmp_path / "p.qnp")
