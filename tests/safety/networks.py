"""Random small networks with silent operators, probabilities, goals and dead ends; and the attractor by the interpreter."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

from polvet.jani.write import dump_model
from polvet.load import load_task
from polvet.model.automata import (
    Assignment,
    Automaton,
    Composition,
    Destination,
    Edge,
    Instance,
    Location,
    Model,
    ModelType,
    VariableDeclaration,
)  # fmt: skip
from polvet.model.expressions import Binary, Expression, IntLiteral, Name, RealLiteral, conjunction
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task, TaskOptions
from polvet.model.types import IntType

TOP = 4


def random_model(rng: random.Random) -> Model:
    """Return a model over x and y in 0..4 with up to three labels and silent edges; no edge leaves the bounds."""
    labels = ("a", "b", "c")[: rng.randint(1, 3)]
    edges = []
    for _ in range(rng.randint(2, 9)):
        action = None if rng.random() < 0.2 else rng.choice(labels)
        edges.append(_edge(rng, action))
    automaton = Automaton("m", (Location("l"),), ("l",), tuple(edges))
    bounded = IntType(IntLiteral(0), IntLiteral(TOP))
    variables = tuple(VariableDeclaration(name, bounded, IntLiteral(rng.randint(0, TOP))) for name in ("x", "y"))
    return Model("random", ModelType.MDP, (automaton,), Composition((Instance("m"),)), labels, variables=variables)


def _edge(rng: random.Random, action: str | None) -> Edge:
    guard = conjunction(*(_comparison(rng) for _ in range(rng.choice([0, 1, 1, 2]))))
    count = rng.choice([1, 1, 2, 3])
    destinations = tuple(
        Destination("l", RealLiteral(Fraction(1, count)), tuple(_assignments(rng))) for _ in range(count)
    )
    return Edge("l", action, guard, destinations)


def _comparison(rng: random.Random) -> Expression:
    return Binary(rng.choice(["≤", "<", "=", "≠"]), Name(rng.choice("xy")), IntLiteral(rng.randint(0, TOP)))


def _assignments(rng: random.Random) -> list[Assignment]:
    found = []
    for name in rng.sample("xy", rng.choice([0, 1, 1, 2])):
        step = rng.choice([-2, -1, 1, 1, 2])
        moved = Binary("+", Name(name), IntLiteral(step))
        bounded = Binary("max", IntLiteral(0), Binary("min", IntLiteral(TOP), moved))
        value = rng.choice([bounded, bounded, IntLiteral(rng.randint(0, TOP)), Name(rng.choice("xy"))])
        found.append(Assignment(Name(name), value))
    return found


def random_task(rng: random.Random, folder: Path) -> tuple[Task, Path]:
    """Return a random task, and the model's file."""
    path = folder / "random.jani"
    path.write_text(dump_model(random_model(rng)), encoding="utf-8")
    fail = f"x == {rng.randint(0, TOP)} && y >= {rng.randint(0, TOP)}"
    goal = f"y == {rng.randint(0, TOP)} && x >= 3" if rng.random() < 0.5 else None
    return load_task(path, TaskOptions(fail=fail, goal=goal)), path


def all_states(task: Task) -> list[State]:
    """Return every state, reachable or not."""
    return [(x, y) if len(task.network.variables) == 2 else (x, y, 0) for x in range(TOP + 1) for y in range(TOP + 1)]


def unsafe_states(task: Task, states: list[State]) -> set[State]:
    """Return the attractor of fail, by the slow interpreter: the definition of `unsafe`, word for word."""
    semantics = Semantics(task.network)
    fail, goal = semantics.compile(task.fail), semantics.compile(task.goal)
    unsafe = {state for state in states if fail(state)}

    def loses(state: State) -> bool:
        if goal(state) or not semantics.moves(state):
            return False
        labels = semantics.applicable(state) or (None,)
        return all(semantics.outcomes(state, label) & unsafe for label in labels)

    while more := {state for state in states if state not in unsafe and loses(state)}:
        unsafe |= more
    return unsafe
