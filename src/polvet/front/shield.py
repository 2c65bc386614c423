"""Shields as people hold them, and learning inside them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from polvet.budget import Budget, stopwatch
from polvet.confirm.outcome import NO_KIND
from polvet.errors import InputError, Where
from polvet.front.results import Impossible, Result, Verdict, with_check
from polvet.model.expressions import FALSE
from polvet.model.task import Task
from polvet.shield import Impossible as EngineImpossible
from polvet.shield import Shield as Table
from polvet.shield import build_world, make_shield, permit


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Shield(Result):
    """Which actions are allowed in each reachable state; it is its own certificate.

    `permitted` of `choices` actions are allowed; the greatest probability of failing under them is at most `bound`.
    """

    bound: Fraction = Fraction(1)
    permitted: int = 0
    choices: int = 0
    maximal: bool = False
    table: Table | None = field(default=None, repr=False)
    verdict: ClassVar[Verdict] = Verdict.PERMITTED

    def allowed(self, state: Mapping[str, Any]) -> tuple[str | None, ...]:
        """Return the allowed actions in the state; none where runs end."""
        return self._table.allowed(state)

    def mask(self, state: Mapping[str, Any], labels: Sequence[str]) -> list[bool]:
        """Return for each label whether it is allowed."""
        return self._table.mask(state, labels)

    def risk(self, state: Mapping[str, Any]) -> Fraction:
        """Return the greatest probability of failing from the state under any allowed actions."""
        return self._table.risk(state)

    def wrap(
        self,
        env: Any,
        *,
        state_of: Callable[[Any], Mapping[str, Any]] | None = None,
        labels: Sequence[str] | None = None,
    ) -> Any:
        """Return the Gymnasium environment with forbidden actions masked and replaced.

        Around your own environment, `state_of(observation)` gives the model's state by names and `labels` the label of each action.
        """
        from polvet.shield.gym import ShieldedEnv

        return ShieldedEnv(env, self._table, state_of=state_of, labels=None if labels is None else tuple(labels))

    def save(self, path: str | Path) -> Path:
        """Write the shield as `polvet permit -o` does."""
        self._table.save(path)
        return Path(path)

    @property
    def _table(self) -> Table:
        assert self.table is not None
        return self.table


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LearnedScheduler(Result):
    """Bounds on the least expected cost of a scheduler within the bound on failing, and the shield it was learned in."""

    lower: float = 0.0
    upper: float = math.inf
    iterations: int = 0
    shield: Shield | None = field(default=None, repr=False)
    verdict: ClassVar[Verdict] = Verdict.DONE


def find_shield(
    task: Task, bound: float | str | Fraction, attempts: int | None, rng: random.Random, budget: Budget
) -> Shield | Impossible:
    """Return a maximal shield, or why there is none."""
    from polvet.confirm.confirmation import about_task, confirm

    limit, spent = read_bound(bound), stopwatch()
    if task.fail == FALSE:
        raise InputError("nothing is to be avoided.", Where("fail"), "Load the task with fail='...'.")
    world = build_world(task, budget=budget)
    found = permit(world, limit, attempts=attempts, rng=rng, budget=budget)
    if isinstance(found, EngineImpossible):
        return _impossible(found)
    table = make_shield(task, world, found, limit)
    figures = {
        "states": world.mdp.states,
        "permitted": found.count,
        "choices": found.options,
        "reachable_states": len(found.sub.states),
        "value": float(found.risk),
        "exact": found.exact,
        "maximal": found.maximal,
        "goal_reachable": found.goal_reachable,
    }
    checked = confirm("permitted", table.document, about_task(task), found=spent(), budget=budget)
    shield = Shield(figures, table.document, None, limit, found.count, found.options, found.maximal, table)
    return with_check(shield, checked)


def learn_inside(
    task: Task,
    bound: float | str | Fraction,
    cost: str,
    iterations: int,
    episodes: int,
    rng: random.Random,
    budget: Budget,
) -> LearnedScheduler | Impossible:
    """Return bounds on the least cost within the bound on failing."""
    from polvet.shield.learning import LearningOptions, learn

    limit = read_bound(bound)
    world = build_world(task, cost=cost, budget=budget)
    how = LearningOptions(iterations=iterations, episodes=episodes)
    found = learn(world, limit, options=how, budget=budget, rng=rng)
    if isinstance(found, EngineImpossible):
        return _impossible(found)
    shield = None
    if found.permissive is not None:
        inner = found.permissive
        table = make_shield(task, world, inner, limit)
        shield = Shield({}, table.document, None, limit, inner.count, inner.options, inner.maximal, table)
    figures = {"lower": found.lower, "upper": found.upper, "iterations": len(found.rounds)}
    reason = None if found.optimal else found.reason
    return LearnedScheduler(figures, None, reason, found.lower, found.upper, len(found.rounds), shield)


def read_bound(given: float | str | Fraction) -> Fraction:
    """Return the bound exactly: 0.1 is one tenth."""
    from polvet.shield.world import parse_bound

    return given if isinstance(given, Fraction) else parse_bound(str(given), Where("bound"))


def _impossible(found: EngineImpossible) -> Impossible:
    low, high = (float(found.exact),) * 2 if found.exact is not None else (found.lower, found.upper)
    nothing = Impossible({"minimum": high}, None, "no scheduler stays below the bound", (low, high))
    return with_check(nothing, NO_KIND)
