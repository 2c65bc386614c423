"""Model checking: the value of a property, with a lower and an upper bound that hold, or as an exact fraction.

The property is walked twice: first to collect the state formulas and rewards it needs, so that the state space is built
once and only as far as the property looks; then to evaluate it over the states built.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import ceil, floor, inf

import numpy as np

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.errors import InputError, LimitReached, Where
from polvet.kernel.lower import Reward as KernelReward
from polvet.mdp import query as ask
from polvet.mdp.build import Built, build, build_exactly
from polvet.mdp.exact import around, exact_values
from polvet.mdp.instants import step_back, step_back_exactly
from polvet.mdp.solve import FINEST_GAP, Value, imprecise, relative_gap, solve
from polvet.mdp.sparse import Float64s, Mask, SparseMdp, Uint32s, mask_of
from polvet.mdp.total import total_reward
from polvet.model.expressions import TRUE, Binary, Expression, is_expression, negation
from polvet.model.folding import value_of
from polvet.model.infix import dump_expression
from polvet.model.network import Network
from polvet.model.properties import (
    Comparison,
    ExpectedReward,
    Filter,
    Globally,
    Interval,
    Next,
    Optimum,
    Probability,
    Property,
    PropertyExpression,
    RewardBound,
    StateFormula,
    StatePredicate,
    Until,
)
from polvet.model.task import condition
from polvet.policy.binding import Fitted

EXACT_STATES = 20_000
"""Up to so many states a question that doubles leave open is asked again in fractions."""
TINY_STATES, TINY_SECONDS = 3_000, 3.0
"""Up to so many states the answer is a fraction, if it takes no longer."""
FINER = 2**12
"""By so much the gap is made smaller where the bounds of the whole are too wide."""
AGAIN = "Write the property without that, or as several properties."

COMPARE: dict[str, Callable[[float | Fraction, float | Fraction], bool]] = {
    "<": operator.lt, "≤": operator.le, ">": operator.gt, "≥": operator.ge, "=": operator.eq, "≠": operator.ne,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What `check` answers: a number between two bounds, or a truth value; `limit` says why there is none."""

    lower: float | None
    upper: float | None
    exact: Fraction | None = None
    truth: bool | None = None
    states: int = 0
    choices: int = 0
    transitions: int = 0
    build_seconds: float = 0.0
    limit: LimitReached | None = None
    scheduler: Uint32s | None = None  # one choice per state that attains the bound, where the property has one
    built: Built | None = None
    near_ties: int = 0

    @property
    def is_exact(self) -> bool:
        """Return whether the answer is no bound: a fraction, infinite, or a truth value that fractions decided."""
        if self.truth is not None:
            return self.built is not None and self.built.mdp.is_exact
        return self.exact is not None or self.lower == inf

    @property
    def value(self) -> bool | float | None:
        """Return the truth value, or the middle of the bounds; None where these are not as near as was asked for."""
        if self.truth is not None:
            return self.truth
        if self.exact is not None:
            return float(self.exact)
        if self.lower is None or self.upper is None or self.limit is not None:
            return None
        return self.lower if self.lower == self.upper else (self.lower + self.upper) / 2


def check_property(
    network: Network,
    one: Property,
    *,
    gap: float = 1e-6,
    exact: bool = False,
    budget: Budget = UNLIMITED,
    policy: Fitted | None = None,
    threads: int = 1,
) -> CheckResult:
    """Return the value of the property in the network, or in what a policy (fitted to a task of it) makes of it.

    Where doubles cannot bring the bounds near enough, or cannot decide a comparison, a model that is small is asked again in fractions;
    one that is tiny always is, as long as that takes no time.
    """
    result = _check(network, one, gap, exact, budget, policy, threads)
    undecided = result.limit is not None and result.limit.kind is None and result.states <= EXACT_STATES
    tiny = result.limit is None and result.truth is None and result.states <= TINY_STATES and policy is None
    if exact or not (undecided or tiny):
        return result
    try:
        again = _check(network, one, gap, True, budget if undecided else _little(budget), policy, threads)
    except InputError:
        return result  # what has no rational value has bounds all the same
    return result if again.limit is not None or (tiny and again.exact is None) else again


def _little(budget: Budget) -> Budget:
    """Return a short budget: of processor time, so that what else runs plays no part, unless a limit by the clock was given."""
    if budget.until < inf:
        return budget.at_most(TINY_SECONDS)
    return replace(budget, seconds=TINY_SECONDS, clock=time.process_time)


def _check(
    network: Network,
    one: Property,
    most: float,
    exact: bool,
    budget: Budget,
    policy: Fitted | None,
    threads: int,
) -> CheckResult:
    spent = stopwatch()
    plan = _Plan(network, one)
    make = build_exactly if exact else partial(build, threads=threads)
    built = make(
        network,
        conditions=plan.conditions,
        rewards=plan.rewards,
        stop_at=plan.stop_at,
        budget=budget,
        policy=policy,
    )
    build_seconds = spent()
    mdp = built.mdp
    size = {
        "states": mdp.states,
        "choices": mdp.choices,
        "transitions": mdp.branches,
        "build_seconds": build_seconds,
        "near_ties": built.near_ties,
    }
    if built.limit is not None:
        return CheckResult(None, None, limit=built.limit, **size)  # type: ignore[arg-type]
    gap = most
    try:
        while True:
            evaluation = _Evaluation(plan, built, gap, exact, budget)
            value = evaluation.top(one.expression)
            # SOUND: the last word on every number, whichever way its bounds came about.
            if not value.is_wide(most):
                break
            if gap <= FINEST_GAP:
                value = replace(value, limit=imprecise(most))
                break
            gap = max(gap / FINER, FINEST_GAP)
    except LimitReached as limit:
        return CheckResult(None, None, limit=limit, **size)  # type: ignore[arg-type]
    return CheckResult(
        value.lower,
        value.upper,
        value.exact,
        value.truth,
        limit=value.limit,
        scheduler=evaluation.scheduler,
        built=built,
        **size,  # type: ignore[arg-type]
    )


class _Plan:
    """What has to be known of each state: conditions by number, rewards by name, and where runs may be cut off."""

    def __init__(self, network: Network, one: Property) -> None:
        self.network, self.where = network, one.where
        self.conditions: list[Expression] = []
        self.rewards: dict[str, KernelReward] = {}
        self.stop_at: list[int] = []
        self._numbers: dict[int, int] = {}
        self._keep: list[object] = []
        self._collect(one.expression)
        self._cut(one.expression)

    def number(self, formula: Expression) -> int:
        """Return the number of the condition."""
        return self._numbers[id(formula)]

    def reward(self, expression: Expression, accumulate: tuple[str, ...]) -> str:
        """Return the name under which the reward is collected, adding it when it is new."""
        name = f"{dump_expression(expression)}, accumulated over {', '.join(accumulate)}"
        if name not in self.rewards:
            per_state = None
            if "exit" in accumulate or "time" in accumulate:
                per_state = self.network.resolve(expression, self.where, exact=True)
            per_step = self.network.resolve_step(expression, self.where) if "steps" in accumulate else None
            self.rewards[name] = KernelReward(per_state, per_step)
            self._keep.append(expression)
        return name

    def constant(self, expression: Expression, what: str) -> Fraction:
        """Return the value of a bound."""
        value = value_of(self.network.resolve(expression, self.where, exact=True))
        if value is None or isinstance(value, bool):
            raise InputError(f"{what} is not a constant number.", self.where, "Use constants only.")
        return Fraction(value)

    def add(self, formula: Expression) -> int:
        """Number a condition."""
        self._keep.append(formula)
        self._numbers[id(formula)] = len(self.conditions)
        self.conditions.append(condition(self.network, formula, self.where))
        return len(self.conditions) - 1

    def _collect(self, part: PropertyExpression) -> None:
        match part:
            case Filter(_, values, states):
                self._collect(values)
                self._collect(states)
            case Comparison(_, left, right):
                for side in (left, right):
                    if side is not None and not _is_number(self.network, side, self.where):
                        self._collect(side)
            case Probability(_, path):
                self._collect_path(path)
            case ExpectedReward(_, reward, accumulate, until):
                if accumulate:
                    self.reward(reward, accumulate)
                if until is not None:
                    self._collect(until)
            case StatePredicate():
                pass
            case _ if is_expression(part):
                self.add(part)
            case _:
                raise _unsupported(part, self.where)

    def _collect_path(self, path: object) -> None:
        match path:
            case Until(left, right, _, time_bounds, rewards, kind):
                if time_bounds is not None or kind != "U":
                    raise InputError(
                        f"'{kind}' with these bounds is not evaluated.", self.where, "Use U or step bounds."
                    )
                self._collect(left)
                self._collect(right)
                for bound in rewards:
                    self.reward(bound.reward, bound.accumulate)
            case Globally(operand, _, time_bounds, rewards):
                if time_bounds is not None or rewards:
                    raise InputError("G with time or reward bounds is not evaluated.", self.where, "Use step bounds.")
                self._collect(operand)
            case Next(operand):
                self._collect(operand)
            case _:
                raise _unsupported(path, self.where)

    def _cut(self, part: PropertyExpression) -> None:
        """Runs need not be followed past a state that decides the property; only where nothing else looks further."""
        match part:
            case Filter(_, values, StatePredicate("initial")):
                self._cut(values)
            case Comparison(_, left, right) if right is None or _is_number(self.network, right, self.where):
                self._cut(left)
            case Probability(_, Until(left, right, steps, _, rewards)) if not (
                (steps is not None and steps.lower is not None)
                or any(bound.bounds.lower is not None for bound in rewards)
            ):
                if is_expression(left) and is_expression(right):
                    decided = right if left == TRUE else Binary("∨", right, negation(left))
                    self.stop_at = [self.add(decided)]
            case ExpectedReward(_, _, _, until) if until is not None and is_expression(until):
                self.stop_at = [self.number(until)]


def _is_number(network: Network, part: PropertyExpression, where: Where) -> bool:
    if not is_expression(part):
        return False
    value = value_of(network.resolve(part, where, exact=True))
    return value is not None and not isinstance(value, bool)


def _unsupported(part: object, where: Where) -> InputError:
    name = getattr(part, "operator", type(part).__name__)
    return InputError(f"properties with '{name}' are not evaluated.", where, "Use Pmin/Pmax or Emin/Emax properties.")


@dataclass(frozen=True, slots=True)
class _Answer:
    lower: float | None
    upper: float | None
    exact: Fraction | None = None
    truth: bool | None = None
    limit: LimitReached | None = None

    def is_wide(self, gap: float) -> bool:
        """Return whether this is a number whose bounds are further apart, without a limit that says why."""
        if self.lower is None or self.upper is None or self.exact is not None or self.limit is not None:
            return False
        return relative_gap(self.lower, self.upper) > gap


class _Evaluation:
    """Evaluates the parts of a property over the states built."""

    def __init__(self, plan: _Plan, built: Built, gap: float, exact: bool, budget: Budget) -> None:
        self.plan, self.built, self.gap, self.exact, self.budget = plan, built, gap, exact, budget
        self.scheduler: Uint32s | None = None
        self.initial = mask_of(built.mdp.initial, built.mdp.states)
        self.everywhere = np.ones(built.mdp.states, dtype=np.bool_)

    def top(self, part: PropertyExpression) -> _Answer:
        """Return the value of the whole property."""
        if not isinstance(part, Filter):
            return self.top(Filter("values", part, StatePredicate("initial")))
        states = self.mask(part.states)
        if not states.any():
            raise InputError(
                "the property's filter holds in no reachable state.", self.plan.where, "Weaken the filter."
            )
        values = part.values
        if isinstance(values, Probability | ExpectedReward):
            value = self.quantity(values, states)
            lowers, uppers = value.lowers[states], value.uppers[states]
            if part.function in ("∀", "∃", "count"):
                raise InputError(
                    f"the filter '{part.function}' needs a truth value, not a number.",
                    self.plan.where,
                    "Compare the number with a bound.",
                )
            lower = _summary(part.function, lowers, self.plan.where, upwards=False)
            upper = _summary(part.function, uppers, self.plan.where, upwards=True)
            if value.exact is None or not self._is_told(part.function, values, states):
                return _Answer(lower, upper, None, None, value.limit)
            return _Answer(*around(value.exact), value.exact, None, value.limit)
        low, high = self.truth(values, states)
        if part.function == "count":
            return _Answer(float(low[states].sum()), float(high[states].sum()))
        combine = np.any if part.function in ("∃", "max") else np.all
        certain, possible = bool(combine(low[states])), bool(combine(high[states]))
        if certain != possible:
            return _Answer(
                None,
                None,
                limit=LimitReached("the bounds do not decide the comparison; use --exact or a smaller --gap"),
            )
        return _Answer(float(certain), float(certain), None, certain)

    def _is_told(self, function: str, part: Probability | ExpectedReward, states: Mask) -> bool:
        """Return whether the exact value, the best of the filter's states, is what the filter asks for."""
        return states.sum() == 1 or function == ("min" if part.optimum is Optimum.MIN else "max")

    def mask(self, formula: StateFormula) -> Mask:
        """Return the states where the formula certainly holds; one that the bounds cannot decide is an InputError."""
        low, high = self.truth(formula, self.everywhere)
        if (low != high).any():
            raise InputError("a nested comparison is too close to call.", self.plan.where, "Use --exact.")
        return low

    def truth(self, formula: PropertyExpression, among: Mask) -> tuple[Mask, Mask]:
        """Return which of these states the formula certainly holds in, and which it possibly does."""
        match formula:
            case StatePredicate("initial"):
                return self.initial, self.initial
            case StatePredicate("deadlock"):
                return self.built.deadlocks, self.built.deadlocks
            case Comparison("¬", inner, None):
                low, high = self.truth(inner, among)
                return ~high, ~low
            case Comparison(("∧" | "∨") as sign, left, right) if right is not None:
                (a, b), (c, d) = self.truth(left, among), self.truth(right, among)
                return (a & c, b & d) if sign == "∧" else (a | c, b | d)
            case Comparison(sign, left, right) if sign in COMPARE and right is not None:
                return self._compare(sign, left, right, among)
            case _ if is_expression(formula):
                mask = self.built.masks[self.plan.number(formula)]
                return mask, mask
        raise _unsupported(formula, self.plan.where)

    def _compare(
        self, sign: str, left: PropertyExpression, right: PropertyExpression, among: Mask
    ) -> tuple[Mask, Mask]:
        if isinstance(right, Probability | ExpectedReward):
            left, right = right, left
            sign = {"<": ">", "≤": "≥", ">": "<", "≥": "≤"}.get(sign, sign)
        if not isinstance(left, Probability | ExpectedReward) or not is_expression(right):
            raise _unsupported(left, self.plan.where)
        bound = self.plan.constant(right, "the bound of a comparison")
        value = self.quantity(left, among)
        test = COMPARE[sign]
        ends = [
            np.array([test(Fraction(x) if x < inf else x, bound) for x in bounds.tolist()], dtype=bool)
            for bounds in (value.lowers, value.uppers)
        ]
        same = value.lowers == value.uppers
        low, high = ends[0] & ends[1], ends[0] | ends[1]
        if sign in ("=", "≠"):
            inside = (value.lowers <= float(bound)) & (value.uppers >= float(bound)) & ~same
            low, high = low & ~inside, high | inside
        if value.exact is not None and among.sum() == 1:
            low[among] = high[among] = test(value.exact, bound)
        return low, high

    def quantity(self, part: Probability | ExpectedReward, among: Mask) -> Value:
        """Return bounds on a probability or an expected reward at each of these states, as exact the best of them."""
        # SOUND: solvers give bounds that say something only where a question begins, and where its runs come to.
        mdp = replace(self.built.mdp, initial=np.flatnonzero(among).astype(np.uint32))
        ask_for = self._probability if isinstance(part, Probability) else self._expected
        value = ask_for(mdp, part, part.optimum is Optimum.MIN)  # type: ignore[arg-type]
        self.scheduler = value.scheduler
        return value

    def _probability(self, mdp: SparseMdp, part: Probability, minimise: bool) -> Value:
        match part.path:
            case Until(left, right, steps, _, rewards):
                safe = None if left == TRUE else self.mask(left)
                goal = self.mask(right)
                first, last = self._steps(steps)
                if first > 0:
                    if safe is not None:
                        raise InputError("U with a lower step bound needs 'true' on its left.", self.plan.where, AGAIN)
                    return self._late(mdp, ask.Reach(goal, None, minimise), first, last)
                if rewards and rewards[0].bounds.lower is not None:
                    return self._at_least(mdp, goal, safe, minimise, rewards)
                bound = self._reward_bound(rewards)
                return self._solve(mdp, ask.Reach(goal, safe, minimise, last, bound))
            case Globally(operand, steps):
                first, last = self._steps(steps)
                if first > 0:
                    raise InputError("G with a lower step bound is not evaluated.", self.plan.where, AGAIN)
                return self._solve(mdp, ask.Always(self.mask(operand), minimise, last))
            case Next(operand):
                return self._late(mdp, ask.Reach(self.mask(operand), None, minimise), 1, 1)
        raise _unsupported(part.path, self.plan.where)

    def _late(self, mdp: SparseMdp, reach: ask.Reach, first: int, last: int | None) -> Value:
        """Return `true U[first, last] goal`: before the first step the goal does not count."""
        goal, minimise, within = reach.goal, reach.minimise, self.budget
        # SOUND: runs go on from goal states that they meet too early, so that every state may be where the rest begins.
        rest, start = mdp.from_everywhere(), mdp.initial.tolist()
        after = solve(
            rest,
            replace(reach, step_bound=None if last is None else last - first),
            relative_gap=self.gap,
            budget=within,
        )
        lowers, uppers = step_back(mdp, after.lowers, after.uppers, first, minimise=minimise, budget=within)
        best, exactly = min if minimise else max, None
        if self.exact:
            worth = (
                [one or Fraction(0) for one in exact_values(rest, reach, after, budget=within)]
                if last is None
                else step_back_exactly(
                    mdp, [Fraction(int(one)) for one in goal], last - first, minimise=minimise, goal=goal, budget=within
                )
            )
            worth = step_back_exactly(mdp, worth, first, minimise=minimise, budget=within)
            exactly = Fraction(best(worth[state] for state in start))
        ends = float(best(lowers[start])), float(best(uppers[start]))
        return Value(*ends, False, lowers, uppers, None, exactly, limit=after.limit)

    def _at_least(
        self, mdp: SparseMdp, goal: Mask, safe: Mask | None, minimise: bool, rewards: tuple[RewardBound, ...]
    ) -> Value:
        """Return `true U goal` with an accumulated reward of at least the bound."""
        if safe is not None or len(rewards) > 1 or rewards[0].bounds.upper is not None:
            raise InputError("only 'true U' with one lower reward bound is evaluated.", self.plan.where, AGAIN)
        whole, _ = self._whole(rewards[0].bounds, "a reward bound")
        name = self.plan.reward(rewards[0].reward, rewards[0].accumulate)
        return self._solve(mdp, ask.Reach(goal, None, minimise, reward_at_least=(name, whole)))

    def _expected(self, mdp: SparseMdp, part: ExpectedReward, minimise: bool) -> Value:
        if part.time_instant is not None or part.reward_instants:
            raise InputError(
                "expected values at an instant of time or reward are not evaluated.", self.plan.where, AGAIN
            )
        if not part.accumulate:
            if part.step_instant is None:
                raise InputError("an expected reward needs 'accumulate' or 'step-instant'.", self.plan.where, AGAIN)
            raise InputError("instantaneous rewards are not evaluated.", self.plan.where, "Accumulate the reward.")
        name = self.plan.reward(part.reward, part.accumulate)
        goal = None if part.until is None else self.mask(part.until)
        if part.step_instant is not None:
            steps = int(self.plan.constant(part.step_instant, "step-instant"))
            return self._solve(mdp, ask.CumulativeReward(name, steps, minimise, goal))
        if goal is None:
            return total_reward(mdp, name, minimise=minimise, gap=self.gap, exact=self.exact, budget=self.budget)
        return self._solve(mdp, ask.Reward(name, goal, minimise))

    def _solve(self, mdp: SparseMdp, question: ask.Query) -> Value:
        return solve(mdp, question, relative_gap=self.gap, exact=self.exact, budget=self.budget)

    def _whole(self, bounds: Interval, what: str) -> tuple[int, int | None]:
        """Return the least and the greatest natural number between the bounds."""
        first, last = 0, None
        if bounds.lower is not None:
            least = self.plan.constant(bounds.lower, what)
            first = max(0, floor(least) + 1 if bounds.lower_exclusive else ceil(least))
        if bounds.upper is not None:
            most = self.plan.constant(bounds.upper, what)
            last = ceil(most) - 1 if bounds.upper_exclusive else floor(most)
        return first, last

    def _steps(self, steps: Interval | None) -> tuple[int, int | None]:
        if steps is None:
            return 0, None
        first, last = self._whole(steps, "a step bound")
        if last is not None and last < first:
            raise InputError(
                f"the step bounds [{first}, {last}] are empty.",
                self.plan.where,
                "Write a lower bound that is not above the upper one.",
            )
        return first, last

    def _reward_bound(self, rewards: tuple[RewardBound, ...]) -> tuple[str, int] | None:
        if not rewards:
            return None
        if len(rewards) > 1 or rewards[0].bounds.lower is not None or rewards[0].bounds.upper is None:
            raise InputError("only one upper reward bound is evaluated.", self.plan.where, "Drop the other bounds.")
        _, whole = self._whole(rewards[0].bounds, "a reward bound")
        assert whole is not None
        return self.plan.reward(rewards[0].reward, rewards[0].accumulate), whole


def _summary(function: str, values: Float64s, where: Where, *, upwards: bool) -> float:
    match function:
        case "min":
            return float(values.min())
        case "max":
            return float(values.max())
        case "sum" | "avg":
            if values.max() == inf:
                return inf
            # SOUND: bounds are summed exactly and rounded outward.
            total = sum(map(Fraction, values.tolist()), Fraction(0))
            return around(total / (len(values) if function == "avg" else 1))[upwards]
        case "values" | "range" | "first" | "state":
            if len(values) > 1 and values.min() != values.max():
                raise InputError(f"the value differs over {len(values)} states.", where, "Use a min or max filter.")
            return float(values[0])
        case _:
            raise InputError(f"the filter '{function}' is not evaluated.", where, "Use min, max, sum or avg.")
