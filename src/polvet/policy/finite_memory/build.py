"""Building a finite-memory policy in Python, edge by edge."""

from __future__ import annotations

import re
from collections.abc import Mapping

from polvet.errors import InputError, Where
from polvet.policy.finite_memory.fmp import (
    ALWAYS,
    OPERATORS,
    Atom,
    Choice,
    Conjunction,
    Edge,
    EdgeId,
    Effect,
    FiniteMemoryPolicy,
    Guard,
    Variable,
    check_fmp,
)

Amount = int | Effect | tuple[int | None, int | None]
_ATOM = re.compile(r"\s*([^\s<>=!&|]+)\s*(>=|<=|==|!=|>|<|=)\s*(-?\d+)\s*")


class Builder:
    """Collects variables and edges; `build` returns the policy. Control states appear by being named.

    >>> builder = Builder("q0")
    >>> builder.edge("q0", "q0", x=-1, y=+2).edge("q0", "q1", guard="x == 0")  # doctest: +ELLIPSIS
    <polvet...Builder object at ...>
    >>> [edge.id for edge in builder.build().edges]
    [0, 1]
    """

    def __init__(self, *initial: str, semantics: str = "deterministic", name: str = "fmp") -> None:
        self._initial, self._semantics, self._name = initial, semantics, name
        self._variables: dict[str, Variable] = {}
        self._states: dict[str, None] = dict.fromkeys(initial)
        self._edges: list[Edge] = []

    def variable(self, name: str, lower: int | None = 0, upper: int | None = None) -> Builder:
        """Declare a variable with bounds and return the builder; undeclared ones are bounded below by 0."""
        self._variables[name] = Variable(name, lower, upper)
        return self

    def edge(
        self,
        source: str,
        target: str,
        effects: Mapping[str, Amount] | None = None,
        *,
        guard: str | Guard = ALWAYS,
        action: str | None = None,
        id: EdgeId | None = None,
        **more: Amount,
    ) -> Builder:
        """Add an edge with one choice and return the builder; `guard` is a Guard or text such as `x >= 1 && y == 0`."""
        choice = Choice({name: _effect(amount) for name, amount in {**(effects or {}), **more}.items()}, action)
        return self.edge_with_choices(source, target, choice, guard=guard, id=id)

    def edge_with_choices(
        self, source: str, target: str, *choices: Choice, guard: str | Guard = ALWAYS, id: EdgeId | None = None
    ) -> Builder:
        """Add an edge with several choices and return the builder."""
        formula = parse_guard(guard, Where(self._name)) if isinstance(guard, str) else guard
        self._states.update(dict.fromkeys((source, target)))
        for choice in choices:
            for name in choice.effects:
                self._variables.setdefault(name, Variable(name))
        for atoms in formula:
            for atom in atoms:
                self._variables.setdefault(atom.variable, Variable(atom.variable))
        self._edges.append(Edge(len(self._edges) if id is None else id, source, target, choices, formula))
        return self

    def build(self) -> FiniteMemoryPolicy:
        """Return the policy, checked; without a named initial control state all are initial."""
        states = tuple(self._states)
        variables = tuple(self._variables.values())
        initial = self._initial or states
        policy = FiniteMemoryPolicy(variables, states, initial, tuple(self._edges), self._semantics, self._name)
        return check_fmp(policy)


def _effect(amount: Amount) -> Effect:
    if isinstance(amount, Effect):
        return amount
    return Effect(*amount) if isinstance(amount, tuple) else Effect.exactly(amount)


def parse_guard(text: str, where: Where) -> Guard:
    """Return the guard written as `x >= 1 && y == 0 || z < 3`: a disjunction of conjunctions of comparisons.

    >>> parse_guard("x>=1 && y=0", Where("here"))
    ((Atom(variable='x', operator='>=', value=1), Atom(variable='y', operator='==', value=0)),)
    """
    if not text.strip() or text.strip() == "true":
        return ALWAYS
    return tuple(_conjunction(part, where) for part in re.split(r"\|\||\bor\b", text))


def _conjunction(text: str, where: Where) -> Conjunction:
    atoms = []
    for part in re.split(r"&&|\band\b", text):
        match = _ATOM.fullmatch(part)
        if match is None:
            raise InputError(
                f"'{part.strip()}' is not a comparison of a variable with an integer.",
                where,
                f"Write NAME OPERATOR INTEGER; operators: {' '.join(OPERATORS)}.",
            )
        name, operator, value = match.groups()
        atoms.append(Atom(name, "==" if operator == "=" else operator, int(value)))
    return tuple(atoms)
