"""Faults relative to a bound B on the risk: the policy's action raises the least risk that any policy could still keep to.

Source   the generalisation that the paper on safety debugging leaves open; with B = 0 it is its Definition 1
Meaning  risk is the probability of ever reaching `fail`, at worst over what the environment does (as `verify --max-risk` has
         it). The least risk of a state is that of the best policy from there. A fault is a state on runs from a start at which the
         policy's own risk is above B, whose action raises the least risk by more than `delta`, or from at most B to more
Why      take from every state an action that does not raise the least risk (delta = 0): then the least risk is a fixed point of
         what the policy does, and its own risk, the least one, no greater. Without such faults it is within B wherever any is
Method   the least risk is the value of a game, bounded from both sides (`safety/bound.py`), the policy's own that of an MDP
Limits   all states reachable by any actions, up to WORLD_STATES; doubles: values within a factor of NEAR are one
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.debug.faults import FaultAnalysis, every_start, policy_steps
from polvet.debug.possible import WORLD_STATES
from polvet.errors import LimitReached
from polvet.kernel.compiled import Compiled, Words, describe_limit
from polvet.mdp.query import Reach
from polvet.mdp.solve import solve
from polvet.mdp.sparse import SparseMdp
from polvet.policy.compiled import FAIL, GOAL, Bound
from polvet.records.fault_files import RISK, Fault
from polvet.safety.bound import FINE, Group, RiskGame, groups_of

NEAR = 1 + 1e-9
"""Values within this factor are one; 0 is told from everything else."""
Reals = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RiskWorld:
    """All states that any policy can meet from some starts, with the least risk of each, from above."""

    space: Any
    game: RiskGame
    labels: Ints
    least: Reals
    open: int  # states whose bounds are further apart than by the factor NEAR

    def after(self, group: Group) -> float:
        """Return the least risk once the label of these operators is chosen: the environment takes the worst."""
        return max(self.expected(choice, self.least) for choice in group)

    def expected(self, choice: int, values: Reals) -> float:
        """Return the mean of the values over an operator's outcomes."""
        begin, end = (int(one) for one in self.game.mdp.branch_start[choice : choice + 2])
        return float(self.game.mdp.probability[begin:end] @ values[self.game.mdp.target[begin:end]])

    def raised(self, words: Any, label: int) -> float:
        """Return by how much the label raises the least risk of a packed state."""
        place = self.space.find(words)
        after = max(self.after(group) for group in self.game.groups[place] if self.label(group) == label)
        return after - float(self.least[place])

    def label(self, group: Group) -> int:
        """Return the label of these operators; -1 where they are all silent."""
        return int(self.labels[group[0]])


def find_risk_world(compiled: Compiled, starts: Words, *, budget: Budget = UNLIMITED) -> RiskWorld:
    """Return the world from packed starts, or raise LimitReached where it is too large."""
    few = budget.at_most(states=WORLD_STATES)
    space = compiled.explore(starts, build=True, stop_at=[FAIL, GOAL], budget=few)
    if (limit := describe_limit(space, few)) is not None:
        raise limit
    fail = space.mask(FAIL).astype(bool)
    choice_start, branch_start, target, probability, labels, _ = space.take_matrix()
    every = np.arange(len(space), dtype=np.uint32)  # so that no state counts as not reached
    mdp = SparseMdp(choice_start, branch_start, target, probability, every)
    game = RiskGame(mdp, fail, groups_of(choice_start, labels))
    low, high = game.bounds(game.values(budget.share(0.5)), budget)
    budget.check()  # a solver that was cut short leaves values that depend on the clock
    return RiskWorld(space, game, labels.astype(np.int64), high, int((high > low * NEAR).sum()))


def find_risk_faults(
    bound: Bound,
    most: Fraction,
    *,
    delta: Fraction = Fraction(0),
    starts: Words | None = None,
    among: Words | None = None,
    world: RiskWorld | None = None,
    budget: Budget = UNLIMITED,
) -> FaultAnalysis:
    """Return all faults relative to the bound, those that raise the risk most first; `unsafe_starts`: no policy keeps the bound there.

    With `among` only those in these packed states. `world` must have been found from the same starts. `safe_states` counts
    the states whose least risk is at most the bound.
    """
    spent = stopwatch()
    initial = every_start(bound, budget) if starts is None else starts
    chain = bound.compiled.explore(initial, build=True, stop_at=[FAIL, GOAL], budget=budget, policy=bound.core)
    if (limit := describe_limit(chain, budget)) is not None:
        raise limit
    known = world or find_risk_world(bound.compiled, initial, budget=budget)
    words = chain.states(0, len(chain))
    places = np.array([known.space.find(state) for state in words], dtype=np.int64)
    allowed, room = float(most), float(delta)
    at_issue, unsure = _reached_at_issue(chain, allowed, budget)
    if among is not None:
        at_issue &= np.isin(places, [known.space.find(state) for state in among])
    chosen = policy_steps(bound, words)
    raised: list[tuple[float, int, Fault]] = []
    for k in np.flatnonzero(at_issue).tolist():
        place, label = int(places[k]), int(chosen.label[k])
        after = {known.label(group): known.after(group) for group in known.game.groups[place]}
        if label < 0 or label not in after:
            continue  # runs end there, or there is nothing to choose
        own = float(known.least[place])
        if not _is_at_fault(own, after[label], allowed, room):
            continue
        good = sorted(one for one, risk in after.items() if one >= 0 and not _is_at_fault(own, risk, allowed, room))
        outcomes = chosen.outcomes[int(chosen.outcome_start[k]) : int(chosen.outcome_start[k + 1])]
        worse = [state for state in outcomes if known.least[known.space.find(state)] > own * NEAR]
        fault = Fault(
            bound.compiled.unpack(words[k : k + 1])[0],
            str(bound.label(label)),
            tuple(str(bound.label(one)) for one in good),
            tuple(bound.compiled.unpack(np.array(worse, dtype=np.uint64))) if worse else (),
            RISK,
        )
        raised.append((own - after[label], k, fault))
    begin = np.unique(chain.initial.astype(np.int64))
    beyond = begin[known.least[places[begin]] > allowed * NEAR]
    return FaultAnalysis(
        faults=tuple(fault for _, _, fault in sorted(raised, key=lambda one: one[:2])),
        blame=(),
        first_faults=np.zeros(0, dtype=np.int64),
        unsafe_starts=tuple(bound.compiled.unpack(np.ascontiguousarray(words[beyond]))),
        never_safe=np.zeros(0, dtype=np.int64),
        open=known.open + unsure,
        states=len(chain),
        safe_states=int((known.least[places] <= allowed * NEAR).sum()),
        seconds=spent(),
        exhaustive=chain.near_ties == 0 and known.open + unsure == 0 and among is None,
        near_ties=chain.near_ties,
    )


def _is_at_fault(own: float, after: float, allowed: float, room: float) -> bool:
    """Return whether an action from a state of this least risk raises it too much."""
    return after > (own + room) * NEAR or own <= allowed * NEAR < after


def _reached_at_issue(chain: Any, allowed: float, budget: Budget) -> tuple[NDArray[np.bool_], int]:
    """Return which states of the policy's chain are reached from starts at which its own risk is above the bound.

    Starts at which doubles do not tell count as such, and how many they are is returned as well.
    """
    fail = chain.mask(FAIL).astype(bool)
    choice_start, branch_start, target, probability, _, _ = chain.take_matrix()
    every = np.arange(len(fail), dtype=np.uint32)
    value = solve(
        SparseMdp(choice_start, branch_start, target, probability, every), Reach(fail), relative_gap=FINE, budget=budget
    )
    budget.check()
    if value.limit is not None:
        raise LimitReached(str(value.limit), value.limit.kind)
    begin = np.unique(chain.initial.astype(np.int64))
    seen = np.zeros(len(fail), dtype=np.bool_)
    frontier = begin[value.uppers[begin] > allowed * NEAR]
    unsure = int((value.lowers[frontier] <= allowed * NEAR).sum())
    first, branch = choice_start.astype(np.int64), branch_start.astype(np.int64)
    while len(frontier):
        seen[frontier] = True
        following = [target[branch[first[s]] : branch[first[s + 1]]] for s in frontier.tolist()]
        fresh = np.unique(np.concatenate(following)).astype(np.int64)
        frontier = fresh[~seen[fresh]]
    return seen, unsure
