"""Gymnasium environments with a table: the model has the environment's states, probabilities and endings, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pytest

import polvet
from polvet.errors import InputError
from polvet.model.semantics import Semantics
from polvet.model.tables import Outcome, TransitionTable
from polvet.worlds.gym import read_address
from polvet.worlds.table import build_table, exact_distribution, simplest_fraction

gymnasium = pytest.importorskip("gymnasium")

WORLDS = [
    ("FrozenLake-v1", {"map_name": "4x4", "is_slippery": True}),
    ("FrozenLake-v1", {"map_name": "4x4", "is_slippery": False}),
    ("FrozenLake-v1", {"map_name": "8x8", "is_slippery": True}),
    ("CliffWalking-v1", {}),
    ("CliffWalking-v1", {"is_slippery": True}),
    ("Taxi-v4", {}),
]


def address(name, arguments):
    query = "&".join(f"{key}={str(value).lower()}" for key, value in arguments.items())
    return f"gym:{name}" + (f"?{query}" if query else "")


def flagged(task, state):
    return {name: state[name] for name in ("failed", "reached", "ended") if name in task.variables}


@pytest.mark.parametrize(("name", "arguments"), WORLDS, ids=lambda one: str(one))
def test_every_step_of_the_model_is_a_step_of_the_table_with_its_probability(name, arguments):
    """An independent walk over `env.unwrapped.P`, in doubles, beside the interpreter's exact moves."""
    task = polvet.load(address(name, arguments))
    table = gymnasium.make(name, **arguments).unwrapped.P
    semantics = Semantics(task.model_task.network)
    place = task.variables.index("s")
    todo, seen = list(semantics.initial_states()), set()
    starts = gymnasium.make(name, **arguments).unwrapped.initial_state_distrib
    assert sorted(state[place] for state in todo) == [s for s, chance in enumerate(starts) if chance > 0]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        moves = semantics.moves(state)
        if any(flagged(task, dict(zip(task.variables, state, strict=True))).values()):
            assert not moves, "a run ends where an event happened"
            continue
        assert [move.label for move in moves] == list(task.labels)
        for action, move in enumerate(moves):
            wanted, ended = Counter(), {}
            for chance, following, _, over in table[state[place]][action]:
                wanted[following] += chance
                ended.setdefault(following, set()).add(bool(over))
            found = Counter()
            for outcome in move.outcomes:
                found[outcome.state[place]] += outcome.probability
                events = flagged(task, dict(zip(task.variables, outcome.state, strict=True)))
                assert not any(ended[outcome.state[place]]) or any(events.values()), "what ends there ends here"
                todo.append(outcome.state)
            assert sum(found.values()) == 1
            assert {s: pytest.approx(float(chance)) for s, chance in found.items()} == {
                s: chance for s, chance in wanted.items() if chance > 0
            }


def test_runs_of_the_environment_are_runs_of_the_model():
    env = gymnasium.make("FrozenLake-v1", map_name="8x8")
    task = polvet.from_gym(env)
    semantics = Semantics(task.model_task.network)
    rng = random.Random(5)
    letters = [letter.decode() for letter in env.unwrapped.desc.flatten()]
    for episode in range(200):
        observed, _ = env.reset(seed=episode)
        (state,) = semantics.initial_states()
        for _ in range(100):
            action = rng.randrange(4)
            observed, _, ended, cut, _ = env.step(action)
            (move,) = [move for move in semantics.moves(state) if move.label == task.labels[action]]
            (state,) = [outcome.state for outcome in move.outcomes if outcome.state[0] == observed]
            named = dict(zip(task.variables, state, strict=True))
            assert named["failed"] == (letters[observed] == "H")
            assert named["reached"] == (letters[observed] == "G")
            assert (named["row"], named["column"]) == divmod(observed, 8)
            if ended or cut:
                break


def test_known_values_of_frozen_lake():
    """The optimum of the slippery 4x4 lake is 14/17: published, and solved by hand from the Bellman equations."""
    task = polvet.load("gym:FrozenLake-v1?map_name=4x4")
    assert task.check("Pmax=? [F goal]", exact=True).exact == Fraction(14, 17)
    assert task.explore().states == 16


def test_predicates_and_conditions_say_what_fails():
    by_reward = polvet.from_gym("Taxi-v4", fail=lambda state, reward, ended, info: reward == -10)
    assert by_reward.decide().verdict is polvet.Verdict.SAFE
    by_place = polvet.from_gym("CliffWalking-v1", fail="column == 11 && row == 0")
    assert by_place.decide({"s": 36, "row": 3, "column": 0, "failed": False, "reached": False}).verdict.value == "safe"
    always = by_place.policy({s: 0 if s >= 12 else 1 for s in range(48)})
    assert always.verify().verdict is polvet.Verdict.UNSAFE


def test_a_q_table_is_debugged_and_never_falls_in_the_real_environment():
    env = gymnasium.make("CliffWalking-v1")
    chance = random.Random(3)
    scores = {s: [chance.random() for _ in range(4)] for s in range(48)}
    task = polvet.from_gym(env)
    import tempfile

    campaign = task.policy(scores).debug(tempfile.mkdtemp(), starts=50)
    assert campaign.verdict is polvet.Verdict.SAFE
    repaired = campaign.policy.object
    for episode in range(50):
        observed, _ = env.reset(seed=episode)
        for _ in range(200):
            observed, reward, ended, cut, _ = env.step(task.labels.index(repaired[observed]))
            assert reward > -100
            if ended or cut:
                break


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("gym:NoSuchWorld-v0", "cannot make it"),
        ("gym:", "no environment is named"),
        ("gym:FrozenLake-v1?map_name", "key=value"),
        ("gym:FrozenLake-v1?colour=red", "cannot make it"),
        ("gym:CartPole-v1", "the start states cannot be enumerated"),
    ],
)
def test_an_environment_that_cannot_be_had_is_refused_with_a_reason(what, says):
    with pytest.raises(InputError, match=says):
        polvet.load(what)


def test_addresses_are_read_with_their_types():
    assert read_address("gym:X-v0?a=1&b=0.5&c=true&d=8x8") == ("X-v0", {"a": 1, "b": 0.5, "c": True, "d": "8x8"})


@pytest.mark.parametrize("value", [0.1, 1 / 3, 2 / 3, 0.8, 1.0, 0.0, 1e-17, 0.30000000000000004])
def test_the_simplest_fraction_is_the_least_that_rounds_back(value):
    found = simplest_fraction(value)
    assert float(found) == value
    smaller = range(max(1, found.denominator - 50), found.denominator)
    assert not any(float(Fraction(round(value * q), q)) == value for q in smaller)


def test_probabilities_that_are_none_are_refused():
    where = polvet.errors.Where("table")
    with pytest.raises(InputError, match="not a distribution"):
        exact_distribution([0.5, 0.4], where)
    with pytest.raises(InputError, match="not a distribution"):
        exact_distribution([1.5, -0.5], where)
    bad = TransitionTable("t", 2, ("a",), {(0, 0): (Outcome(Fraction(1), 5),)}, (0,))
    with pytest.raises(InputError, match="leads nowhere"):
        build_table(bad)


RIGHT = (1.0, 0, 0.0, False)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({0: {0: [(0.5, 0, 0.0, False)]}}, r"P\[0\]\[0\]: the probabilities 0.5 are not a distribution"),
        ({0: {0: [(float("inf"), 0, 0.0, False)]}}, r"P\[0\]\[0\]: the probabilities inf are no numbers"),
        ({0: {0: [("a", 0, 0.0, False)]}}, "the probabilities 'a' are no numbers"),
        ({0: {0: [(1.0, 0, 0.0)]}}, r"P\[0\]\[0\]\[0\]: is not four things.*terminated"),
        ({0: {0: [(1.0, 3, 0.0, False)]}}, "the next state 3 is none of 0 to 0"),
        ({0: {0: [(1.0, 0.5, 0.0, False)]}}, "the next state 0.5 is none"),
        ({0: {0: [(1.0, 0, None, False)]}}, "the reward None is no finite number"),
        ({0: {0: []}}, "no list of outcomes"),
        ({0: {0: None}}, "no list of outcomes"),
        ({0: {"up": [RIGHT]}}, "the action 'up' is no number from 0"),
        ({0: {-1: [RIGHT]}}, "the action -1 is no number from 0"),
        ({1: {0: [RIGHT]}, 2: {}}, "not numbered 0, 1, 2"),
        ({0: {}, 1: {}}, "no state has an action"),
    ],
)
def test_a_malformed_table_is_refused_at_its_place(table, says):
    env = gymnasium.make("FrozenLake-v1")
    env.unwrapped.P = table
    with pytest.raises(InputError, match=says):
        polvet.from_gym(env)


def test_a_table_without_start_states_says_what_to_set():
    env = gymnasium.make("FrozenLake-v1")
    env.unwrapped.initial_state_distrib = None
    with pytest.raises(InputError, match=r"initial_state_distrib.*Set it to the probability of each of the 16 states"):
        polvet.from_gym(env)


def test_actions_that_are_absent_are_not_applicable():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    env.unwrapped.P = {
        s: {a: row for a, row in rows.items() if (s, a) != (0, 1)} for s, rows in env.unwrapped.P.items()
    }
    task = polvet.from_gym(env)
    start = {"s": 0, "row": 0, "column": 0, "failed": False, "reached": False}
    assert task.permit(0).allowed(start) == ("left", "right", "up")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"fail": lambda state: True}, r"`fail` raises TypeError.*\(state, reward, terminated, info\)"),
        ({"goal": lambda *step: 1 / 0}, "`goal` raises ZeroDivisionError"),
        ({"state": lambda number: {"row": [1]}}, r"a feature that is no integer: row is \[1\]"),
        ({"state": lambda number: 3}, r"`state` names no features.*\{name: integer\}"),
        ({"state": lambda number: 1 / 0}, "`state` raises ZeroDivisionError"),
    ],
)
def test_what_a_users_function_raises_is_said(given, says):
    with pytest.raises(InputError, match=says):
        polvet.from_gym(gymnasium.make("FrozenLake-v1"), **given)


def stepping(far):
    """An environment of three states in which its action leads so far on."""

    class Stepping(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(1)
        initial_state_distrib = (1.0, 0.0, 0.0)

        def __init__(self):
            self.P = {s: {0: [(1.0, (s + far) % 3, 0.0, False)]} for s in range(3)}

    return Stepping


def test_an_environment_that_is_registered_again_is_looked_at_again():
    """As in a notebook whose cell is changed and run once more: what was proved of the earlier one is not about this one."""
    try:
        gymnasium.register("Stepping-v0", entry_point=stepping(0))
        task = polvet.load("gym:Stepping-v0", fail="s == 2")
        policy = dict.fromkeys(range(3), task.labels[0])
        assert task.explore().figures["states"] == 1
        safe = task.policy(policy).verify()
        assert safe.verdict is polvet.Verdict.SAFE
        del gymnasium.registry["Stepping-v0"]
        gymnasium.register("Stepping-v0", entry_point=stepping(1))
        again = polvet.load("gym:Stepping-v0", fail="s == 2")
        assert again.explore().figures["states"] == 3
        assert again.policy(policy).verify().verdict is polvet.Verdict.UNSAFE
        assert not polvet.certify(safe, again, again.policy(policy)).accepted
    finally:
        gymnasium.registry.pop("Stepping-v0", None)
