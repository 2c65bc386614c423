"""Boxes of states from which `fail` cannot be avoided: whatever is chosen, some outcome is in `fail`, or in a box of smaller rank.

A *game* is a list of boxes over all variables (most are not restricted), each with a rank: a constant and a slope for each variable,
so that the rank of a state is an integer. Checked, for all states of a box that satisfy the certificate's rows and are not in `fail`:

no state is a goal state, and some operator is enabled            `_check_running`, `_check_enabled`
every enabled operator has an outcome that surely may happen, after which the rows hold and which is in `fail`, or in a box of the
same game with a smaller rank                                     `_check_operator`
no operator breaks a rule of the model                            `_check_errors`

SOUND: values are bounded, and so are ranks. Whoever is in a box has an action, each of its operators (silent ones, too) may lead to
`fail` or to a smaller rank in a box, where the same holds: after finitely many steps that is `fail`.
Cost     boxes times operators, in numpy; what is not told at once is cut where boxes end (at most MOST_CUTS times)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.check.box_view import affine, effects, interval, row_of, substituted
from polvet.check.invariant_conditions import contracted, expanded, guard_box, rows_of
from polvet.check.invariant_errors import PossibleError, possible_errors
from polvet.check.invariant_rows import Ints, Row
from polvet.check.invariant_space import Operator, Space, place_of, read_boxes, read_integer
from polvet.model.expressions import Binary, Expression, IntLiteral, Unary
from polvet.model.folding import value_of
from polvet.records.state_json import Malformed

Bools = npt.NDArray[np.bool_]
MOST_CUTS = 20_000
"""Times that what an operator does in the boxes of a game is cut, and pieces of a box in which operators are looked for."""
MOST_SLOPE, MOST_FACTOR, MOST_CONSTANT = 2**20, 2**10, 2**40
EXACT = 2.0**52
"""SOUND: a rank whose parts may add up to more is compared with nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """Boxes with ranks."""

    lower: Ints  # [boxes, variables]
    upper: Ints
    constant: Ints  # [boxes]
    slopes: Ints  # [boxes, variables]
    places: tuple[int, ...]  # the variables that some box restricts

    def holds(self, points: Ints) -> Bools:
        """Return which points [n, variables] are in some box."""
        inside = np.zeros(len(points), dtype=np.bool_)
        for low, high in zip(self.lower, self.upper, strict=True):
            inside |= ((points >= low) & (points <= high)).all(axis=1)
        return inside


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Parts of boxes: of which box each is one, and its bounds [n, variables]."""

    box: Ints
    lower: Ints
    upper: Ints

    def only(self, kept: Bools) -> Pieces:
        """Return those that are kept."""
        return Pieces(self.box[kept], self.lower[kept], self.upper[kept])

    def narrowed(self, space: Space, conditions: list[Expression]) -> Pieces:
        """Return what the claim's rows and these conditions leave of them."""
        rows, tests = rows_of(space, conditions)
        lower, upper, kept = contracted(space, self.lower, self.upper, [*rows, *space.claim.rows])
        left = Pieces(self.box[kept], lower, upper)
        for test in tests:
            left = left.only(left.values(space, test)[1] != 0)
        return left

    def values(self, space: Space, expression: Expression) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return bounds on the value in each."""
        return interval(expression, space.place, self.lower.astype(np.float64), self.upper.astype(np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """A choice of branches that surely may happen: all values after it, as expressions and where they are affine as such."""

    after: Mapping[str, Expression]
    sums: Mapping[int, tuple[Mapping[int, int], int] | None]
    fails: Expression
    keeps_rows: bool


def read_games(space: Space, items: Any) -> list[Game]:
    """Return the games of the certificate, or raise Malformed."""
    if not isinstance(items, list) or not items or not all(isinstance(boxes, list) and boxes for boxes in items):
        raise Malformed("'lost' is not a list of lists of boxes")
    return [_read_game(space, boxes, f"lost[{k}]") for k, boxes in enumerate(items)]


def _read_game(space: Space, items: list[Any], what: str) -> Game:
    if not all(isinstance(item, dict) and isinstance(item.get("slopes"), dict) for item in items):
        raise Malformed(f"{what} holds what is no box with 'slopes'")
    lower, upper = read_boxes([item.get("box") for item in items], what, space.place, space.lower, space.upper)
    if bool(((lower > upper) | (lower < space.lower) | (upper > space.upper)).any()):
        raise Malformed(f"a box of {what} is empty, or beyond the bounds of a variable")
    constant = np.array([_bounded(item.get("rank"), what, MOST_CONSTANT) for item in items], dtype=np.int64)
    slopes = np.zeros_like(lower)
    for k, item in enumerate(items):
        for name, slope in item["slopes"].items():
            slopes[k, place_of(name, space.place, what)] = _bounded(slope, what, MOST_SLOPE)
    restricted = np.any((lower > space.lower) | (upper < space.upper), axis=0)
    return Game(lower, upper, constant, slopes, tuple(np.flatnonzero(restricted).tolist()))


def _bounded(value: Any, what: str, most: int) -> int:
    if abs(read_integer(value, what)) > most:
        raise Malformed(f"{what} holds a number beyond {most:,}")
    return int(value)


def check_games(space: Space, games: list[Game]) -> None:
    """Raise Malformed unless `fail` cannot be avoided from any state of the boxes that satisfies the rows."""
    if space.claim.marks:
        raise Malformed("rows with marks are not read here")
    operators = []
    for operator in space.operators:
        box = guard_box(space, operator.guard)
        if box is not None:
            operators.append((operator, box, _ways(space, operator)))
    errors = possible_errors(space)
    for game in games:
        whole = Pieces(np.arange(len(game.lower)), game.lower, game.upper)
        running = whole.narrowed(space, [Unary("¬", space.task.fail)])
        _check_errors(space, running, errors)
        _check_running(space, running)
        guards = [box for _, box, _ in operators]
        guards.sort(key=lambda box: _beyond(space, game, box))
        _check_enabled(space, running, guards)
        for operator, (lower, upper, rest), ways in operators:
            space.arena.budget.check()
            low, high = np.maximum(running.lower, lower), np.minimum(running.upper, upper)
            possible: Bools = np.all(low <= high, axis=1)
            pieces = Pieces(running.box, low, high).only(possible)
            if rest and len(pieces.box):
                pieces = pieces.narrowed(space, rest)
            _check_operator(space, game, operator, ways, pieces)


def _check_errors(space: Space, running: Pieces, errors: list[PossibleError]) -> None:
    for error in errors:
        left = running.narrowed(space, list(error.conditions))
        if len(left.box):
            raise Malformed(f"a rule of the model may be broken near {_corner(space, left)}")


def _check_running(space: Space, running: Pieces) -> None:
    for together in expanded([space.task.goal, Unary("¬", space.task.fail)]):
        left = running.narrowed(space, together)
        if len(left.box):
            raise Malformed(f"a lost box may hold a goal state near {_corner(space, left)}")


def _check_enabled(space: Space, running: Pieces, guards: list[tuple[Ints, Ints, list[Expression]]]) -> None:
    """Raise Malformed unless the guards together hold in all of the pieces: those that are boxes are taken away one by one."""
    left = running
    for lower, upper, rest in guards:
        if not len(left.box):
            return
        if rest:
            whole: Bools = np.all((left.lower >= lower) & (left.upper <= upper), axis=1)
            for test in rest:
                whole &= left.values(space, test)[0] == 1
            left = left.only(~whole)
        else:
            left = _without(left, lower, upper)
        if len(left.box) > MOST_CUTS:
            raise Malformed("whether some operator is enabled takes too many cuts")
    left = left.narrowed(space, [Unary("¬", space.task.fail)])
    if len(left.box):
        raise Malformed(f"no operator may be enabled in a lost box near {_corner(space, left)}")


def _beyond(space: Space, game: Game, guard: tuple[Ints, Ints, list[Expression]]) -> tuple[bool, int]:
    """Return how much else a guard asks for than what tells boxes apart: guards that ask for nothing else cut little."""
    restricted = (guard[0] > space.lower) | (guard[1] < space.upper)
    return bool(guard[2]), int(restricted.sum() - restricted[list(game.places)].sum())


def _without(pieces: Pieces, lower: Ints, upper: Ints) -> Pieces:
    """Return what is left of the pieces without a box."""
    hit: Bools = np.all((pieces.lower <= upper) & (pieces.upper >= lower), axis=1)
    if not hit.any():
        return pieces
    rest, parts = pieces.only(hit), [pieces.only(~hit)]
    low, high = rest.lower.copy(), rest.upper.copy()
    for place in np.flatnonzero((low < lower).any(axis=0) | (high > upper).any(axis=0)).tolist():
        for outside, ends, end in (
            (low[:, place] < lower[place], high, int(lower[place]) - 1),
            (high[:, place] > upper[place], low, int(upper[place]) + 1),
        ):
            if outside.any():
                part = Pieces(rest.box[outside], low[outside], high[outside])
                (part.upper if ends is high else part.lower)[:, place] = end
                parts.append(part)
        low[:, place] = np.maximum(low[:, place], lower[place])
        high[:, place] = np.minimum(high[:, place], upper[place])
    return _joined(parts)


def _joined(parts: list[Pieces]) -> Pieces:
    return Pieces(
        np.concatenate([one.box for one in parts]),
        np.concatenate([one.lower for one in parts]),
        np.concatenate([one.upper for one in parts]),
    )


def _ways(space: Space, operator: Operator) -> list[Way]:
    """Return the choices of branches that surely may happen where the operator is enabled."""
    ways = []
    for branches, _ in operator.ways():
        chances = [value_of(edge.branches[k].probability) for edge, k in zip(operator.edges, branches, strict=True)]
        if any(chance is None or chance <= 0 for chance in chances):
            continue
        after = effects(space.network, operator.edges, branches)
        sums = {space.place[name]: _sum(space, value) for name, value in after.items()}
        fails = substituted(space.task.fail, after)
        ways.append(Way(after, sums, fails, all(_keeps(row, sums) for row in space.claim.rows)))
    return ways


def _sum(space: Space, value: Expression) -> tuple[Mapping[int, int], int] | None:
    """Return the value as factors of variables and a constant; None where it is no small such sum."""
    # `row_of` knows where the interpreter's arithmetic is exact.
    exact = row_of(Binary("≥", value, IntLiteral(0)), space.place, space.sizes)
    read = None if exact is None else affine(value, space.place)
    if read is None:
        return None
    factors = {key: factor for key, factor in read[0].items() if isinstance(key, int)}
    small = all(abs(factor) <= MOST_FACTOR for factor in factors.values()) and abs(read[1]) <= 2**30
    return (factors, read[1]) if len(factors) == len(read[0]) and small else None


def _keeps(row: Row, sums: Mapping[int, tuple[Mapping[int, int], int] | None]) -> bool:
    """Return whether the row's sum is the same after a step, whatever the state."""
    change: dict[int, int] = {}
    by = 0
    for place, value in sums.items():
        coefficient = int(row.coefficients[place])
        if not coefficient:
            continue
        if value is None:
            return False
        by += coefficient * value[1]
        change[place] = change.get(place, 0) - coefficient
        for other, factor in value[0].items():
            change[other] = change.get(other, 0) + coefficient * factor
    return by == 0 and not any(change.values())


def _check_operator(space: Space, game: Game, operator: Operator, ways: list[Way], pieces: Pieces) -> None:
    """Raise Malformed unless in every piece some way leads to `fail` or to a smaller rank."""
    narrow, cuts = False, 0
    while len(pieces.box):
        told = np.zeros(len(pieces.box), dtype=np.bool_)
        images = []
        for way in ways:
            image = _image(space, way, pieces)
            images.append(image)
            told |= pieces.values(space, way.fails)[0] == 1
            if way.keeps_rows and not told.all():
                told |= _falls(game, way, pieces, image)
        images = [image.only(~told) for image in images]
        pieces = pieces.only(~told)
        if not len(pieces.box):
            return
        if not narrow:  # rows make no difference mostly
            pieces, narrow = pieces.narrowed(space, [operator.guard, Unary("¬", space.task.fail)]), True
            continue
        cuts += len(pieces.box)
        if cuts > MOST_CUTS:
            raise Malformed("what operators do in lost boxes takes too many cuts")
        pieces = _joined([_halves(space, game, ways, images, pieces, k) for k in range(len(pieces.box))])
        pieces = pieces.narrowed(space, [])


def _image(space: Space, way: Way, pieces: Pieces) -> Pieces:
    """Return boxes around what comes after the step. SOUND: no rule is broken, so that values stay within their bounds."""
    lower, upper = pieces.lower.copy(), pieces.upper.copy()
    for name, value in way.after.items():
        place = space.place[name]
        low, high = pieces.values(space, value)
        least, most = float(space.lower[place]), float(space.upper[place])
        lower[:, place] = np.clip(low, least, most).astype(np.int64)
        upper[:, place] = np.clip(high, least, most).astype(np.int64)
    return Pieces(pieces.box, lower, upper)


def _falls(game: Game, way: Way, pieces: Pieces, image: Pieces) -> Bools:
    """Return in which pieces the step surely leads into one box, where the rank is smaller."""
    inside = np.ones((len(pieces.box), len(game.lower)), dtype=np.bool_)
    for place in game.places:
        inside &= image.lower[:, place, None] >= game.lower[:, place]
        inside &= image.upper[:, place, None] <= game.upper[:, place]
    at, target = np.nonzero(inside)
    slopes, constant = game.slopes[target].copy(), game.constant[target].copy()
    readable, largest = np.ones(len(at), dtype=np.bool_), np.abs(constant).astype(np.float64)
    for place, value in way.sums.items():
        slope = game.slopes[target][:, place]
        if value is None:
            readable &= slope == 0
            continue
        slopes[:, place] -= slope
        constant += slope * value[1]
        largest += np.abs(slope * value[1])
        for other, factor in value[0].items():
            slopes[:, other] += slope * factor
    own = pieces.box[at]
    slopes -= game.slopes[own]
    low, high = pieces.lower[at], pieces.upper[at]
    reach = (np.abs(slopes.astype(np.float64)) * np.maximum(np.abs(low), np.abs(high))).sum(axis=1)
    # SOUND: what is added up along the way is never more than this, so that no integer wraps.
    readable &= reach + largest + np.abs(game.constant[own]) < EXACT
    greatest = np.where(slopes > 0, slopes * high, slopes * low).sum(axis=1) + constant - game.constant[own]
    falls = np.zeros(len(pieces.box), dtype=np.bool_)
    falls[at[readable & (greatest < 0)]] = True
    return falls


def _halves(space: Space, game: Game, ways: list[Way], images: list[Pieces], pieces: Pieces, k: int) -> Pieces:
    """Return the piece cut in two where a box ends to which it may lead, or raise Malformed."""
    for way, image in zip(ways, images, strict=True):
        low, high = image.lower[k], image.upper[k]
        near: Bools = np.all((game.lower <= high) & (game.upper >= low), axis=1) & way.keeps_rows
        for box in np.flatnonzero(near).tolist():
            for place in game.places:
                for end in (int(game.lower[box, place]), int(game.upper[box, place]) + 1):
                    if not low[place] < end <= high[place]:
                        continue
                    cut = _before(way, place, end)
                    if cut is not None and pieces.lower[k, cut[0]] < cut[1] <= pieces.upper[k, cut[0]]:
                        lower, upper = pieces.lower[[k, k]], pieces.upper[[k, k]]
                        upper[0, cut[0]], lower[1, cut[0]] = cut[1] - 1, cut[1]
                        return Pieces(pieces.box[[k, k]], lower, upper)
    alone = Pieces(pieces.box[k : k + 1], pieces.lower[k : k + 1], pieces.upper[k : k + 1])
    raise Malformed(f"an operator may lead away from what is lost near {_corner(space, alone)}")


def _before(way: Way, place: int, end: int) -> tuple[int, int] | None:
    """Return the variable and the value from which on the variable `place` is at least `end` after the step, or below it."""
    if place not in way.sums:
        return place, end
    value = way.sums[place]
    if value is None or len(value[0]) != 1:
        return None
    ((other, factor),) = value[0].items()
    if factor == 1:
        return other, end - value[1]
    return (other, value[1] - end + 1) if factor == -1 else None


def _corner(space: Space, pieces: Pieces) -> str:
    return space.arena.show(space.state(pieces.lower[0]))
