"""The features of a sketch in the states of an instance: terms of description logic, or Python functions.

A function takes a `Snapshot` and returns a bool, or an int from 0 up. It must be a function of the snapshot alone; what is said
of a policy with such features holds for the answers that the functions gave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from polvet.errors import InputError, Where
from polvet.features.denote import View
from polvet.features.instances import Instance, State
from polvet.features.structure import goal_atoms
from polvet.features.terms import Term, check_words, parse_term
from polvet.policy.finite_memory.features import ANY, DOWN, FALSE, NOT_DOWN, NOT_UP, TRUE, UP, Rule
from polvet.policy.finite_memory.sketch import Sketch

Values = tuple[int, ...]
"""The value of each feature, booleans as 0 and 1."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a Python function sees of a state: atoms as tuples such as ("on", "a", "b"), and the objects with their types."""

    atoms: frozenset[tuple[str, ...]]
    goal: frozenset[tuple[str, ...]]
    objects: Mapping[str, tuple[str, ...]]


Function = Callable[[Snapshot], bool | int]
Meaning = Term | Function


def meanings_of(sketch: Sketch, functions: Mapping[str, Function]) -> tuple[Meaning, ...]:
    """Return what each feature of the sketch is: a function where there is one of its name, else the term that is written."""
    meanings: list[Meaning] = []
    for name in sketch.features.names:
        text = sketch.features.meanings.get(name, "")
        if name in functions:
            meanings.append(functions[name])
        elif text:
            sorts = "nc" if name in sketch.features.numeric else "b"
            meanings.append(parse_term(text, Where(sketch.where.file).at(name), sorts=sorts))
        else:
            hint = f'Write its meaning, {name} "n_count(...)", or give a Python function of its name with --features.'
            raise InputError(f"the feature '{name}' has no meaning.", sketch.where, hint)
    return tuple(meanings)


class Valuations:
    """The features in the states of one instance, each state computed once."""

    def __init__(self, sketch: Sketch, meanings: tuple[Meaning, ...], instance: Instance) -> None:
        for meaning in meanings:
            if isinstance(meaning, Term):
                check_words(meaning, instance.problem.words)
        self._sketch, self._meanings, self._instance = sketch, meanings, instance
        self._known: dict[State, Values] = {}
        self._fixed = frozenset(
            (atom.predicate, *atom.terms) for atom in instance.problem.init if atom not in set(instance.atoms)
        )
        goal = goal_atoms(instance.problem.goal, instance.problem.words)
        self._goal = frozenset((atom.predicate, *atom.terms) for atom in goal)

    def __call__(self, state: State) -> Values:
        """Return the value of each feature in the state."""
        values = self._known.get(state)
        if values is None:
            values = self._known[state] = self._compute(state)
        return values

    def _compute(self, state: State) -> Values:
        instance = self._instance
        rows = dict(instance.constant)
        for name, more in instance.structure.rows(instance.true_atoms(state)).items():
            rows[name] = rows[name] | more if name in rows else more
        view = View(instance.structure, rows)
        values = []
        for name, meaning in zip(self._sketch.features.names, self._meanings, strict=True):
            if isinstance(meaning, Term):
                values.append(int(view.boolean(meaning)) if meaning.sort == "b" else view.number(meaning))
            else:
                values.append(self._ask(name, meaning, state))
        return tuple(values)

    def _ask(self, name: str, function: Function, state: State) -> int:
        atoms = self._fixed | {(atom.predicate, *atom.terms) for atom in self._instance.true_atoms(state)}
        answer = function(Snapshot(frozenset(atoms), self._goal, self._instance.problem.words.objects))
        numeric = name in self._sketch.features.numeric
        if not isinstance(answer, int) or isinstance(answer, bool) == numeric or answer < 0:
            advice = "a number from 0 up" if numeric else "True or False"
            raise InputError(f"the function '{name}' answers {answer!r}.", self._instance.name, f"Return {advice}.")
        return int(answer)


def is_open(rule: Rule, values: Values) -> bool:
    """Return whether one of the rule's conditions holds."""
    return any(all((values[i] > 0) == is_positive for i, is_positive in one.items()) for one in rule.conditions)


def broken_claim(rule: Rule, before: Values, after: Values) -> int | None:
    """Return the first feature that does not change as the rule says, or None if all do."""
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        if not _FITS[rule.changes.get(index)](old, new) or rule.after.get(index, new > 0) != (new > 0):
            return index
    return None


_FITS: dict[str | None, Callable[[int, int], bool]] = {
    None: lambda old, new: old == new,
    ANY: lambda old, new: True,
    UP: lambda old, new: new > old,
    DOWN: lambda old, new: new < old,
    NOT_UP: lambda old, new: new <= old,
    NOT_DOWN: lambda old, new: new >= old,
    TRUE: lambda old, new: new == 1,
    FALSE: lambda old, new: new == 0,
}
