"""Shields as people hold them, and learning inside them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from polvet.confirm.outcome import NotChecked
from polvet.errors import InputError, LimitReached, Where
from polvet.files import Figures
from polvet.front.arguments import environment
from polvet.front.limits import Work
from polvet.front.result import Result, why
from polvet.front.results import Impossible, Unknown
from polvet.model.expressions import FALSE
from polvet.model.task import Task
from polvet.shield import Impossible as EngineImpossible
from polvet.shield import Permitted, build_world, make_shield, permit
from polvet.shield import Shield as Table
from polvet.shield.file import read_shield, to_ruled_document
from polvet.shield.per_action import Rule, permit_by_rule
from polvet.shield.world import World
from polvet.verdict import Verdict

if TYPE_CHECKING:
    from polvet.shield.given_distributions import GivenDistributions
    from polvet.shield.risk_budget import RiskBudget

SEARCH_SHARE = 0.85
"""Part of the time that is left after building; the rest is for writing the result."""


@dataclass(frozen=True, slots=True)
class Permission:
    """What may be allowed: how likely failing may be, and how that is decided."""

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
                "give one of a bound, a factor of the best, and a budget.",
                Where("bound"),
                "A bound is 0.1; --relative is 0.9; --budget is 0.1.",
            )
        if self.bound is not None and not self.per_state:
            if self.horizon is not None:
                hint = "Risks within some steps are those of single actions: give --per-state or --relative."
                raise InputError("goes with a rule on each action.", Where("horizon"), hint)
            return None
        for name, given in (
            ("per_state", self.per_state and self.bound is None),
            ("attempts", self.attempts is not None),
            ("distributions", self.distributions not in (0, "0")),
            ("exact", self.exact is False),
            ("horizon", self.budget is not None and self.horizon is not None),
        ):
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
    task: Task | None = field(default=None, repr=False)  # the world it is for
    verdict: ClassVar[Verdict] = Verdict.PERMITTED

    def allowed(self, state: Mapping[str, Any]) -> tuple[str | None, ...]:
        """Return the allowed actions in the state; none where runs end."""
        return self._table.allowed(self._whole(state))

    def mask(self, state: Mapping[str, Any], labels: Sequence[str]) -> list[bool]:
        """Return for each label whether it is allowed."""
        return self._table.mask(self._whole(state), labels)

    def risk(self, state: Mapping[str, Any]) -> Fraction:
        """Return the greatest probability of failing from the state under any allowed actions."""
        return self._table.risk(self._whole(state))

    def action_risks(self, state: Mapping[str, Any]) -> Mapping[str | None, Fraction]:
        """Return what each applicable action risks when the best is done ever after; of shields by `per_state` or `relative`."""
        return self._table.action_risks(self._whole(state))

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
        one row of numbers per environment, in the order of `variables`) and `labels` the label of each action; around the environment that
        the model was made of (`polvet.from_gym`) neither need be given. A state that the shield
        does not know is an `error`, ends the episode (`forbid`), or allows what the `nearest` known one does; `report()` counts.

        Another world than the shield's is refused: by its table or what it was made with, after some allowed steps from its resets,
        and at any later step that is none of the world's. `report().compared` says what was looked at.
        """
        from polvet.shield.wrapper import shield_env, shield_vec_env
        from polvet.worlds.observed import told_by

        env = environment(env)
        if hasattr(env, "step_async") and hasattr(env, "env_method"):
            return shield_vec_env(env, self._table, self.task, state_of=state_of, labels=labels, unknown=unknown)
        if self.task is not None:
            state_of, labels = told_by(self.task.network, env, state_of, labels)
        return shield_env(env, self._table, self.task, state_of=state_of, labels=labels, unknown=unknown)

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

    def _whole(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state with what its number, or its features, say besides."""
        from polvet.worlds.observed import table_of

        rows = None if self.task is None else table_of(self.task.network)
        return state if rows is None else rows.completed(state)

    @property
    def _table(self) -> Table:
        assert self.table is not None
        return self.table


def find_shield(task: Task, permission: Permission, work: Work) -> Shield | Impossible | Unknown:
    """Return a maximal shield, or why there is none, or which limit was reached before there was one."""
    from polvet.shield.file import to_mixed_document
    from polvet.shield.given_distributions import read_distributions
    from polvet.shield.randomised import Randomised, permit_randomised

    rule = permission.rule
    limit = Fraction(1) if rule is not None else read_bound(permission.bound)
    if task.fail == FALSE:
        raise InputError("nothing is to be avoided.", Where("fail"), "Give a condition, e.g. 'crashed'.")
    if rule is not None:
        return _find_by_rule(task, rule, permission.output, work)
    figures: Figures = {}
    mixed: Randomised | EngineImpossible | None = None
    try:
        world = build_world(task, exact=permission.exact, budget=work.budget)
        figures |= _size(world)
        work.tell("adding actions", states=world.mdp.states, actions=world.options)
        searching = work.budget.share(SEARCH_SHARE)
        if permission.distributions not in (0, "0"):
            meant = read_distributions(permission.distributions, task, world)
            mixed = permit_randomised(world, limit, meant, attempts=permission.attempts, budget=searching)
            permitted = mixed.pure if isinstance(mixed, Randomised) else mixed
        else:
            permitted = permit(
                world, limit, attempts=permission.attempts, rng=random.Random(work.chance), budget=searching
            )
    except LimitReached as error:
        return Unknown(figures=figures, **why(error), **work.account())
    if isinstance(permitted, EngineImpossible):
        exactly = {} if permitted.exact is None else {"minimum_exact": str(permitted.exact)}
        figures |= {"lower": permitted.lower, "upper": permitted.upper, **exactly}
        return _explained(task, (world, limit, permitted), figures, work)
    figures |= {
        "permitted": permitted.count,
        "choices": permitted.options,
        "reachable_states": len(permitted.sub.states),
        "value": float(permitted.risk),
        "lower": permitted.lower,
        "upper": permitted.upper,
        "exact": permitted.exact,
        "maximal": permitted.maximal,
        "untested": permitted.untested,
        "ends_surely": permitted.ends_surely,
        "goal_reachable": permitted.goal_reachable,
        "attempts": permitted.attempts,
    }
    table = make_shield(task, world, permitted, limit)
    if isinstance(mixed, Randomised):
        table = read_shield(to_mixed_document(task, world, mixed, limit), Where("shield"))
        worst = max(mixed.values[int(s)] for s in world.mdp.initial)
        figures |= {"mixtures": mixed.count, "value": float(worst)}
    return _confirmed(task, permitted, table, figures, permission.output, work)


def _size(world: World) -> Figures:
    dead_ends = int((world.ended & ~world.fail & ~world.goal).sum())
    return {"states": world.mdp.states, "options": world.options, "dead_ends": dead_ends}


def _find_by_rule(task: Task, rule: Rule, output: Path | None, work: Work) -> Shield | Impossible | Unknown:
    """Return the shield that allows exactly what the rule says in every state."""
    figures: Figures = {"rule": rule.kind, "threshold": str(rule.threshold)}
    if rule.horizon is not None:
        figures["horizon"] = rule.horizon
    try:
        world = build_world(task, exact=True, budget=work.budget)
        figures |= _size(world)
        work.tell("risk of each action", states=world.mdp.states, actions=world.options)
        ruled = permit_by_rule(world, rule, work.budget.share(SEARCH_SHARE))
    except LimitReached as error:
        return Unknown(figures=figures, **why(error), **work.account())
    permitted = ruled.result
    least = max(ruled.least[int(s)] for s in world.mdp.initial)
    if rule.kind == "budget" and least > rule.threshold:
        nothing = EngineImpossible(float(least), float(least), least)
        figures |= {"lower": float(least), "upper": float(least), "minimum_exact": str(least)}
        return _explained(task, (world, rule.threshold, nothing), figures, work)
    least_open = (one for one, ended in zip(ruled.least, world.ended.tolist(), strict=True) if not ended)
    table = read_shield(to_ruled_document(task, world, ruled), Where("shield"))
    figures |= {
        "permitted": permitted.count,
        "choices": permitted.options,
        "value": float(table.bound),
        "exact": True,
        "least": float(least),
        "above": sum(rule.kind == "per-state" and one > rule.threshold for one in least_open),
    }
    return _confirmed(task, permitted, table, figures, output, work)


def _confirmed(
    task: Task, permitted: Permitted, table: Table, figures: Mapping[str, Any], output: Path | None, work: Work
) -> Shield:
    from polvet.confirm.confirmation import about_task, confirm

    checked = confirm(
        "permitted", table.document, about_task(task), found=work.spent(), budget=work.budget, output=output
    )
    if output is not None:
        table.save(output)
    written = None if output is None else str(output)
    return shield_of(
        task,
        permitted,
        table,
        table.bound,
        figures=figures,
        source=permitted,
        confirmation=checked,
        written=written,
        **work.account(),
    )


def read_bound(bound: float | str | Fraction | None, name: str = "bound") -> Fraction:
    """Return the bound exactly: 0.1 is one tenth."""
    from polvet.shield.world import parse_bound

    return bound if isinstance(bound, Fraction) else parse_bound(str(bound), Where(name))


def shield_of(task: Task, permitted: Permitted, table: Table, limit: Fraction, **more: Any) -> Shield:
    """Return the shield that permits so much."""
    return Shield(
        task=task,
        certificate=table.document,
        bound=limit,
        permitted=permitted.count,
        choices=permitted.options,
        maximal=permitted.maximal,
        table=table,
        **more,
    )


def _explained(
    task: Task, source: tuple[World, Fraction, EngineImpossible], figures: Figures, work: Work
) -> Impossible:
    """Return that the bound is impossible, with the states in which it shows, as a certificate that was checked."""
    from polvet.confirm.confirmation import about_task, confirm
    from polvet.shield.conflict import find_conflict, to_document

    world, limit, _ = source
    work.tell("looking for the states that explain it", states=world.mdp.states)
    nothing = impossible(source, figures, work)
    try:
        conflict = find_conflict(world, limit, work.budget.share(SEARCH_SHARE))
    except LimitReached:
        conflict = None
    if conflict is None:
        why_not = NotChecked("no states that explain it were found in time")
        return replace(nothing, confirmation=why_not, **work.account())
    document = to_document(task, world, conflict, limit)
    checked = confirm("impossible", document, about_task(task), found=work.spent(), budget=work.budget)
    few = {"states": len(conflict.states), "value": float(conflict.risk), "irreducible": conflict.irreducible}
    explained = {**nothing.figures, "conflict": few}
    return replace(nothing, certificate=document, confirmation=checked, figures=explained, **work.account())


def impossible(source: tuple[World, Fraction, EngineImpossible], figures: Mapping[str, Any], work: Work) -> Impossible:
    """Return that no scheduler keeps the bound, with the least risk that any can."""
    _, _, least = source
    low, high = (float(least.exact),) * 2 if least.exact is not None else (least.lower, least.upper)
    return Impossible(figures={**figures, "minimum": high}, source=source, minimum=(low, high), **work.account())
