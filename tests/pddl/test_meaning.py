"""The meaning of domains: the model does what a naive interpreter does, on small domains by hand and at random."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from polvet.errors import InputError, LimitReached
from polvet.pddl import load_pddl, reachable
from tests.pddl import oracle
from tests.pddl.conftest import Atoms

HEAD = "(define (domain d) (:types a b - t t u) (:constants k - a m n - b o - u) (:predicates (p) (q ?x) (r ?x - t ?y) (s ?x ?y)) "
PROBLEM = "(define (problem x) (:domain d) (:init {}) (:goal {}))"


def agree(domain, problem, limit=60):
    """Compare the model with the naive interpreter, state by state; return the model's world."""
    world, naive = load_pddl(problem, domain), oracle.World(domain, problem)
    atoms = Atoms(world)
    assert [atoms.show(state) for state in atoms.initial()] == [naive.init]
    is_goal = atoms.semantics.compile(goal_of(world))
    for state, moves in naive.explore(limit).items():
        assert atoms.moves(atoms.state(state)) == moves
        assert bool(is_goal(atoms.state(state))) == naive.holds(naive.goal, {}, state)
    return world


def goal_of(world):
    return world.model.property_named("goal").expression.objective.goal.condition


EFFECTS = {
    "delete-then-add": "(and (p) (not (p)))",
    "add-then-delete": "(and (not (p)) (p))",
    "read-before": "(and (not (p)) (when (p) (q k)) (when (not (p)) (q m)))",
    "swap": "(and (when (q m) (and (not (q m)) (q n))) (when (q n) (and (not (q n)) (q m))))",
    "choice-under-when": "(when (p) (oneof (q m) (q n) (and)))",
    "when-under-choice": "(oneof (when (p) (q m)) (when (not (p)) (q n)) (not (q m)))",
    "side-by-side": "(and (oneof (p) (not (p))) (oneof (q m) (and)) (oneof (q n) (not (q n))))",
    "conflicting-choices": "(and (oneof (p) (q m)) (oneof (not (p)) (not (q m))))",
    "nested": "(oneof (p) (oneof (q m) (oneof (q n) (and (p) (q n)))))",
    "every": "(forall (?x - t) (oneof (q ?x) (not (q ?x))))",
    "every-when": "(forall (?x - b ?y) (when (and (q ?x) (not (= ?x ?y))) (and (r ?x ?y) (not (q ?x)))))",
    "probabilities": "(probabilistic 0.3 (p) 1/5 (probabilistic 0.5 (q m)) 0 (q n))",
    "certain": "(probabilistic 1 (p))",
    "mixed": "(and (probabilistic 0.25 (when (p) (oneof (q m) (not (p))))) (oneof (p) (and)))",
    "empty-choice": "(oneof (and) (p))",
    "hidden-variable": "(forall (?x - b) (when (exists (?x - a) (q ?x)) (q ?x)))",
}


@pytest.mark.parametrize("effect", EFFECTS.values(), ids=EFFECTS)
@pytest.mark.parametrize("init", ["(p)", "(q k) (q m)", "(p) (q n) (s m n)"])
def test_effects_mean_what_the_naive_interpreter_does(effect, init):
    domain = f"{HEAD} (:action act :effect {effect}) (:action clear :precondition (q m) :effect (not (q m))))"
    agree(domain, PROBLEM.format(init, "(and (p) (q m))"))


CONDITIONS = {
    "empty": "()",
    "or": "(or (p) (q ?x))",
    "none-of-or": "(or)",
    "not-or": "(not (or (p) (q ?x)))",
    "imply": "(imply (q ?x) (p))",
    "exists": "(exists (?y - t) (and (s ?x ?y) (not (q ?y))))",
    "forall": "(forall (?y - b) (imply (s ?x ?y) (q ?y)))",
    "forall-nothing": "(forall (?y - b) (or (q ?y) (not (q ?y))))",
    "nested": "(exists (?y) (forall (?z - b) (or (s ?y ?z) (q ?z))))",
    "equal": "(or (= ?x k) (= ?x m))",
    "unequal": "(and (not (= ?x k)) (exists (?x) (= ?x o)))",
    "shadowed": "(and (q ?x) (exists (?x - u) (not (q ?x))))",
    "static": "(and (s ?x m) (not (s ?x n)))",
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_conditions_mean_what_the_naive_interpreter_does(condition):
    domain = f"""{HEAD} (:action act :parameters (?x) :precondition {condition} :effect (and (q ?x) (oneof (p) (and))))
        (:action undo :parameters (?x - b) :precondition (q ?x) :effect (and (not (q ?x)) (not (p)))))"""
    agree(
        domain,
        PROBLEM.format(
            "(q m) (s m n) (s k m) (s o m)", condition.replace("?x", "m") if "(?x" not in condition else "(p)"
        ),
    )


def test_types_choose_the_objects():
    domain = f"""{HEAD} (:action one :parameters (?x - a ?y - (either b u)) :effect (r ?x ?y))
        (:action two :parameters (?x - t) :precondition (r ?x ?x) :effect (p)) (:action three :parameters (?x - u) :effect (q ?x)))"""
    world = agree(domain, PROBLEM.format("", "(p)"))
    assert world.model.actions == ("one(k,m)", "one(k,n)", "one(k,o)", "three(o)")


def test_what_never_changes_is_folded_and_what_is_never_applicable_dropped():
    domain = f"""{HEAD} (:action go :parameters (?x ?y) :precondition (and (q ?x) (s ?x ?y)) :effect (and (not (q ?x)) (q ?y)))
        (:action never :precondition (and (p) (s m o)) :effect (not (p))))"""
    world = agree(domain, PROBLEM.format("(p) (q m) (s m n) (s n m) (s o m)", "(q n)"))
    assert world.model.actions == ("go(m,n)", "go(n,m)")
    assert [(variable.name, variable.transient) for variable in world.model.variables] == [
        ("q(*)", False), ("q(m)", True), ("q(n)", True),
    ]  # fmt: skip


def test_a_schema_with_ten_parameters_is_joined_and_not_enumerated():
    names = [f"c{k}" for k in range(60)]
    chain = " ".join(f"(next {one} {other})" for one, other in pairwise(names))
    variables = [f"?x{k}" for k in range(10)]
    wanted = " ".join(f"(next {one} {other})" for one, other in pairwise(variables))
    domain = f"""(define (domain d) (:predicates (next ?x ?y) (at ?x))
        (:action jump :parameters ({" ".join(variables)}) :precondition (and (at ?x0) {wanted}) :effect (and (not (at ?x0)) (at ?x9))))"""
    problem = f"(define (problem x) (:domain d) (:objects {' '.join(names)}) (:init (at c0) {chain}) (:goal (at c54)))"
    world = load_pddl(problem, domain)
    assert len(world.model.actions) == 6
    assert world.model.actions[-1] == f"jump({','.join(names[45:55])})"


def test_too_many_ground_actions_and_outcomes_are_refused(monkeypatch):
    monkeypatch.setattr(reachable, "MAX_GROUND_ACTIONS", 5)
    with pytest.raises(LimitReached, match="more than 5 ground actions, the last of the schema 'act'"):
        load_pddl(PROBLEM.format("", "(p)"), f"{HEAD} (:action act :parameters (?x ?y) :effect (q ?x)))")
    effect = " ".join(f"(oneof (q o{k}) (and))" for k in range(14))
    names = " ".join(f"o{k}" for k in range(14))
    domain = f"(define (domain d) (:predicates (q ?x)) (:constants {names}) (:action a :effect (and {effect})))"
    with pytest.raises(InputError, match=r"^domain:1:\d+: a has more than 4096 outcomes"):
        load_pddl("(define (problem x) (:domain d) (:init) (:goal (q o1)))", domain)


def test_equal_outcomes_are_one_and_probabilities_add_up():
    world = agree(
        f"{HEAD} (:action a :precondition (p) :effect (oneof (q m) (and (q m)) (and (q m) (p)) (q n))))",
        PROBLEM.format("(p)", "(q m)"),
    )
    (edge,) = world.model.automata[0].edges
    assert [one.probability.value for one in edge.destinations] == [Fraction(3, 4), Fraction(1, 4)]


@st.composite
def terms(draw, scope):
    return draw(st.sampled_from([*scope, *scope, "k", "m", "n", "o"]))


@st.composite
def atoms(draw, scope, predicates=("p", "q", "q", "r", "s")):
    name = draw(st.sampled_from(predicates))
    return "(" + " ".join([name, *(draw(terms(scope)) for _ in range({"p": 0, "q": 1, "r": 2, "s": 2}[name]))]) + ")"


@st.composite
def conditions(draw, scope, depth=3):
    kind = (
        draw(st.sampled_from(["atom", "atom", "not", "and", "or", "imply", "exists", "forall", "="]))
        if depth
        else "atom"
    )
    inner = conditions(scope, depth - 1) if depth else None
    match kind:
        case "not":
            return f"(not {draw(inner)})"
        case "and" | "or":
            return f"({kind} {' '.join(draw(st.lists(inner, max_size=3)))})"
        case "imply":
            return f"(imply {draw(inner)} {draw(inner)})"
        case "exists" | "forall":
            variable = draw(st.sampled_from(["?x", "?z", "?w"]))
            kind_of = draw(st.sampled_from(["", " - b", " - t", " - (either a u)"]))
            return f"({kind} ({variable}{kind_of}) {draw(conditions((*scope, variable), depth - 1))})"
        case "=":
            return f"(= {draw(terms(scope))} {draw(terms(scope))})"
    # Objects must be of the predicate's type, so `r` is left to variables here.
    return draw(atoms(scope, ("p", "q", "q", "s")))


@st.composite
def effects(draw, scope, depth=3):
    kind = (
        draw(st.sampled_from(["atom", "atom", "not", "and", "when", "oneof", "forall", "probabilistic"]))
        if depth
        else "atom"
    )
    inner = effects(scope, depth - 1) if depth else None
    match kind:
        case "not":
            return f"(not {draw(atoms(scope, ('p', 'q', 'q')))})"
        case "and" | "oneof":
            return f"({kind} {' '.join(draw(st.lists(inner, min_size=1, max_size=3)))})"
        case "when":
            return f"(when {draw(conditions(scope, depth - 1))} {draw(inner)})"
        case "forall":
            variable = draw(st.sampled_from(["?x", "?z"]))
            return f"(forall ({variable} - b) {draw(effects((*scope, variable), depth - 1))})"
        case "probabilistic":
            return f"(probabilistic 0.25 {draw(inner)} 1/3 {draw(inner)})"
    return draw(atoms(scope, ("p", "q", "q")))


@st.composite
def domains(draw):
    schemas = []
    for name in ("first", "second")[: draw(st.integers(1, 2))]:
        parameters = draw(st.sampled_from(["", "?x", "?x - b", "?x - t ?y"]))
        scope = tuple(word for word in parameters.split() if word.startswith("?"))
        precondition, effect = draw(conditions(scope)), draw(effects(scope))
        schemas.append(f"(:action {name} :parameters ({parameters}) :precondition {precondition} :effect {effect})")
    return HEAD + "\n".join(schemas) + ")"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(domains(), st.sets(atoms((), ("p", "q", "s", "s")), max_size=5), conditions((), 2))
def test_random_domains_mean_what_the_naive_interpreter_does(domain, init, goal):
    problem = PROBLEM.format(" ".join(sorted(init)), goal)
    note(domain)
    note(problem)
    agree(domain, problem, limit=20)
