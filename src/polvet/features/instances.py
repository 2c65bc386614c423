"""A problem of PDDL as states and steps: a state is an integer with a bit for each atom that may change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from polvet.errors import InputError, Where
from polvet.features.structure import Rows, Structure, structure_of
from polvet.pddl.bounds import read_fluents
from polvet.pddl.ground import Grounding, ground, outcomes_of
from polvet.pddl.parse import parse_problem
from polvet.pddl.syntax import TRUE, And, Atom, Condition, Domain, Not, Or, Problem

State = int
Test = Callable[[State], bool]
Step = Callable[[State], State]


@dataclass(frozen=True, slots=True)
class Instance:
    """A problem, ground: its atoms, its actions as tests and steps, its goal, and what features may look at."""

    name: str
    text: str = field(repr=False)
    problem: Problem = field(repr=False)
    atoms: tuple[Atom, ...] = field(repr=False)
    initial: State = field(repr=False)
    is_goal: Test = field(repr=False)
    actions: tuple[tuple[str, Test, tuple[Step, ...]], ...] = field(repr=False)  # label, applicable, outcomes
    structure: Structure = field(repr=False)
    constant: dict[str, Rows] = field(repr=False)  # relations that hold in every state, by predicate

    def moves(self, state: State) -> Iterator[tuple[str, tuple[State, ...]]]:
        """Yield each applicable action with the states that it may lead to."""
        for label, applicable, outcomes in self.actions:
            if applicable(state):
                yield label, tuple(dict.fromkeys(outcome(state) for outcome in outcomes))

    def true_atoms(self, state: State) -> tuple[Atom, ...]:
        """Return the atoms, of those that may change, that hold in the state."""
        return tuple(atom for number, atom in enumerate(self.atoms) if state >> number & 1)

    def show(self, state: State) -> str:
        """Return the state in PDDL; what never changes is left out."""
        return " ".join(shown(atom) for atom in self.true_atoms(state)) or "(nothing)"


def shown(atom: Atom) -> str:
    """Return the atom as PDDL writes it."""
    return f"({' '.join((atom.predicate, *atom.terms))})"


def read_instance(text: str, where: Where, domain: Domain) -> Instance:
    """Return the instance that the text is a problem of."""
    problem = parse_problem(text, where, domain)
    grounding = ground(domain, problem)
    number = {atom: index for index, atom in enumerate(grounding.atoms)}
    outcomes = [outcomes_of(action) for action in grounding.actions]
    if read := read_fluents(grounding, outcomes):
        what = (
            f"'{min(map(str, read))}' is a number that conditions read: general policies are followed over atoms alone."
        )
        raise InputError(what, where, "Model it with predicates.")
    actions = tuple(
        (action.label, _test(action.guard, number), tuple(_step(one.values, number) for one in mine))
        for action, mine in zip(grounding.actions, outcomes, strict=True)
    )
    structure = structure_of(problem.words, problem.goal)
    constant = structure.rows(atom for atom in problem.init if atom not in number)
    return Instance(
        where.file,
        text,
        problem,
        grounding.atoms,
        _initial(problem, grounding),
        _test(grounding.condition(problem.goal), number),
        actions,
        structure,
        constant,
    )


def _initial(problem: Problem, grounding: Grounding) -> State:
    return sum(1 << index for index, atom in enumerate(grounding.atoms) if atom in problem.init)


def _test(condition: Condition, number: dict[Atom, int]) -> Test:
    """Return the ground condition as a test of states; conjunctions of literals are two masks."""
    match condition:
        case Atom():
            bit = 1 << number[condition]
            return lambda state: bool(state & bit)
        case Not(part):
            inner = _test(part, number)
            return lambda state: not inner(state)
        case And(parts):
            true = false = 0
            others = []
            for part in parts:
                if isinstance(part, Atom):
                    true |= 1 << number[part]
                elif isinstance(part, Not) and isinstance(part.part, Atom):
                    false |= 1 << number[part.part]
                else:
                    others.append(_test(part, number))
            if not others:
                return lambda state: state & true == true and not state & false
            return lambda state: state & true == true and not state & false and all(test(state) for test in others)
        case Or(parts):
            tests = [_test(part, number) for part in parts]
            return lambda state: any(test(state) for test in tests)
    raise AssertionError("a ground condition has no quantifier")


def _step(values: tuple[tuple[Atom, Condition], ...], number: dict[Atom, int]) -> Step:
    """Return the step of one outcome, which gives atoms the value that a condition has in the state before."""
    added = deleted = 0
    conditional: list[tuple[int, Test]] = []
    for atom, condition in values:
        bit = 1 << number[atom]
        deleted |= bit
        if condition == TRUE:
            added |= bit
        elif condition != Or(()):
            conditional.append((bit, _test(condition, number)))
    if not conditional:
        return lambda state: state & ~deleted | added

    def step(state: State) -> State:
        return state & ~deleted | added | sum(bit for bit, test in conditional if test(state))

    return step
