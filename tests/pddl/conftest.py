"""States of a PDDL model as sets of atoms, and where the benchmarks are."""

import json

import pytest

from polvet.model.instantiate import instantiate
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
        self.names = [
            _tuple(variable.name) for variable in self.semantics.network.variables if not variable.is_location
        ]
        init = {(atom.predicate, *atom.terms) for atom in world.grounding.reach.problem.init}
        self.fixed = frozenset(init - set(self.names))

    def show(self, state):
        """Return the state as a set of atoms."""
        return self.fixed | {name for name, value in zip(self.names, state, strict=True) if value}

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
        return tuple(name in atoms for name in self.names)


def _tuple(name):
    predicate, _, rest = name.partition("(")
    return (predicate, *(rest.removesuffix(")").split(",") if rest else ()))
