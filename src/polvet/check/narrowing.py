"""Sets of states made smaller: the part of a set in which a comparison can hold, and sets cut in two at a number.

Source   contraction of the symbols of affine forms by linear constraints (Ghorbal, Goubault and Putot, A logical product
         approach to zonotope intersection, CAV 2010)
SOUND    a state is left out only where no symbols within [-1, 1] satisfy the comparison, whatever the form's error is and
         whatever is lost by rounding here
"""

from __future__ import annotations

import numpy as np

from polvet.check.affine_forms import Floats, Form, Forms, difference, value_of
from polvet.check.state_sets import LEAST, SLACK, Sets, joined
from polvet.model.expressions import Binary, Expression, conjuncts


def ranges_where(condition: Expression, forms: Forms) -> tuple[Floats, Floats]:
    """Return [n, symbols] the least and greatest values of the symbols where all comparisons that a condition joins can hold."""
    shape = next(iter(forms.values())).slopes.shape
    low, high = np.full(shape, -1.0), np.ones(shape)
    for part in conjuncts(condition):
        sides: list[tuple[Expression, Expression]] = []
        match part:
            case Binary("<" | "≤", one, other):
                sides = [(one, other)]
            case Binary(">" | "≥", one, other):
                sides = [(other, one)]
            case Binary("=", one, other):
                sides = [(one, other), (other, one)]
        for less, more in sides:
            _narrow(difference(value_of(less, forms), value_of(more, forms)), low, high)
    return low, high


def cut(sets: Sets, place: int, at: float) -> tuple[Sets, np.ndarray]:
    """Return the parts of sets with the variable below a number and those with it not below, and the number of the set of each."""
    parts, sources = [], []
    last = float(np.nextafter(at, -np.inf))
    for sign, least, most in ((1.0, -np.inf, last), (-1.0, at, np.inf)):
        low, high = (ends.copy() for ends in sets.ends)
        low[:, place], high[:, place] = np.maximum(low[:, place], least), np.minimum(high[:, place], most)
        edge = last if sign > 0 else at
        beyond = sign * (sets.center[:, place] - edge)
        # SOUND: what the subtraction loses.
        error = sets.error[:, place] + SLACK * (np.abs(sets.center[:, place]) + abs(edge))
        form = Form(beyond, sign * sets.slopes[:, place], error, False, (beyond, beyond))
        ranges = np.full(form.slopes.shape, -1.0), np.ones(form.slopes.shape)
        _narrow(form, *ranges)
        part, there = Sets(sets.center, sets.slopes, sets.error, (low, high)).within(*ranges)
        parts.append(part.take(there))
        sources.append(np.flatnonzero(there))
    return joined(parts), np.concatenate(sources)


def _narrow(form: Form, low: Floats, high: Floats) -> None:
    """Narrow the ranges of the symbols, in place, to where the form can be at most 0."""
    slopes = form.slopes
    slack = form.error + SLACK * (np.abs(form.center) + np.abs(slopes).sum(axis=1) + form.error) + LEAST
    for k in range(slopes.shape[1]):
        others = np.delete(np.where(slopes > 0, slopes * low, slopes * high), k, axis=1).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            bound = (slack - form.center - others) / slopes[:, k]
        # A slope so small that the quotient is no number says nothing.
        told = np.isfinite(bound)
        bound = np.where(told, bound, 0.0)
        wide = SLACK * (1 + np.abs(bound))
        up, down = told & (slopes[:, k] > 0), told & (slopes[:, k] < 0)
        high[up, k] = np.minimum(high[up, k], (bound + wide)[up])
        low[down, k] = np.maximum(low[down, k], (bound - wide)[down])
