"""Mutex groups: what is found, that nothing else changes, and how people see them."""

import json
import random
from pathlib import Path

import pytest

import polvet
from polvet.errors import InputError, Where
from polvet.jani.read import load_model as load_jani
from polvet.jani.write import dump_model
from polvet.kernel.compiled import Compiled
from polvet.model.instantiate import instantiate
from polvet.model.semantics import Semantics, show_state
from polvet.model.task import TaskOptions
from polvet.pddl import read_pddl
from polvet.pddl.ground import Outcome
from polvet.pddl.groups import Part, counted_groups, judge, made_move
from polvet.pddl.parse import parse_domain, parse_problem
from polvet.pddl.syntax import FALSE, TRUE, And, Atom, Not, Or
from polvet.pddl.translate import translate
from polvet.records.state_files import parse_state
from polvet.sources import load_task
from tests.pddl.conftest import FOND, needs_benchmarks, references

PROBLEM = Path(__file__).parents[2] / "examples" / "fond" / "problem.pddl"
P, Q, R, C = (Atom(name, ()) for name in "pqrc")


def _parsed(reference):
    domain = parse_domain((FOND / reference["domain"]).read_text(), Where("domain"))
    return domain, parse_problem((FOND / reference["problem"]).read_text(), Where("problem"), domain)


@needs_benchmarks
@pytest.mark.parametrize(
    "reference", [one for one in references() if one["states"] <= 10_000], ids=lambda one: one["problem"]
)
def test_in_every_reachable_state_at_most_one_atom_of_a_group_is_true(reference):
    domain, problem = _parsed(reference)
    plain = translate(domain, problem, grouped=False)  # every atom is a variable of its own
    groups = translate(domain, problem).encoding.groups
    compiled = Compiled(instantiate(plain.model))
    space = compiled.explore()
    place = {variable.name: k for k, variable in enumerate(compiled.network.variables)}
    for state in compiled.unpack(space.states(0, len(space))):
        for group in groups:
            true = sum(state[place[str(atom)]] for atom in group.atoms)
            assert true <= 1
            assert true == 1 or not group.exact
    grouped = Compiled(instantiate(translate(domain, problem).model)).explore()
    assert (len(space), space.choices, space.deadlocks) == (len(grouped), grouped.choices, grouped.deadlocks)


@needs_benchmarks
def test_groups_are_named_by_what_their_atoms_have_in_common():
    wanted = {
        "zenotravel/sample.pddl": "at-aircraft(a0,*)|flying(a0,*)|zooming(a0,*)",
        "blocksworld-new/p3.pddl": "holding(b1)|on(b1,*)|on-table(b1)",
        "elevators/p01.pddl": "at(*,*)|inside(*)",
    }
    for reference in references():
        if reference["problem"] in wanted:
            names = [group.name for group in translate(*_parsed(reference)).encoding.groups]
            assert wanted[reference["problem"]] in names


GROUP = frozenset({P, Q, R})


@pytest.mark.parametrize(
    ("known", "values", "most", "exactly"),
    [
        ({P: True}, [(P, FALSE), (Q, TRUE)], True, True),
        ({P: True}, [(P, FALSE)], True, False),
        ({}, [(Q, TRUE)], False, False),  # r may be true as well
        ({}, [(P, FALSE), (Q, TRUE), (R, FALSE)], True, True),
        ({P: False}, [(Q, TRUE), (R, FALSE)], True, True),
        ({P: True}, [(P, FALSE), (Q, TRUE), (R, TRUE)], False, False),
        ({P: True}, [(P, Not(C)), (Q, C)], True, True),
        ({P: True}, [(P, FALSE), (Q, C)], True, False),
        ({P: True}, [(Q, C)], False, False),
        ({}, [(P, And((P, Not(C)))), (Q, Or((Q, And((P, C)))))], True, True),
        ({}, [(Q, Or((Q, C)))], False, False),
        ({P: True, Q: True}, [(R, TRUE)], True, True),  # never applicable
    ],
)
def test_an_outcome_is_judged_in_every_case(known, values, most, exactly):
    assert judge(GROUP, known, Outcome(1, tuple(values))) == (most, exactly)


def test_counting_says_what_judging_every_case_says():
    """Random groups of two families, guards and outcomes without conditions on the groups; every value of the parameter."""
    rng = random.Random(7)
    counted = 0
    for _ in range(3000):
        atoms = [Atom(predicate, (a, b)) for predicate in ("at", "in") for a in "xy" for b in "123"]
        candidate = (Part("at", (0,), 2), Part("in", (0,), 2))
        parts = {part.predicate: part for part in candidate}
        inside = {(a,): frozenset(atom for atom in atoms if atom.terms[0] == a) for a in "xy"}
        known = {atom: rng.random() < 0.4 for atom in rng.sample([*atoms, C], rng.randint(0, 4))}
        values = [(atom, rng.choice((TRUE, FALSE))) for atom in rng.sample(atoms, rng.randint(1, 4))]
        values = [(atom, value) for atom, value in values if known.get(atom) is not (value == TRUE)]
        values.append((C, rng.choice((TRUE, FALSE, Or((C, atoms[0])), Not(C)))))
        move = made_move(known, Outcome(1, tuple(values)))
        counts = counted_groups(parts, move.before, move.after)
        assert counts.keys() == {atom.terms[:1] for atom, _ in values if atom != C}
        for key, count in counts.items():
            assert count.judged(len(inside[key])) == judge(inside[key], known, move.outcome)
            counted += 1
    assert counted > 2000


def test_states_are_shown_by_atoms_and_read_by_numbers_names_or_atoms():
    task = load_task(PROBLEM)
    semantics = Semantics(task.network)
    (start,) = semantics.initial_states()
    shown = semantics.show(start)
    assert shown == "(at mill) (chain) (spare inn) (lies letter mill)"
    where = Where("--state")
    assert parse_state(task, shown, where) == start
    by_variables = "chain=true,spare(inn)=true,calm=false,carried(letter)|lies(letter,*)=lies(letter,mill)"
    assert parse_state(task, f"at(*)=at(mill),{by_variables}", where) == start
    assert parse_state(task, f"at(*)=0,{by_variables}", where) == start
    with pytest.raises(InputError, match="are never true together"):
        parse_state(task, "(at mill) (at inn) (chain)", where)
    with pytest.raises(InputError, match="none of at"):
        parse_state(task, "(chain)", where)


@needs_benchmarks
@pytest.mark.parametrize(
    "reference", [one for one in references() if one["states"] <= 300], ids=lambda one: one["problem"]
)
def test_every_state_is_read_as_it_is_shown(reference):
    task = load_task(FOND / reference["problem"], TaskOptions(domain=FOND / reference["domain"]))
    compiled = Compiled(task.network)
    space = compiled.explore()
    for state in compiled.unpack(space.states(0, len(space))):
        assert parse_state(task, show_state(task.network, state), Where("--state")) == state


def test_atoms_of_groups_keep_their_names_in_jani(tmp_path):
    world = read_pddl(PROBLEM)
    (tmp_path / "courier.jani").write_text(dump_model(world.model))
    network = instantiate(load_jani(tmp_path / "courier.jani"))
    assert {v.name: v.values for v in network.variables} == {
        v.name: v.values for v in instantiate(world.model).variables
    }
    task = polvet.load(tmp_path / "courier.jani", fail="'at(pass)'")
    assert task.model_task.fail == load_task(PROBLEM).network.resolve(polvet_name("at(pass)"))


def polvet_name(name):
    from polvet.model.expressions import Name

    return Name(name)


def test_rules_still_speak_of_atoms(tmp_path):
    rules = [
        {"when": "'at(mill)' & 'lies(letter,mill)'", "action": "load(letter,mill)"},
        {"when": "true", "action": "wait"},
    ]
    (tmp_path / "rules.json").write_text(json.dumps({"format": "rules/1", "rules": rules}))
    policy = polvet.load(PROBLEM).policy(tmp_path / "rules.json")
    assert set(policy.inputs) == {"at(mill)", "lies(letter,mill)"}
