"""A cell with one more row: the quick way beside the slow one, and bounds reasoning beside the states themselves."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from polvet.symbolic.cells import Box, Cell, Row, cell_of, cell_with, entailed, row_of

BOX = Box((0, -1, 2), (3, 2, 5))
STATES = tuple(product(*(range(low, high + 1) for low, high in zip(BOX.lower, BOX.upper, strict=True))))


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """A row of a few variables and marks, in normal form."""
    places = draw(st.lists(st.integers(0, 2), max_size=3, unique=True))
    coefficients = {place: draw(st.integers(-2, 2)) for place in places}
    marks = tuple(
        sorted(
            (place, draw(st.integers(0, 3)), draw(st.sampled_from((-1, 1)))) for place in range(draw(st.integers(0, 2)))
        )
    )
    lower = draw(st.none() | st.integers(-6, 8))
    upper = draw(st.none() | st.integers(-6, 8))
    return row_of(coefficients, lower, upper, marks)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """A box inside of `BOX`."""
    ends = [
        sorted((draw(st.integers(a, b)), draw(st.integers(a, b)))) for a, b in zip(BOX.lower, BOX.upper, strict=True)
    ]
    return Box(tuple(a for a, _ in ends), tuple(b for _, b in ends))


@st.composite
def cells(draw: st.DrawFn) -> Cell | None:
    """A cell with rows and holes, as `cell_of` makes them."""
    holes = [
        Cell(box) if not (inner := draw(st.lists(rows(), max_size=1))) else cell_of(box, inner)
        for box in draw(st.lists(boxes(), max_size=2))
    ]
    return cell_of(draw(boxes()), draw(st.lists(rows(), max_size=2)), [hole for hole in holes if hole is not None])


def states_of(cell: Cell | None) -> set[tuple[int, ...]]:
    return set() if cell is None else {state for state in STATES if cell.holds(state)}


@given(cells(), rows())
def test_a_cell_with_one_more_row_is_the_cell_made_anew(cell: Cell | None, row: Row) -> None:
    if cell is None:
        return
    quick, slow = cell_with(cell, row), cell_of(cell.box, (*cell.rows, row), cell.holes)
    assert states_of(quick) == states_of(slow) == {state for state in states_of(cell) if row.holds(state)}
    if not cell.holes:
        assert quick == slow


@given(cells(), rows())
def test_bounds_tell_only_what_holds_in_all_states_or_in_none(cell: Cell | None, row: Row) -> None:
    if cell is None:
        return
    told = entailed(cell, row)
    if told is not None:
        assert {row.holds(state) for state in states_of(cell)} <= {told}
