"""Numbers in PDDL: they mean what a naive interpreter does, their bounds follow or are refused at their place, costs are costs."""

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import polvet
from polvet.errors import InputError, ModelError, Where
from polvet.kernel.compiled import Compiled
from polvet.model.instantiate import instantiate
from polvet.model.semantics import Semantics, show_state
from polvet.model.world import Reading
from polvet.pddl import load_pddl
from polvet.records.state_files import parse_state
from polvet.sources import load_task
from tests.pddl import oracle
from tests.pddl.conftest import Atoms
from tests.pddl.test_meaning import goal_of

JUGS = """(define (domain jugs) (:requirements :typing :fluents) (:types jug coin) (:predicates (have ?c - coin) (tired))
 (:functions (amount ?j - jug) (capacity ?j - jug) - number (score) (total-cost) - number (fuel))
 (:action fill :parameters (?j - jug) :precondition (< (amount ?j) (capacity ?j))
   :effect (and (assign (amount ?j) (capacity ?j)) (increase (total-cost) 3)))
 (:action pour :parameters (?a ?b - jug) :precondition (and (not (= ?a ?b)) (>= (amount ?a) 1) (< (amount ?b) (capacity ?b)))
   :effect (oneof (and (decrease (amount ?a) 1) (increase (amount ?b) 1))
     (and (decrease (amount ?a) 1) (increase (total-cost) (amount ?a)))))
 (:action pick :parameters (?c - coin) :precondition (have ?c) :effect (and (not (have ?c)) (increase (score) 2)))
 (:action burn :precondition (and (> (score) 1) (>= (fuel) 2))
   :effect (and (decrease (fuel) 2) (when (tired) (assign (score) 0)) (tired))))"""
TWO = """(define (problem two) (:domain jugs) (:objects a b - jug x y z - coin) (:init (have x) (have y) (= (amount a) 0) (= (amount b) 1.0)
 (= (capacity a) 3) (= (capacity b) 5) (= (score) 0) (= (total-cost) 0) (= (fuel) 5))
 (:goal (and (= (amount b) 4) (>= (score) 3))) (:metric minimize (total-cost)))"""


def agree(domain, problem, unread=(), limit=400, **how):
    world, naive = load_pddl(problem, domain, **how), oracle.World(domain, problem, unread)
    atoms = Atoms(world)
    drop = lambda state: frozenset(one for one in state if one[0] != "=" or one[1][0] not in unread)  # noqa: E731
    assert [drop(atoms.show(state)) for state in atoms.initial()] == [naive.init]
    is_goal = atoms.semantics.compile(goal_of(world))
    explored = naive.explore(limit)
    for state, moves in explored.items():
        assert atoms.moves(atoms.state(state)) == moves
        assert bool(is_goal(atoms.state(state))) == naive.holds(naive.goal, {}, state)
    return world, explored


def test_numbers_mean_what_the_naive_interpreter_does():
    world, explored = agree(JUGS, TWO, ("total-cost",))
    assert len(explored) == len(Compiled(instantiate(world.model)).explore()) == 264


def test_bounds_follow_from_guards_from_what_happens_once_and_from_assignments():
    world = load_pddl(TWO, JUGS)
    found = {str(fluent): ends for fluent, ends in world.encoding.bounds.ranges.items()}
    assert found == {"amount(a)": (0, 3), "amount(b)": (0, 5), "score": (0, 4), "fuel": (0, 5)}
    assert {str(one) for one in world.encoding.bounds.costs} == {"total-cost"}


def test_what_passes_between_stores_is_bounded_by_what_there_is():
    domain = """(define (domain d) (:types s) (:functions (at ?s - s)) (:action move :parameters (?a ?b - s)
      :precondition (and (not (= ?a ?b)) (>= (at ?a) 2)) 
      :effect (and (decrease (at ?a) 2) (oneof (increase (at ?b) 2) (increase (at ?b) 1)))))"""
    problem = "(define (problem p) (:domain d) (:objects a b c - s) (:init (= (at a) 4) (= (at b) 1) (= (at c) 0)) (:goal (= (at c) 4)))"
    world, _ = agree(domain, problem)
    assert set(world.encoding.bounds.ranges.values()) == {(0, 5)}


STEP = "(define (domain d) (:predicates (p) (q)) (:functions (n) (m)) (:action a :precondition {} :effect {}))"
ONE = "(define (problem x) (:domain d) (:init (p) (= (n) {}) (= (m) 2)) (:goal (p)))"
BOUNDED = [
    ("(< (n) 7)", "(increase (n) 2)", 0, (0, 8)),
    ("(<= (+ (n) 2) 7)", "(increase (n) 2)", 0, (0, 7)),
    ("(and (p) (not (> (n) 1000000)))", "(increase (n) 3)", 5, (5, 1000003)),
    ("(>= (* 2 (n)) (+ (m) 1))", "(decrease (n) 1)", 9, (1, 9)),
    ("(or (< (n) 3) (and (> (n) 10) (< (n) 20)))", "(increase (n) 1)", 0, (0, 3)),
    ("()", "(when (< (n) 4) (increase (n) 1))", 0, (0, 4)),
    ("()", "(oneof (when (and (q) (< (n) 4)) (increase (n) 1)) (and (q) (assign (n) (m))))", 0, (0, 4)),
    ("(not (= (n) 5))", "(increase (n) 1)", 0, (0, 5)),
    ("(< (n) 50)", "(scale-up (n) 3)", 1, (1, 147)),
    ("(p)", "(and (not (p)) (increase (n) (* (m) 5)))", -3, (-3, 7)),
]  # fmt: skip


@pytest.mark.parametrize(("guard", "effect", "first", "bounds"), BOUNDED)
def test_bounds_hold_in_every_state(guard, effect, first, bounds):
    world, explored = agree(STEP.format(guard, effect), ONE.format(first), limit=60)
    (found,) = [ends for fluent, ends in world.encoding.bounds.ranges.items() if str(fluent) == "n"]
    assert found == bounds
    values = [one[2] for state in explored for one in state if one[0] == "=" and one[1] == ("n",)]
    assert bounds[0] <= min(values)
    assert max(values) <= bounds[1]


REFUSED = [
    # guard, effect, goal, where it is, what is wrong
    ("(< (m) 7)", "(increase (n) 1)", "(= (n) 3)", "(increase", "no bound follows for 'n': a makes it greater"),
    ("(p)", "(and (decrease (n) (m)) (q))", "(= (n) 3)", "(decrease", "no bound follows for 'n': a makes it less"),
    ("(p)", "(and (q) (assign (n) 1) (when (q) (assign (n) 2)))", "(p)", "(assign (n) 2", "a may give 'n' two values at once"),
    ("(p)", "(and (increase (n) 1) (assign (n) 2))", "(p)", "(assign", "a may give 'n' two values at once"),
    ("(p)", "(increase (p) 1)", "(p)", "p) 1", "no function 'p'. It is true or false."),
    ("(n)", "(q)", "(p)", "n) :effect", "no predicate 'n'. It is a number: compare it."),
    ("(< (n) 1.5)", "(q)", "(p)", "1.5", "'1.5' is no integer. Numbers are integers: scale them."),
    ("(< (/ (n) 2) 1)", "(q)", "(p)", "(/", "'/' may leave the integers"),
    ("(p)", "(scale-down (n) 2)", "(p)", "(scale", "'scale-down' may leave the integers"),
    ("(p)", "(increase 3 1)", "(p)", "3 1", "'increase' changes no number here"),
    ("(increase (n) 1)", "(q)", "(p)", "(increase", "'increase' stands in a condition"),
    ("(p)", "(< (n) 3)", "(p)", "(<", "'<' stands in an effect"),
    ("(= (n) k)", "(q)", "(p)", "k) :effect", "'k' stands where a number should be"),
    ("(< (n) (n) 3)", "(q)", "(p)", "(<", "'<' has 3 parts here"),
    ("(< (+ (n)) 3)", "(q)", "(p)", "(+", "'+' has 1 parts here"),
]  # fmt: skip


@pytest.mark.parametrize(("guard", "effect", "goal", "place", "what"), REFUSED)
def test_what_is_wrong_or_not_bounded_is_refused_at_its_place(guard, effect, goal, place, what):
    domain = STEP.format(guard, effect)
    with pytest.raises(InputError) as caught:
        load_pddl(ONE.format(0).replace("(:goal (p))", f"(:goal {goal})"), domain)
    assert f"domain:1:{domain.index(place) + 1}: {what}" in str(caught.value)


def test_a_number_that_changes_has_a_first_value_and_others_may_be_undefined():
    domain = """(define (domain d) (:types t) (:predicates (at ?x - t)) (:functions (road ?x ?y - t) (fuel))
      (:action go :parameters (?x ?y - t)
      :precondition (and (at ?x) (>= (fuel) (road ?x ?y))) :effect (and (not (at ?x)) (at ?y) (decrease (fuel) (road ?x ?y)))))"""
    problem = "(define (problem p) (:domain d) (:objects a b - t) (:init (at a) (= (road a b) 2) {}) (:goal (at b)))"
    world = load_pddl(problem.format("(= (fuel) 5)"), domain)
    assert world.model.actions == ("go(a,b)",)
    with pytest.raises(InputError, match=r"'fuel' is changed here, but has no value in :init. Write \(= \(fuel\) 0\)"):
        load_pddl(problem.format(""), domain)
    with pytest.raises(InputError, match="'fuel' has two values in :init"):
        load_pddl(problem.format("(= (fuel) 5) (= (fuel) 6)"), domain)


def test_a_task_declares_bounds_and_leaving_them_is_an_error(tmp_path):
    (tmp_path / "domain.pddl").write_text(STEP.format("(p)", "(increase (n) 1)"))
    (tmp_path / "problem.pddl").write_text(ONE.format(0).replace("(:goal (p))", "(:goal (= (n) 3))"))
    task = tmp_path / "task.toml"
    head = 'model = "problem.pddl"\n'
    with pytest.raises(InputError, match="no bound follows"):
        polvet.load(tmp_path / "problem.pddl")
    task.write_text(head + "[bounds]\nn = [0, 5]\n")
    loaded = polvet.load(task)
    assert polvet.load(loaded.save(tmp_path / "saved" / "task.toml")).labels == ("a",)
    with pytest.raises(ModelError, match="6"):
        loaded.explore()
    assert polvet.load(task, out_of_bounds="disable").explore().states == 6
    for wrong, what in (("n = [1, 5]", "is 0 at first"), ("k = [0, 5]", "no number 'k'"), ("n = [5, 0]", "no least")):
        task.write_text(f"{head}[bounds]\n{wrong}\n")
        with pytest.raises(InputError, match=what):
            polvet.load(task)


def test_conditions_and_inputs_read_numbers_and_never_costs(tmp_path):
    (tmp_path / "domain.pddl").write_text(JUGS)
    (tmp_path / "problem.pddl").write_text(TWO)
    problem = tmp_path / "problem.pddl"
    fails = [
        polvet.load(problem, fail=text).model_task.fail
        for text in ("(> (amount a) 2)", "'amount(a)' > 2", "amount(a) > capacity(a) - 1")
    ]
    states = [polvet.load(problem, fail=text).explore().states for text in ("(> (amount a) 2)", "amount(a) > 2")]
    assert states == [264, 264]
    assert len({str(one) for one in fails}) <= 3
    for text in ("(> (total-cost) 3)", "'total-cost' > 3"):
        with pytest.raises(InputError, match="'total-cost' is what steps cost"):
            polvet.load(problem, fail=text)
    task = tmp_path / "task.toml"
    task.write_text(
        'model = "problem.pddl"\n[policy]\ninputs = ["(amount a)", "(- (capacity b) (amount b))", "score"]\n'
    )
    policy = polvet.load(task).policy(lambda row: "fill(a)")
    assert policy.inputs == ("(amount a)", "(- (capacity b) (amount b))", "score")


def test_states_with_numbers_are_read_as_they_are_shown(tmp_path):
    (tmp_path / "domain.pddl").write_text(JUGS)
    (tmp_path / "problem.pddl").write_text(TWO)
    task = load_task(tmp_path / "problem.pddl")
    (start,) = Semantics(task.network).initial_states()
    shown = "(have x) (have y) (= (amount a) 0) (= (amount b) 1) (= (score) 0) (= (fuel) 5)"
    assert show_state(task.network, start) == shown
    assert parse_state(task, shown, Where("--state")) == start
    for wrong, what in (
        (shown.replace(" (= (fuel) 5)", ""), r"'fuel' has no value. Add \(= \(fuel\) 0\)"),
        (shown.replace("fuel", "fule"), "'fule' is no number that changes. Did you mean 'fuel'"),
        (shown.replace("(fuel) 5", "(fuel) 9"), "9"),
    ):
        with pytest.raises(InputError, match=what):
            parse_state(task, wrong, Where("--state"))


def test_policies_may_choose_schemas(tmp_path):
    (tmp_path / "domain.pddl").write_text(JUGS)
    (tmp_path / "problem.pddl").write_text(TWO)
    (tmp_path / "task.toml").write_text('model = "problem.pddl"\nactions = "schemas"\nfail = "(= (amount a) 3)"\n')
    task = polvet.load(tmp_path / "task.toml", mode="raw")
    assert task.labels == ("fill", "pour", "pick", "burn")
    assert task.explore().states == polvet.load(tmp_path / "problem.pddl").explore().states
    # The world chooses the objects: to fill may mean either jug; to pick coins touches none.
    assert task.policy(lambda row: "fill").verify().verdict.value == "unsafe"
    assert task.policy(lambda row: "pick").verify().verdict.value == "safe"
    assert polvet.load(task.save(tmp_path / "saved" / "task.toml")).labels == task.labels


def test_costs_are_what_steps_cost(tmp_path):
    (tmp_path / "domain.pddl").write_text(STEP.format("(not (q))", "(and (oneof (q) (and)) (increase (n) (m)))"))
    (tmp_path / "problem.pddl").write_text(ONE.format(0).replace("(:goal (p))", "(:goal (q))"))
    task = polvet.load(tmp_path / "problem.pddl")
    assert task.check('R{"n"}max=? [ F q ]').value == pytest.approx(4)  # two tosses of a coin, at 2 each


numbers = st.sampled_from(["0", "1", "2", "(n)", "(m)", "(+ (n) 1)", "(- (n) (m))", "(* (m) 2)", "(v k)", "(v ?x)"])
tests = st.tuples(st.sampled_from(["<", "<=", "=", ">", ">="]), numbers, numbers).map(lambda one: f"({' '.join(one)})")
atoms = st.sampled_from(["(p)", "(not (q))", "(r ?x)"])
conditions = st.recursive(
    tests | atoms,
    lambda inner: (
        st.tuples(st.sampled_from(["and", "or"]), inner, inner).map(lambda one: f"({' '.join(one)})")
        | inner.map(lambda one: f"(not {one})")
    ),
    max_leaves=3,
)
shifts = st.tuples(
    st.sampled_from(["increase", "decrease"]), st.sampled_from(["(n)", "(v ?x)"]), st.sampled_from(["1", "2", "(m)"])
)
changes = shifts.map(lambda one: f"({' '.join(one)})") | st.sampled_from(
    ["(p)", "(not (p))", "(q)", "(assign (m) 1)", "(not (r ?x))"]
)
effects = st.recursive(
    changes,
    lambda inner: (
        st.tuples(st.sampled_from(["and", "oneof"]), inner, inner).map(lambda one: f"({' '.join(one)})")
        | st.tuples(conditions, inner).map(lambda one: f"(when {one[0]} {one[1]})")
        | inner.map(lambda one: f"(forall (?x) {one})")
    ),
    max_leaves=4,
)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(conditions, effects, conditions, effects)
def test_random_domains_with_numbers_mean_what_the_naive_interpreter_does(one, first, other, second):
    domain = f"""(define (domain d) (:constants k l) (:predicates (p) (q) (r ?x)) (:functions (n) (m) (v ?x))
      (:action a :parameters (?x) :precondition (and {one} (< (n) 9) (> (n) -9) (< (v ?x) 9)) :effect {first})
      (:action b :parameters (?x) :precondition (and {other} (> (v ?x) -9)) :effect {second}))"""
    problem = "(define (problem x) (:domain d) (:init (p) (r k) (= (n) 0) (= (m) 2) (= (v k) 1) (= (v l) 0)) (:goal (> (n) 3)))"
    note(domain)
    declared = Reading({"n": (-999, 999), "v": (-999, 999)})
    agree(domain, problem, limit=12, reading=declared)
    try:
        world = load_pddl(problem, domain)
    except InputError as refused:
        assert "no bound follows" in str(refused)  # noqa: PT017
        return
    for state in oracle.World(domain, problem).explore(40):
        for fluent, (low, high) in world.encoding.bounds.ranges.items():
            assert all(
                low <= one[2] <= high for one in state if one[0] == "=" and one[1] == (fluent.function, *fluent.terms)
            )
