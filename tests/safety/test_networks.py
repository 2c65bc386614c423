"""All algorithms on compiled networks agree with the interpreter's attractor; evidence of every verdict is accepted."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polvet import _core
from polvet.budget import Budget
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.errors import InputError, LimitReached, Where
from polvet.jani.write import dump_model
from polvet.model.network import OutOfBounds
from polvet.model.semantics import Semantics
from polvet.model.task import TaskOptions
from polvet.safety import ALGORITHMS, ORDERS, Decider, Verdict, prove
from polvet.safety.decide import ActionOrder
from polvet.sources import load_task
from tests.safety.networks import all_states, random_model, random_task, unsafe_states

SEARCHES = tuple(name for name, algorithm in ALGORITHMS.items() if algorithm.search)


def judge(certificate: dict[str, Any], path: Path) -> Accepted | Rejected:
    """Return the checker's answer to what a file with the certificate would hold."""
    return check(json.loads(json.dumps(certificate)), Subjects(path, options=None), Where("certificate"))


@pytest.mark.threads
@pytest.mark.parametrize("seed", range(8))
def test_every_algorithm_agrees_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for _ in range(15):
        task, _ = random_task(rng, tmp_path)
        states = all_states(task)
        unsafe = unsafe_states(task, states)
        for algorithm in SEARCHES:
            for share in (False, True):
                order = rng.choice([order for order in ORDERS if order != "policy"])
                decider = Decider(
                    task, algorithm=algorithm, share=share, order=ActionOrder(order), threads=rng.choice([1, 2])
                )
                found = {s for s, a in zip(states, decider.decide(states), strict=True) if a.verdict is Verdict.UNSAFE}
                assert found == unsafe, (algorithm, share, order)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_evidence_of_every_verdict_is_accepted(seed: int, tmp_path: Path) -> None:
    rng = random.Random(100 + seed)
    for _ in range(6):
        task, path = random_task(rng, tmp_path)
        prover = Decider(task)
        states = all_states(task)
        unsafe = unsafe_states(task, states)
        for state in states:
            verdict = Verdict.UNSAFE if state in unsafe else Verdict.SAFE
            answer = judge(prove(prover, [state], verdict), path)
            assert isinstance(answer, Accepted), (state, answer)
        for verdict, group in ((Verdict.UNSAFE, unsafe), (Verdict.SAFE, set(states) - unsafe)):
            if group:
                together = prove(prover, sorted(group), verdict)
                assert isinstance(judge(together, path), Accepted)


def test_the_wrong_verdict_cannot_be_proved(tmp_path: Path) -> None:
    rng = random.Random(5)
    task, _ = random_task(rng, tmp_path)
    states = all_states(task)
    unsafe = unsafe_states(task, states)
    assert 0 < len(unsafe) < len(states)
    for state in states:
        wrong = Verdict.SAFE if state in unsafe else Verdict.UNSAFE
        with pytest.raises(ValueError, match="to be proved"):
            prove(Decider(task), [state], wrong)


@pytest.mark.parametrize("seed", range(4))
def test_safe_actions_have_only_safe_outcomes(seed: int, tmp_path: Path) -> None:
    rng = random.Random(200 + seed)
    for _ in range(10):
        task, _ = random_task(rng, tmp_path)
        states = all_states(task)
        unsafe = unsafe_states(task, states)
        semantics = Semantics(task.network)
        fail, goal = semantics.compile(task.fail), semantics.compile(task.goal)
        decider = Decider(task)
        for state in rng.sample(states, len(states)):
            ended = fail(state) or goal(state) or not semantics.moves(state)
            labels: tuple[str | None, ...] = () if ended else semantics.applicable(state) or (None,)
            expected = [(label, not semantics.outcomes(state, label) & unsafe) for label in labels]
            assert decider.judge_actions(state) == expected
            assert decider.safe_actions(state) == tuple(label for label, safe in expected if safe)


@pytest.mark.threads
@pytest.mark.parametrize("threads", [2, 1])
def test_many_states_are_judged_as_each_alone(threads: int, tmp_path: Path) -> None:
    rng = random.Random(300)
    for _ in range(10):
        task, _ = random_task(rng, tmp_path)
        states = all_states(task)
        alone, together = Decider(task, algorithm="tarjan"), Decider(task, threads=threads)
        expected = [alone.judge_actions(state) for state in states]
        assert together.judge_actions_packed(together.compiled.pack(states)) == expected


def test_a_policy_as_order_is_asked_first(tmp_path: Path) -> None:
    task, _ = random_task(random.Random(3), tmp_path)
    states = all_states(task)
    unsafe = unsafe_states(task, states)
    last = task.network.labels[-1]
    found = Decider(task, order=ActionOrder("policy", preference=lambda state: last)).decide(states)
    assert {s for s, a in zip(states, found, strict=True) if a.verdict is Verdict.UNSAFE} == unsafe
    with pytest.raises(InputError, match="needs a policy"):
        Decider(task, order=ActionOrder("policy"))


def test_a_preferred_label_without_edges_is_no_preference_and_an_unknown_one_an_error(tmp_path: Path) -> None:
    path = tmp_path / "idle.jani"
    model = random_model(random.Random(6))
    path.write_text(dump_model(replace(model, actions=(*model.actions, "idle"))), encoding="utf-8")
    task = load_task(path, TaskOptions(fail="x == 2 && y >= 1"))
    assert "idle" not in task.network.labels
    states = all_states(task)
    found = Decider(task, order=ActionOrder("policy", preference=lambda state: "idle")).decide(states)
    assert {s for s, a in zip(states, found, strict=True) if a.verdict is Verdict.UNSAFE} == unsafe_states(task, states)
    with pytest.raises(InputError, match=r"'idel' is no label of the model\."):
        Decider(task, order=ActionOrder("policy", preference=lambda state: "idel")).decide(states)


COUNTER = """
mdp
module counter
  n : int init 0;
  [up] true -> (n' = n + 1);
  [stop] n >= 5 -> true;
endmodule
"""


LAST = ActionOrder("last")
WALK = """mdp
module walk
    x : int init 4;
    [away] x > 0 -> 0.5: (x' = x + 1) + 0.5: (x' = x + 2);
    [back] x > 1 -> (x' = x - 1);
    [stop] x = 1 -> true;
    [fall] x = 0 -> (x' = x - 1);
endmodule
"""


def test_an_unbounded_model_is_decided_where_its_search_closes_and_unknown_where_it_does_not(tmp_path: Path) -> None:
    path = tmp_path / "counter.prism"
    path.write_text(COUNTER, encoding="utf-8")
    task = load_task(path, TaskOptions(fail="n == 1000000000"))
    endless = Decider(task, order=LAST).decide([(0,)], budget=Budget(states=5_000))[0]
    assert endless.verdict is Verdict.UNKNOWN
    assert "5000 states" in str(endless.limit)
    stopping = ActionOrder("policy", preference=lambda s: "stop" if s[0] >= 5 else "up")
    closing = Decider(task, algorithm="lazy", order=stopping)
    assert closing.decide([(0,)])[0].verdict is Verdict.SAFE
    for algorithm in SEARCHES:
        found = Decider(task, algorithm=algorithm).decide([(0,)], budget=Budget(states=3_000))[0]
        assert found.verdict is Verdict.UNKNOWN, algorithm
    # The default tries another order of actions where that of the model leads ever further away.
    assert Decider(task, algorithm="lazy").decide([(0,)], budget=Budget(states=100_000))[0].verdict is Verdict.SAFE


def test_limits_are_named_and_what_was_half_done_is_not_used_again(tmp_path: Path) -> None:
    path = tmp_path / "counter.prism"
    path.write_text(COUNTER, encoding="utf-8")
    task = load_task(path, TaskOptions(fail="n == 3000"))
    decider = Decider(task)
    short = decider.decide([(0,)], budget=Budget(states=100))[0]
    assert short.verdict is Verdict.UNKNOWN
    # Having been stopped it starts anew: from 0 one may still stop at 5.
    assert decider.decide([(2_999,)])[0].verdict is Verdict.SAFE
    assert decider.decide([(3_000,)])[0].verdict is Verdict.UNSAFE
    endless = Decider(load_task(path, TaskOptions(fail="n == 1000000000")), order=LAST)
    with pytest.raises(LimitReached, match="time limit"):
        endless.safe_policy([(0,)], budget=Budget(seconds=0.05))


@pytest.mark.parametrize("share", [True, False])
def test_evidence_of_a_question_that_was_asked_in_several_orders_is_accepted(share: bool, tmp_path: Path) -> None:
    """A walk that the model's order leads ever further away, between a wall and a place where only one action is safe."""
    path = tmp_path / "walk.prism"
    path.write_text(WALK, encoding="utf-8")
    task = load_task(path, TaskOptions(fail="x < 0"))
    decider = Decider(task, share=share)
    assert [one.verdict for one in decider.decide([(4,), (0,), (1,), (900,)])] == [
        Verdict.SAFE,
        Verdict.UNSAFE,
        Verdict.SAFE,
        Verdict.SAFE,
    ]
    if share:
        closed = decider.safe_policy([(4,), (1,), (900,)])
        semantics = Semantics(task.network)
        for state, label in closed.items():
            assert label is not None
            assert state[0] > 0
            assert {outcome for outcome in semantics.outcomes(state, label)} <= set(closed)
        assert {one.rank for one in decider.unsafe_rank([(0,)])} == {0, 1}


def test_a_limit_leaves_states_unjudged_and_says_which(tmp_path: Path) -> None:
    path = tmp_path / "counter.prism"
    path.write_text(COUNTER, encoding="utf-8")
    task = load_task(path, TaskOptions(fail="n == 3000", goal="n == 2000"))
    decider = Decider(task)
    budget = Budget(states=100)
    found = decider.judge_actions_packed(decider.compiled.pack([(0,), (1_990,), (2_999,)]), budget=budget)
    assert found == [None, [("up", True), ("stop", True)], [("up", False), ("stop", True)]]
    with pytest.raises(LimitReached, match="100 states"):
        decider.judge_actions((0,), budget=budget)
    assert decider.judge_actions((0,)) == [("up", True)]


@pytest.mark.threads
def test_a_model_that_leaves_its_bounds_is_reported_with_the_state(tmp_path: Path) -> None:
    path = tmp_path / "bounds.prism"
    path.write_text("mdp\nmodule m\n x : [0..3] init 0;\n [go] true -> (x' = x + 1);\nendmodule\n", encoding="utf-8")
    task = load_task(path, TaskOptions(fail="false"))
    with pytest.raises(InputError, match="x=3"):
        Decider(task).decide([(0,)])
    with pytest.raises(InputError, match="x=3"):
        Decider(task, threads=2).decide([(k,) for k in range(4)] * 200)
    task = load_task(path, TaskOptions(fail="false", out_of_bounds=OutOfBounds.DISABLE))
    assert Decider(task).decide([(0,)])[0].verdict is Verdict.SAFE


def test_fail_beats_goal(tmp_path: Path) -> None:
    path = tmp_path / "both.prism"
    path.write_text("mdp\nmodule m\n x : [0..1] init 0;\n [go] x=0 -> (x' = 1);\nendmodule\n", encoding="utf-8")
    task = load_task(path, TaskOptions(fail="x == 1", goal="x == 1"))
    for algorithm in SEARCHES:
        assert Decider(task, algorithm=algorithm).decide([(0,)])[0].verdict is Verdict.UNSAFE


@pytest.mark.threads
def test_threads_tell_each_other_what_they_proved(tmp_path: Path) -> None:
    """What another thread published is relied on: the answers stay those of a single one."""
    path = tmp_path / "grid.prism"
    path.write_text(
        "mdp\nmodule m\n x : [0..199] init 0;\n y : [0..199] init 0;\n"
        " [right] x<199 -> 0.5:(x'=x+1) + 0.5:(y'=min(199,y+1));\n [up] y<199 & x<100 -> (y'=y+1);\n endmodule\n",
        encoding="utf-8",
    )
    task = load_task(path, TaskOptions(fail="x == 199 && y < 150"))
    states = [(x, y) for x in range(0, 200, 3) for y in range(0, 200, 3)]
    alone = Decider(task, threads=1).decide(states)
    together = Decider(task, threads=2).decide(states)
    assert [answer.verdict for answer in alone] == [answer.verdict for answer in together]
    assert len({answer.verdict for answer in alone}) == 2


@pytest.mark.threads
def test_a_batch_within_little_memory_forgets_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "ring.prism"
    path.write_text(
        "mdp\nmodule m\n x : [0..149999] init 0;\n b : [0..1] init 0;\n"
        " [go] true -> 0.5:(x'=mod(x+1,5000)+x-mod(x,5000)) + 0.5:(b'=1-b);\n endmodule\n",
        encoding="utf-8",
    )
    task = load_task(path, TaskOptions(fail="false"))
    states = [(5_000 * k, 0) for k in range(30)]  # thirty rings that share nothing
    for threads in (1, 2):
        roomy = Decider(task, threads=threads)
        assert all(answer.verdict is Verdict.SAFE for answer in roomy.decide(states))
        tight = _core.Decider(roomy.compiled.program, 0, 1, "lazy", "app", 0, True, threads, 2**32 - 1, None)
        limit = 4 * 2**20 * threads
        known, *_ = tight.decide(roomy.compiled.pack(states), 60.0, limit, 2**32, None)
        assert (known == 2).all()
        assert roomy.peak_bytes > limit
        assert tight.peak_bytes < 1.5 * limit
    with pytest.raises(ValueError, match="single thread"):
        Decider(task, threads=2).safe_policy([(0, 0)])
