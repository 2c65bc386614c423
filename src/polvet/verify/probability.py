"""How likely is failing? Proved bounds on the greatest probability, over start states and the environment's choices.

Built explicitly (`kernel`), solved with bounds (`mdp/solve.py`): what a policy that is not safe risks at worst. Where several
operators are enabled, the environment takes the worst; probabilities are those of the model. Where the states do not fit the limits, an
abstraction (`verify/abstract_risk.py`) bounds the probability from above; half of the time is kept for it.
Limits   explicitly the reference order of evaluation only: `near_ties` counts states where another may differ
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, LimitReached
from polvet.kernel.compiled import describe_limit
from polvet.kernel.starts import Starts
from polvet.mdp.query import Reach
from polvet.mdp.solve import solve
from polvet.mdp.sparse import SparseMdp
from polvet.policy.compiled import FAIL, GOAL, Bound
from polvet.verify.abstract_risk import find_abstract_risk
from polvet.verify.box_system import ALONE, Parallelism
from polvet.verify.slicing import sliced

MOST_SECONDS = 60.0
"""For the abstraction, where no limit is given."""


@dataclass(frozen=True, slots=True)
class Risk:
    """The greatest probability of reaching `fail` lies between the bounds; `limit` says why they are wide, if they are.

    `method` is explicit or abstraction; with the latter `states` are abstract ones, over the values of `variables`.
    """

    lower: float
    upper: float
    states: int
    near_ties: int
    limit: str | None = None
    method: str = "explicit"
    variables: tuple[str, ...] = ()


def find_risk(bound: Bound, *, budget: Budget = UNLIMITED, seed: int = 0, parallelism: Parallelism = ALONE) -> Risk:
    """Return bounds on the greatest probability with which a run of the policy fails.

    >>> from fractions import Fraction
    >>> from polvet.model.build import ModelBuilder
    >>> from polvet.policy.binding import fit
    >>> from polvet.policy.compiled import compile_policy
    >>> from polvet.policy.networks import network_of
    >>> m = ModelBuilder("coin"); x = m.int("x", 0, 2, initial=0); m.labels("toss")
    >>> m.edge("toss", guard=x == 0, to=[(Fraction(3, 4), {x: 1}), (Fraction(1, 4), {x: 2})])
    >>> toss = fit(m.task(fail=x == 2), network_of([([[0.0]], [0.0])], ["x"], ["toss"]))
    >>> risk = find_risk(compile_policy(toss)); risk.lower <= 0.25 <= risk.upper, risk.upper - risk.lower < 1e-6
    (True, True)
    """
    half = budget.share(0.5)
    part = sliced(bound).bound
    compiled = part.compiled
    try:
        starts = Starts.of(part.task, half)
        if starts.count is None:
            raise InputError("there are infinitely many start states.", hint="Narrow them with --start.")
        packed = compiled.pack_starts(starts, budget=half)
    except LimitReached as limit:
        return _abstractly(part, str(limit), Risk(0.0, 1.0, 0, 0), budget, seed, parallelism)
    space = compiled.explore(packed, build=True, stop_at=[FAIL, GOAL], budget=half, policy=part.core)
    if (stopped := describe_limit(space, half)) is not None:
        return _abstractly(part, str(stopped), Risk(0.0, 1.0, len(space), space.near_ties), budget, seed, parallelism)
    choice_start, branch_start, target, probability, _, _ = space.take_matrix()
    mdp = SparseMdp(choice_start, branch_start, target, probability, space.initial)
    value = solve(mdp, Reach(space.mask(FAIL).astype(bool)), budget=budget)
    return Risk(
        value.lower, value.upper, len(space), space.near_ties, None if value.limit is None else str(value.limit)
    )


def _abstractly(bound: Bound, limit: str, known: Risk, budget: Budget, seed: int, parallelism: Parallelism) -> Risk:
    """Return the bound of an abstraction, and the limit that explicit search came to."""
    within = budget.at_most(MOST_SECONDS) if budget.seconds is None else budget
    risk = find_abstract_risk(bound, budget=within, seed=seed, parallelism=parallelism)
    if risk.upper == 1:
        return replace(known, limit=f"{limit}; abstraction: {risk.limit or 'no bound below 1'}")
    return Risk(0.0, risk.upper, risk.states, 0, limit, "abstraction", risk.variables)
