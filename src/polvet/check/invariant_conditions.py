"""Conditions on a state, read as rows where they are linear, and what they leave of a box.

`narrowed` gives a box around all states that satisfy conditions; `simplified` puts what a box fixes into rows and finds rows
that contradict each other there. The rows' columns are those of the claim: all variables, then its marks [x = value].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from polvet.check.box_view import alternatives, row_of
from polvet.check.invariant_rows import Ints, Row, contract, merged, row_between
from polvet.check.invariant_space import Space
from polvet.model.expressions import FALSE, Binary, Expression, Unary, conjuncts

MOST_ALTERNATIVES = 60


def expanded(conditions: Sequence[Expression]) -> list[list[Expression]]:
    """Return alternatives of conditions that hold together, where disjunctions inside are few."""
    product: list[list[Expression]] = [[]]
    for condition in conditions:
        options = alternatives(condition, MOST_ALTERNATIVES)
        if len(product) * len(options) > MOST_ALTERNATIVES:
            options = [[condition]]
        product = [one + other for one in product for other in options]
    return [one for one in product if FALSE not in one]


def rows_of(space: Space, conditions: Sequence[Expression]) -> tuple[list[Row], list[Expression]]:
    """Return the conditions that are rows, and the rest."""
    rows, rest = [], []
    for condition in conditions:
        for part in conjuncts(condition):
            row = _row(space, part)
            if row is None:
                rest.append(part)
            else:
                rows.append(row)
    return rows, rest


def hulls(space: Space, conditions: Sequence[Expression]) -> list[Row]:
    """Return rows around disjunctions, such as 1 <= x of x = 1 ∨ x >= 3: each bounds a sum that every alternative bounds.

    SOUND: who satisfies a disjunction satisfies one of its alternatives, and so the widest of their bounds.
    """
    rows = []
    for condition in conditions:
        if not isinstance(condition, Binary) or condition.operator != "∨":
            continue
        ends: dict[bytes, tuple[Row, int]] = {}
        options = alternatives(condition, MOST_ALTERNATIVES)
        for number, option in enumerate(options):
            for row in rows_of(space, option)[0]:
                key = row.coefficients.tobytes()
                before, seen = ends.get(key, (row, 0))
                if seen == number:  # all alternatives before this one bound the sum, too
                    low, high = min(row.lower, before.lower), max(row.upper, before.upper)
                    ends[key] = Row(row.coefficients, low, high), number + 1
        rows += [row for row, seen in ends.values() if seen == len(options)]
    return rows


def exclusions(space: Space, lower: Ints, upper: Ints) -> list[Row]:
    """Return the rows that say of each variable whose values in a box are all marked that exactly one mark of it holds."""
    claim, size = space.claim, len(space.place)
    rows = []
    for place in np.unique(claim.places).tolist():
        mine = (claim.places == place) & (claim.values >= lower[place]) & (claim.values <= upper[place])
        if mine.sum() == upper[place] - lower[place] + 1:
            rows.append(Row(np.concatenate([np.zeros(size, dtype=np.int64), mine], dtype=np.int64), 1, 1))
    return rows


def _row(space: Space, condition: Expression) -> Row | None:
    """Return the condition as a row; None where it is none, or its numbers are too large to be added up in int64."""
    # A guard is asked about again and again: it is the same object, which stays alive with what is known of it.
    known = space.rows_read.get(id(condition))
    if known is None:
        known = space.rows_read[id(condition)] = condition, _read_row(space, _plain(condition))
    return known[1]


def _read_row(space: Space, condition: Expression) -> Row | None:
    sides = row_of(condition, space.place, space.sizes)
    columns = None if sides is None else _columns(space, sides[0])
    if sides is None or columns is None:
        return None
    return row_between(dict(columns), sides[1], sides[2], space.sizes)


def _plain(condition: Expression) -> Expression:
    """Return the condition without a negation in front of a comparison."""
    opposite = {"=": "≠", "≠": "=", "<": "≥", "≥": "<", ">": "≤", "≤": ">"}
    match condition:
        case Unary("¬", Binary(operator, left, right)) if operator in opposite:
            return Binary(opposite[operator], left, right)
        case _:
            return condition


def _columns(space: Space, terms: Mapping[int | tuple[int, int], int]) -> list[tuple[int, int]] | None:
    """Return the columns of variables and marks; None if the claim does not know a mark."""
    columns = []
    for key, coefficient in terms.items():
        if isinstance(key, int):
            columns.append((key, coefficient))
        elif key in space.claim.marks:
            columns.append((len(space.place) + space.claim.marks.index(key), coefficient))
        else:
            return None
    return columns


def narrowed(space: Space, conditions: Sequence[Expression], *, inside: bool) -> tuple[Ints, Ints] | None:
    """Return a box that holds every state (with `inside`: of the invariant) that satisfies the conditions, if there is one."""
    rows, tests = rows_of(space, conditions)
    everything = [*rows, *hulls(space, tests), *(space.claim.rows if inside else ())]
    lower, upper, _ = contracted(space, space.lower[None, :], space.upper[None, :], everything)
    return (lower[0], upper[0]) if len(lower) else None


def contracted(space: Space, lower: Ints, upper: Ints, rows: Sequence[Row]) -> tuple[Ints, Ints, Ints]:
    """Return what rows leave of the boxes [n, variables], and which there are; marks are 0 or 1, and tell on their variables."""
    claim, size = space.claim, len(space.place)
    if not claim.marks:
        return contract(lower, upper, rows)
    kept = np.arange(len(lower))
    for _ in range(3):
        before = int(lower.sum() - upper.sum())
        wide_lower, wide_upper = marked_bounds(space, lower, upper)
        wide_lower, wide_upper, left = contract(wide_lower, wide_upper, rows)
        lower, upper, kept = wide_lower[:, :size].copy(), wide_upper[:, :size].copy(), kept[left]
        never, always = wide_upper[:, size:] == 0, wide_lower[:, size:] == 1
        low, high = lower[:, claim.places], upper[:, claim.places]
        inside = (low <= claim.values) & (claim.values <= high)
        tells = (never & inside) | (always & ~(inside & (low == high)))
        for k in np.flatnonzero(tells.any(axis=0)).tolist():
            place, value = claim.marks[k]
            lower[never[:, k] & (lower[:, place] == value), place] += 1
            upper[never[:, k] & (upper[:, place] == value), place] -= 1
            lower[always[:, k], place] = np.maximum(lower[always[:, k], place], value)
            upper[always[:, k], place] = np.minimum(upper[always[:, k], place], value)
        keep = (lower <= upper).all(axis=1)
        lower, upper, kept = lower[keep], upper[keep], kept[keep]
        if not len(lower) or int(lower.sum() - upper.sum()) == before:
            break
    return lower, upper, kept


def marked_bounds(space: Space, lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
    """Return the boxes with bounds of the marks behind those of the variables."""
    claim = space.claim
    low, high = lower[:, claim.places], upper[:, claim.places]
    possible = (low <= claim.values) & (claim.values <= high)
    sure = possible & (low == high)
    return np.concatenate([lower, sure], axis=1, dtype=np.int64), np.concatenate(
        [upper, possible], axis=1, dtype=np.int64
    )


def simplified(space: Space, rows: Sequence[Row], lower: Ints, upper: Ints) -> list[Row] | None:
    """Return the rows with what a box fixes put in, parallel ones made one; None if they contradict each other there."""
    low, high = marked_bounds(space, lower[None, :], upper[None, :])
    return merged(rows, low[0] == high[0], low[0])


def guard_box(space: Space, guard: Expression) -> tuple[Ints, Ints, list[Expression]] | None:
    """Return the guard as exactly a box [variables] and what is left of it; None where it never holds."""
    alone, parts = [], []
    for part in conjuncts(guard):
        rows, _ = rows_of(space, [part])
        used = np.flatnonzero(rows[0].coefficients).tolist() if rows else []
        if len(used) == 1 and used[0] < len(space.place):  # exactly an interval of one variable
            alone += rows
        else:
            parts.append(part)
    lower, upper, _ = contract(space.lower[None, :], space.upper[None, :], alone)
    return (lower[0], upper[0], parts) if len(lower) else None
