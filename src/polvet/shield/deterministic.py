"""The cheapest safe *deterministic* scheduler, with a proved lower bound: branch and bound over occupation measures.

Source   section 4.1 of the paper asks for deterministic schedulers; Dolgov & Durfee, Stationary Deterministic Policies
         for Constrained MDPs, IJCAI 2005, give the mixed-integer program whose relaxation is `OccupationProgram`.
Differs  an optimal vertex of the relaxation tosses a coin in one state at most. So no big-M constraints are written:
         that state is branched on (this option alone, or every other one), and the program is solved again from its
         last basis. Each of the two pure schedulers of a vertex is a candidate for the optimum.
         A node's bound is proved by `prove_lower_bound` on the choices it leaves; a bare "infeasible" is not believed.
Cost     exponential in the worst case; two linear programs per branching, which is anytime: the bounds hold at any time.
Limits   one start state, one operator per label, stationary schedulers.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.mdp import Reach, Reward, solve
from polvet.mdp.sparse import Float64s, Mask, Uint32s, mask_of
from polvet.shield.occupation import Occupation, OccupationProgram, prove_lower_bound
from polvet.shield.permissive import is_safe
from polvet.shield.world import COST, World, induce_permitted

IDLE = 1e-10  # a state visited less often takes its least risky option
PURE = 1e-9  # a share below that is none


@dataclass(frozen=True, slots=True, eq=False)
class Deterministic:
    """Bounds on the least cost of a safe deterministic scheduler, and the options of one that attains the upper one."""

    lower: float
    upper: float
    scheduler: Mask | None
    nodes: int


def find_deterministic(
    world: World,
    cost: Float64s,
    bound: Fraction,
    careful: Uint32s,
    *,
    gap: float = 1e-6,
    nodes: int = 2_000,
    budget: Budget = UNLIMITED,
    known: list[Mask] | None = None,
) -> Deterministic:
    """Return bounds at most `gap` apart (relatively) where nodes and time suffice; `careful` names least risky options.

    `known` are schedulers to begin with. An infinite lower bound says that no safe scheduler surely ends.
    """
    search = _Search(world, cost, bound, careful, budget)
    for mask in known or []:
        search.consider(mask)
    root = search.open_node(frozenset(), 0.0)
    heap: list[_Node] = [] if root is None else [root]
    done = math.inf  # the least bound of a node that is not branched on although it lies below the upper bound
    while heap:
        if heap[0].lower >= search.upper - gap * max(1.0, abs(search.upper)):
            break
        if search.nodes >= nodes or budget.is_over():
            break
        node = heapq.heappop(heap)
        if node.coin is None:
            done = min(done, node.lower)
            continue
        for closed in search.children(node):
            child = search.open_node(closed, node.lower)
            if child is not None and child.lower < search.upper:
                heapq.heappush(heap, child)
    lower = min(search.upper, done, heap[0].lower if heap else math.inf)
    return Deterministic(lower, search.upper, search.best, search.nodes)


@dataclass(frozen=True, slots=True, order=True)
class _Node:
    lower: float
    number: int
    closed: frozenset[int]
    coin: int | None  # the choice that is taken more often of those that the relaxation mixes; None: no way to branch


class _Search:
    """The relaxation, the best scheduler so far, and how nodes are opened."""

    def __init__(self, world: World, cost: Float64s, bound: Fraction, careful: Uint32s, budget: Budget) -> None:
        self.world, self.cost, self.bound, self.careful, self.budget = world, cost, bound, careful, budget
        self.bare = world.without_rewards()
        self.program = OccupationProgram(world, cost, bound)
        self.starts = world.mdp.choice_start.astype(np.int64)
        self.owners = world.owners()
        self.upper = math.inf
        self.best: Mask | None = None
        self.nodes = 0

    def open_node(self, closed: frozenset[int], above: float) -> _Node | None:
        """Return the node that leaves all but the closed choices; None where it is proved to hold no safe scheduler."""
        self.nodes += 1
        open_ = ~mask_of(list(closed), self.world.options)
        relaxed = self.program.optimum(closed, self.budget)
        if relaxed is None:
            # SOUND: the program's "infeasible" is a hint; the price of failing is raised until the bound itself says so.
            lower = self._raise_price(open_, above)
            return None if lower == math.inf else _Node(lower, self.nodes, closed, None)
        lower = max(above, self._proved(relaxed.price, open_))
        return _Node(lower, self.nodes, closed, self._round(relaxed))

    def children(self, node: _Node) -> tuple[frozenset[int], frozenset[int]]:
        """Return what is closed where the coin's option is the only one of its state, and where it is none of them."""
        assert node.coin is not None
        state = int(self.owners[node.coin])
        others = set(range(int(self.starts[state]), int(self.starts[state + 1]))) - {node.coin}
        return node.closed | others, node.closed | {node.coin}

    def _proved(self, price: float, open_: Mask) -> float:
        return prove_lower_bound(self.bare, self.cost, self.bound, price, open_=open_, budget=self.budget)

    def _raise_price(self, open_: Mask, above: float) -> float:
        """Return a proved lower bound, infinite where no scheduler is safe, or none surely ends."""
        sub = induce_permitted(self.bare, open_)
        if Fraction(solve(sub.mdp, Reach(goal=sub.fail, minimise=True), budget=self.budget).lower) > self.bound:
            return math.inf
        scale, lower = max(1.0, float(self.cost.max(initial=0.0))), above
        for price in (scale * 100.0**k for k in range(1, 6)):
            lower = max(lower, self._proved(price, open_))
            if lower >= self.upper:
                break
        return lower

    def _round(self, relaxed: Occupation) -> int | None:
        """Consider the pure schedulers of the measure and return a choice of the state it mixes in, if it does."""
        world, visits = self.world, relaxed.visits
        total = np.bincount(self.owners, weights=visits, minlength=world.mdp.states)
        share = np.where(total[self.owners] > IDLE, visits / np.maximum(total[self.owners], 1e-300), 0.0)
        mixed = np.flatnonzero((share > PURE) & (share < 1 - PURE))
        pure = share > 0.5
        idle = ~world.ended & (np.bincount(self.owners, weights=pure, minlength=world.mdp.states) == 0)
        pure[self.careful[idle]] = True
        if not len(mixed):
            self.consider(pure)
            return None
        state = int(self.owners[mixed[np.argmax(total[self.owners[mixed]])]])
        mine = [c for c in mixed.tolist() if self.owners[c] == state]
        for choice in mine:
            one = pure.copy()
            one[int(self.starts[state]) : int(self.starts[state + 1])] = False
            one[choice] = True
            self.consider(one)
        return max(mine, key=lambda c: float(share[c]))

    def _is_safe(self, mask: Mask) -> bool:
        try:
            return bool(is_safe(self.bare, mask, self.bound, self.budget))
        except LimitReached:
            return False  # not proved

    def consider(self, mask: Mask) -> None:
        """Take the scheduler as the best one where it is proved safe and cheaper."""
        sub = induce_permitted(self.bare, mask)
        mdp = replace(sub.mdp, rewards={COST: self.cost[sub.choices]})
        spent = solve(mdp, Reward(COST, sub.goal | sub.fail), relative_gap=1e-9, budget=self.budget).upper
        if spent < self.upper and self._is_safe(mask):
            self.upper, self.best = spent, mask_of(sub.options, self.world.options)
