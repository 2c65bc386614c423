"""Checking `grid`: a set of cells that runs of the policy return to, again and again, without meeting `fail` on the way.

For models with real-valued variables. The certificate gives `lines` {"x": [0.0, 0.5, ...]}: where the cells of each variable begin
(the last one ends at the variable's upper bound); `cells`, a packed bit per cell of the product (the last variable's
cells next to each other); and `steps`. Checked: every start state is in a listed cell; from each listed cell, sets of states
are followed (`check.flow`), for one step in all its ways, then on for up to `steps` steps where only one way is open; no set on
the way meets `fail`, leaves a variable's bounds or has an operator, chosen or not, that may break a rule of the model, and every
set that is followed no further lies in listed cells. So every run from a start state is safe for ever: it is always on such a way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polvet.budget import Budget
from polvet.check.affine_forms import Bools, Floats, truth_of
from polvet.check.flow import Flow, Sets, is_start_of
from polvet.check.followed import find_policy_arena
from polvet.check.packing import pack, unpack
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.model.expressions import conjuncts, names
from polvet.model.network import Kind
from polvet.records.state_json import Malformed

MOST_CELLS = 2**31
BATCH = 1 << 14
Ints = np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Cells as products of intervals; `lines` holds per variable where its intervals begin, `upper` where the last ends."""

    lines: tuple[Floats, ...]
    upper: Floats
    whole: tuple[bool, ...]  # per variable: it holds integers

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of intervals of each variable."""
        return tuple(len(line) for line in self.lines)

    def ends(self, variable: int) -> Floats:
        """Return where each interval of a variable ends: just before the next begins."""
        line = self.lines[variable]
        last = line[1:] - 1 if self.whole[variable] else np.nextafter(line[1:], -np.inf)
        return np.append(last, self.upper[variable])

    def boxes(self, cells: Ints) -> tuple[Floats, Floats]:
        """Return the cells' boxes."""
        places = np.unravel_index(cells, self.shape)
        low = np.stack([line[at] for line, at in zip(self.lines, places, strict=True)], axis=1)
        return low, np.stack([self.ends(k)[at] for k, at in enumerate(places)], axis=1)

    def spans(self, low: Floats, high: Floats) -> tuple[Ints, Ints]:
        """Return the first and last interval of each variable that each box meets; boxes lie inside the domain."""
        first = [np.searchsorted(line, low[:, k], side="right") - 1 for k, line in enumerate(self.lines)]
        last = [np.searchsorted(line, high[:, k], side="right") - 1 for k, line in enumerate(self.lines)]
        return np.stack(first, axis=1), np.stack(last, axis=1)


def cells_between(first: Ints, last: Ints, shape: Sequence[int]) -> Iterator[Ints]:
    """Yield the numbers of all cells between the spans [n, variables], in blocks; a cell may come more than once."""
    if not len(first):
        return
    strides = np.cumprod([1, *shape[:0:-1]])[::-1].astype(np.int64)
    size = last - first + 1
    base = first @ strides
    # Boxes that meet as many cells in each direction are treated together.
    order = np.lexsort(size.T)
    size, base = size[order], base[order]
    begins = np.flatnonzero(np.concatenate([[True], (size[1:] != size[:-1]).any(axis=1)]))
    for begin, end in zip(begins, [*begins[1:], len(size)], strict=True):
        offsets = np.zeros(1, dtype=np.int64)
        for stride, count in zip(strides, size[begin], strict=True):
            offsets = (offsets[:, None] + stride * np.arange(count)).ravel()
        block = max(1, 2**22 // len(offsets))
        for at in range(begin, end, block):
            yield (base[at : min(at + block, end), None] + offsets).ravel()


def follow(flow: Flow, sets: Sets, steps: int) -> Iterator[tuple[Sets, Ints, Bools]]:
    """Follow sets for one step in all ways, then for up to `steps` while one way is open.

    Yield (sets, their sources, which may fail): each that is followed no further, and each that may meet `fail` or break a rule.
    Sets that end (goal, nothing enabled) are not yielded.
    """
    source = np.arange(len(sets))
    for number in range(steps):
        went = flow.step(sets)
        if went.broken.any():
            yield sets.take(went.broken), source[went.broken], np.ones(int(went.broken.sum()), dtype=np.bool_)
        if number > 0:
            ways = np.bincount(went.source, minlength=len(sets))
            several = ways > 1
            if several.any():
                yield sets.take(several), source[several], np.zeros(int(several.sum()), dtype=np.bool_)
            on = ways[went.source] == 1
            went_sets, source = went.sets.take(on), source[went.source[on]]
        else:
            went_sets, source = went.sets, source[went.source]
        if not len(source):
            return
        bad = flow.may_fail(went_sets)
        if bad.any():
            yield went_sets.take(bad), source[bad], np.ones(int(bad.sum()), dtype=np.bool_)
        sets, source = went_sets.take(~bad), source[~bad]
        if not len(source):
            return
    yield sets, source, np.zeros(len(source), dtype=np.bool_)


def start_cells(flow: Flow, grid: Grid) -> Ints:
    """Return the cells that may hold a start state."""
    return np.flatnonzero(_start_marks(flow, grid))


def _start_marks(flow: Flow, grid: Grid) -> Bools:
    condition = is_start_of(flow.network, flow.task.start)
    marks = np.ones(grid.shape, dtype=np.bool_)
    rest = []
    for part in conjuncts(condition):
        read = names(part) & set(flow.place)
        if len(read) > 1:
            rest.append(part)
            continue
        name = next(iter(read), None)
        if name is None:
            rest.append(part)
            continue
        k = flow.place[name]
        count = grid.shape[k]
        low, high = np.tile(flow.lower, (count, 1)), np.tile(flow.upper, (count, 1))
        low[:, k], high[:, k] = grid.lines[k], grid.ends(k)
        possible = truth_of(part, flow.forms(flow.boxes(low, high)))[1]
        marks &= possible.reshape([-1 if j == k else 1 for j in range(len(grid.shape))])
    for part in rest:
        cells = np.flatnonzero(marks)
        for begin in range(0, len(cells), BATCH):
            mine = cells[begin : begin + BATCH]
            possible = truth_of(part, flow.forms(flow.boxes(*grid.boxes(mine))))[1]
            marks.ravel()[mine] = possible
    return marks.ravel()


def check_grid(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that the policy never reaches `fail` from a start state."""
    followed = find_policy_arena(certificate, subjects)
    if followed.arena.task.network.disables_out_of_bounds:
        return Rejected("operators that leave the bounds are disabled, which sets of states do not follow")
    flow = Flow(followed.arena.task, followed.fitted)
    grid, marks, steps = _read(flow, certificate)
    _check(flow, grid, marks, steps, followed.arena.budget)
    return Accepted(
        f"no run of {subjects.policy} in {followed.arena.about} reaches fail ({int(marks.sum()):,} cells of {marks.size:,})"
    )


def _check(flow: Flow, grid: Grid, marks: Bools, steps: int, budget: Budget) -> None:
    missing = _start_marks(flow, grid) & ~marks
    if missing.any():
        raise Malformed(f"start states may lie in {_shown(flow, grid, int(missing.argmax()))}, which is not listed")
    cells = np.flatnonzero(marks)
    for begin in range(0, len(cells), BATCH):
        budget.check()
        mine = cells[begin : begin + BATCH]
        sets = flow.boxes(*grid.boxes(mine))
        bad = flow.may_fail(sets)
        if bad.any():
            raise Malformed(f"fail may be met in {_shown(flow, grid, int(mine[bad.argmax()]))}")
        for landed, source, failing in follow(flow, sets, steps):
            if failing.any():
                raise Malformed(f"fail may be reached from {_shown(flow, grid, int(mine[source[failing.argmax()]]))}")
            first, last = grid.spans(*landed.ends)
            for block in cells_between(first, last, grid.shape):
                if not marks[block].all():
                    other = int(block[~marks[block]][0])
                    raise Malformed(f"steps may lead into {_shown(flow, grid, other)}, which is not listed")


def _read(flow: Flow, certificate: Mapping[str, Any]) -> tuple[Grid, Bools, int]:
    lines, steps = certificate.get("lines"), certificate.get("steps")
    if not isinstance(lines, dict) or set(lines) != set(flow.place):
        raise Malformed("'lines' does not name the task's variables")
    if not isinstance(steps, int) or isinstance(steps, bool) or not 1 <= steps <= 10_000:
        raise Malformed("'steps' is no number from 1 to 10000")
    axes = []
    for k, variable in enumerate(flow.variables):
        given = lines[variable.name]
        if not isinstance(given, list) or not all(type(x) in (int, float) and np.isfinite(x) for x in given):
            raise Malformed(f"the lines of '{variable.name}' are no numbers")
        line = np.array(given, dtype=np.float64)
        rising = len(line) > 0 and line[0] == flow.lower[k] and (np.diff(line) > 0).all() and line[-1] <= flow.upper[k]
        if not rising or (variable.kind is not Kind.REAL and not (line == np.floor(line)).all()):
            raise Malformed(f"the lines of '{variable.name}' do not rise from its lower bound")
        axes.append(line)
    grid = Grid(tuple(axes), flow.upper, tuple(v.kind is not Kind.REAL for v in flow.variables))
    total = int(np.prod([float(n) for n in grid.shape]))
    if total > MOST_CELLS:
        raise Malformed("there are too many cells")
    return grid, unpack_marks(certificate.get("cells"), total), steps


def pack_marks(marks: Bools) -> str:
    """Return bits as text."""
    return pack(np.packbits(marks).tobytes())


def unpack_marks(item: Any, total: int) -> Bools:
    """Return the bits that `pack_marks` wrote; Malformed if there are not so many."""
    raw = unpack(item, (total + 7) // 8, "'cells'")
    return np.unpackbits(np.frombuffer(raw, dtype=np.uint8), count=total).view(np.bool_)


def _shown(flow: Flow, grid: Grid, cell: int) -> str:
    low, high = grid.boxes(np.array([cell]))
    return ", ".join(f"{a:.6g} <= {v.name} <= {b:.6g}" for v, a, b in zip(flow.variables, low[0], high[0], strict=True))
