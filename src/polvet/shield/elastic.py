"""Few options to forbid, by an elastic linear program: seeds for the enlargement, and exchanges between options.

Source   Chinneck, Feasibility and Infeasibility in Optimization, 2008, chapter 7 (elastic programs for the least cover of an
         infeasible system); Candes, Wakin & Boyd, Enhancing sparsity by reweighted l1 minimization, 2008.
Differs  the system is constraint 4 of the permissive schedulers (shield/smt.py): p_s >= what is expected of p after each option.
         All of it, with the start states at most at the bound, cannot hold; an option with an elastic excess above 0 is
         forbidden. Excesses are priced, and small ones dearer in the next round, so that few are left. An *exchange* forces
         some forbidden options into the set, and prices those that are permitted above the others.
Cost     one linear program over the states with one row per operator; each further one starts from the last basis.
Limits   doubles, and states count whether or not they are reached: what comes out is a seed that the enlargement judges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polvet.mdp.sparse import Float64s, Mask
from polvet.shield.least_risk import worth_of_options
from polvet.shield.world import World
from polvet.solvers.highs import GrowingLp

BELOW = 1e-7  # the program is asked to stay that much (relatively) below the bound
ZERO = 1e-9  # an excess up to this is none
NEAR = 1e-3  # where an excess counts half of what it does at 0, in later rounds
PIVOTS = 50_000
"""Of the simplex method, per program: where they do not do, the world is too large for this."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """Options that may be safe together, and an order for the others: by how much each breaks the program's values."""

    permitted: Mask
    order: Float64s


class ElasticProgram:
    """The program for one scheduler that stays permitted, kept in one solver."""

    def __init__(self, world: World, bound: float, kept: Mask) -> None:
        self.world, self.kept = world, kept
        mdp, states = world.mdp, world.mdp.states
        self._most = np.where(kept, 0.0, 1.0)  # of each option's excess
        most = np.where(world.ended, 0.0, 1.0)
        most[mdp.initial] = np.minimum(most[mdp.initial], bound * (1 - BELOW))
        self._columns = np.arange(states, states + world.options)
        self._program = GrowingLp(np.zeros(states + world.options), np.concatenate([most, self._most]))
        self._program.add_rows(*self._rows())
        self._price = np.ones(world.options)

    def _rows(self) -> tuple[list[float], list[tuple[NDArray[np.int64], Float64s]]]:
        """Return of every choice: value of its state - what is expected of other values + excess >= what fails at once."""
        world, mdp = self.world, self.world.mdp
        owners, choices = world.owners().tolist(), world.option_choice.tolist()
        branches, target, chance = mdp.branch_start.tolist(), mdp.target.tolist(), mdp.probability.tolist()
        fail = world.fail.tolist()
        lower: list[float] = []
        rows: list[tuple[NDArray[np.int64], Float64s]] = []
        for option, state in enumerate(owners):
            for choice in range(choices[option], choices[option + 1]):
                row, failing = {state: 1.0, mdp.states + option: 1.0}, 0.0
                for b in range(branches[choice], branches[choice + 1]):
                    if fail[target[b]]:
                        failing += chance[b]
                    else:
                        row[target[b]] = row.get(target[b], 0.0) - chance[b]
                lower.append(failing)
                rows.append((np.array(list(row)), np.array(list(row.values()))))
        return lower, rows

    def propose(self) -> Proposal | None:
        """Return options to permit, few of them missing; asked again, with what is left of excesses priced dearer."""
        solution = self._solve(self._price, self._most)
        if solution is None:
            return None
        excess, proposal = solution
        price = 1 / (excess + NEAR)
        self._price = price / price.max(initial=1e-9)
        return proposal

    def exchange(self, best: Mask, reached: Mask, chance: np.random.Generator) -> Proposal | None:
        """Return options with some that `best` forbids in states it reaches, and as few as possible of its own missing."""
        forbidden = np.flatnonzero(reached & ~best)
        if not len(forbidden):
            return None
        forced = chance.choice(forbidden, size=min(len(forbidden), int(chance.choice([1, 2, 4, 8]))), replace=False)
        price = np.where(best, 1.0, chance.choice([0.05, 0.3, 0.6])) * chance.uniform(0.5, 1.5, len(best))
        price[~reached] = chance.choice([0.02, 1.0])
        most = self._most.copy()
        most[forced] = 0.0
        solution = self._solve(price, most)
        return None if solution is None else solution[1]

    def _solve(self, price: Float64s, most: Float64s) -> tuple[Float64s, Proposal] | None:
        world = self.world
        self._program.change_columns(self._columns, price, most)
        answer = self._program.solve(iterations=PIVOTS)
        if answer.status != "optimal":
            return None
        values, excess = answer.values[: world.mdp.states].copy(), answer.values[world.mdp.states :]
        values[world.fail] = 1.0
        broken = worth_of_options(world, values) - values[world.owners()]
        return excess, Proposal((excess <= ZERO) | self.kept, broken)
