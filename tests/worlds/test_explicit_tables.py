"""A table read as rows means what its guarded edges mean: interpreter, kernel, files and restrictions agree on random tables."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction

import pytest

import polvet
from polvet.errors import InputError, Where
from polvet.jani import dump_model, parse_model
from polvet.jani.documents import parse_document
from polvet.kernel.compiled import Compiled
from polvet.kernel.lower import Reward
from polvet.model.evaluate import compile_expression
from polvet.model.expressions import TRUE, Name
from polvet.model.infix import parse_expression
from polvet.model.instantiate import instantiate
from polvet.model.restrict import restrict
from polvet.model.semantics import Semantics
from polvet.model.table_edges import TableEdges
from polvet.model.tables import EVENTS, Outcome, TableMoves, TransitionTable
from polvet.model.world import WorldFile
from polvet.worlds.formats import format_of, read_world
from polvet.worlds.table import build_table
from polvet.worlds.table_file import TABLE, dump_table, dump_world
from tests.kernel.test_twins import fast_moves, slow_moves

SEEDS = range(40)


def random_table(chance: random.Random) -> TransitionTable:
    """Return a table with gaps, several starts, features, rewards, events and, at times, more than one distribution of an action."""
    states, labels = chance.randint(1, 9), tuple("abc"[: chance.randint(1, 3)])
    rewarded, events = chance.random() < 0.5, chance.random() < 0.7

    def outcomes() -> tuple[Outcome, ...]:
        shares = [Fraction(chance.randint(1, 3)) for _ in range(chance.randint(1, 3))]
        return tuple(
            Outcome(
                share / sum(shares),
                chance.randrange(states),
                Fraction(chance.randint(-2, 2), 3) if rewarded else Fraction(0),
                chance.choice((None, None, *EVENTS)) if events else None,
            )
            for share in shares
        )

    places = [(s, a) for s in range(states) for a in range(len(labels)) if chance.random() < 0.8] or [(0, 0)]
    features = {name: [chance.randint(-2, 2) for _ in range(states)] for name in ("x", "y")[: chance.randint(0, 2)]}
    others = tuple((*chance.choice(places), outcomes()) for _ in range(chance.randint(0, 2)))
    starts = tuple(sorted(chance.sample(range(states), chance.randint(1, states))))
    return TransitionTable("t", states, labels, {place: outcomes() for place in places}, starts, features, others)


def guarded(network):
    """Return the same network with its edges as a tuple: nothing knows of the table any more."""
    return replace(network, edges=tuple(network.edges))


def brute_moves(table, names, state):
    """Return what the table says of a state, straight from its rows: (label, outcomes as (probability, values, reward))."""
    values = dict(zip(names, state, strict=True))
    if any(values.get(event) for event in EVENTS):
        return []
    found = []
    for source, action, outcomes in [*((s, a, o) for (s, a), o in table.rows.items()), *table.others]:
        if source == values["s"]:
            after = []
            for one in outcomes:
                moved = {"s": one.state} | {n: column[one.state] for n, column in table.features.items()}
                event = {one.event: True} if one.event else {}
                after.append((one.probability, tuple({**values, **moved, **event}[n] for n in names), one.reward))
            found.append((table.labels[action], sorted(after)))
    return sorted(found)


def exact(outcome):
    """Return the probability, the state and the reward of an outcome (thirds, which doubles only come near to)."""
    reward = Fraction(outcome.scratch[0]).limit_denominator(9) if outcome.scratch else 0
    return outcome.probability, outcome.state, reward


@pytest.mark.parametrize("seed", SEEDS)
def test_from_states_of_the_table_the_interpreter_does_what_the_rows_say(seed):
    table = random_table(random.Random(seed))
    network = build_table(table).network()
    names = [variable.name for variable in network.variables]
    semantics = Semantics(network)
    flags = [name for name in names if name in EVENTS]
    for number in range(table.states):
        for set_flag in (None, *flags):
            values = {"s": number} | {name: column[number] for name, column in table.features.items()}
            state = tuple({**values, **dict.fromkeys(flags, False), set_flag: True}[name] for name in names)
            said = [(move.label, sorted(map(exact, move.outcomes))) for move in semantics.moves(state)]
            said.sort()
            assert said == brute_moves(table, names, state)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_do_what_their_edges_do_in_every_state_slow_and_fast(seed):
    network = build_table(random_table(random.Random(seed))).network()
    assert isinstance(network.edges, TableMoves)
    other = guarded(network)
    rows, edges = Semantics(network), Semantics(other)
    assert list(rows.initial_states()) == list(edges.initial_states())
    rewards = [Reward(None, Name("reward"))] if network.scratch else []
    fast, fast_edges = Compiled(network, rewards=rewards), Compiled(other, rewards=rewards)
    for state in rows.states_satisfying(TRUE):  # features that do not fit the state included
        expected = slow_moves(edges, state)
        assert slow_moves(rows, state) == expected
        assert fast_moves(fast, state) == fast_moves(fast_edges, state) == expected
        told = [compiled.machine.moves(compiled.pack([state])[0]) for compiled in (fast, fast_edges)]
        assert sorted(map(str, told[0])) == sorted(map(str, told[1]))  # rewards of steps as well
    assert sorted(fast.unpack(fast.explore().states(0, 10**6))) == sorted(
        fast_edges.unpack(fast_edges.explore().states(0, 10**6))
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_is_the_same_after_writing_it_to_a_file_as_rows_and_as_jani(seed, tmp_path):
    table = random_table(random.Random(seed))
    builder = build_table(table)
    builder.note("description", "a world")
    model = builder.build()
    suffix, text = dump_world(model)
    assert suffix == ".table"
    (tmp_path / "world.table").write_text(text)
    assert format_of(WorldFile(tmp_path / "world.table")) is TABLE
    again = read_world(tmp_path / "world.table").model
    assert again == model
    assert dump_world(again) == (suffix, text)
    jani = parse_model(parse_document(dump_model(model), Where("JANI")), Where("JANI"))
    plain, rows = Semantics(instantiate(jani)), Semantics(instantiate(again))
    assert [v.name for v in plain.network.variables] == [v.name for v in rows.network.variables]
    assert list(plain.initial_states()) == list(rows.initial_states())
    for state in rows.states_satisfying(TRUE):
        told = [[(m.label, m.outcomes) for m in one.moves(state)] for one in (plain, rows)]
        assert told[0] == told[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_leaving_out_features_leaves_them_out_of_rows_as_of_edges(seed):
    task = build_table(random_table(random.Random(seed))).task(fail="false")
    keep = {variable.name for variable in task.network.variables} - {"x"}
    rows = restrict(task, keep)
    edges = restrict(replace(task, network=guarded(task.network)), keep)
    assert isinstance(rows.network.edges, TableMoves)
    assert tuple(rows.network.edges) == edges.network.edges
    for state in Semantics(rows.network).states_satisfying(TRUE):
        assert slow_moves(Semantics(rows.network), state) == slow_moves(Semantics(edges.network), state)


def test_the_number_of_a_state_says_its_features():
    task = polvet.load("gym:FrozenLake-v1?is_slippery=false")
    assert task.decide({"s": 14}).verdict.value == "safe"
    assert task.decide({"s": 5, "failed": True}).verdict.value == "unsafe"
    with pytest.raises(InputError, match="no value for"):
        task.decide({"row": 2})
    with pytest.raises(InputError, match="s"):
        task.decide({"s": 99})


def test_a_model_that_says_more_than_its_table_is_written_as_jani():
    builder = build_table(random_table(random.Random(1)))
    builder.reach("p", "s == 0")
    suffix, text = dump_world(builder.build())
    assert suffix == ".jani"
    assert '"p"' in text


def test_edges_are_made_where_somebody_looks_at_them():
    edges = build_table(random_table(random.Random(3))).build().automata[0].edges
    assert isinstance(edges, TableEdges)
    assert edges[-1] == tuple(edges)[-1] == edges[len(edges) - 1 :][0]
    assert edges == tuple(edges)
    with pytest.raises(IndexError):
        edges[len(edges)]


WORLD = json.loads(dump_table(TransitionTable("w", 2, ("a",), {(0, 0): (Outcome(Fraction(1), 1),)}, (0,)), {}))
WRONG = {
    "rows[0]: is no row": {"rows": [[0, 0]]},
    "rows[1]: is no row": {"rows": [[0, 0, [1, 1]], [0, 0, ["half", 1]]]},
    "rows[0]: is no row. Write": {"rows": [[0, 0, [True, 1]]]},
    "world.table: [0][0]: the probabilities are not above 0, or do not sum to 1": {"rows": [[0, 0, ["1/3", 1]]]},
    "[0][0]: the probabilities": {"rows": [[0, 0, [2, 1], [-1, 0]]]},
    "leads nowhere": {"rows": [[0, 0, [1, 7]]]},
    "no such state or action": {"rows": [[0, 5, [1, 1]]]},
    "'rows' is no list of rows": {"rows": 3},
    "no key 'state' belongs here": {"state": 2},
    "states: is no number of states": {"states": "two"},
    "the labels are not different names": {"labels": ["a", "a"]},
    "there is no start state": {"starts": []},
    "the feature 's' has a reserved name": {"features": {"s": [0, 1]}},
    "features.x: 'x' is no list of integers": {"features": {"x": [0, 0.5]}},
    "metadata: is no text": {"metadata": {"description": 3}},
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_file_is_told_with_its_place(message, tmp_path):
    file = tmp_path / "world.table"
    file.write_text(json.dumps(WORLD | WRONG[message]))
    with pytest.raises(InputError) as told:
        read_world(file)
    assert message in str(told.value)


def test_a_table_file_alone_is_a_task_that_is_debugged_and_certified(tmp_path):
    rows = {(0, 0): (Outcome(Fraction(1), 1),), (0, 1): (Outcome(Fraction(1), 0, event="failed"),),
            (1, 0): (Outcome(Fraction(1), 1, event="reached"),)}  # fmt: skip
    (tmp_path / "w.table").write_text(dump_table(TransitionTable("w", 2, ("on", "off"), rows, (0,)), {}))
    task = polvet.load(tmp_path / "w.table")
    campaign = task.policy({0: "off", 1: "on"}).debug(tmp_path / "campaign")
    assert campaign.verdict.value == "safe"
    assert polvet.certify(campaign.policy.verify(), task, campaign.policy).accepted


@pytest.mark.parametrize("seed", range(20))
def test_long_disjunctions_are_read_as_short_ones(seed):
    chance = random.Random(seed)
    tests = ["x == {0} && y == {1}", "x == {0} && 6 % y == {1}", "x == {0}", "y == {1} && x == {0}"]
    allowed = tests[: chance.choice((1, 2, 3, 4))]
    parts = [chance.choice(allowed).format(chance.randint(0, 3), chance.randint(0, 3)) for _ in range(12)]
    whole = compile_expression(parse_expression(" || ".join(parts), Where("t")), {"x": 0, "y": 1})
    singles = [compile_expression(parse_expression(part, Where("t")), {"x": 0, "y": 1}) for part in parts]
    for state in [(x, y) for x in range(4) for y in range(4)]:
        assert outcome(whole, state) == outcome(lambda s: any(test(s) for test in singles), state)


def outcome(evaluator, state):
    try:
        return bool(evaluator(state))
    except (InputError, ZeroDivisionError) as error:
        return str(error)
