"""Z3 in this process, and the one place that speaks to it: terms, and questions within a budget.

Terms are Z3's own; arithmetic and comparisons of Python build larger ones. `solvers/z3_worker.py` is Z3 in a process of its own, for
questions that must be killed at their limit. What Z3 finds is a proposal: callers check it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from polvet.budget import UNLIMITED, Budget

Term: TypeAlias = Any
Answer: TypeAlias = Literal["sat", "unsat", "unknown"]
LONGEST = 2**30 / 1000
"""Seconds: what Z3 takes as a limit fits into 31 bits of milliseconds."""


def _z3() -> Any:
    import z3

    return z3


def integer(name: str) -> Term:
    """Return an integer unknown."""
    return _z3().Int(name)


def real(name: str) -> Term:
    """Return a real unknown."""
    return _z3().Real(name)


def truth(name: str) -> Term:
    """Return an unknown that is true or false."""
    return _z3().Bool(name)


def exactly(number: int | Fraction) -> Term:
    """Return the number as a term: an integer, or a real."""
    return _z3().IntVal(number) if isinstance(number, int) else _z3().Q(number.numerator, number.denominator)


def total(terms: Iterable[Term]) -> Term:
    """Return the sum; one of the terms must be of Z3."""
    return _z3().Sum(list(terms))


def affine(row: Mapping[str, int], values: Mapping[str, Term]) -> Term:
    """Return the sum of the named integer values, each as often as the row says; its entry without a name is a constant."""
    return total([exactly(0), *(often * (values[name] if name else 1) for name, often in row.items())])


def either(terms: Iterable[Term]) -> Term:
    """Return that one of them holds; of nothing, that is false."""
    return _z3().Or(list(terms))


def every(terms: Iterable[Term]) -> Term:
    """Return that all of them hold."""
    return _z3().And(list(terms))


def negated(term: Term) -> Term:
    """Return that it does not hold."""
    return _z3().Not(term)


def implies(premise: Term, then: Term) -> Term:
    """Return that the second holds where the first does."""
    return _z3().Implies(premise, then)


def at_most(count: int, terms: Iterable[Term]) -> Term:
    """Return that no more than so many of them hold."""
    return _z3().AtMost(*terms, count)


class Question:
    """What is demanded so far; each `ask` is answered within `seconds` and the budget, whichever is shorter."""

    def __init__(
        self, budget: Budget = UNLIMITED, seconds: float = LONGEST, *, logic: str | None = None, maximise: bool = False
    ) -> None:
        z3 = _z3()
        self.budget, self.seconds = budget, seconds
        self.solver: Any = z3.Optimize() if maximise else z3.Solver() if logic is None else z3.SolverFor(logic)

    def add(self, *terms: Term) -> None:
        """Demand that all of these hold."""
        self.solver.add(*terms)

    def prefer(self, terms: Iterable[Term]) -> None:
        """Ask for as many of these as there can be; the question must maximise."""
        for term in terms:
            self.solver.add_soft(term)

    def ask(self, *assumptions: Term) -> Answer:
        """Return whether all demands and assumptions can be met together; unknown where time is up."""
        self.solver.set("timeout", self.budget.milliseconds(self.seconds))
        word = str(self.solver.check(*assumptions))
        return "sat" if word == "sat" else "unsat" if word == "unsat" else "unknown"

    def values(self) -> Values:
        """Return how the demands are met, after the answer `sat`."""
        return Values(self.solver.model())

    def push(self) -> None:
        """Begin demands that `pop` takes back."""
        self.solver.push()

    def pop(self) -> None:
        """Take back what was demanded since `push`."""
        self.solver.pop()


class Values:
    """What the unknowns are; those that no demand speaks of are 0 or false."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def number(self, term: Term) -> int:
        """Return the value of an integer term."""
        return int(self._model.eval(term, model_completion=True).as_long())

    def holds(self, term: Term) -> bool:
        """Return whether a term holds."""
        return bool(_z3().is_true(self._model.eval(term, model_completion=True)))
