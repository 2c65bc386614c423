"""`check` in fractions: by itself where doubles cannot close the gap, and of the states that a filter names."""

from __future__ import annotations

from fractions import Fraction

import pytest

import polvet
from polvet.cli.app import run

SLOW = """dtmc
const int N;
module walk
  x : [0..2*N] init N;
  [] x=N -> 0.5:(x'=x-1) + 0.5:(x'=x+1);
  [] x>0 & x<N -> 0.5:(x'=x-1) + 0.5:(x'=N);
  [] x>N & x<2*N -> 0.5:(x'=x+1) + 0.5:(x'=N);
endmodule
label "zero" = x=0;
"""
"""The chain of Haddad and Monmege: an end is reached with a probability of about 2^-N per try."""


@pytest.fixture
def slow(tmp_path):
    (tmp_path / "slow.prism").write_text(SLOW)
    return lambda n: polvet.load(tmp_path / "slow.prism", constants={"N": n})


@pytest.mark.parametrize("n", [20, 100, 300])
def test_where_doubles_cannot_close_the_gap_fractions_answer_by_themselves(slow, n):
    found = slow(n).check('P=? [F "zero"]')
    assert found.reason is None
    assert abs(found.value - 0.5) < 1e-6
    assert found.lower <= 0.5 <= found.upper
    assert found.upper - found.lower < 1e-6
    if n > 50:
        assert found.exact == Fraction(1, 2)


@pytest.mark.parametrize("x", [1, 2, 7, 12])
def test_a_filter_is_answered_for_its_own_states(slow, x):
    # From x < N it is x - 1 with one half, else back in the middle, whence both ends are equally likely.
    true = (
        Fraction(1, 2) + Fraction(1, 2) * Fraction(1, 2**x)
        if x < 10
        else Fraction(1, 2) * (1 - Fraction(1, 2 ** (20 - x)))
    )
    found = slow(10).check(f'filter(max, P=? [F "zero"], x={x})', exact=True)
    assert found.exact == true
    assert found.lower <= true <= found.upper


def test_the_best_of_several_states_is_told_as_a_fraction_and_a_sum_is_not(slow):
    assert slow(10).check('filter(max, P=? [F "zero"], x<4 & x>0)', exact=True).exact == Fraction(3, 4)
    total = slow(10).check('filter(sum, P=? [F "zero"], x<4 & x>0)', exact=True)
    assert total.exact is None
    true = sum(Fraction(1, 2) + Fraction(1, 2) * Fraction(1, 2**x) for x in (1, 2, 3))
    assert total.lower <= true <= total.upper


def test_the_next_step_is_told_as_a_fraction(slow):
    assert slow(10).check("P=? [X x=9]", exact=True).exact == Fraction(1, 2)
    assert slow(10).check("P=? [X x=8]", exact=True).exact == 0


@pytest.mark.parametrize(
    "condition",
    [
        "x == 0",
        "x=0",
        "abs(x - 2) = 2 && x < 2",
        "x == 0 || x == 0",
        '"zero"',
        '"zero" & !(x == 1)',
        "sgn(x) = 0",
        "max(x, 0) = 0",
    ],
)
def test_conditions_are_written_as_everywhere_and_small_models_are_answered_in_fractions(slow, condition):
    assert slow(2).check(f"P=? [F {condition}]").exact == Fraction(1, 2)
    assert slow(2).check(f"P=? [X {condition}]").exact == 0


def test_the_chain_of_20_is_a_fraction_without_an_option(slow):
    assert slow(20).check('P=? [F "zero"]').exact == Fraction(1, 2)


def _herman(n: int) -> str:
    """A ring: who agrees with its left neighbour holds a token and tosses a coin, who does not copies the neighbour."""
    left = {i: n if i == 1 else i - 1 for i in range(1, n + 1)}
    rings = [
        f"module p{i}\n x{i} : [0..1];\n [step] x{i}=x{j} -> 0.5:(x{i}'=0) + 0.5:(x{i}'=1);\n"
        f" [step] x{i}!=x{j} -> (x{i}'=x{j});\nendmodule\n"
        for i, j in left.items()
    ]
    tokens = " + ".join(f"(x{i}=x{j} ? 1 : 0)" for i, j in left.items())
    rewards = 'rewards "steps"\n true : 1;\nendrewards\n'
    return f'dtmc\n{"".join(rings)}{rewards}label "stable" = {tokens} = 1;\ninit true endinit\n'


@pytest.mark.parametrize(("n", "most"), [(3, Fraction(4, 3)), (5, Fraction(16, 5)), (7, Fraction(48, 7))])
def test_the_expected_steps_of_a_ring_from_its_worst_start_are_a_fraction(tmp_path, n, most):
    (tmp_path / "ring.prism").write_text(_herman(n))
    found = polvet.load(tmp_path / "ring.prism").check('filter(max, R{"steps"}=? [F "stable"], "init")')
    assert found.exact == most


def test_a_negative_reward_is_named_as_the_model_writes_it(tmp_path, capsys):
    model = (
        'mdp\nmodule m\nx : [0..2] init 0;\n[a] x<2 -> (x\'=x+1);\nendmodule\nrewards "c"\nx<1 : -3*x-3;\nendrewards\n'
    )
    (tmp_path / "m.prism").write_text(model)
    assert run(["check", str(tmp_path / "m.prism"), "--property", 'R{"c"}min=? [F x=2]']) == 30
    assert "the reward c, accumulated over exit is -3 in some state" in capsys.readouterr().err
