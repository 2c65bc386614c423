"""Properties as frozen data: probabilities and expected rewards over paths, filters over states, and policies' tasks.

A *state formula* is an `Expression` whose leaves may be the markers below (`StatePredicate`) or, nested, a quantity.
`mdp/` and the command `check` evaluate what they can and name what they cannot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from polvet.errors import Where
from polvet.model.expressions import Element, Expression, Name


class Optimum(Enum):
    """Over all schedulers: the least or the greatest value; ONLY where there is nothing to choose (a Markov chain)."""

    MIN = "min"
    MAX = "max"
    ONLY = "only"


@dataclass(frozen=True, slots=True)
class StatePredicate:
    """A set of states named by JANI: `initial` or `deadlock` (`timelock` and the like are read and refused later)."""

    name: str


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds on steps, time or reward; absent ones are open."""

    lower: Expression | None = None
    upper: Expression | None = None
    lower_exclusive: bool = False
    upper_exclusive: bool = False


@dataclass(frozen=True, slots=True)
class RewardBound:
    """A bound on the accumulated value of `reward`, accumulated over `steps`, `time` and/or `exit`."""

    reward: Expression
    accumulate: tuple[str, ...]
    bounds: Interval


@dataclass(frozen=True, slots=True)
class Until:
    """`left U right`; `F right` is `true U right` (`release` swaps to R, `weak` to W)."""

    left: StateFormula
    right: StateFormula
    steps: Interval | None = None
    time: Interval | None = None
    rewards: tuple[RewardBound, ...] = ()
    kind: str = "U"  # "U", "W" (weak until) or "R" (release)


@dataclass(frozen=True, slots=True)
class Globally:
    """`G operand`."""

    operand: StateFormula
    steps: Interval | None = None
    time: Interval | None = None
    rewards: tuple[RewardBound, ...] = ()


@dataclass(frozen=True, slots=True)
class Next:
    """`X operand`."""

    operand: StateFormula


PathFormula: TypeAlias = "Until | Globally | Next"


@dataclass(frozen=True, slots=True)
class Probability:
    """The probability of a path formula."""

    optimum: Optimum
    path: PathFormula


@dataclass(frozen=True, slots=True)
class ExpectedReward:
    """The expected value of `reward`, accumulated (never: at an instant) until a state of `until` is reached."""

    optimum: Optimum
    reward: Expression
    accumulate: tuple[str, ...] = ()
    until: StateFormula | None = None
    step_instant: Expression | None = None
    time_instant: Expression | None = None
    reward_instants: tuple[RewardBound, ...] = ()  # `bounds.upper` holds the instant


@dataclass(frozen=True, slots=True)
class SteadyState:
    """The long-run average; read, not evaluated."""

    optimum: Optimum
    reward: StateFormula
    accumulate: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PathQuantifier:
    """`∀` or `∃` over paths."""

    quantifier: str
    path: PathFormula


@dataclass(frozen=True, slots=True)
class Comparison:
    """A quantity against a number, or formulas joined by a logical operator (`left` alone for `¬`)."""

    operator: str
    left: PropertyExpression
    right: PropertyExpression | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """A function (`min`, `max`, `sum`, `avg`, `count`, `∀`, `∃`, `values`, ...) of `values` over the `states`."""

    function: str
    values: PropertyExpression
    states: StateFormula


@dataclass(frozen=True, slots=True)
class AutomatonLocation:
    """An instance of an automaton in one of its locations; `index` counts the instances (absent: by the name)."""

    automaton: str
    location: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class StateCondition:
    """The states where `condition` holds (absent: true) while the named instances are in the given locations."""

    condition: Expression | None = None
    locations: tuple[AutomatonLocation, ...] = ()


@dataclass(frozen=True, slots=True)
class StateValues:
    """One state, perhaps in part: values of variables (or array elements) and locations."""

    values: tuple[tuple[Name | Element, Expression], ...] = ()
    locations: tuple[AutomatonLocation, ...] = ()


@dataclass(frozen=True, slots=True)
class StatesValues:
    """States, one by one."""

    states: tuple[StateValues, ...]


StateSet: TypeAlias = "StateCondition | StatesValues"


@dataclass(frozen=True, slots=True)
class Objective:
    """What a policy should reach, and the rewards it was trained with."""

    goal: StateSet | None = None
    goal_potential: Expression | None = None
    goal_reward: Expression | None = None
    step_reward: Expression | None = None
    accumulate: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Predicates:
    """Predicates of an abstraction."""

    predicates: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class PolicyTask:
    """PlaJA's `PA`: whether a policy reaches `reach` from `start`; `policy_file` is kept, not opened."""

    start: StateSet | None = None
    reach: StateSet | None = None
    objective: Objective | None = None
    predicates: Predicates | None = None
    policy_file: str | None = None


StateFormula: TypeAlias = "Expression | StatePredicate | Comparison | Probability | PathQuantifier"
PropertyExpression: TypeAlias = (
    "Expression | StatePredicate | Probability | ExpectedReward | SteadyState | PathQuantifier | Comparison | Filter"
    " | Until | Globally | Next | StateCondition | StatesValues | Objective | Predicates | PolicyTask | OtherExpression"
)


@dataclass(frozen=True, slots=True)
class OtherExpression:
    """A property outside JANI's standard, kept as JSON text, to be refused by name when it is evaluated."""

    operator: str
    document: str


@dataclass(frozen=True, slots=True)
class Property:
    """A named property."""

    name: str
    expression: PropertyExpression
    comment: str | None = None
    where: Where = field(default=Where("model"), compare=False, repr=False)
