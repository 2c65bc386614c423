"""What a relaxed game has lost is unsafe in the model: by the slow attractor, on random models and every pattern."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest

from polvet.check.checker import Accepted, Subjects, check
from polvet.domains import generate
from polvet.errors import Where
from polvet.kernel.starts import Starts
from polvet.model.automata import VariableDeclaration
from polvet.model.expressions import IntLiteral, Name
from polvet.model.infix import parse_expression
from polvet.model.instantiate import instantiate
from polvet.model.semantics import Semantics
from polvet.model.task import Task, condition
from polvet.model.types import IntType
from polvet.safety.certificates import prove
from polvet.safety.confirmed import knowing
from polvet.safety.decide import SAFE, UNSAFE, Decider
from polvet.safety.foresight import is_large, sharpen
from polvet.safety.game_verdicts import GameVerdicts
from polvet.safety.projections import Top, choose_patterns, iter_lost, solve_pattern, top_of
from polvet.sources import load_task
from polvet.verdict import Verdict
from tests.debug.oracle import cases
from tests.safety.networks import TOP, all_states, random_model, unsafe_states


def forgetful(seed):
    """A random task whose fail reads x alone, so that y can be forgotten."""
    rng = random.Random(seed)
    return forgetful_of(random_model(rng), rng)


def forgetful_of(model, rng):
    network = instantiate(model)
    texts = {
        "fail": f"x == {rng.randint(0, TOP)}" + rng.choice(["", f" || x <= {rng.randint(0, 1)}"]),
        "goal": rng.choice(["false", f"y == {rng.randint(0, TOP)} && x >= 3", f"x == {rng.randint(0, TOP)}"]),
    }
    fail, goal = (condition(network, parse_expression(text), Where(name)) for name, text in texts.items())
    return Task(network, fail, goal)


def test_what_is_lost_when_a_variable_is_forgotten_is_unsafe_with_each_of_its_values():
    beyond_fail = 0
    for seed in range(300):
        task = forgetful(seed)
        places = {variable.name: k for k, variable in enumerate(task.network.variables)}
        found = solve_pattern(task, [places["x"]])
        states = all_states(task)
        lost = [state for state in states if found.verdicts[int(state[places["x"]])]]
        fails = Semantics(task.network).compile(task.fail)
        more = [state for state in lost if not fails(state)]
        if more:
            assert unsafe_states(task, states).issuperset(lost)
        beyond_fail += len(more)
    assert beyond_fail > 50


def by_way_of_a_transient(model):
    """The same model, whose steps compute the new x in a transient variable first."""
    step = VariableDeclaration("t", IntType(IntLiteral(0), IntLiteral(TOP)), IntLiteral(0), transient=True)

    def detour(one):
        if one.target != Name("x"):
            return (one,)
        return replace(one, target=Name("t")), replace(one, value=Name("t"), index=1)

    def longer(edge):
        destinations = (
            replace(one, assignments=tuple(part for each in one.assignments for part in detour(each)))
            for one in edge.destinations
        )
        return replace(edge, destinations=tuple(destinations))

    (automaton,) = model.automata
    automaton = replace(automaton, edges=tuple(map(longer, automaton.edges)))
    return replace(model, automata=(automaton,), variables=(*model.variables, step))


def test_steps_by_way_of_a_transient_variable_lose_no_more_than_the_truth(monkeypatch):
    monkeypatch.setattr("polvet.safety.foresight.ENOUGH", 3)  # every game is played
    tried = 0
    for seed in range(60):
        rng = random.Random(seed)
        model = random_model(rng)
        task = forgetful_of(by_way_of_a_transient(model), rng)
        states = all_states(task)
        unsafe = unsafe_states(task, states)
        sharp = Decider(task)
        tried += sharpen(sharp)
        assert [one.verdict is Verdict.UNSAFE for one in sharp.decide(states)] == [one in unsafe for one in states]
    assert tried > 30


def test_what_is_lost_with_a_topped_variable_is_unsafe():
    """At the top only "at least that" is known: all states with such a value must be unsafe where it is lost."""
    beyond_fail = at_top = 0
    for seed in range(400):
        task = forgetful(seed)
        places = {variable.name: k for k, variable in enumerate(task.network.variables)}
        top = top_of(task, "y")
        tops = [Top("y", value) for value in range(top.value, TOP)] if top is not None else []
        states, fails = all_states(task), Semantics(task.network).compile(task.fail)
        for one in tops:
            pattern = (places["x"], places["y"])
            found = solve_pattern(task, pattern, one)
            assert found.tops == ((places["y"], one.value),)
            assert len(found.verdicts) == (TOP + 1) * (one.value + 1)
            known = found.verdicts.reshape(TOP + 1, one.value + 1)
            lost = [s for s in states if known[int(s[places["x"]]), min(int(s[places["y"]]), one.value)]]
            more = [state for state in lost if not fails(state)]
            if more:
                assert unsafe_states(task, states).issuperset(lost)
            beyond_fail += len(more)
            at_top += sum(int(state[places["y"]]) >= one.value for state in more)
            decider = Decider(task)
            decider.foresee(found)
            verdicts = {s: answer.verdict.value for s, answer in zip(states, decider.decide(states), strict=True)}
            unsafe = unsafe_states(task, states)
            assert all((verdict == "unsafe") == (state in unsafe) for state, verdict in verdicts.items())
    assert beyond_fail > 50
    assert at_top > 10


def test_a_line_too_long_for_exact_patterns_is_judged_as_by_search(monkeypatch, tmp_path):
    """With fewer combinations allowed, packages are topped: verdicts stay those of a plain search, and safe states are proved."""
    monkeypatch.setattr("polvet.safety.projections.MOST_COMBINATIONS", 1_000)
    _, path = generate("one-way-line", n=4, p=5).write(tmp_path / "line.jani")
    task = load_task(path)
    assert any(top is not None for _, top in choose_patterns(task))
    plain, sharp = Decider(task), Decider(task)
    assert sharpen(sharp) > 1
    words = plain.compiled.explore(_starts(plain, task)).states()
    known = plain.known_packed(words)
    assert (known == sharp.known_packed(words)).all()
    safe = knowing(task, sharp.lost_games)
    states = [s for s, one in zip(plain.compiled.unpack(words), known, strict=True) if one == SAFE][:20]
    certificate = prove(safe, states, Verdict.SAFE)
    assert isinstance(
        check(json.loads(json.dumps(certificate)), Subjects(path, options=None), Where("certificate")), Accepted
    )
    unsafe = [s for s, one in zip(plain.compiled.unpack(words), known, strict=True) if one == UNSAFE][:5]
    with pytest.raises(ValueError, match="smaller games"):
        prove(safe, unsafe, Verdict.UNSAFE)


def test_where_nothing_is_forgotten_the_relaxed_game_says_no_more_than_the_truth():
    lost_somewhere = 0
    for case in cases(80)[:40]:
        places = {variable.name: k for k, variable in enumerate(case.task.network.variables)}
        for pattern, top in [((places["x"], places["y"]), None), *choose_patterns(case.task)]:
            found = solve_pattern(case.task, pattern, top)
            assert top is None
            for state in all_states(case.task):
                index = 0
                for k in pattern:
                    index = index * (TOP + 1) + int(state[k])
                if found.verdicts[index]:
                    assert state in case.unsafe
                    lost_somewhere += 1
    assert lost_somewhere > 100


@pytest.mark.parametrize(
    ("name", "options"), [("one-way-line", {}), ("one-way-line", {"icy": True}), ("two-way-line", {})]
)
def test_sharpened_deciders_give_the_same_verdicts(name, options):
    task = generate(name, n=3, p=5, **options).task()
    plain, sharp = Decider(task), Decider(task)
    used = sharpen(sharp)
    space = plain.compiled.explore(_starts(plain, task))
    words = space.states()
    assert (plain.known_packed(words) == sharp.known_packed(words)).all()
    if name == "one-way-line":
        assert used > 0
        assert sum(int(found.verdicts.sum()) for found in iter_lost(task)) > 0
    rng = random.Random(0)
    for state in rng.sample(plain.compiled.unpack(words), 50):
        assert plain.judge_actions(state) == sharp.judge_actions(state)


def _starts(decider, task):
    return decider.compiled.pack_starts(Starts.of(task))


def test_a_decider_that_was_told_what_is_won_gives_no_evidence():
    task = generate("one-way-line", n=3, p=5).task()
    decider = Decider(task)
    assert sharpen(decider) > 0
    state = next(iter(decider.compiled.unpack(_starts(decider, task)[:1])))
    assert decider.safe_policy([state])  # only what is lost was told
    decider.foresee(GameVerdicts((task.network.index_of("truck_0"),), np.array([0, 0, 0, 0, SAFE], dtype=np.uint8)))
    with pytest.raises(ValueError, match="smaller games"):
        decider.safe_policy([state])


def test_size_is_counted_over_all_variables():
    assert not is_large(generate("one-way-line", n=2, p=3).task())
    assert is_large(generate("one-way-line", n=30, p=20).task())
    assert is_large(generate("bouncing-ball").task())


@pytest.mark.parametrize("least", [0, -5, 2**31, 2**53, 2**62, 2**63 - 8, -(2**63) + 1])
def test_a_game_tells_what_is_lost_however_large_the_numbers_are(least):
    """Ranks above 0 at the second and the last of four values."""
    game = GameVerdicts((0,), np.zeros(4, np.uint8), ranks=np.array([0, 1, -1, 2], dtype=np.int32))
    values = np.array([[least + k] for k in range(4)], dtype=np.int64)
    assert game.loses([least], values).tolist() == [False, True, False, True]
