"""Distributions over actions as people give them: how many per state, or weights by label, perhaps only where a condition holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where, suggest
from polvet.files import read_json
from polvet.model.evaluate import Evaluator
from polvet.model.infix import parse_expression
from polvet.model.semantics import Semantics
from polvet.model.task import Task, condition
from polvet.numbers import exact
from polvet.shield.randomised import Distribution, Distributions
from polvet.shield.world import World

GivenDistributions = int | str | Path | Sequence[Mapping[str, Any]]
EXAMPLE = 'Write a list such as [{"left": "1/2", "right": "1/2"}].'


@dataclass(frozen=True, slots=True)
class _Given:
    weights: Mapping[str, Fraction]
    holds: Evaluator | None  # None: everywhere


def read_distributions(given: GivenDistributions, task: Task, world: World) -> int | Distributions:
    """Return how many distributions per state are meant, or those of each state whose labels are all applicable there."""
    where = Where("distributions")
    if isinstance(given, str | Path):
        if str(given).isdecimal():
            return int(str(given))
        where = Where(str(given))
        given = read_json(given)
    if isinstance(given, int) and not isinstance(given, bool):
        if given < 0:
            raise InputError(f"{given} is no number of distributions.", where, "Give 3, or a list of weights by label.")
        return given
    if not isinstance(given, list | tuple) or not given:
        raise InputError("is no list of distributions.", where, EXAMPLE)
    semantics = Semantics(task.network)
    meant = [_read(one, task, semantics, where.at(k)) for k, one in enumerate(given)]
    starts = world.option_start.tolist()

    def of_state(state: int) -> Sequence[Distribution]:
        assert world.states is not None
        options = {world.label_of(o): o for o in range(starts[state], starts[state + 1])}
        return [
            {options[label]: weight for label, weight in one.weights.items()}
            for one in meant
            if one.weights.keys() <= options.keys() and (one.holds is None or one.holds(world.states[state]))
        ]

    return of_state


def _read(given: Any, task: Task, semantics: Semantics, where: Where) -> _Given:
    if not isinstance(given, Mapping) or not given:
        raise InputError("is no distribution.", where, EXAMPLE)
    holds = None
    if isinstance(weights := given.get("weights"), Mapping):
        if unknown := given.keys() - {"weights", "where"}:
            raise InputError(f"there is no key '{min(unknown)}'.", where, "Give weights, and perhaps where.")
        if "where" in given:
            place = where.at("where")
            holds = semantics.compile(condition(task.network, parse_expression(str(given["where"]), place), place))
        given = weights
    known: dict[str, Fraction] = {}
    for label, weight in given.items():
        if label not in task.network.labels:
            raise InputError(f"there is no action '{label}'.", where, suggest(str(label), task.network.labels))
        number = exact(str(weight))
        if number is None or number <= 0:
            raise InputError(f"{weight!r} is no weight.", where.at(label), 'Write a positive number: "1/2" or 0.5.')
        known[label] = Fraction(number)
    if sum(known.values()) != 1:
        raise InputError(f"the weights sum to {sum(known.values())}.", where, "They must sum to 1.")
    return _Given(known, holds)
