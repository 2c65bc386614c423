"""Where the benchmarks are, and a plain exploration with the slow interpreter."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from polvet.errors import Where
from polvet.model.automata import Model
from polvet.model.expressions import Name
from polvet.model.instantiate import instantiate
from polvet.model.network import Network
from polvet.model.semantics import Move, Semantics, State
from polvet.prism import parse_program

BENCHMARKS = Path(__file__).parents[3] / "shared" / "benchmarks"
needs_benchmarks = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmarks are not here")


def program_files() -> list[Path]:
    """Return every PRISM program of the benchmarks."""
    return sorted(path for path in BENCHMARKS.rglob("*") if path.suffix in (".prism", ".pm", ".nm"))


def constants_of(text: str) -> dict[str, bool | int]:
    """Return the values in `N=4,reset=true`."""
    pairs = (part.split("=") for part in text.split(",") if part)
    return {name: value == "true" if value in ("true", "false") else int(value) for name, value in pairs}


@dataclass
class Explored:
    """All reachable states with their moves."""

    network: Network
    semantics: Semantics
    moves: dict[State, list[Move]]

    def value(self, name: str, state: State) -> object:
        """Return the value of a (transient) variable in a state."""
        return self.semantics.compile(self.network.resolve(Name(name)))(state)

    def earned(self, name: str, move: Move) -> Fraction:
        """Return the expected value of a transient variable on the way of a move."""
        names = [variable.name for variable in self.network.scratch]
        if name not in names:
            return Fraction(0)
        place = names.index(name)
        return sum((one.probability * Fraction(one.scratch[place]) for one in move.outcomes), Fraction(0))


def explored(model: Model, constants: dict[str, bool | int] | None = None) -> Explored:
    """Return everything reachable in the model, by the slow interpreter."""
    network = instantiate(model, constants or {})
    semantics = Semantics(network)
    moves: dict[State, list[Move]] = {}
    pending = list(semantics.initial_states())
    while pending:
        state = pending.pop()
        if state not in moves:
            moves[state] = semantics.moves(state)
            pending += [outcome.state for move in moves[state] for outcome in move.outcomes]
    return Explored(network, semantics, moves)


def program(text: str):
    """Return the program that the text is."""
    return parse_program(text, Where("test.prism"))
