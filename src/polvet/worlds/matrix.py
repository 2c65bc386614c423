"""Transition matrices as worlds: numpy arrays, scipy's sparse ones, and models that stormpy holds in memory.

One matrix per action, states by states: row `s` is the distribution of what follows. A row of zeros says that the action is not
applicable there. Doubles are read as the fractions that they were computed from, as far as can be told (`exact_distribution`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polvet.errors import InputError, Where
from polvet.model.tables import Outcome, TransitionTable
from polvet.worlds.table import exact_distribution

MATRIX = Where("matrix")


def table_of_matrices(
    given: Any, labels: Sequence[str] | None, starts: Sequence[int] | None, features: Mapping[str, Sequence[int]]
) -> TransitionTable:
    """Return the table of one matrix per action: a three-dimensional array, a sequence, or a dictionary by label.

    >>> table = table_of_matrices([[[0.5, 0.5], [0, 1]]], ["go"], None, {})
    >>> [(str(one.probability), one.state) for one in table.rows[0, 0]]
    [('1/2', 0), ('1/2', 1)]
    """
    if isinstance(given, Mapping):
        if labels is not None:
            raise InputError("the matrices have names, and labels are given too.", MATRIX, "Give one of the two.")
        labels, given = list(given), list(given.values())
    matrices = [_triples(one) for one in given]
    if not matrices or len({shape for shape, _ in matrices}) != 1 or len(set(matrices[0][0])) != 1:
        shapes = ", ".join(sorted({str(shape) for shape, _ in matrices})) or "none"
        raise InputError(f"the matrices have the shapes {shapes}.", MATRIX, "Give one square matrix per action.")
    names = tuple(f"a{number}" for number in range(len(matrices))) if labels is None else tuple(labels)
    if len(names) != len(matrices):
        raise InputError(f"there are {len(matrices)} matrices and {len(names)} labels.", MATRIX, "Name each once.")
    table: dict[tuple[int, int], tuple[Outcome, ...]] = {}
    for action, (_, entries) in enumerate(matrices):
        rows: dict[int, dict[int, float]] = {}
        for source, target, value in entries:
            row = rows.setdefault(source, {})
            row[target] = row.get(target, 0.0) + value
        for source, row in rows.items():
            table[source, action] = _outcomes(row, MATRIX.at(names[action]).at(source))
    return TransitionTable("matrix", matrices[0][0][0], names, table, tuple(starts or (0,)), dict(features))


def is_storm_model(given: Any) -> bool:
    """Return whether this is a model that stormpy built."""
    return all(hasattr(given, name) for name in ("transition_matrix", "labeling", "initial_states"))


def table_of_storm(given: Any) -> TransitionTable:
    """Return the table of stormpy's model; its labels of states become features that are 0 or 1."""
    names: dict[str, int] = {}
    rows: dict[tuple[int, int], tuple[Outcome, ...]] = {}
    choices = given.choice_labeling if given.has_choice_labeling() else None
    for state in given.states:
        first = given.transition_matrix.get_row_group_start(state.id)
        for local, action in enumerate(state.actions):
            names_of = sorted(choices.get_labels_of_choice(first + local)) if choices is not None else []
            name = names_of[0] if names_of else f"a{local}"
            place = int(state.id), names.setdefault(name, len(names))
            if place in rows:
                raise InputError(
                    f"two choices of state {state.id} are called '{name}'.", MATRIX, "Build it with choice labels."
                )
            # Before version 2, stormpy's `value` is a method.
            values = {
                int(one.column): float(one.value() if callable(one.value) else one.value) for one in action.transitions
            }
            rows[place] = _outcomes(values, MATRIX.at(name).at(int(state.id)))
    states = int(given.nr_states)
    features: dict[str, tuple[int, ...]] = {}
    for label in sorted(given.labeling.get_labels() - {"init", "deadlock"}):
        holding = set(given.labeling.get_states(label))
        features[label] = tuple(int(one in holding) for one in range(states))
    return TransitionTable("storm", states, tuple(names), rows, tuple(given.initial_states), features)


def _triples(matrix: Any) -> tuple[tuple[int, ...], list[tuple[int, int, float]]]:
    """Return the shape of a dense or sparse matrix, and its entries other than 0."""
    if hasattr(matrix, "tocoo"):
        sparse = matrix.tocoo()
        entries = zip(sparse.row.tolist(), sparse.col.tolist(), sparse.data.tolist(), strict=True)
        return tuple(sparse.shape), [one for one in entries if one[2]]
    try:
        dense = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        dense = np.zeros(0)
    if dense.ndim != 2:
        raise InputError("an action's matrix is not two-dimensional.", MATRIX, "Give actions x states x states.")
    rows, columns = np.nonzero(dense)
    return dense.shape, list(zip(rows.tolist(), columns.tolist(), dense[rows, columns].tolist(), strict=True))


def _outcomes(row: Mapping[int, float], where: Where) -> tuple[Outcome, ...]:
    if not all(np.isfinite(value) and value >= 0 for value in row.values()):
        raise InputError("an entry is no probability.", where, "Give numbers from 0 to 1.")
    targets = sorted(row)
    chances = exact_distribution([row[target] for target in targets], where)
    return tuple(Outcome(chance, target) for chance, target in zip(chances, targets, strict=True) if chance > 0)
