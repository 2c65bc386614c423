"""Published FOND domains and small ones: figures as an explicit oracle computed them; a second reader sees the same."""

import pytest

from polvet.errors import Where
from polvet.kernel.compiled import Compiled
from polvet.model.instantiate import instantiate
from polvet.model.task import Avoid, TaskOptions
from polvet.pddl import read_pddl
from polvet.pddl.parse import parse_domain, parse_problem
from polvet.pddl.syntax import And, Atom, changes
from polvet.safety import Decider, Verdict
from polvet.sources import load_task
from tests.pddl.conftest import FOND, Atoms, needs_benchmarks, references

pytestmark = needs_benchmarks
LARGE = 10_000


def _named(reference):
    return reference["problem"].removesuffix(".pddl")


@pytest.mark.parametrize(
    "reference",
    [pytest.param(one, marks=pytest.mark.slow) if one["states"] > LARGE else one for one in references()],
    ids=_named,
)
def test_states_choices_deadlocks_goals_and_safety_are_the_oracles(reference):
    options = TaskOptions(domain=FOND / reference["domain"], avoid=Avoid(deadlock=True))
    task = load_task(FOND / reference["problem"], options)
    compiled = Compiled(task.network, conditions=[task.goal])
    space = compiled.explore()
    assert len(space) == reference["states"]
    assert space.choices == reference["choices"]
    assert space.deadlocks == reference["deadlocks"]
    assert len(task.network.labels) >= reference["ground_actions"]
    if reference["states"] <= LARGE:
        is_goal = compiled.semantics.compile(task.goal)
        states = compiled.unpack(space.states(0, len(space)))
        assert sum(bool(is_goal(state)) for state in states) == reference["goal_states"]
    absorbing = compiled.explore(stop_at=[0])
    assert len(absorbing) == reference["states_goal_absorbing"]
    (decided,) = Decider(task).decide(list(compiled.semantics.initial_states()))
    assert decided.verdict is (Verdict.SAFE if reference["safe"] else Verdict.UNSAFE)


@pytest.mark.parametrize("reference", [one for one in references() if one["states"] <= 700], ids=_named)
def test_distinct_transitions_and_applicable_actions_are_the_oracles(reference):
    atoms = Atoms(read_pddl(FOND / reference["problem"], FOND / reference["domain"]))
    pending, seen, labels, transitions = atoms.initial(), set(), set(), 0
    while pending:
        state = pending.pop()
        if state not in seen:
            seen.add(state)
            for label, successors in atoms.moves(state).items():
                labels.add(label)
                transitions += len(successors)
                pending += map(atoms.state, successors)
    assert (transitions, len(labels)) == (reference["transitions"], reference["ground_actions"])


@pytest.mark.parametrize("reference", references(), ids=_named)
def test_the_package_pddl_reads_the_same_words(reference):
    pddl = pytest.importorskip("pddl")
    try:
        theirs, problem = pddl.parse_domain(FOND / reference["domain"]), pddl.parse_problem(FOND / reference["problem"])
    except Exception:  # it does not read absent fields, oneof under when and more
        pytest.skip("the package pddl does not read these files")
    ours = parse_domain((FOND / reference["domain"]).read_text(), Where("domain"))
    own = parse_problem((FOND / reference["problem"]).read_text(), Where("problem"), ours)
    arities = {str(one.name).lower(): one.arity for one in theirs.predicates}
    assert {name: len(one.parameters) for name, one in ours.words.predicates.items()} == arities
    schemas = {(str(one.name).lower(), len(one.parameters)) for one in theirs.actions}
    assert schemas <= {(one.name, len(one.parameters)) for one in ours.actions}  # it drops a second schema of a name
    names = {str(one.name).lower() for one in (*theirs.constants, *problem.objects)}
    assert set(own.words.objects) == names
    init = {(str(one.name).lower(), *(str(term.name).lower() for term in one.terms)) for one in problem.init}
    assert {(one.predicate, *one.terms) for one in own.init} == init


def test_guards_hold_no_static_atoms():
    reference = next(one for one in references() if one["problem"] == "elevators/sample.pddl")
    world = read_pddl(FOND / reference["problem"], FOND / reference["domain"])
    network = instantiate(world.model)
    assert len(network.labels) == reference["ground_actions"] == 23
    fluent = {change.atom.predicate for one in world.grounding.reach.domain.actions for change in changes(one.effect)}
    for action in world.grounding.actions:
        parts = action.guard.parts if isinstance(action.guard, And) else (action.guard,)
        assert {one.predicate for one in parts if isinstance(one, Atom)} <= fluent  # static atoms are folded
