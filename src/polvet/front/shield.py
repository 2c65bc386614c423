"""Shields as people hold them, and learning inside them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from polvet.budget import Budget
from polvet.confirm.outcome import NotChecked
from polvet.errors import InputError, LimitReached, Where, suggest
from polvet.front.given import environment
from polvet.front.limits import Chance, Work
from polvet.front.result import Result, Verdict, why
from polvet.front.results import Impossible, Unknown
from polvet.front.task import number
from polvet.model.expressions import FALSE
from polvet.model.task import Task, state_from_names
from polvet.shield import Impossible as EngineImpossible
from polvet.shield import Permitted, build_world, make_shield, permit
from polvet.shield import Shield as Table
from polvet.shield.file import read_shield, to_ruled_document
from polvet.shield.per_action import Rule, permit_by_rule
from polvet.shield.world import World

if TYPE_CHECKING:
    from polvet.shield.deployment import Cost, Learner, Promise, StateOf
    from polvet.shield.experience import Experience
    from polvet.shield.given_distributions import GivenDistributions
    from polvet.shield.risk_budget import RiskBudget

EPISODES = 1_000
"""How many episodes a round is in an environment, where nothing else is said."""
SEARCH_SHARE = 0.85
"""Part of the time that is left after building; the rest is for writing what was found."""


@dataclass(frozen=True, slots=True)
class Permission:
    """What may be allowed: how likely failing may be, and how it is found out."""

    bound: float | str | Fraction | None
    attempts: int | None = None
    distributions: GivenDistributions = 0
    exact: bool | None = None
    output: Path | None = None
    per_state: bool = False
    relative: float | str | Fraction | None = None
    horizon: int | None = None
    budget: float | str | Fraction | None = None

    @property
    def rule(self) -> Rule | None:
        """Return the rule on each action's risk, where it is asked for; None: the bound is for the start states."""
        if sum(given is not None for given in (self.bound, self.relative, self.budget)) != 1:
            raise InputError(
                "give one of a bound, a factor of the best, and a budget.", Where("bound"),
                "A bound is 0.1; --relative is 0.9; --budget is 0.1.",
            )  # fmt: skip
        if self.bound is not None and not self.per_state:
            if self.horizon is not None:
                hint = "Risks within some steps are those of single actions: give --per-state or --relative."
                raise InputError("goes with a rule on each action.", Where("horizon"), hint)
            return None
        for name, given in (
            ("per_state", self.per_state and self.bound is None), ("attempts", self.attempts is not None),
            ("distributions", self.distributions not in (0, "0")), ("exact", self.exact is False),
            ("horizon", self.budget is not None and self.horizon is not None),
        ):  # fmt: skip
            if given:
                hint = "A rule on each action's risk is computed in fractions, and leaves nothing to try or to choose."
                rules = "--budget" if self.budget is not None else "--per-state or --relative"
                raise InputError(f"does not go with {rules}.", Where(name), hint)
        if self.horizon is not None and self.horizon < 1:
            raise InputError(
                f"{self.horizon} is no number of steps.", Where("horizon"), "Look at least one step ahead."
            )
        for kind in ("relative", "budget"):
            if (given := getattr(self, kind)) is not None:
                return Rule(kind, read_bound(given, kind), self.horizon)
        return Rule("per-state", read_bound(self.bound), self.horizon)


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
                f"'{self.cost}' is a variable, and the environment does not show it.", Where("cost"),
                "Leave it out (minus the reward is the cost), or give a function of the visit.",
            )  # fmt: skip
        return None


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
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

    def action_risks(self, state: Mapping[str, Any]) -> Mapping[str | None, Fraction]:
        """Return what each applicable action risks when the best is done ever after; of shields by `per_state` or `relative`."""
        return self._table.action_risks(state)

    def budget(self) -> RiskBudget:
        """Return what a new run may risk: `begin(state)`, `allowed(state)`, `take(state, action)`; of shields by `budget`."""
        from polvet.shield.risk_budget import RiskBudget

        return RiskBudget(self._table)

    def wrap(
        self,
        env: Any,
        *,
        state_of: Callable[[Any], Any] | None = None,
        labels: Sequence[str] | None = None,
        unknown: str = "error",
    ) -> Any:
        """Return the Gymnasium environment (or a `VecEnv` of stable-baselines3) with forbidden actions masked and replaced.

        Around your own environment, `state_of(observation)` gives the model's state by names (for a `VecEnv`: `state_of(observations)`
        one row of numbers per environment, in the order of `variables`) and `labels` the label of each action. A state that the shield
        does not know is an `error`, ends the episode (`forbid`), or allows what the `nearest` known one does; `report()` counts.
        """
        from polvet.shield.wrapper import ShieldedEnv, shield_vec_env

        env = environment(env)
        if hasattr(env, "step_async") and hasattr(env, "env_method"):
            return shield_vec_env(env, self._table, state_of=state_of, labels=labels, unknown=unknown)
        return ShieldedEnv(env, self._table, state_of=state_of, labels=labels, unknown=unknown)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of a state, in the order of the shield's rows."""
        return self._table.variables

    def save(self, path: str | Path) -> Path:
        """Write the shield as `polvet permit -o` does."""
        self._table.save(path)
        return Path(path)

    def _pictures(self) -> str:
        from polvet.front.cards import frame
        from polvet.report.shields import heat_part

        heat = heat_part(self._table)
        return "" if heat is None else frame([heat], 30)

    @property
    def _table(self) -> Table:
        assert self.table is not None
        return self.table


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
        """Return how likely the best scheduler that was found takes each action there; none where it does not come."""
        found = self.source
        shares = found.deterministic
        if found.randomised is not None and found.randomised.cost <= found.upper:
            shares = found.randomised.weights
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


def find_shield(task: Task, asked: Permission, work: Work) -> Shield | Impossible | Unknown:
    """Return a maximal shield, or why there is none, or which limit was reached before one was found."""
    from polvet.shield.file import to_mixed_document
    from polvet.shield.given_distributions import read_distributions
    from polvet.shield.randomised import Randomised, permit_randomised

    rule = asked.rule
    limit = Fraction(1) if rule is not None else read_bound(asked.bound)
    if task.fail == FALSE:
        raise InputError("nothing is to be avoided.", Where("fail"), "Give a condition, e.g. 'crashed'.")
    if rule is not None:
        return _find_by_rule(task, rule, asked.output, work)
    figures: dict[str, Any] = {}
    mixed: Randomised | EngineImpossible | None = None
    try:
        world = build_world(task, exact=asked.exact, budget=work.budget)
        dead_ends = int((world.ended & ~world.fail & ~world.goal).sum())
        figures |= {"states": world.mdp.states, "options": world.options, "dead_ends": dead_ends}
        work.tell("adding actions", states=world.mdp.states, actions=world.options)
        searching = work.budget.share(SEARCH_SHARE)
        if asked.distributions not in (0, "0"):
            meant = read_distributions(asked.distributions, task, world)
            mixed = permit_randomised(world, limit, meant, attempts=asked.attempts, budget=searching)
            found = mixed.pure if isinstance(mixed, Randomised) else mixed
        else:
            found = permit(world, limit, attempts=asked.attempts, rng=random.Random(work.chance), budget=searching)
    except LimitReached as error:
        return Unknown(figures=figures, **why(error), **work.told())
    if isinstance(found, EngineImpossible):
        exactly = {} if found.exact is None else {"minimum_exact": str(found.exact)}
        figures |= {"lower": found.lower, "upper": found.upper, **exactly}
        return _explained(task, (world, limit, found), figures, work)
    figures |= {
        "permitted": found.count, "choices": found.options, "reachable_states": len(found.sub.states),
        "value": float(found.risk), "lower": found.lower, "upper": found.upper,
        "exact": found.exact, "maximal": found.maximal, "ends_surely": found.ends_surely,
        "goal_reachable": found.goal_reachable, "attempts": found.attempts,
    }  # fmt: skip
    table = make_shield(task, world, found, limit)
    if isinstance(mixed, Randomised):
        table = read_shield(to_mixed_document(task, world, mixed, limit), Where("shield"))
        worst = max(mixed.values[int(s)] for s in world.mdp.initial)
        figures |= {"mixtures": mixed.count, "value": float(worst)}
    return _confirmed(task, found, table, figures, asked.output, work)


def _find_by_rule(task: Task, rule: Rule, output: Path | None, work: Work) -> Shield | Impossible | Unknown:
    """Return the shield that allows exactly what the rule says in every state."""
    figures: dict[str, Any] = {"rule": rule.kind, "threshold": str(rule.threshold)}
    if rule.horizon is not None:
        figures["horizon"] = rule.horizon
    try:
        world = build_world(task, exact=True, budget=work.budget)
        dead_ends = int((world.ended & ~world.fail & ~world.goal).sum())
        figures |= {"states": world.mdp.states, "options": world.options, "dead_ends": dead_ends}
        work.tell("risk of each action", states=world.mdp.states, actions=world.options)
        ruled = permit_by_rule(world, rule, work.budget.share(SEARCH_SHARE))
    except LimitReached as error:
        return Unknown(figures=figures, **why(error), **work.told())
    found = ruled.result
    least = max(ruled.least[int(s)] for s in world.mdp.initial)
    if rule.kind == "budget" and least > rule.threshold:
        nothing = EngineImpossible(float(least), float(least), least)
        figures |= {"lower": float(least), "upper": float(least), "minimum_exact": str(least)}
        return _explained(task, (world, rule.threshold, nothing), figures, work)
    least_open = (one for one, ended in zip(ruled.least, world.ended.tolist(), strict=True) if not ended)
    table = read_shield(to_ruled_document(task, world, ruled), Where("shield"))
    figures |= {
        "permitted": found.count, "choices": found.options, "value": float(table.bound), "exact": True,
        "least": float(least),
        "above": sum(rule.kind == "per-state" and one > rule.threshold for one in least_open),
    }  # fmt: skip
    return _confirmed(task, found, table, figures, output, work)


def _confirmed(
    task: Task, found: Permitted, table: Table, figures: Mapping[str, Any], output: Path | None, work: Work
) -> Shield:
    from polvet.confirm.confirmation import about_task, confirm

    checked = confirm(
        "permitted", table.document, about_task(task), found=work.spent(), budget=work.budget, output=output
    )
    if output is not None:
        table.save(output)
    written = None if output is None else str(output)
    return _shield(
        found, table, table.bound, figures=figures, source=found, confirmation=checked, written=written, **work.told()
    )


def learn_inside(task: Task, asked: Lesson, options: Mapping[str, Any]) -> LearnedScheduler | Impossible | Unknown:
    """Return bounds on the least cost within the bound on failing, or within a shield."""
    from polvet.shield.file import load_shield
    from polvet.shield.learning import LearningOptions, learn, lost_at_once

    known = ("iterations", "episodes", "gap", "kappa", "deterministic")
    limits = {name: value for name, value in options.items() if name not in known}
    for name in limits:
        if name not in Chance.__optional_keys__:
            raise InputError(f"there is no option '{name}'.", Where(name), suggest(name, known))
    work, chosen = Work.begin(limits, Chance), {name: value for name, value in options.items() if name in known}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if asked.variable is None:
        chosen = {"episodes": EPISODES, "alone": EPISODES, **chosen}
    how = LearningOptions(randomised=not chosen.pop("deterministic", False), **chosen)
    if (asked.bound is None) == (asked.shield is None):
        raise InputError("give either a bound or a shield.", Where("bound"), "A bound is 0.1; a shield is a file.")
    given = asked.shield.table if isinstance(asked.shield, Shield) else None
    if given is None and asked.shield is not None:
        given = load_shield(Path(asked.shield))  # type: ignore[arg-type]
    limit = read_bound(asked.bound) if asked.bound is not None else given.bound  # type: ignore[union-attr]
    figures: dict[str, Any] = {}
    try:
        world = build_world(task, cost=asked.variable, budget=work.budget)
        figures |= {"states": world.mdp.states, "choices": world.mdp.choices}
        work.tell("learning", states=world.mdp.states)
        rng, budget = random.Random(work.chance), work.budget.share(SEARCH_SHARE)
        found = lost_at_once(world, limit) or learn(
            world, limit, experience=_experience(task, world, asked, how.explore, rng, budget), options=how,
            inside=None if given is None else given.options_of(task, world, Where(str(asked.shield))), rng=rng, budget=budget,
            on_round=lambda one: work.tell(
                visited=one.visited, allowed=one.permitted, lower=number(one.lower), upper=number(one.upper)
            ),
        )  # fmt: skip
    except LimitReached as error:
        return Unknown(figures=figures, **why(error), **work.told())
    if isinstance(found, EngineImpossible):
        return _impossible((world, limit, found), figures, work)
    history = [
        {
            "iteration": k + 1, "seconds": round(one.seconds, 6), "permitted": one.permitted, "visited": one.visited,
            "unconstrained": number(one.unconstrained), "lower": number(one.lower),
            "upper_deterministic": number(one.upper_deterministic), "upper": number(one.upper),
        }
        for k, one in enumerate(found.rounds)
    ]  # fmt: skip
    figures |= {
        "lower": number(found.lower), "upper": number(found.upper), "iterations": len(found.rounds), "history": history,
        "upper_deterministic": history[-1]["upper_deterministic"] if history else "infinity",
    }  # fmt: skip
    if asked.confidence is not None:
        figures["confidence"] = asked.confidence
    inner = found.permissive
    shield = None if inner is None else _shield(inner, make_shield(task, world, inner, limit), limit)
    cheap = how.kappa is not None and found.upper <= how.kappa
    done = cheap or (given is not None and found.upper < math.inf)
    return LearnedScheduler(
        figures=figures, source=found, reason=None if found.optimal or done else found.reason, lower=found.lower,
        upper=found.upper, iterations=len(found.rounds), shield=shield, learned=done, place=(task, world), **work.told(),
    )  # fmt: skip


def _experience(
    task: Task, world: World, asked: Lesson, explore: float, rng: random.Random, budget: Budget
) -> Experience:
    """Return how costs become known: those of the model once visited, or those that an environment takes."""
    from polvet.shield.deployment import Deployed, Tracker, open_book
    from polvet.shield.experience import Simulated
    from polvet.shield.learning import check_world, promised
    from polvet.shield.to_goal import RunToGoal

    check_world(world)
    endless = replace(task, fail=FALSE) if asked.to_goal else task
    wide = build_world(endless, cost=asked.variable, budget=budget) if asked.to_goal else world
    inner: Experience
    if asked.variable is not None:
        inner = Simulated(
            wide, *promised(wide, asked.cost_lower, asked.cost_upper), rng, explore=explore, budget=budget
        )
    else:
        book = open_book(task, wide, asked.cost_lower, asked.cost_upper, asked.confidence)
        cost = asked.cost if callable(asked.cost) else None
        tracker = Tracker(
            _environment(endless, asked.env), task, wide, book, cost, state_of=asked.state_of, labels=asked.labels
        )
        inner = Deployed(tracker, rng, learner=asked.learner, explore=explore, budget=budget)
    return RunToGoal(inner, world, wide, budget) if asked.to_goal else inner


def _environment(task: Task, given: Any) -> Any:
    """Return the environment: as given, made from its address, or the task's own."""
    if given is None:
        from polvet.shield.gym import model_env

        return model_env(task)
    if isinstance(given, str):
        from polvet.worlds.gym import make_env, read_address

        return make_env(*read_address(given if given.startswith("gym:") else f"gym:{given}"))
    return given


def read_bound(given: float | str | Fraction | None, name: str = "bound") -> Fraction:
    """Return the bound exactly: 0.1 is one tenth."""
    from polvet.shield.world import parse_bound

    return given if isinstance(given, Fraction) else parse_bound(str(given), Where(name))


def _shield(found: Permitted, table: Table, limit: Fraction, **more: Any) -> Shield:
    return Shield(
        certificate=table.document, bound=limit, permitted=found.count, choices=found.options, maximal=found.maximal,
        table=table, **more,
    )  # fmt: skip


def _explained(
    task: Task, source: tuple[World, Fraction, EngineImpossible], figures: Mapping[str, Any], work: Work
) -> Impossible:
    """Return that the bound is impossible, with the states in which it shows, as a certificate that was checked."""
    from polvet.confirm.confirmation import about_task, confirm
    from polvet.shield.conflict import find_conflict, to_document

    world, limit, _ = source
    work.tell("looking for the states that explain it", states=world.mdp.states)
    nothing = _impossible(source, figures, work)
    try:
        conflict = find_conflict(world, limit, work.budget.share(SEARCH_SHARE))
    except LimitReached:
        conflict = None
    if conflict is None:
        return replace(nothing, confirmation=NotChecked("no states that explain it were found in time"), **work.told())
    document = to_document(task, world, conflict, limit)
    checked = confirm("impossible", document, about_task(task), found=work.spent(), budget=work.budget)
    told = {"states": len(conflict.states), "value": float(conflict.risk), "irreducible": conflict.irreducible}
    figures = {**nothing.figures, "conflict": told}
    return replace(nothing, certificate=document, confirmation=checked, figures=figures, **work.told())


def _impossible(source: tuple[World, Fraction, EngineImpossible], figures: Mapping[str, Any], work: Work) -> Impossible:
    _, _, found = source
    low, high = (float(found.exact),) * 2 if found.exact is not None else (found.lower, found.upper)
    return Impossible(figures={**figures, "minimum": high}, source=source, minimum=(low, high), **work.told())
