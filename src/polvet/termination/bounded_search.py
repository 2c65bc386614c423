"""Lassos by systematic search: all configurations within a box of values, the box growing from round to round.

The box of a round holds the constants of the guards, the bounds of variables that have two, and `margin` values beyond.
A depth-first search visits every configuration in it once. A step back to a configuration on the current path is a
cycle: as every cycle among the visited ones closes such a step, none inside the box is missed. A step to a configuration
that differs from one on the path (of the last `LOOK_BACK`) only where the difference can be repeated is a cycle, too:
the checker of lassos decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from polvet.budget import UNLIMITED, Budget
from polvet.check.lasso import check_replay
from polvet.files import Json
from polvet.policy.finite_memory import Edge, Effect, FiniteMemoryPolicy, Variable, portable
from polvet.termination.lasso import name_step

MARGINS = (1, 3, 8, 20)
"""How many values beyond the constants each round takes in."""
MOST = 60_000
"""Configurations that a round visits."""
LOOK_BACK = 60
REPLAYS = 400

Values = tuple[int, ...]
Configuration = tuple[str, Values]


@dataclass(frozen=True, slots=True)
class _Step:
    edge: Edge
    choice: int
    amounts: Values
    target: Configuration


def find_bounded_lasso(fmp: FiniteMemoryPolicy, budget: Budget = UNLIMITED) -> Json | None:
    """Return a lasso inside the boxes, or None if there is none, or too many configurations to look at."""
    before: tuple[range, ...] | None = None
    for margin in MARGINS:
        box = tuple(_range(fmp, variable, margin) for variable in fmp.variables)
        if box == before:
            return None
        before = box
        if (outcome := _Search(fmp, box, budget).run()) is not None:
            return outcome
    return None


def _range(fmp: FiniteMemoryPolicy, variable: Variable, margin: int) -> range:
    """Return the values of the variable within the box."""
    known = [a.value for edge in fmp.edges for atoms in edge.guard for a in atoms if a.variable == variable.name]
    ends = [end for end in (variable.lower, variable.upper) if end is not None]
    low, high = min(known + ends, default=0) - margin, max(known + ends, default=0) + margin
    low = low if variable.lower is None else max(low, variable.lower)
    high = high if variable.upper is None else min(high, variable.upper)
    if high - low > 4 * margin + 16:  # wide constants: what is near the lower end only
        high = low + 4 * margin + 16
    return range(low, high + 1)


class _Search:
    def __init__(self, fmp: FiniteMemoryPolicy, box: tuple[range, ...], budget: Budget) -> None:
        self._fmp, self._box, self._budget, self._replays = fmp, box, budget, REPLAYS
        self._names = tuple(variable.name for variable in fmp.variables)
        self._leaving: dict[str, list[Edge]] = {}
        for edge in fmp.edges:
            self._leaving.setdefault(edge.source, []).append(edge)
        self._visited: set[Configuration] = set()

    def run(self) -> Json | None:
        """Return the first lasso that replays."""
        for state in dict.fromkeys(self._fmp.initial):
            for values in product(*self._box):
                if len(self._visited) >= MOST:
                    return None
                if (state, values) not in self._visited and (outcome := self._from((state, values))) is not None:
                    return outcome
        return None

    def _from(self, start: Configuration) -> Json | None:
        path, done = [start], list[_Step]()
        place = {start: 0}
        self._visited.add(start)
        pending = [self._steps(start)]
        while pending:
            step = next(pending[-1], None)
            if step is None:
                pending.pop()
                del place[path.pop()]
                if done:
                    done.pop()
                continue
            if (outcome := self._closed(path, place, done, step)) is not None:
                return outcome
            if step.target not in self._visited and len(self._visited) < MOST:
                self._budget.check()
                self._visited.add(step.target)
                place[step.target] = len(path)
                path.append(step.target)
                done.append(step)
                pending.append(self._steps(step.target))
        return None

    def _closed(
        self, path: list[Configuration], place: dict[Configuration, int], done: list[_Step], step: _Step
    ) -> Json | None:
        """Return the lasso that the step closes, if it closes one that replays."""
        state, values = step.target
        back = place.get(step.target)
        if back is not None:
            candidates = [back]
        else:
            candidates = [
                index
                for index in range(len(path) - 1, max(-1, len(path) - LOOK_BACK - 1), -1)
                if path[index][0] == state and self._may_repeat(path[index][1], values)
            ]
        for index in candidates:
            if self._replays <= 0 and back is None:
                return None
            self._replays -= 1
            steps = [name_step(self._fmp, one.edge, one.choice, self._named(one.amounts)) for one in (*done, step)]
            lasso = {
                "kind": "lasso",
                "initial_valuation": {name: portable(value) for name, value in self._named(path[0][1]).items()},
                "prefix": steps[:index],
                "cycle": [{"edges": steps[index:], "repeat": 1}],
            }
            if check_replay(self._fmp, lasso) is None:
                return lasso
        return None

    def _may_repeat(self, before: Values, after: Values) -> bool:
        return all(
            old == new or ((variable.lower is None or new > old) and (variable.upper is None or new < old))
            for variable, old, new in zip(self._fmp.variables, before, after, strict=True)
        )

    def _named(self, values: Values) -> dict[str, int]:
        return dict(zip(self._names, values, strict=True))

    def _steps(self, here: Configuration) -> Iterator[_Step]:
        state, values = here
        valuation = self._named(values)
        for edge in self._leaving.get(state, ()):
            if not edge.is_open(valuation):
                continue
            for number, choice in enumerate(edge.choices):
                options = [
                    _amounts(self._fmp.effect(choice, name), value, within)
                    for name, value, within in zip(self._names, values, self._box, strict=True)
                ]
                for amounts in product(*options):
                    after = tuple(value + amount for value, amount in zip(values, amounts, strict=True))
                    yield _Step(edge, number, amounts, (edge.target, after))


def _amounts(effect: Effect, value: int, within: range) -> range:
    """Return the amounts that keep the value inside the box."""
    low, high = within.start - value, within.stop - 1 - value
    low = low if effect.low is None else max(low, effect.low)
    high = high if effect.high is None else min(high, effect.high)
    return range(low, high + 1)
