"""Checking `grid`: a set of cells that runs of the policy return to, again and again, without meeting `fail` on the way.

For models with real-valued variables. The certificate gives `lines` {"x": [0.0, 0.5, ...]}: where the cells of each variable begin
(the last one ends at the variable's upper bound); `cells`, a packed bit per cell of the product (the last variable's
cells next to each other); and `steps`; perhaps `cuts`, `parts` and `halvings`. Checked: every start state is in a listed cell; the
states of each listed cell, as a set, are followed (`check.returning`) for up to `steps` steps, in all ways, and at the latest then
every part of it lies in listed cells or has ended in the goal; no part on the way meets `fail`, leaves a variable's bounds or has an
operator, chosen or not, that may break a rule of the model. A cell of which that cannot be seen as a whole is halved, up to
`halvings` times. So every run from a start state is safe for ever: it is always on such a way.
Within a `safe-region` certificate, the start states in the region's boxes take the place of all: every cell that a box meets and that
may hold a start state must be listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polvet.budget import Budget
from polvet.check.affine_forms import Bools, Floats, truth_of
from polvet.check.flow import Flow, Moves, is_start_of
from polvet.check.followed import Followed, find_policy_arena
from polvet.check.packing import pack, unpack
from polvet.check.returning import FAILS, OPEN, Inside, Plan, inside_of, judge
from polvet.check.start_region import StartRegion
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.model.expressions import conjuncts, names
from polvet.model.network import Kind
from polvet.records.state_json import Malformed

MOST_CELLS = 2**28
MOST_PARTS = 256
MOST_HALVINGS = 16
BATCH = 1 << 13
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

    def inside(self, marks: Bools) -> Inside:
        """Return the question which boxes lie in marked cells."""
        all_marked = inside_of(marks.reshape(self.shape))
        return lambda low, high, _: all_marked(*self.spans(low, high))


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


def start_cells(flow: Moves, grid: Grid) -> Ints:
    """Return the cells that may hold a start state."""
    return np.flatnonzero(_start_marks(flow, grid))


def _start_marks(flow: Moves, grid: Grid) -> Bools:
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
    return check_cells(followed, certificate, f"{subjects.policy} in {followed.arena.about}")


def check_cells(followed: Followed, proof: Mapping[str, Any], who: str) -> CheckResult:
    """Return whether all runs, or those from the region that the arena is narrowed to, come to listed cells and return to them."""
    arena = followed.arena
    if arena.task.network.disables_out_of_bounds:
        return Rejected("operators that leave the bounds are disabled, which sets of states do not follow")
    flow = Flow(arena.task, followed.fitted)
    grid, marks, plan = _read(flow, proof)
    if arena.region is None:
        _check_starts(flow, grid, marks)
    else:
        _check_region(flow, grid, marks, arena.region)
    _check(flow, grid, marks, plan, arena.budget)
    return Accepted(f"no run of {who} reaches fail ({int(marks.sum()):,} cells of {marks.size:,})")


def _check_starts(flow: Flow, grid: Grid, marks: Bools) -> None:
    missing = _start_marks(flow, grid) & ~marks
    if missing.any():
        raise Malformed(f"start states may lie in {_shown(flow, grid, int(missing.argmax()))}, which is not listed")


def _check_region(flow: Flow, grid: Grid, marks: Bools, region: StartRegion) -> None:
    if not region.inside:
        raise Malformed("a grid speaks of the start states in boxes, not of those outside")
    low, high = (np.tile(ends, (len(region.boxes), 1)) for ends in (flow.lower, flow.upper))
    for number, box in enumerate(region.boxes):
        for place, (least, greatest) in box.items():
            # SOUND: the ends of boxes are doubles, or integers up to 2^53; beyond its bounds no variable has a value.
            low[number, place], high[number, place] = max(low[number, place], least), min(high[number, place], greatest)
    there = (low <= high).all(axis=1)
    low, high = low[there], high[there]
    held = grid.inside(marks | ~_start_marks(flow, grid))(low, high, np.flatnonzero(there))
    if not held.all():
        bad = int(held.argmin())
        raise Malformed(f"not all cells are listed that may hold start states with {_box(flow, low[bad], high[bad])}")


def _check(flow: Flow, grid: Grid, marks: Bools, plan: Plan, budget: Budget) -> None:
    cells, inside = np.flatnonzero(marks), grid.inside(marks)
    for begin in range(0, len(cells), BATCH):
        mine = cells[begin : begin + BATCH]
        how = judge(flow, grid.boxes(mine), inside, plan, budget).how
        for bad, said in ((FAILS, "fail may be reached"), (OPEN, "some ways may never return")):
            if (how == bad).any():
                raise Malformed(f"{said} from {_shown(flow, grid, int(mine[(how == bad).argmax()]))}")


def _read(flow: Flow, certificate: Mapping[str, Any]) -> tuple[Grid, Bools, Plan]:
    given = certificate.get("lines")
    if not isinstance(given, dict) or set(given) != set(flow.place):
        raise Malformed("'lines' does not name the task's variables")
    axes = []
    for k, variable in enumerate(flow.variables):
        line = _numbers(given[variable.name], f"the lines of '{variable.name}'")
        rising = len(line) > 0 and line[0] == flow.lower[k] and line[-1] <= flow.upper[k]
        if not rising or (variable.kind is not Kind.REAL and not (line == np.floor(line)).all()):
            raise Malformed(f"the lines of '{variable.name}' do not rise from its lower bound")
        axes.append(line)
    grid = Grid(tuple(axes), flow.upper, flow.whole)
    total = int(np.prod([float(n) for n in grid.shape]))
    if total > MOST_CELLS:
        raise Malformed("there are too many cells")
    return grid, unpack_marks(certificate.get("cells"), total), _plan(flow, certificate)


def _plan(flow: Flow, certificate: Mapping[str, Any]) -> Plan:
    cuts = certificate.get("cuts", {})
    if not isinstance(cuts, dict) or not set(cuts) <= set(flow.place):
        raise Malformed("'cuts' names what is no variable of the task")
    return Plan(
        _count(certificate, "steps", None, 10_000),
        _count(certificate, "parts", MOST_PARTS, MOST_PARTS),
        _count(certificate, "halvings", 0, MOST_HALVINGS),
        tuple(_numbers(cuts.get(v.name, []), f"the cuts of '{v.name}'") for v in flow.variables),
    )


def _count(certificate: Mapping[str, Any], key: str, default: int | None, most: int) -> int:
    number, least = certificate.get(key, default), 0 if key == "halvings" else 1
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise Malformed(f"'{key}' is no number from {least} to {most}")
    return number


def _numbers(given: Any, what: str) -> Floats:
    if not isinstance(given, list) or not all(type(x) in (int, float) and abs(x) < 1e300 for x in given):
        raise Malformed(f"{what} are no numbers")
    numbers = np.array(given, dtype=np.float64)
    if not (np.diff(numbers) > 0).all():
        raise Malformed(f"{what} do not rise")
    return numbers


def pack_marks(marks: Bools) -> str:
    """Return bits as text."""
    return pack(np.packbits(marks).tobytes())


def unpack_marks(item: Any, total: int) -> Bools:
    """Return the bits that `pack_marks` wrote; Malformed if there are not so many."""
    raw = unpack(item, (total + 7) // 8, "'cells'")
    return np.unpackbits(np.frombuffer(raw, dtype=np.uint8), count=total).view(np.bool_)


def _shown(flow: Flow, grid: Grid, cell: int) -> str:
    low, high = grid.boxes(np.array([cell]))
    return _box(flow, low[0], high[0])


def _box(flow: Flow, low: Floats, high: Floats) -> str:
    return ", ".join(f"{a:.6g} <= {v.name} <= {b:.6g}" for v, a, b in zip(flow.variables, low, high, strict=True))
