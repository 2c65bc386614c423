"""What a state offers to be counted: objects by number, the relations that hold in it, and those of the goal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

from polvet.features.terms import GOAL_SUFFIX
from polvet.pddl.syntax import And, Atom, Condition, ForAll, Vocabulary

Rows = frozenset[tuple[int, ...]]
NO_ROWS: Rows = frozenset()


@dataclass(frozen=True, slots=True)
class Structure:
    """A problem's objects in their order, and the relations that no action changes: of the goal (`p_g`), and of types."""

    objects: tuple[str, ...]
    numbers: Mapping[str, int] = field(repr=False)
    fixed: Mapping[str, Rows] = field(repr=False)

    def rows(self, atoms: Iterable[Atom]) -> dict[str, Rows]:
        """Return the relations that the atoms make, by predicate."""
        outcome: dict[str, set[tuple[int, ...]]] = {}
        for atom in atoms:
            outcome.setdefault(atom.predicate, set()).add(tuple(self.numbers[term] for term in atom.terms))
        return {name: frozenset(rows) for name, rows in outcome.items()}


def structure_of(words: Vocabulary, goal: Condition) -> Structure:
    """Return the structure of a problem. Of the goal its positive atoms count, also those under `forall`."""
    objects = tuple(words.objects)
    numbers = {name: number for number, name in enumerate(objects)}
    bare = Structure(objects, numbers, {})
    fixed = {f"{name}{GOAL_SUFFIX}": rows for name, rows in bare.rows(goal_atoms(goal, words)).items()}
    for kind in (*words.parents, "object"):
        if kind not in words.predicates:
            fixed[kind] = frozenset((numbers[name],) for name in words.objects_of((kind,)))
    return Structure(objects, numbers, fixed)


def goal_atoms(goal: Condition, words: Vocabulary, values: Mapping[str, str] | None = None) -> list[Atom]:
    """Return the ground atoms that the goal demands as a conjunction."""
    values = values or {}
    match goal:
        case Atom(predicate, terms):
            return [Atom(predicate, tuple(values.get(term, term) for term in terms))]
        case And(parts):
            return [atom for part in parts for atom in goal_atoms(part, words, values)]
        case ForAll(variables, body):
            rows = product(*(words.objects_of(variable.types) for variable in variables))
            names = [variable.name for variable in variables]
            bound = [{**values, **dict(zip(names, row, strict=True))} for row in rows]
            return [atom for one in bound for atom in goal_atoms(body, words, one)]
        case _:
            return []
