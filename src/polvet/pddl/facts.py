"""Atoms known so far, with an index for every pattern that was asked for, and the join of several patterns.

`Query` is a conjunction: atoms that must be there, and tests (equalities, atoms that must not hold). `answers` yields
the values of its variables, choosing at each step the atom with the fewest matches; a variable that no atom binds runs
through the objects of its type. So a schema with many parameters is never enumerated blindly where its atoms bind them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from polvet.pddl.syntax import Atom, Equal

Terms = tuple[str, ...]
Values = dict[str, str]


class Facts:
    """Sets of argument tuples by predicate, indexed by the positions that are known when they are looked up."""

    def __init__(self) -> None:
        self.rows: dict[str, set[Terms]] = defaultdict(set)
        self._indices: dict[str, dict[tuple[int, ...], dict[Terms, list[Terms]]]] = defaultdict(dict)

    def add(self, predicate: str, row: Terms) -> bool:
        """Return whether the fact is new; if so, keep it."""
        rows = self.rows[predicate]
        if row in rows:
            return False
        rows.add(row)
        for positions, index in self._indices[predicate].items():
            index.setdefault(tuple(row[k] for k in positions), []).append(row)
        return True

    def __contains__(self, atom: Atom) -> bool:
        return atom.terms in self.rows.get(atom.predicate, ())

    def matching(self, predicate: str, positions: tuple[int, ...], key: Terms) -> list[Terms]:
        """Return the rows of the predicate that have these values at these positions."""
        indices = self._indices[predicate]
        index = indices.get(positions)
        if index is None:
            index = indices[positions] = {}
            for row in sorted(self.rows.get(predicate, ())):
                index.setdefault(tuple(row[k] for k in positions), []).append(row)
        return index.get(key, [])


@dataclass(frozen=True, slots=True)
class Query:
    """Atoms and tests that must hold together; `domains` lists the objects each variable may be."""

    atoms: tuple[Atom, ...]
    tests: tuple[tuple[Atom | Equal, bool], ...]
    domains: Mapping[str, tuple[str, ...]]


class Join:
    """Answers queries over facts; `may_be_false` says of a ground atom whether it may be false in some state."""

    def __init__(self, facts: Facts, may_be_false: Callable[[Atom], bool]) -> None:
        self.facts = facts
        self.may_be_false = may_be_false
        self._members: dict[tuple[str, ...], frozenset[str]] = {}

    def members(self, objects: tuple[str, ...]) -> frozenset[str]:
        """Return the objects of a domain as a set, made once."""
        if objects not in self._members:
            self._members[objects] = frozenset(objects)
        return self._members[objects]

    def answers(self, query: Query, values: Values) -> Iterator[Values]:
        """Yield every extension of `values` to all variables of the query; `values` may be partial or empty."""
        # SOUND: an answer is dropped only for a test that fails in every state: the rest is decided by who asks.
        for test, wanted in query.tests:
            if not self._may_hold(test, wanted, values):
                return
        free = [name for name in query.domains if name not in values]
        open_atoms = []
        for atom in query.atoms:
            for term in atom.terms:
                if term[0] == "?" and term not in values:
                    open_atoms.append(atom)
                    break
            else:
                if _ground(atom, values) not in self.facts:
                    return
        if open_atoms:
            yield from self._by_atom(query, open_atoms, values)
        elif free:
            for name, value in self._by_equality(query, values) or ((free[0], one) for one in query.domains[free[0]]):
                if value in self.members(query.domains[name]):
                    yield from self.answers(query, {**values, name: value})
        else:
            yield values

    def _by_atom(self, query: Query, atoms: list[Atom], values: Values) -> Iterator[Values]:
        best: tuple[Atom, list[Terms]] | None = None
        for atom in atoms:
            known = tuple(k for k, term in enumerate(atom.terms) if not self._is_open(term, values))
            rows = self.facts.matching(
                atom.predicate, known, tuple(values.get(atom.terms[k], atom.terms[k]) for k in known)
            )
            if best is None or len(rows) < len(best[1]):
                best = atom, rows
        assert best is not None
        atom, rows = best
        rest = Query(tuple(other for other in query.atoms if other is not atom), query.tests, query.domains)
        for row in rows[:]:  # the list may grow while answers are used
            extended = self.unified(atom, row, values, query)
            if extended is not None:
                yield from self.answers(rest, extended)

    def unified(self, atom: Atom, row: Terms, values: Values, query: Query) -> Values | None:
        """Return the values extended so that the atom is the row; None where an object or its type does not fit."""
        extended = dict(values)
        for term, value in zip(atom.terms, row, strict=True):
            if term[0] == "?":
                if term not in extended:
                    if value not in self.members(query.domains[term]):
                        return None
                    extended[term] = value
                elif extended[term] != value:
                    return None
            elif term != value:
                return None
        return extended

    def _by_equality(self, query: Query, values: Values) -> list[tuple[str, str]] | None:
        """The one value of a variable that must equal something known, where there is such a test."""
        for test, wanted in query.tests:
            if wanted and isinstance(test, Equal):
                for one, other in ((test.left, test.right), (test.right, test.left)):
                    if self._is_open(one, values) and not self._is_open(other, values):
                        return [(one, values.get(other, other))]
        return None

    def _may_hold(self, test: Atom | Equal, wanted: bool, values: Values) -> bool:
        terms = (test.left, test.right) if isinstance(test, Equal) else test.terms
        if any(self._is_open(term, values) for term in terms):
            return True
        if isinstance(test, Equal):
            return (values.get(test.left, test.left) == values.get(test.right, test.right)) == wanted
        return wanted or self.may_be_false(_ground(test, values))

    @staticmethod
    def _is_open(term: str, values: Values) -> bool:
        return term[0] == "?" and term not in values


def _ground(atom: Atom, values: Values) -> Atom:
    return Atom(atom.predicate, tuple([values.get(term, term) for term in atom.terms]))
