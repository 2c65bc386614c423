"""Expressions over bounded integers as linear data: conditions become regions, values become cases of affine sums.

Source   Vinzent, Steinmetz, Hoffmann, Neural network action policy verification via predicate abstraction, ICAPS 2022,
         section 2: linear guards and updates
Differs  `≠` and the like become holes of cells; more than linear is read by cases: `min`, `max`, `abs`, `ite`, array
         elements at computed indices, and anything over variables with few values, which the interpreter evaluates
Cost     the number of cells is exponential in nested disjunctions; MOST_CELLS bounds it
Limits   bounded integers and truth values; `NotLinear` says which expression is something else
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod

from polvet.errors import InputError
from polvet.model.arithmetic import Value
from polvet.model.evaluate import compile_expression
from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Select,
    Unary,
    children,
    names,
    operands_of,
)
from polvet.model.folding import value_of
from polvet.model.infix import dump_expression
from polvet.model.kinds import kind_of
from polvet.model.network import Kind, Network, Variable
from polvet.symbolic.cells import Box, Cell, Marks, Region, Row, Terms, cell_of, linear_sum, row_of

MOST_CELLS = 20_000
MOST_VALUES = 512
"""An expression over variables with at most so many valuations is read value by value where nothing better is known."""
MOST_HOLES = 64
LARGEST = 2**40
"""Greater numbers are refused, so that sums of a few thousand terms stay within 64 bits."""


class NotLinear(Exception):
    """The model cannot be read as linear data; `why` names the expression and the reason."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + sum(coefficient * x[variable]) + sum(coefficient * [x[variable] = value]), as in a `Row`."""

    terms: Terms
    constant: int = 0
    marks: Marks = ()

    @property
    def is_constant(self) -> bool:
        """Return whether the value is the same in every state."""
        return not self.terms and not self.marks

    def value(self, state: Sequence[Value]) -> int:
        """Return the value in a state."""
        return self.constant + linear_sum(self.terms, self.marks, state)

    def span(self, box: Box) -> tuple[int, int]:
        """Return bounds on the value over a box."""
        low, high = box.span(self.terms, self.marks)
        return low + self.constant, high + self.constant


@dataclass(frozen=True, slots=True)
class Case:
    """Inside the cell the value is `value`."""

    cell: Cell
    value: Affine


Environment = Mapping[str, Affine]
"""What each name stands for, in terms of the state before the step."""


def bounds_of(network: Network) -> Box:
    """Return the box of all values within the variables' bounds, or raise NotLinear."""
    lower, upper = [], []
    for variable in network.variables:
        low, high = integer_bounds(variable)
        lower.append(low)
        upper.append(high)
    return Box(tuple(lower), tuple(upper))


def integer_bounds(variable: Variable) -> tuple[int, int]:
    """Return the bounds of a truth value or bounded integer, or raise NotLinear."""
    if variable.kind is Kind.BOOL:
        return 0, 1
    if variable.locations is not None:
        return 0, len(variable.locations) - 1
    if variable.kind is Kind.REAL:
        raise NotLinear(f"the variable '{variable.name}' is real")
    if variable.lower is None or variable.upper is None:
        raise NotLinear(f"the variable '{variable.name}' has no bounds")
    low, high = int(variable.lower), int(variable.upper)
    if max(abs(low), abs(high)) > LARGEST:
        raise NotLinear(f"the bounds of '{variable.name}' are beyond 2^40")
    return low, high


class Reader:
    """Reads resolved expressions of one network; every answer holds for states inside `bounds`.

    With `exact`, reals are fractions, as in probabilities; without, they are doubles, as everywhere else.
    """

    def __init__(self, network: Network, *, exact: bool = False) -> None:
        self.network = network
        self.exact = exact
        self.bounds = bounds_of(network)
        self.whole = Cell(self.bounds)
        self.position = {variable.name: place for place, variable in enumerate(network.variables)}
        self.kinds = {variable.name: variable.kind for variable in (*network.variables, *network.scratch)}
        self.plain: Environment = {name: Affine(((place, 1),)) for name, place in self.position.items()}

    # -- conditions

    def region(
        self,
        condition: Expression,
        *,
        within: Cell | None = None,
        negated: bool = False,
        names: Environment | None = None,
    ) -> Region:
        """Return the cells of `within` in which the condition holds (with `negated`: does not); their union is exact."""
        cell = self.whole if within is None else within
        return self._region(condition, cell, negated, self.plain if names is None else names)

    def _region(self, condition: Expression, cell: Cell, negated: bool, env: Environment) -> Region:
        match condition:
            case BoolLiteral(value):
                return (cell,) if value != negated else ()
            case Name(name):
                return self._compare(env[name], Affine((), 0 if negated else 1), "=", cell)
            case Unary("¬", operand):
                return self._region(operand, cell, not negated, env)
            case Binary("⇒", left, right):
                return self._region(Binary("∨", Unary("¬", left), right), cell, negated, env)
            case Binary(("∧" | "∨") as operator, left, right):
                parts = list(operands_of(condition, operator))
                if (operator == "∧") != negated:
                    return self._all(parts, cell, negated, env)
                holed = self._without(parts, cell, negated, env)
                return self._any(parts, cell, negated, env) if holed is None else holed
            case Binary(("=" | "≠" | "<" | "≤" | ">" | "≥") as operator, left, right):
                if operator in ("=", "≠") and self._kind(left) is Kind.BOOL:
                    return self._same_truth(left, right, cell, (operator == "=") == negated, env)
                relation = _OPPOSITE[operator] if negated else operator
                return self._comparison(condition, left, right, relation, cell, env)
            case Conditional(test, then, otherwise):
                branches = (
                    self._region(branch, part, negated, env)
                    for branch, fails in ((then, False), (otherwise, True))
                    for part in self._region(test, cell, fails, env)
                )
                return _capped(chain.from_iterable(branches), condition)
            case _:
                cases = self._cases(condition, cell, env)
                wanted = Affine((), 0 if negated else 1)
                return _capped(
                    (c for case in cases for c in self._compare(case.value, wanted, "=", case.cell)), condition
                )

    def _all(self, parts: Sequence[Expression], cell: Cell, negated: bool, env: Environment) -> Region:
        region: Region = (cell,)
        # Plain comparisons first: they narrow the box before anything falls into cells. SOUND: a part that has no value somewhere
        # is an error wherever the parts before it let it be evaluated, so it must not change places with one behind it.
        if all(_is_total(part) for part in parts):
            parts = sorted(parts, key=lambda one: _comparison_in(one) is None)
        for part in parts:
            region = _capped((c for one in region for c in self._region(part, one, negated, env)), part)
            if not region:
                return ()
        return region

    def _without(self, parts: Sequence[Expression], cell: Cell, negated: bool, env: Environment) -> Region | None:
        """Return the cell with holes where none of the parts holds, if that is plain: ¬(x = 1 ∧ y = 2); None if not."""
        plain = [_comparison_in(part) for part in parts]
        if None in plain or not any(_excludes(part, negated) for part in parts):
            return None
        holes = self._all(parts, Cell(cell.box, cell.rows), not negated, env)
        if len(holes) > MOST_HOLES or any(hole.holes for hole in holes):
            return None
        kept = cell_of(cell.box, cell.rows, (*cell.holes, *holes))
        return () if kept is None else (kept,)

    def _any(self, parts: Sequence[Expression], cell: Cell, negated: bool, env: Environment) -> Region:
        return _capped((c for part in parts for c in self._region(part, cell, negated, env)), parts[0])

    def _same_truth(self, left: Expression, right: Expression, cell: Cell, differ: bool, env: Environment) -> Region:
        cells: list[Cell] = []
        for truth in (False, True):
            for one in self._region(left, cell, truth, env):
                cells += self._region(right, one, truth != differ, env)
        return _capped(cells, left)

    def _comparison(
        self, whole: Expression, left: Expression, right: Expression, relation: str, cell: Cell, env: Environment
    ) -> Region:
        try:
            cells = [
                c
                for one in self._cases(left, cell, env)
                for other in self._cases(right, one.cell, env)
                for c in self._compare(one.value, other.value, relation, other.cell)
            ]
        except NotLinear:
            # Reals in between, such as x / 2 > 1.5: over few valuations the interpreter says where it holds.
            wanted = _OPPOSITE[whole.operator] == relation if isinstance(whole, Binary) else False
            cases = self._by_values(whole, cell, env)
            return tuple(case.cell for case in cases if bool(case.value.constant) != wanted)
        return _capped(cells, whole)

    def _compare(self, left: Affine, right: Affine, relation: str, cell: Cell) -> Region:
        both = _sum(left, right, -1)
        difference, marks, bound = dict(both.terms), both.marks, -both.constant
        ranges: list[tuple[int | None, int | None]]
        match relation:
            case "=":
                ranges = [(bound, bound)]
            case "≠":
                hole = cell_of(cell.box, (row_of(difference, bound, bound, marks),))
                kept = cell_of(cell.box, cell.rows, cell.holes if hole is None else (*cell.holes, hole))
                return () if kept is None else (kept,)
            case "<":
                ranges = [(None, bound - 1)]
            case "≤":
                ranges = [(None, bound)]
            case ">":
                ranges = [(bound + 1, None)]
            case _:
                ranges = [(bound, None)]
        cells = (
            cell_of(cell.box, (*cell.rows, row_of(difference, low, high, marks)), cell.holes) for low, high in ranges
        )
        return tuple(one for one in cells if one is not None)

    # -- values

    def cases(
        self, expression: Expression, *, within: Cell | None = None, names: Environment | None = None
    ) -> list[Case]:
        """Return the value of a number or truth value by cases that cover `within`; cases do not overlap."""
        return self._cases(expression, self.whole if within is None else within, self.plain if names is None else names)

    def _cases(self, expression: Expression, cell: Cell, env: Environment) -> list[Case]:
        match expression:
            case BoolLiteral(value) | IntLiteral(value):
                return [Case(cell, Affine((), _small(int(value), expression)))]
            case RealLiteral(value) if value.denominator == 1:
                return [Case(cell, Affine((), _small(int(value), expression)))]
            case Name(name) if name in env:
                return [Case(cell, env[name])]
            case Binary("+", left, right):
                return self._pairs(expression, left, right, cell, env, lambda x, y: _sum(x, y, 1))
            case Binary("-", left, right):
                return self._pairs(expression, left, right, cell, env, lambda x, y: _sum(x, y, -1))
            case Binary("*", left, right):
                return self._product(expression, left, right, cell, env)
            case Binary(("min" | "max") as operator, left, right):
                first = "≤" if operator == "min" else "≥"
                return self._chosen(expression, left, right, cell, env, first)
            case Unary("abs", operand):
                return self._absolute(expression, operand, cell, env)
            case Unary(("floor" | "ceil" | "trc"), operand) if self._kind(operand) is Kind.INT:
                return self._cases(operand, cell, env)
            case Conditional(test, then, otherwise) if (marked := self._marked(test, then, otherwise, env)) is not None:
                return [Case(cell, marked)]
            case Conditional(test, then, otherwise):
                return _capped_cases(
                    [
                        *(c for one in self._disjoint(test, cell, False, env) for c in self._cases(then, one, env)),
                        *(c for one in self._disjoint(test, cell, True, env) for c in self._cases(otherwise, one, env)),
                    ],
                    expression,
                )
            case Select(_, _, items):
                return _capped_cases(
                    [
                        c
                        for one, item in self.elements(expression, cell, env)
                        for c in self._cases(items[item], one, env)
                    ],
                    expression,
                )
            case _ if self._kind(expression) is Kind.BOOL:
                return [
                    Case(one, Affine((), 0 if negated else 1))
                    for negated in (False, True)
                    for one in self._disjoint(expression, cell, negated, env)
                ]
            case _:
                return self._by_values(expression, cell, env)

    def _marked(self, test: Expression, then: Expression, otherwise: Expression, env: Environment) -> Affine | None:
        """Return `x = c ? a : b` as b + (a - b) * [x = c], so that a sum of such terms stays one row."""
        yes, no = value_of(then), value_of(otherwise)
        match test:
            case Binary(("=" | "≠") as operator, Name(name), IntLiteral(value)) if yes is not None and no is not None:
                if operator == "≠":
                    yes, no = no, yes
            case _:
                return None
        if not isinstance(yes, int) or not isinstance(no, int) or max(abs(yes), abs(no), abs(value)) > LARGEST:
            return None
        match env[name]:
            case Affine(((place, 1),), shift, ()):
                change = int(yes) - int(no)
                return Affine((), int(no), ((place, value - shift, change),) if change else ())
            case _:
                return None

    def elements(self, select: Select, cell: Cell, env: Environment) -> list[tuple[Cell, int]]:
        """Return which item a computed index selects, by cells; an index that may leave the array raises NotLinear."""
        parts: list[tuple[Cell, int]] = [(cell, 0)]
        for index, length in zip(select.indices, select.shape, strict=True):
            refined: list[tuple[Cell, int]] = []
            for one, place in parts:
                for case in self._cases(index, one, env):
                    least, most = case.value.span(case.cell.box)
                    outside = [
                        *self._compare(case.value, Affine((), 0), "<", case.cell),
                        *self._compare(case.value, Affine((), length), "≥", case.cell),
                    ]
                    if outside:
                        raise NotLinear(f"the index {shown(index)} may leave its array of {length}")
                    for value in range(max(least, 0), min(most, length - 1) + 1):
                        cells = self._compare(case.value, Affine((), value), "=", case.cell)
                        refined += [(c, place * length + value) for c in cells]
            parts = refined
        return parts

    def _disjoint(self, condition: Expression, cell: Cell, negated: bool, env: Environment) -> Region:
        """Return the region as cells that do not overlap, which cases must not."""
        region = self._region(condition, cell, negated, env)
        if len(region) <= 1:
            return region
        match condition:
            case Unary("¬", operand):
                return self._disjoint(operand, cell, not negated, env)
            case Binary("⇒", left, right):
                return self._disjoint(Binary("∨", Unary("¬", left), right), cell, negated, env)
            case Binary(("∧" | "∨") as operator, left, right):
                if (operator == "∧") != negated:
                    return _capped(
                        (
                            c
                            for one in self._disjoint(left, cell, negated, env)
                            for c in self._disjoint(right, one, negated, env)
                        ),
                        condition,
                    )
                rest = self._disjoint(left, cell, not negated, env)
                return _capped(
                    [
                        *self._disjoint(left, cell, negated, env),
                        *(c for one in rest for c in self._disjoint(right, one, negated, env)),
                    ],
                    condition,
                )
            case Conditional(test, then, otherwise):
                branches = (
                    self._disjoint(branch, part, negated, env)
                    for branch, fails in ((then, False), (otherwise, True))
                    for part in self._disjoint(test, cell, fails, env)
                )
                return _capped(chain.from_iterable(branches), condition)
            case _:
                return region  # comparisons and equivalences never give overlapping cells

    def _pairs(
        self,
        whole: Expression,
        left: Expression,
        right: Expression,
        cell: Cell,
        env: Environment,
        combine: Callable[[Affine, Affine], Affine],
    ) -> list[Case]:
        cases = [
            Case(other.cell, combine(one.value, other.value))
            for one in self._cases(left, cell, env)
            for other in self._cases(right, one.cell, env)
        ]
        for case in cases:
            _small(case.value.constant, whole)
            for *_, coefficient in (*case.value.terms, *case.value.marks):
                _small(coefficient, whole)
        return _capped_cases(cases, whole)

    def _product(
        self, whole: Expression, left: Expression, right: Expression, cell: Cell, env: Environment
    ) -> list[Case]:
        cases = []
        for one in self._cases(left, cell, env):
            for other in self._cases(right, one.cell, env):
                x, y = one.value, other.value
                if not y.is_constant and (x.is_constant or self._range(x, other.cell) < self._range(y, other.cell)):
                    x, y = y, x
                if y.is_constant:
                    cases.append(Case(other.cell, _scaled(x, y.constant, whole)))
                    continue
                least, most = y.span(other.cell.box)
                if most - least >= MOST_VALUES:
                    raise NotLinear(f"{shown(whole)} multiplies variables with many values")
                for value in range(least, most + 1):
                    scaled = _scaled(x, value, whole)
                    cases += [Case(c, scaled) for c in self._compare(y, Affine((), value), "=", other.cell)]
        return _capped_cases(cases, whole)

    def _range(self, value: Affine, cell: Cell) -> int:
        least, most = value.span(cell.box)
        return most - least

    def _chosen(
        self, whole: Expression, left: Expression, right: Expression, cell: Cell, env: Environment, first: str
    ) -> list[Case]:
        cases = []
        for one in self._cases(left, cell, env):
            for other in self._cases(right, one.cell, env):
                cases += [Case(c, one.value) for c in self._compare(one.value, other.value, first, other.cell)]
                rest = self._compare(one.value, other.value, _OPPOSITE[first], other.cell)
                cases += [Case(c, other.value) for c in rest]
        return _capped_cases(cases, whole)

    def _absolute(self, whole: Expression, operand: Expression, cell: Cell, env: Environment) -> list[Case]:
        cases, zero = [], Affine(())
        for case in self._cases(operand, cell, env):
            cases += [Case(c, case.value) for c in self._compare(case.value, zero, "≥", case.cell)]
            cases += [Case(c, _scaled(case.value, -1, whole)) for c in self._compare(case.value, zero, "<", case.cell)]
        return _capped_cases(cases, whole)

    def _by_values(self, expression: Expression, cell: Cell, env: Environment) -> list[Case]:
        """Return one case per valuation of the variables that the expression reads, evaluated by the interpreter."""
        read = sorted(names(expression))
        places = sorted({place for name in read for place, *_ in (*env[name].terms, *env[name].marks)})
        box = cell.box
        count = prod(box.upper[place] - box.lower[place] + 1 for place in places)
        if count > MOST_VALUES:
            raise NotLinear(f"{shown(expression)} is not linear, and its variables have {count} valuations")
        evaluate = compile_expression(expression, {name: k for k, name in enumerate(read)}, exact=self.exact)
        cases = []
        for values in product(*(range(box.lower[place], box.upper[place] + 1) for place in places)):
            rows = [Row(((p, 1),), v, v) for p, v in zip(places, values, strict=True)]
            part = cell_of(box, (*cell.rows, *rows), cell.holes)
            if part is None:
                continue
            state = part.box.lower  # its entries at `places` are the values
            given = [self._typed(name, env[name].value(state)) for name in read]
            try:
                value = evaluate(given)
            except InputError as error:
                raise NotLinear(f"{shown(expression)} cannot be evaluated everywhere: {error.what}") from None
            if value != int(value):
                raise NotLinear(f"{shown(expression)} has values that are not integers")
            cases.append(Case(part, Affine((), _small(int(value), expression))))
        return cases

    def _typed(self, name: str, value: int) -> Value:
        return bool(value) if self.kinds[name] is Kind.BOOL else value

    def _kind(self, expression: Expression) -> Kind:
        return kind_of(expression, self.kinds)


def shown(expression: Expression) -> str:
    """Return the expression as people write it, cut where it is long."""
    text = dump_expression(expression)
    return text if len(text) <= 80 else text[:77] + "..."


_OPPOSITE = {"=": "≠", "≠": "=", "<": "≥", "≥": "<", ">": "≤", "≤": ">"}


def _comparison_in(part: Expression) -> Expression | None:
    """Return the variable or comparison that a part is, negated or not; None for anything else."""
    inner = part.operand if isinstance(part, Unary) and part.operator == "¬" else part
    is_plain = isinstance(inner, Name) or (isinstance(inner, Binary) and inner.operator in _OPPOSITE)
    return inner if is_plain else None


def _is_total(expression: Expression) -> bool:
    """Return whether the expression has a value in every state, as far as its operators tell."""
    pending = [expression]
    while pending:
        part = pending.pop()
        match part:
            case Select() | Binary("/" | "pow" | "log"):
                return False
            case Binary("%", _, right) if not (isinstance(right, IntLiteral) and right.value):
                return False
            case Unary(operator, _) if operator not in _TOTAL:
                return False
        pending += children(part)
    return True


_TOTAL = frozenset(("¬", "abs", "sgn", "floor", "ceil", "trc"))


def _excludes(part: Expression, negated: bool) -> bool:
    """Return whether the part is of the kind x ≠ y, so that saying where it fails is shorter than where it holds."""
    match part:
        case Unary("¬", operand):
            return _excludes(operand, not negated)
        case Binary("≠", _, _):
            return not negated
        case Binary("=", _, _):
            return negated
        case _:
            return False


def _capped(cells: Iterable[Cell], what: Expression) -> Region:
    region: list[Cell] = []
    for cell in cells:
        region.append(cell)
        if len(region) > MOST_CELLS:
            raise NotLinear(f"{shown(what)} falls into more than {MOST_CELLS} cells")
    return tuple(region)


def _capped_cases(cases: list[Case], what: Expression) -> list[Case]:
    if len(cases) > MOST_CELLS:
        raise NotLinear(f"{shown(what)} falls into more than {MOST_CELLS} cases")
    return cases


def _small(number: int, what: Expression) -> int:
    if abs(number) > LARGEST:
        raise NotLinear(f"{shown(what)} has numbers beyond 2^40")
    return number


def _sum(x: Affine, y: Affine, sign: int) -> Affine:
    terms = dict(x.terms)
    for place, c in y.terms:
        terms[place] = terms.get(place, 0) + sign * c
    marks = {(place, value): c for place, value, c in x.marks}
    for place, value, c in y.marks:
        marks[place, value] = marks.get((place, value), 0) + sign * c
    return Affine(
        tuple(sorted((p, c) for p, c in terms.items() if c)),
        x.constant + sign * y.constant,
        tuple(sorted((p, v, c) for (p, v), c in marks.items() if c)),
    )


def _scaled(x: Affine, factor: int, what: Expression) -> Affine:
    if factor == 0:
        return Affine(())
    return Affine(
        tuple((p, _small(c * factor, what)) for p, c in x.terms),
        _small(x.constant * factor, what),
        tuple((p, v, _small(c * factor, what)) for p, v, c in x.marks),
    )
