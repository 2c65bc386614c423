"""States of a PDDL model as sets of atoms, and where the benchmarks are."""

import json

import pytest

from polvet.model.instantiate import instantiate
from polvet.model.network import Kind
from polvet.model.semantics import Semantics
from polvet.pddl.translate import World
from tests.conftest import BENCHMARKS

FOND = BENCHMARKS / "fond-pddl"
needs_benchmarks = pytest.mark.skipif(not FOND.is_dir(), reason="the benchmarks are not here")


def references():
    """Return the problems of the benchmarks with their figures."""
    return json.loads((FOND / "reference.json").read_text()) if FOND.is_dir() else []


class Atoms:
    """A world in the slow interpreter, with states as sets of atoms: those that never change belong to them."""

    def __init__(self, world: World):
        self.world = world
        self.semantics = Semantics(instantiate(world.model))
        self.variables = [
            (_tuple(variable.name), None if variable.values is None else [_tuple(name) for name in variable.values])
            for variable in self.semantics.network.variables
        ]
        self.numbers = [
            _tuple(variable.name) if variable.kind is Kind.INT and variable.values is None else None
            for variable in self.semantics.network.variables
        ]
        self.names = [name for own, values in self.variables for name in ([own] if values is None else values)]
        problem = world.grounding.reach.problem
        init = {(atom.predicate, *atom.terms) for atom in problem.init}
        self.fixed = frozenset(init - set(self.names)) | {
            ("=", (fluent.function, *fluent.terms), value)
            for fluent, value in problem.numbers.items()
            if fluent not in world.grounding.fluents
        }

    def show(self, state):
        """Return the state as a set of atoms."""
        true = set()
        for (name, values), number, value in zip(self.variables, self.numbers, state, strict=True):
            if number is not None:
                true.add(("=", number, value))
            elif values is not None:
                true.add(values[value])
            elif value:
                true.add(name)
        return self.fixed | (true - {("none",)})

    def initial(self):
        """Return the initial states."""
        return list(self.semantics.initial_states())

    def moves(self, state):
        """Return the successors of each label, as sets of atoms, with their probabilities."""
        found = {}
        for move in self.semantics.moves(state):
            assert move.label not in found
            successors = found[move.label] = {}
            for outcome in move.outcomes:
                after = self.show(outcome.state)
                successors[after] = successors.get(after, 0) + outcome.probability
        return found

    def state(self, atoms):
        """Return the state in which these atoms hold."""
        numbers = {atom[1]: atom[2] for atom in atoms if atom[0] == "="}
        return tuple(
            numbers[name]
            if number is not None
            else name in atoms
            if values is None
            else next((k for k, one in enumerate(values) if one in atoms), 0)
            for (name, values), number in zip(self.variables, self.numbers, strict=True)
        )


def _tuple(name):
    predicate, _, rest = name.partition("(")
    return (predicate, *(rest.removesuffix(")").split(",") if rest else ()))
