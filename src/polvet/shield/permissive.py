"""A locally maximal safe permissive scheduler by incremental enlargement; the default of `polvet permit`.

Source   Junges, Jansen, Dehnert, Topcu & Katoen, Safety-Constrained Reinforcement Learning for MDPs, TACAS 2016:
         Definition 6 (safe) is `_judge`, Definition 8 is `world.induce_permitted`, constraints 1 to 4 are what
         `src/_core/mdp/risk_values.h` maintains.
Differs  options are added one by one instead of being searched for by an SMT solver, those of rarely visited states first, and
         to what a linear program proposes (`shield/elastic.py`); then parts of the best result are undone or exchanged and
         enlarged again; permissiveness counts reachable options only.
Cost     one pass over all options per attempt, and a second one nearer to the bound where many come near it;
         the result's values are solved once, in fractions where the model is.
Limits   locally, not globally maximal: no option of a reachable state can be added, even when states reached only
         through it take their least risky option, but another set may hold more.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

import polvet._core as _core
from polvet.budget import UNLIMITED, Budget, Stopwatch, stopwatch
from polvet.errors import LimitReached
from polvet.mdp import Reach, find_probability_one, solve
from polvet.mdp.exact import exact_values
from polvet.mdp.graph import connected_components
from polvet.mdp.sparse import Float64s, Mask, mask_of
from polvet.shield.elastic import ElasticProgram, Proposal
from polvet.shield.game import NONE
from polvet.shield.least_risk import LeastRisk, expected_visits, find_goal_seeds, find_least_risk, worth_of_options
from polvet.shield.world import SubMdp, World, induce_permitted, reached_options

GAPS = (1e-4, 1e-10, 1e-13)
SLACKS = (1e-9, 1e-12)
"""Of the bound: what comes nearer to it is decided by bounds that are proved. The second pass is for what the first left open."""
ATTEMPTS = 100
WORK = 100_000_000  # branches to look at, after which no further attempt is made unless more are asked for
WORK_PER_ATTEMPT = 20_000_000  # after the first one
ANY_WORK = 2**63
ORDERS_PER_SEED = 2
PROPOSALS_PER_SEED = 4  # of linear programs; all other attempts change the best one
PROMISING = 0.97  # an exchange that leaves a smaller share of the best one's options is not enlarged
CORE = 0.9  # the share of its greatest risk below which a state is one that keeps the risk low
FIRST_SHARE = 0.25  # of the time that is given, for each question that comes before the search
EXACT_SHARE = 0.8  # of the time for a proof; then bounds in doubles must do
SEARCH_SHARE = 0.7  # of the time that is given; the rest is for the proof of the result
TEST_SHARE = 0.85  # of the time that is given: when it must be known whether the result is safe
FEW_PENDING = 8  # options near the bound that are simply decided one by one
SMALL_OPTIONS = 20_000  # above, one attempt is all that is made unless more are asked for


@dataclass(frozen=True, slots=True, eq=False)
class Permitted:
    """A safe permissive scheduler with its proof: per state of `sub` the exact risk, or an upper bound that proves itself."""

    permitted: Mask
    sub: SubMdp
    values: tuple[Fraction, ...]
    exact: bool
    lower: float  # of the greatest probability of failing at the worst start state
    upper: float
    count: int  # permitted options of reachable states
    options: int  # all options of those states
    maximal: bool
    untested: int  # options of reachable states of which it is not known whether they could be added
    ends_surely: bool  # every compliant scheduler reaches goal or fail with probability 1
    goal_reachable: bool  # some compliant scheduler does
    attempts: int
    seconds: float

    @property
    def risk(self) -> Fraction:
        """Return the greatest probability of failing that is proved."""
        return max(self.values[int(s)] for s in self.sub.mdp.initial)


@dataclass(frozen=True, slots=True)
class Impossible:
    """No scheduler stays below the bound: the least achievable risk, between bounds and exact where known."""

    lower: float
    upper: float
    exact: Fraction | None


def permit(
    world: World,
    bound: Fraction,
    *,
    attempts: int | None = None,
    rng: random.Random | None = None,
    seeds: list[Mask] | None = None,
    priority: Float64s | None = None,
    budget: Budget = UNLIMITED,
) -> Permitted | Impossible:
    """Return a locally maximal safe permissive scheduler for "fail with probability at most `bound`".

    `seeds` are safe schedulers to start from (default: some that reach the goal, else the least risky one); `priority`
    orders the options in the first attempt.
    >>> from polvet.mdp import SparseMdp
    >>> coin = SparseMdp.build([[[(1, Fraction(1, 2)), (2, Fraction(1, 2))], [(2, Fraction(1))]], [], []])
    >>> world = World.of(coin, fail=np.array([False, True, False]), goal=np.array([False, False, True]))
    >>> permit(world, Fraction(1, 3)).permitted.tolist(), permit(world, Fraction(1, 2)).permitted.tolist()
    ([False, True], [True, True])
    """
    spent = stopwatch()
    chance = rng or random.Random(0)
    world = world.without_rewards()  # costs play no part
    everything = np.ones(world.options, dtype=bool)
    proved = _judge(world, everything, bound, budget.share(FIRST_SHARE))
    if proved is not None:
        return _permitted(world, everything, proved, 0, 0, spent())
    risk = find_least_risk(world, budget.share(FIRST_SHARE))
    if (risk.exact if risk.exact is not None else Fraction(risk.lower)) > bound:
        return Impossible(risk.lower, risk.upper, risk.exact)
    if bound == 0:
        return _permit_without_risk(world, risk, budget, spent)
    fallback = mask_of(risk.option[risk.option != NONE], world.options)
    work = WORK if attempts is None else ANY_WORK
    if attempts is None:
        attempts = ATTEMPTS if world.options <= SMALL_OPTIONS else 1
    if seeds is None:
        seeds = find_goal_seeds(world, bound, most=min(attempts, 3), budget=budget.share(FIRST_SHARE))
    seeds = seeds or [fallback]
    enlargement = _Enlarger(world, bound, risk, budget, work)
    best = enlargement.search(seeds, attempts, chance, priority)
    if best is None:
        best = enlargement.search([fallback], attempts, chance, priority)
    if best is None:
        budget.check()
        raise LimitReached(
            f"no scheduler was proved to stay below {bound}: the least risk lies in [{risk.lower!r}, {risk.upper!r}]"
        )
    permitted, proved, untested = best
    return _permitted(world, permitted, proved, untested, attempts, spent())


def _permitted(
    world: World, permitted: Mask, proved: _Proof, untested: int | None, attempts: int, seconds: float
) -> Permitted:
    """Return the result; `untested` None: nothing was tried."""
    sub = proved.sub
    ended = sub.fail | sub.goal
    surely = find_probability_one(sub.mdp, ended, minimise=True)
    reachable = find_probability_one(sub.mdp, ended, minimise=False)
    starts = sub.mdp.initial
    options = int(np.diff(world.option_start)[sub.states].sum())
    return Permitted(
        mask_of(sub.options, world.options),
        sub,
        proved.values,
        proved.exact,
        proved.lower,
        proved.upper,
        len(sub.options),
        options,
        untested == 0,
        options - len(sub.options) if untested is None else untested,
        bool(surely[starts].all()),
        bool(reachable[starts].all() and sub.goal.any()),
        attempts,
        seconds,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Proof:
    sub: SubMdp
    values: tuple[Fraction, ...]
    exact: bool
    lower: float
    upper: float


def prove(world: World, permitted: Mask, bound: Fraction, budget: Budget = UNLIMITED) -> Permitted | None:
    """Return the given options with the proof that they are safe, or None; whether more could be added is not asked."""
    spent = stopwatch()
    proved = _judge(world, permitted, bound, budget)
    return None if proved is None else _permitted(world, permitted, proved, None, 0, spent())


def is_safe(world: World, permitted: Mask, bound: Fraction, budget: Budget = UNLIMITED) -> bool | None:
    """Return whether every compliant scheduler fails with at most `bound`; fractions decide near ties, None: nothing does."""
    sub = induce_permitted(world, permitted)
    query = Reach(goal=sub.fail)
    for gap in GAPS:
        value = solve(sub.mdp, query, relative_gap=gap, budget=budget)
        if Fraction(value.upper) <= bound or Fraction(value.lower) > bound:
            return Fraction(value.upper) <= bound
    if not sub.mdp.is_exact:
        return None
    exact = exact_values(sub.mdp, query, value, budget=budget)
    return all((x := exact[int(s)]) is not None and x <= bound for s in sub.mdp.initial)


def _judge(world: World, permitted: Mask, bound: Fraction, budget: Budget) -> _Proof | None:
    """Return the proof that every compliant scheduler is safe, or None where that is wrong or does not show."""
    sub = induce_permitted(world, permitted)
    query = Reach(goal=sub.fail)
    value = solve(sub.mdp, query, budget=budget)
    if Fraction(value.lower) > bound:
        return None
    if sub.mdp.is_exact:
        try:
            exact = exact_values(sub.mdp, query, value, budget=budget.share(EXACT_SHARE))
            values = tuple(x if x is not None else Fraction(0) for x in exact)
            worst = max(values[int(s)] for s in sub.mdp.initial)
            return _Proof(sub, values, True, float(worst), float(worst)) if worst <= bound else None
        except LimitReached:
            pass  # no time for fractions: the bounds in doubles may do
    for gap in GAPS[1:]:
        if Fraction(value.upper) > bound >= Fraction(value.lower):
            value = solve(sub.mdp, query, relative_gap=gap, budget=budget)
    # SOUND: the upper bounds are inductive for the exact probabilities (see docs/mdp.md), which the checker repeats.
    if Fraction(value.upper) > bound:
        return None
    return _Proof(sub, tuple(Fraction(x) for x in value.uppers.tolist()), False, value.lower, value.upper)


def _permit_without_risk(world: World, risk: LeastRisk, budget: Budget, spent: Stopwatch) -> Permitted | Impossible:
    """Return the scheduler that permits exactly what stays where failing is impossible: the classic shield."""
    safe = safe_region(world)
    mdp = world.mdp
    stays = np.ones(mdp.choices, dtype=bool)
    if mdp.choices:
        stays = np.logical_and.reduceat(safe[mdp.target], mdp.branch_start[:-1].astype(np.int64))
    permitted = np.zeros(world.options, dtype=bool)
    if world.options:
        permitted = np.logical_and.reduceat(stays, world.option_choice[:-1].astype(np.int64))
    permitted &= safe[world.owners()] if world.options else True
    if not safe[mdp.initial].all():
        return Impossible(risk.lower, risk.upper, risk.exact)
    proved = _judge(world, permitted, Fraction(0), budget)
    if proved is None:
        budget.check()
    assert proved is not None, "the safe region is closed"
    return _permitted(world, permitted, proved, 0, 0, spent())


def safe_region(world: World) -> Mask:
    """Return the states from which failing can be avoided for certain: the complement of the attractor of fail."""
    mdp = world.mdp
    back: list[list[int]] = [[] for _ in range(mdp.states)]
    owners = world.owners().tolist()
    branch_start, option_choice, target = mdp.branch_start.tolist(), world.option_choice.tolist(), mdp.target.tolist()
    for option in range(world.options):
        for b in range(branch_start[option_choice[option]], branch_start[option_choice[option + 1]]):
            back[target[b]].append(option)
    left = np.diff(world.option_start).astype(np.int64).tolist()
    lost = [False] * world.options
    unsafe = world.fail.copy()
    todo = np.flatnonzero(unsafe).tolist()
    while todo:
        for option in back[todo.pop()]:
            if not lost[option]:
                lost[option] = True
                left[owners[option]] -= 1
                if left[owners[option]] == 0 and not unsafe[owners[option]]:
                    unsafe[owners[option]] = True
                    todo.append(owners[option])
    return np.asarray(~unsafe)


@dataclass(frozen=True, slots=True, eq=False)
class _Enlarged:
    """What one attempt permits, and of how many further options it is not known whether they fit."""

    permitted: Mask
    undecided: int

    @property
    def rank(self) -> tuple[bool, int]:
        """How good the attempt is: one that is decided, and then one that permits more."""
        return self.undecided == 0, int(self.permitted.sum())


class _Enlarger:
    """The kernel's enlargement, its orders, and the exact tests that its doubles leave open."""

    def __init__(self, world: World, bound: Fraction, risk: LeastRisk, budget: Budget, work: int = WORK) -> None:
        self.world, self.bound, self.budget = world, bound, budget
        self.searching, self.testing = budget.share(SEARCH_SHARE), budget.share(TEST_SHARE)
        mdp = world.mdp
        components, rank = connected_components(mdp)
        near = float(bound)
        above = near if Fraction(near) >= bound else float(np.nextafter(near, 1.0))
        self.kernel = _core.Enlargement(
            mdp.choice_start,
            mdp.branch_start,
            mdp.target,
            mdp.probability,
            world.option_start,
            world.option_choice,
            mdp.initial.astype(np.uint32),
            np.ascontiguousarray(risk.lowers),
            risk.option,
            rank,
            above,
            max(50_000, 20 * mdp.branches),
        )
        worth = worth_of_options(world, risk.lowers)
        self.extra_risk = np.maximum(0.0, worth - risk.lowers[world.owners()])
        self.comes_back = components < mdp.states
        self.greatest = solve(mdp, Reach(goal=world.fail), relative_gap=1e-3, budget=self.searching).uppers
        self.greatest_worth = worth_of_options(world, self.greatest)
        self.work_end, self.work_limit = ANY_WORK, work
        self.seeds: list[Mask] = []
        self.programs: dict[tuple[int, bool], ElasticProgram] = {}

    def search(
        self, seeds: list[Mask], attempts: int, rng: random.Random, priority: Float64s | None
    ) -> tuple[Mask, _Proof, int] | None:
        """Return the most permissive result of all attempts, its proof, and of how many options it is not known whether they fit."""
        chance = np.random.default_rng(rng.getrandbits(64))
        self.seeds, self.programs = seeds, {}
        best: _Enlarged | None = None
        root = 0
        for attempt in range(attempts):
            if best is not None:
                self.work_end = min(self.work_limit, self.kernel.work() + WORK_PER_ATTEMPT)
                if self.searching.is_over() or self.kernel.work() >= self.work_limit:
                    break
            if best is None or attempt < (ORDERS_PER_SEED + PROPOSALS_PER_SEED) * len(seeds):
                place = attempt % len(seeds)
                proposal = self._fresh(attempt, chance, priority)
            else:
                place = root
                proposal = self._changed(root, best, attempt, chance)
            if proposal is None:
                continue
            try:
                enlarged = self._enlarge(proposal.permitted, proposal.order)
            except LimitReached:
                break  # while a question about a wider set was open: what is known to be safe stays
            # The result of an attempt that was stopped is not locally maximal: any other one is better.
            if enlarged is not None and (best is None or enlarged.rank >= best.rank):
                best, root = enlarged, place
        if best is None:
            return None
        proved = _judge(self.world, best.permitted, self.bound, self.budget)
        return None if proved is None else (best.permitted, proved, best.undecided)

    def _fresh(self, attempt: int, chance: np.random.Generator, priority: Float64s | None) -> Proposal | None:
        """Return a seed with an order, or what a linear program makes of the seed."""
        place = attempt % len(self.seeds)
        if 0 < attempt <= PROPOSALS_PER_SEED * len(self.seeds) and self.world.options <= SMALL_OPTIONS:
            return self._program(place, everywhere=2 * attempt > PROPOSALS_PER_SEED * len(self.seeds)).propose()
        given = attempt == 0 and priority is not None
        order = np.array(priority, dtype=np.float64) if given else self._order(attempt, self.seeds[place], chance)
        return Proposal(self.seeds[place], order)

    def _changed(self, root: int, best: _Enlarged, attempt: int, chance: np.random.Generator) -> Proposal | None:
        """Return the best result with some of its options undone, or exchanged for others; the seed it came from stays in."""
        permitted = best.permitted
        if attempt % 2 or self.world.options > SMALL_OPTIONS:
            seed = reached_options(self.world, self.seeds[root]) | self._thinned(permitted, chance)
            return Proposal(seed, self._order(attempt, seed, chance))
        program = self._program(root, everywhere=attempt % 8 >= 4)
        exchange = program.exchange(permitted, self._of_reached(permitted), chance)
        if exchange is None or reached_options(self.world, exchange.permitted).sum() < PROMISING * permitted.sum():
            return None
        return exchange if attempt % 4 else replace(exchange, order=self._order(attempt, exchange.permitted, chance))

    def _program(self, place: int, *, everywhere: bool) -> ElasticProgram:
        """Return the program that keeps the seed: what it does in all states, or in those that it reaches."""
        if (place, everywhere) not in self.programs:
            seed = self.seeds[place]
            kept = seed if everywhere else reached_options(self.world, seed)
            self.programs[place, everywhere] = ElasticProgram(self.world, float(self.bound), kept)
        return self.programs[place, everywhere]

    def _thinned(self, permitted: Mask, chance: np.random.Generator) -> Mask:
        """Return the options, but only the least risky one in some of the states that keep the risk low.

        In the other states there is nothing to gain: whatever is done there, the risk is about as great as it can be.
        """
        world = self.world
        sub = induce_permitted(world, permitted)
        value = np.zeros(world.mdp.states)
        value[sub.states] = solve(sub.mdp, Reach(goal=sub.fail), relative_gap=1e-3, budget=self.searching).uppers
        core = np.zeros(world.mdp.states, dtype=bool)
        core[sub.states] = value[sub.states] < CORE * self.greatest[sub.states]
        core &= chance.random(len(core)) < chance.choice([0.1, 0.3, 0.6])
        owners = world.owners()
        mine = np.flatnonzero(permitted & core[owners])
        by_state = mine[np.lexsort((worth_of_options(world, value)[mine], owners[mine]))]
        _, least = np.unique(owners[by_state], return_index=True)
        kept = permitted & ~core[owners]
        kept[by_state[least]] = True
        return np.asarray(kept)

    def _order(self, attempt: int, seed: Mask, chance: np.random.Generator) -> Float64s:
        """Return the order of additions, least first, equals by chance.

        What is hardly ever visited costs little at the start states, whatever is permitted there; so it goes first. A few states near the
        start then keep the risk low, and everything may be done in the many states beyond them. What costs nothing would go first, without
        any change of values; but where runs come back, it closes loops in which any risk repeats itself until it is certain.
        """
        noise = chance.random(self.world.options)
        if self.world.options > SMALL_OPTIONS and not self.comes_back:
            return self.extra_risk + 1e-9 * noise
        rarely = expected_visits(self.world, seed, self.searching)[self.world.owners()]
        return np.asarray(rarely * (self.greatest_worth if attempt % 2 else 1.0) + 1e-15 * noise)

    def _enlarge(self, seed: Mask, order: Float64s) -> _Enlarged | None:
        """Return the permitted options of one pass; None where the seed is not safe."""
        kernel = self.kernel
        if kernel.reset(seed.astype(np.uint8)) > float(self.bound):
            return None
        base = self._read()
        accepted, pending, left = self._grow(order, SLACKS[0])
        permitted = self._read()
        if not is_safe(self.world, permitted, self.bound, self.testing):
            kept = self._longest_safe(base, accepted)
            if kept is None:
                return None
            permitted = base.copy()
            for options in accepted[:kept]:
                permitted[options] = True
            kernel.reset(permitted.astype(np.uint8))
            pending += self._open(permitted, accepted[kept:])
        settled = self._of_reached(permitted)  # every option of these states was tried
        undecided = len(left)
        finer = len(pending) > FEW_PENDING
        while pending:
            if self.searching.is_over():
                return _Enlarged(permitted, undecided + len(pending))
            if finer:  # many that come near the bound: once more, nearer to it
                finer, again = False, set(pending)
                wider: list[int] = []
                pending = []
            else:
                option = pending.pop()
                safe, wider = (False, []) if permitted[option] else self._try_exactly(permitted, option)
                undecided += safe is None
                if not safe:
                    continue
                again = set()
            kernel.permit(wider)
            sure = permitted.copy()
            sure[wider] = True
            closed = settled.copy()
            closed[list(again)] = False
            additions, more, left = self._grow(np.where(closed, np.inf, order), SLACKS[1] if again else SLACKS[0])
            undecided += len(left)
            permitted = self._read()
            pending += more
            if additions and not is_safe(self.world, permitted, self.bound, self.testing):
                permitted = sure
                kernel.reset(permitted.astype(np.uint8))
                pending += self._open(permitted, additions)
            now = self._of_reached(permitted)
            pending += np.flatnonzero(now & ~settled & ~permitted).tolist() if permitted is sure else []
            settled |= now
        return _Enlarged(permitted, undecided)

    def _grow(self, order: Float64s, slack: float) -> tuple[list[list[int]], list[int], list[int]]:
        """Return what the kernel added, what it could not decide, and what it had no time for."""
        work = max(0, self.work_end - self.kernel.work())
        return self.kernel.enlarge(order, slack * float(self.bound), self.searching.left(), work)

    def _open(self, permitted: Mask, dropped: list[list[int]]) -> list[int]:
        """Return the options of reached states among those that were dropped again."""
        near = self._of_reached(permitted)
        return [option for options in dropped for option in options if near[option] and not permitted[option]]

    def _of_reached(self, permitted: Mask) -> Mask:
        """Return the options of the states that have a permitted one."""
        owners = self.world.owners()
        return np.asarray(mask_of(owners[permitted], self.world.mdp.states)[owners])

    def _try_exactly(self, permitted: Mask, option: int) -> tuple[bool | None, list[int]]:
        """Return whether the option can be added (None: not known), with those its new states take."""
        answers: list[bool | None] = []
        for best in (False, True):
            options = self.kernel.extension(option, best)
            wider = permitted.copy()
            wider[options] = True
            answers.append(is_safe(self.world, wider, self.bound, self.searching))
            if answers[-1]:
                return True, list(options)
            if len(options) == 1:
                break
        return (None if None in answers else False), []

    def _longest_safe(self, base: Mask, accepted: list[list[int]]) -> int | None:
        """Return how many of the additions, in their order, can be kept; None where not even the seed is safe."""

        def safe(count: int) -> bool:
            permitted = base.copy()
            for options in accepted[:count]:
                permitted[options] = True
            return bool(is_safe(self.world, permitted, self.bound, self.testing))

        if not safe(0):
            return None
        low, high = 0, len(accepted)
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (middle, high) if safe(middle) else (low, middle)
        return low

    def _read(self) -> Mask:
        world = self.world
        permitted = np.zeros(world.options, dtype=np.uint8)
        reached, value = np.zeros(world.mdp.states, dtype=np.uint8), np.zeros(world.mdp.states)
        self.kernel.read(permitted, reached, value)
        return permitted.astype(bool)
