"""Prop-U over decision diagrams agrees with the interpreter's attractor; its arithmetic agrees with Python's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from polvet.budget import Budget
from polvet.errors import InputError
from polvet.model.network import OutOfBounds
from polvet.model.task import TaskOptions
from polvet.safety import Decider, Verdict
from polvet.sources import load_task
from tests.safety.networks import all_states, random_task, unsafe_states

pytest.importorskip("dd")

from polvet.safety.propagate_bdd import decide_by_diagrams
from polvet.solvers.decision_diagrams import Diagrams


def number_of(d: Diagrams, bits: list) -> int:  # type: ignore[type-arg]
    value = sum((bit == d.true) << k for k, bit in enumerate(bits[:-1]))
    return value - ((bits[-1] == d.true) << (len(bits) - 1))


def test_bit_vectors_compute_like_integers() -> None:
    d = Diagrams()
    rng = random.Random(4)
    for _ in range(500):
        a, b = rng.randint(-40, 40), rng.randint(-40, 40)
        x, y = d.constant(a), d.constant(b)
        assert number_of(d, d.add(x, y)) == a + b
        assert number_of(d, d.subtract(x, y)) == a - b
        assert number_of(d, d.multiply(x, y)) == a * b
        assert number_of(d, d.negate(x)) == -a
        assert (d.is_less(x, y) == d.true) == (a < b)
        assert (d.is_equal(x, y) == d.true) == (a == b)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    rng = random.Random(300 + seed)
    for _ in range(12):
        task, _ = random_task(rng, tmp_path)
        states = all_states(task)
        decided, _ = decide_by_diagrams(task, states)
        found = {state for state, answer in zip(states, decided, strict=True) if answer.verdict is Verdict.UNSAFE}
        assert found == unsafe_states(task, states)
        assert all(answer.verdict is not Verdict.UNKNOWN for answer in decided)


JOINT = """
mdp
module left
  x : [-2..5] init 0;
  [go] x<5 -> 0.5:(x'=x+1) + 0.5:true;
  [back] x>-2 -> (x'=x-1);
endmodule
module right
  y : [0..3] init 0;
  b : bool init false;
  [go] y<3 -> (y'=y+1);
  [go] b -> (b'=false) & (y'=0);
  [flip] true -> (b'=!b);
  [] y=3 -> 0.5:(y'=0) + 0.5:true;
endmodule
"""


def test_joint_operators_agree_with_the_search(tmp_path: Path) -> None:
    path = tmp_path / "joint.prism"
    path.write_text(JOINT, encoding="utf-8")
    task = load_task(path, TaskOptions(fail="x == 5 || (x == -2 && b)", goal="x == 3 && y == 0"))
    states = [(x, y, b) for x in range(-2, 6) for y in range(4) for b in (False, True)]
    by_search = [answer.verdict for answer in Decider(task).decide(states)]
    by_diagrams = [answer.verdict for answer in decide_by_diagrams(task, states)[0]]
    assert by_diagrams == by_search
    assert len(set(by_search)) == 2


def test_leaving_the_bounds_makes_verdicts_unknown_only_where_it_matters(tmp_path: Path) -> None:
    path = tmp_path / "bounds.prism"
    path.write_text(
        "mdp\nmodule m\n x : [0..4] init 0;\n [go] true -> (x'=x+1);\n [stay] x=0 -> true;\n endmodule\n",
        encoding="utf-8",
    )
    task = load_task(path, TaskOptions(fail="x == 2"))
    states = [(k,) for k in range(5)]
    verdicts = [answer.verdict.value for answer in decide_by_diagrams(task, states)[0]]
    assert verdicts == ["safe", "unsafe", "unsafe", "unknown", "unknown"]
    task = load_task(path, TaskOptions(fail="x == 2", out_of_bounds=OutOfBounds.DISABLE))
    disabled = [a.verdict.value for a in decide_by_diagrams(task, states)[0]]
    assert disabled == ["safe", "unsafe", "unsafe", "safe", "safe"]


def test_limits_and_unsupported_models_are_named(tmp_path: Path) -> None:
    path = tmp_path / "big.prism"
    path.write_text(
        "mdp\nmodule m\n x : [0..60000] init 0;\n [go] x<60000 -> (x'=x+1);\n endmodule\n", encoding="utf-8"
    )
    task = load_task(path, TaskOptions(fail="x == 60000"))
    (late,), _ = decide_by_diagrams(task, [(0,)], budget=Budget(seconds=0.2))
    assert late.verdict is Verdict.UNKNOWN
    assert "time limit" in str(late.limit)
    path.write_text("mdp\nmodule m\n n : int init 0;\n [go] true -> (n'=n+1);\n endmodule\n", encoding="utf-8")
    with pytest.raises(InputError, match="no bounds"):
        decide_by_diagrams(load_task(path, TaskOptions(fail="n == 5")), [(0,)])
