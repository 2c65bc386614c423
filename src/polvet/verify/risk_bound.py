"""Is the greatest probability of failing, over starts and the environment's choices, at most a bound? With a certificate either way.

Few states are followed in the interpreter, in every order of evaluation, and solved in fractions (`mdp/exact.py`). More are built by
the kernel and solved in doubles with bounds, which are then made to hold step by step: upper ones are raised, with room for every
rounding, until no choice is above its state; lower ones grow from the fail states under one choice per state. Where the states
do not fit the limits, an abstraction may still show that the bound is kept; for that there is no kind of certificate.
Source   certificates for reachability: Funke, Jantsch, Baier, Farkas certificates and minimal witnesses for probabilistic
         reachability constraints, TACAS 2020; what each demands is said in `check/risk_bound.py`
Limits   in doubles the reference order of evaluation; with near ties only what the interpreter can follow is decided
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.check.all_starts import iter_all_starts
from polvet.check.arena import Arena
from polvet.check.followed import Followed
from polvet.check.risk_bound import Row, is_certain, possible_rows
from polvet.errors import InputError, Limit, LimitReached, Where
from polvet.files import Figures
from polvet.kernel.compiled import describe_limit
from polvet.kernel.starts import Starts, drawable_starts
from polvet.mdp.exact import exact_values
from polvet.mdp.query import Reach
from polvet.mdp.solve import solve
from polvet.mdp.sparse import LEAST_NORMAL, Float64s, Mask, SparseMdp
from polvet.model.options import ADVERSARIAL
from polvet.model.semantics import State
from polvet.numbers import LONG_DIGITS
from polvet.policy.compiled import FAIL, GOAL, Bound
from polvet.records.certificate_files import Certificate, certificate_head, conditions_of
from polvet.records.packed import fits, pack_columns
from polvet.records.state_json import Malformed
from polvet.verdict import Verdict
from polvet.verify.abstract_risk import find_abstract_risk
from polvet.verify.box_system import ALONE, Parallelism
from polvet.verify.probability import MOST_SECONDS
from polvet.verify.slicing import Slice, sliced

FEW_STATES, EXACT_STATES = 2_000, 20_000
"""So many are solved in fractions at once, and so many where doubles leave the question open."""
ENOUGH_SECONDS = 60.0
"""For fractions, or for doubles, where no limit is given."""
GAPS = (1e-6, 1e-12)
"""Between bounds in doubles: the second where the first does not tell."""
MOST_SWEEPS = 20_000
"""Over values in doubles: chains that move on with a probability of 1e-17 would need more than anybody has time for."""
NO_CHOICE = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class RiskVerdict:
    """Whether the risk, which lies between the bounds, is at most `most`; safe means that it is, unsafe that it is above."""

    verdict: Verdict
    most: Fraction
    lower: Fraction
    upper: Fraction
    states: int
    method: str  # exact, explicit or abstraction
    near_ties: int = 0
    complete: bool = False  # whether all states that are reached were seen
    certificate: Certificate | None = None
    reason: str | None = None
    limit: Limit | None = None

    @property
    def figures(self) -> Figures:
        """Return what was found as JSON documents hold it; the bounds are rounded outward, `risk` is the exact one."""
        figures: Figures = {
            "max_risk": str(self.most),
            "probability_lower": _double(self.lower, -np.inf),
            "probability_upper": _double(self.upper, np.inf),
            "probability_method": self.method,
            "states": self.states,
            "near_ties": self.near_ties,
            "environment": ADVERSARIAL,
        }
        if self.lower == self.upper and len(str(self.lower)) <= 200:
            figures["risk"] = str(self.lower)
        return figures

    @property
    def says(self) -> str:
        """Return the risk beside the bound, in words."""
        low, high = self.figures["probability_lower"], self.figures["probability_upper"]
        risk = f"{float(self.lower):.6g}" if self.lower == self.upper else f"between {low:.6g} and {high:.6g}"
        return f"fails with probability {risk} at worst, at most {float(self.most):g} allowed"


def judge_risk(
    bound: Bound, most: Fraction, *, budget: Budget = UNLIMITED, seed: int = 0, parallelism: Parallelism = ALONE
) -> RiskVerdict:
    """Return whether runs of the policy fail with probability at most `most`."""
    if names := bound.task.avoid.names:
        what = f"a bound on the probability of fail says nothing about {' and '.join(names)}."
        raise InputError(what, Where("--avoid"), "Leave --avoid out, or ask without the bound.")
    part = sliced(bound)
    try:
        drawable_starts(bound.task, budget=budget)
        verdict = _explicitly(part, most, budget.share(0.5))
        if verdict.verdict is Verdict.UNSAFE and part.kept is not None:
            # SOUND: what exceeds the bound is shown over all variables, see check/risk_bound.py.
            whole = _explicitly(Slice(bound, bound, None), most, budget)
            verdict = whole if whole.verdict is Verdict.UNSAFE else replace(verdict, certificate=None)
    except LimitReached as limit:
        verdict = replace(_nothing(most), reason=str(limit), limit=limit.kind)
    # Where the states were all seen, an abstraction knows no better.
    return (
        _abstractly(part.bound, verdict, budget, seed, parallelism)
        if _is_open(verdict) and not verdict.complete
        else verdict
    )


def _nothing(most: Fraction) -> RiskVerdict:
    return RiskVerdict(Verdict.UNKNOWN, most, Fraction(0), Fraction(1), 0, "explicit")


def _explicitly(part: Slice, most: Fraction, budget: Budget) -> RiskVerdict:
    bound = part.bound
    starts = Starts.of(bound.task, budget)
    if starts.count is None:
        return replace(_nothing(most), reason="infinitely many start states")
    packed = bound.compiled.pack_starts(starts, budget=budget)
    space = bound.compiled.explore(packed, build=True, stop_at=[FAIL, GOAL], budget=budget, policy=bound.core)
    nothing = replace(_nothing(most), states=len(space), near_ties=space.near_ties)
    if (stopped := describe_limit(space, budget)) is not None:
        return replace(nothing, reason=str(stopped), limit=stopped.kind)
    verdict = nothing = replace(nothing, complete=True)
    if len(space) <= FEW_STATES:
        verdict = _exactly(part, nothing, budget)
        if verdict.certificate is not None:
            return verdict
    if space.near_ties:
        if FEW_STATES < len(space) <= EXACT_STATES:
            verdict = _exactly(part, nothing, budget)
        return replace(verdict, reason=verdict.reason or _ties(space.near_ties)) if _is_open(verdict) else verdict
    doubles = _in_doubles(part, space, nothing, budget)
    if doubles.certificate is None and FEW_STATES < len(space) <= EXACT_STATES:
        verdict = _exactly(part, nothing, budget)
    if _is_open(verdict):
        return doubles
    # Fractions tell more than doubles; their certificate may be too long to be written.
    shorter = doubles.certificate if doubles.verdict is verdict.verdict else None
    return verdict if verdict.certificate is not None else replace(verdict, certificate=shorter)


def _is_open(result: RiskVerdict) -> bool:
    return result.verdict is Verdict.UNKNOWN


def _ties(count: int) -> str:
    return f"near-tie in {count:,} {'state' if count == 1 else 'states'}"


def _exactly(part: Slice, nothing: RiskVerdict, budget: Budget) -> RiskVerdict:
    """Return the answer in fractions, for all orders of evaluation; `nothing` with the limit where it takes too long."""
    budget = (budget.at_most(ENOUGH_SECONDS) if budget.seconds is None else budget).at_most(states=2 * EXACT_STATES)
    try:
        world = _follow(part.bound, budget)
        above = world.values(world.rows, budget)
        upper = max(above[k] for k in world.starts)
        rows = [mine if sure else [] for mine, sure in zip(world.rows, world.certain, strict=True)]
        below = above if all(world.certain) else world.values(rows, budget)
    except LimitReached as limit:
        return replace(nothing, reason=str(limit), limit=limit.kind)
    except Malformed as broken:  # only an order of evaluation that is not the reference one comes there
        return replace(nothing, reason=str(broken))
    lower = max(below[k] for k in world.starts)
    result = replace(
        nothing, lower=lower, upper=upper, states=len(world.states), method="exact", reason=None, limit=None
    )
    if upper <= result.most:
        listed = np.arange(len(world.states))
        return replace(
            result, verdict=Verdict.SAFE, certificate=_certificate(part, result.most, world.packed, listed, above)
        )
    if lower <= result.most:
        return replace(result, reason=_ties(world.certain.count(False)))
    ranks = _ranks(rows, world.fails, below)
    listed = np.array([k for k, value in enumerate(below) if value], dtype=np.int64)
    start = max(world.starts, key=below.__getitem__)
    certificate = _certificate(part, result.most, world.packed, listed, below, ranks, start)
    return replace(result, verdict=Verdict.UNSAFE, certificate=certificate)


@dataclass(frozen=True, slots=True, eq=False)
class _World:
    """What the interpreter shows: states, the rows of each (numbers and fractions), and where all orders choose alike."""

    states: list[State]
    packed: np.ndarray[Any, Any]  # the states as the kernel unpacks them
    rows: list[list[list[tuple[int, Fraction]]]]
    fails: list[bool]
    certain: list[bool]
    starts: range

    def values(self, rows: list[list[list[tuple[int, Fraction]]]], budget: Budget) -> list[Fraction]:
        """Return the greatest probability of failing from each state."""
        every = range(len(self.states))  # so that no state counts as not reached
        mdp = SparseMdp.build(rows, initial=every)
        values = exact_values(mdp, Reach(np.array(self.fails, dtype=np.bool_)), budget=budget)
        return [value if value is not None else Fraction(0) for value in values]


def _follow(bound: Bound, budget: Budget) -> _World:
    task = bound.task
    arena = Arena.of(task, budget=budget)
    followed = Followed(arena, bound.fitted)
    number: dict[State, int] = {state: k for k, state in enumerate(dict.fromkeys(iter_all_starts(arena)))}
    starts, frontier = range(len(number)), list(number)
    rows: dict[State, list[Row]] = {}
    unsure: set[State] = set()
    while frontier:
        budget.check(len(number))
        going = [state for state in frontier if not arena.is_fail(state) and not arena.is_goal(state)]
        before = len(number)
        for state, step in zip(going, followed.steps(going), strict=True) if going else ():
            rows[state] = possible_rows(step)
            if not is_certain(step):
                unsure.add(state)
            for row in rows[state]:
                for target in row:
                    number.setdefault(target, len(number))
        frontier = list(number)[before:]
    states = list(number)
    numbered = [
        [[(number[target], chance) for target, chance in row.items()] for row in rows.get(state, ())]
        for state in states
    ]
    packed = bound.compiled.machine.unpack(bound.compiled.pack(states))
    fails = [bool(arena.is_fail(state)) for state in states]
    return _World(states, packed, numbered, fails, [state not in unsure for state in states], starts)


def _ranks(rows: list[list[list[tuple[int, Fraction]]]], fails: list[bool], values: list[Fraction]) -> dict[int, int]:
    """Return how many moves that attain the values lie between each state of value above 0 and a fail state."""
    users: dict[int, list[int]] = {}
    for state, mine in enumerate(rows):
        for row in mine if values[state] else ():
            if sum((chance * values[target] for target, chance in row), Fraction(0)) == values[state]:
                for target, _ in row:
                    users.setdefault(target, []).append(state)
    ranks = {state: 0 for state, fail in enumerate(fails) if fail}
    todo = list(ranks)
    for state in todo:  # grows while it is walked
        for user in users.get(state, ()):
            if user not in ranks:
                ranks[user] = ranks[state] + 1
                todo.append(user)
    return ranks


def _in_doubles(part: Slice, space: Any, nothing: RiskVerdict, budget: Budget) -> RiskVerdict:
    """Return the answer for a space without near ties, where doubles tell."""
    choice_start, branch_start, target, probability, _, _ = space.take_matrix()
    if len(probability) and probability.min() < LEAST_NORMAL:
        return replace(nothing, reason="a probability is too small for doubles")
    mdp = SparseMdp(choice_start, branch_start, target, probability, space.initial)
    fails = space.mask(FAIL).astype(bool)
    budget = budget.at_most(ENOUGH_SECONDS) if budget.seconds is None else budget
    for gap in GAPS:
        value = solve(mdp, Reach(fails), relative_gap=gap, budget=budget)
        if value.limit is not None or not value.lower <= nothing.most <= value.upper:
            break
    result = replace(nothing, lower=Fraction(value.lower), upper=Fraction(value.upper))
    if value.limit is not None:
        result = replace(result, reason=str(value.limit), limit=value.limit.kind)
    packed, starts = part.bound.compiled.machine.unpack(space.states()), space.initial.astype(np.int64)
    if result.upper <= result.most:
        above = _raised(mdp, fails, value.uppers, budget)
        certificate = None
        if above is not None and Fraction(float(above[starts].max())) <= result.most:
            certificate = _certificate(part, result.most, packed, np.arange(mdp.states), _fractions(above))
        return replace(result, verdict=Verdict.SAFE, certificate=certificate, reason=None, limit=None)
    if result.lower > result.most:
        certificate = None
        if part.kept is None and value.scheduler is not None:
            below, ranks = _grown(mdp, fails, value.scheduler, starts, result.most, budget)
            best = int(starts[below[starts].argmax()])
            if Fraction(float(below[best])) > result.most:
                listed = np.flatnonzero(below > 0)
                certificate = _certificate(part, result.most, packed, listed, _fractions(below), ranks, best)
        return replace(result, verdict=Verdict.UNSAFE, certificate=certificate, reason=None, limit=None)
    return replace(result, reason=result.reason or "doubles do not tell the risk from the bound")


def _raised(mdp: SparseMdp, fails: Mask, uppers: Float64s, budget: Budget) -> Float64s | None:
    """Return upper bounds such that no choice is above its state, in exact arithmetic; None where that takes too long.

    SOUND: the expected value of a choice is at most the greatest value among its outcomes, whatever the probabilities; and at
    most the sum in doubles with room for all roundings. Where runs may stay for ever, the former keeps values from growing.
    """
    above = np.where(fails, 1.0, np.minimum(uppers, 1.0))
    if not mdp.choices:
        return above
    first, owner, room = _layout(mdp)
    for _ in range(MOST_SWEEPS):
        if budget.is_over():
            break
        outcomes = above[mdp.target]
        summed = np.add.reduceat(mdp.probability * outcomes, first) * (1 + room) + np.finfo(np.float64).tiny
        worth = np.minimum(np.maximum.reduceat(outcomes, first), summed)
        new = above.copy()
        np.maximum.at(new, owner, worth)
        if (new == above).all():
            return above
        above = np.minimum(new, 1.0)
    return None


def _grown(
    mdp: SparseMdp, fails: Mask, scheduler: Any, starts: Any, most: Fraction, budget: Budget
) -> tuple[Float64s, dict[int, int]]:
    """Return lower bounds under the scheduler, no more than its next step makes of them, and the round that each began in.

    SOUND: from round to round values only grow, and each is what the values before make of it, rounded down.
    """
    below, rank = np.where(fails, 1.0, 0.0), np.where(fails, 0, -1)
    moving = np.flatnonzero((np.diff(mdp.choice_start) > 0) & (scheduler != NO_CHOICE) & ~fails)
    if len(moving):
        first, _, room = _layout(mdp)
        chosen = mdp.choice_start[moving].astype(np.int64) + scheduler[moving]
        for rounds in range(1, MOST_SWEEPS):
            if budget.is_over() or Fraction(float(below[starts].max())) > most:
                break
            summed = np.add.reduceat(mdp.probability * below[mdp.target], first) * (1 - room)
            new = np.maximum(below[moving], np.where(summed < LEAST_NORMAL, 0.0, summed)[chosen])
            if (new == below[moving]).all():
                break
            below[moving] = new
            rank[(below > 0) & (rank < 0)] = rounds
    return below, {int(k): int(rank[k]) for k in np.flatnonzero(rank >= 0)}


def _layout(mdp: SparseMdp) -> tuple[Any, Any, float]:
    """Return where each choice's branches begin, its state, and a relative room for the roundings of any sum over them."""
    first = mdp.branch_start[:-1].astype(np.int64)
    owner = np.repeat(np.arange(mdp.states), np.diff(mdp.choice_start).astype(np.int64))
    longest = int(np.diff(mdp.branch_start).max())
    return first, owner, (4 * longest + 16) * 2.0**-53


def _abstractly(bound: Bound, known: RiskVerdict, budget: Budget, seed: int, parallelism: Parallelism) -> RiskVerdict:
    within = budget.at_most(MOST_SECONDS) if budget.seconds is None else budget
    abstract = find_abstract_risk(bound, budget=within, seed=seed, parallelism=parallelism)
    if abstract.upper > known.most:
        reason = f"{known.reason}; abstraction: {abstract.limit or f'no bound below {abstract.upper:.6g}'}"
        return replace(known, upper=min(known.upper, Fraction(abstract.upper)), reason=reason)
    return replace(
        known,
        verdict=Verdict.SAFE,
        upper=Fraction(abstract.upper),
        states=abstract.states,
        method="abstraction",
        reason=None,
        limit=None,
    )


def _certificate(
    part: Slice,
    most: Fraction,
    packed: Any,
    listed: Any,
    values: list[Fraction],
    ranks: dict[int, int] | None = None,
    start: int | None = None,
) -> Certificate | None:
    """Return the certificate that lists these states; None where it would be too long."""
    variables = part.bound.task.network.variables
    texts = [str(values[k]) for k in listed]
    if not fits(variables, len(listed)) or any(len(text) > LONG_DIGITS for text in texts):
        return None
    rows = packed[listed]
    order = np.lexsort(rows.T[::-1]) if rows.size else np.arange(len(rows))
    kind = "risk-bound" if ranks is None else "risk-exceeds"
    certificate = {
        **certificate_head(kind, part.whole.fitted),
        **conditions_of(part.whole.fitted),
        "bound": str(most),
        "count": len(listed),
        "states": pack_columns(variables, rows[order]),
        "values": [texts[k] for k in order],
    }
    if part.kept is not None:
        certificate["kept"] = list(part.kept)
    if ranks is not None:
        certificate["ranks"] = [ranks[int(k)] for k in listed[order]]
        certificate["start"] = int(np.flatnonzero(listed[order] == start)[0])
    return certificate


def _fractions(values: Float64s) -> list[Fraction]:
    return [Fraction(value) for value in values.tolist()]


def _double(value: Fraction, direction: float) -> float:
    """Return the value as a double, rounded in the direction."""
    near = float(value)
    wrong = Fraction(near) > value if direction < 0 else Fraction(near) < value
    return float(np.clip(np.nextafter(near, direction), 0.0, 1.0)) if wrong else near
