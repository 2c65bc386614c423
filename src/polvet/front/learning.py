"""Learning a cheap scheduler inside a shield, or within a bound on failing, as people ask for it."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.budget import Budget
from polvet.errors import InputError, LimitReached, Where, suggest
from polvet.files import Figures
from polvet.front.limits import Chance, Work
from polvet.front.result import Result, why
from polvet.front.results import Impossible, Unknown
from polvet.front.shield import SEARCH_SHARE, Shield, impossible, read_bound, shield_of
from polvet.front.task import number
from polvet.model.expressions import FALSE
from polvet.model.task import Task, state_from_names
from polvet.shield import Impossible as EngineImpossible
from polvet.shield import build_world, make_shield
from polvet.shield.world import World
from polvet.verdict import Verdict

if TYPE_CHECKING:
    from polvet.shield.deployment import Cost, Learner, Promise, StateOf
    from polvet.shield.experience import Experience

EPISODES = 1_000
"""How many episodes a round is in an environment, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is learned: the cost, between which bounds it is promised to lie, and within which bound on failing or shield.

    A cost is a variable of the model, or what nobody but an environment knows: then `env` (a Gymnasium environment or its address) is
    where it is paid, and a function says what a step cost, or minus the reward does.
    """

    bound: float | str | Fraction | None
    cost: str | Cost | None
    shield: Shield | str | Path | None = None
    cost_lower: Promise = 0.0
    cost_upper: Promise | None = None
    confidence: float | None = None
    to_goal: bool = False
    env: Any = None
    state_of: StateOf | None = None
    labels: Sequence[str] | None = None
    learner: Learner | None = None

    @property
    def variable(self) -> str | None:
        """The variable of the model that holds the cost; None: the model does not know it."""
        if self.env is None and not callable(self.cost):
            for name in ("confidence", "state_of", "labels", "learner"):
                if getattr(self, name) is not None:
                    hint = "Give env, or a function as cost: these are for costs that the model does not know."
                    raise InputError("is for an environment.", Where(name), hint)
            return self.cost or ""
        if isinstance(self.cost, str) and self.cost:
            raise InputError(
                f"'{self.cost}' is a variable, and the environment does not show it.",
                Where("cost"),
                "Leave it out (minus the reward is the cost), or give a function of the visit.",
            )
        return None


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class LearnedScheduler(Result):
    """Bounds on the least expected cost of a scheduler within the bound on failing, and the shield it was learned in."""

    lower: float = 0.0
    upper: float = math.inf
    iterations: int = 0
    shield: Shield | None = field(default=None, repr=False)
    learned: bool = field(default=False, repr=False)  # cheap enough, or all that can be had inside the given shield
    place: tuple[Task, World] | None = field(default=None, repr=False)  # where it was learned

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return OPTIMAL where the bounds agree, LEARNED where the scheduler is what was asked for, else UNKNOWN."""
        if self.source.optimal:
            return Verdict.OPTIMAL
        return Verdict.LEARNED if self.learned else Verdict.UNKNOWN

    def q_values(self, state: Mapping[str, Any]) -> Mapping[str | None, float]:
        """Return what Q-learning expects each action to cost until the run ends; estimates, and no bounds."""
        return {label: float(self.source.experience.quality[o]) for label, o in self._options(state).items()}

    def cost_bounds(self, state: Mapping[str, Any]) -> Mapping[str | None, tuple[float, float]]:
        """Return between what the cost of each action lies, by what was paid and what was promised."""
        lower, upper = self.source.experience.bounds()
        return {label: (float(lower[o]), float(upper[o])) for label, o in self._options(state).items()}

    def scheduler(self, state: Mapping[str, Any]) -> Mapping[str | None, float]:
        """Return how likely the best known scheduler takes each action there; none where it does not come."""
        learning = self.source
        shares = learning.deterministic
        if learning.randomised is not None and learning.randomised.cost <= learning.upper:
            shares = learning.randomised.weights
        if shares is None:
            return {}
        return {label: float(shares[o]) for label, o in self._options(state).items() if shares[o] > 0}

    def _options(self, state: Mapping[str, Any]) -> Mapping[str | None, int]:
        """Return the options of the state by their labels."""
        assert self.place is not None
        task, world = self.place
        assert world.states is not None
        here = state_from_names(task.network, state, Where("state"))
        number = next((k for k, one in enumerate(world.states) if tuple(one) == here), None)
        if number is None:
            raise InputError("no run comes to this state.", Where("state"), "Give a state that the start leads to.")
        mine = range(int(world.option_start[number]), int(world.option_start[number + 1]))
        return {world.label_of(option): option for option in mine}


def learn_inside(task: Task, lesson: Lesson, options: Mapping[str, Any]) -> LearnedScheduler | Impossible | Unknown:
    """Return bounds on the least cost within the bound on failing, or within a shield."""
    from polvet.shield.file import load_shield
    from polvet.shield.learning import LearningOptions, learn, lost_at_once

    known = ("iterations", "episodes", "gap", "kappa", "deterministic")
    limits = {name: value for name, value in options.items() if name not in known}
    for name in limits.keys() - Chance.__optional_keys__:
        raise InputError(f"there is no option '{name}'.", Where(name), suggest(name, known))
    work, chosen = Work.begin(limits, Chance), {name: value for name, value in options.items() if name in known}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if lesson.variable is None:
        chosen = {"episodes": EPISODES, "alone": EPISODES, **chosen}
    how = LearningOptions(randomised=not chosen.pop("deterministic", False), **chosen)
    if (lesson.bound is None) == (lesson.shield is None):
        raise InputError("give either a bound or a shield.", Where("bound"), "A bound is 0.1; a shield is a file.")
    table = lesson.shield.table if isinstance(lesson.shield, Shield) else None
    if table is None and lesson.shield is not None:
        table = load_shield(Path(lesson.shield))  # type: ignore[arg-type]
    limit = read_bound(lesson.bound) if lesson.bound is not None else table.bound  # type: ignore[union-attr]
    figures: Figures = {}
    try:
        world = build_world(task, cost=lesson.variable, budget=work.budget)
        figures |= {"states": world.mdp.states, "choices": world.mdp.choices}
        work.tell("learning", states=world.mdp.states)
        rng, budget = random.Random(work.chance), work.budget.share(SEARCH_SHARE)
        learning = lost_at_once(world, limit) or learn(
            world,
            limit,
            experience=_experience(task, world, lesson, how.explore, rng, budget),
            options=how,
            inside=None if table is None else table.options_of(task, world, Where(str(lesson.shield))),
            rng=rng,
            budget=budget,
            on_round=lambda one: work.tell(
                visited=one.visited, allowed=one.permitted, lower=number(one.lower), upper=number(one.upper)
            ),
        )
    except LimitReached as error:
        return Unknown(figures=figures, **why(error), **work.account())
    if isinstance(learning, EngineImpossible):
        return impossible((world, limit, learning), figures, work)
    history = [
        {
            "iteration": k + 1,
            "seconds": round(one.seconds, 6),
            "permitted": one.permitted,
            "visited": one.visited,
            "unconstrained": number(one.unconstrained),
            "lower": number(one.lower),
            "upper_deterministic": number(one.upper_deterministic),
            "upper": number(one.upper),
        }
        for k, one in enumerate(learning.rounds)
    ]
    figures |= {
        "lower": number(learning.lower),
        "upper": number(learning.upper),
        "iterations": len(learning.rounds),
        "history": history,
        "upper_deterministic": history[-1]["upper_deterministic"] if history else "infinity",
    }
    if lesson.confidence is not None:
        figures["confidence"] = lesson.confidence
    inner = learning.permissive
    shield = None if inner is None else shield_of(task, inner, make_shield(task, world, inner, limit), limit)
    cheap = how.kappa is not None and learning.upper <= how.kappa
    done = cheap or (table is not None and learning.upper < math.inf)
    return LearnedScheduler(
        figures=figures,
        source=learning,
        reason=None if learning.optimal or done else learning.reason,
        lower=learning.lower,
        upper=learning.upper,
        iterations=len(learning.rounds),
        shield=shield,
        learned=done,
        place=(task, world),
        **work.account(),
    )


def _experience(
    task: Task, world: World, lesson: Lesson, explore: float, rng: random.Random, budget: Budget
) -> Experience:
    """Return how costs become known: those of the model once visited, or those that an environment takes."""
    from polvet.shield.deployment import Deployed, Tracker, open_book
    from polvet.shield.experience import Simulated
    from polvet.shield.learning import check_world, promised
    from polvet.shield.to_goal import RunToGoal

    check_world(world)
    endless = replace(task, fail=FALSE) if lesson.to_goal else task
    wide = build_world(endless, cost=lesson.variable, budget=budget) if lesson.to_goal else world
    inner: Experience
    if lesson.variable is not None:
        inner = Simulated(
            wide, *promised(wide, lesson.cost_lower, lesson.cost_upper), rng, explore=explore, budget=budget
        )
    else:
        book = open_book(task, wide, lesson.cost_lower, lesson.cost_upper, lesson.confidence)
        cost = lesson.cost if callable(lesson.cost) else None
        tracker = Tracker(
            _environment(endless, lesson.env), task, wide, book, cost, state_of=lesson.state_of, labels=lesson.labels
        )
        inner = Deployed(tracker, rng, learner=lesson.learner, explore=explore, budget=budget)
    return RunToGoal(inner, world, wide, budget) if lesson.to_goal else inner


def _environment(task: Task, env: Any) -> Any:
    """Return the environment: as given, made from its address, or the task's own."""
    if env is None:
        from polvet.shield.gym import model_env

        return model_env(task)
    if isinstance(env, str):
        from polvet.worlds.gym import make_env, read_address

        return make_env(*read_address(env if env.startswith("gym:") else f"gym:{env}"))
    return env
