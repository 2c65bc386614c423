"""Permissive schedulers by SMT (Z3): constraints 1 to 4, exclusion, greedy enlargement, MaxSMT, and exhaustion.

Source   Junges, Jansen, Dehnert, Topcu & Katoen, Safety-Constrained Reinforcement Learning for MDPs, TACAS 2016,
         section 4.1: `_encode` is constraints 1 to 4, `exclude` the disjunction that bans what was considered.
Differs  a whole permissive scheduler is excluded, not one deterministic scheduler at a time: the next one must allow
         something that no earlier one allowed in its place. Options of one state share its constraint (2).
Cost     non-linear in nothing, but Boolean over reals: exponential in the worst case; kept for comparison.
Limits   exact probabilities; constraint 2 speaks of all states, so unreachable ones are decided as well. Every answer
         is checked by `permissive.is_safe` afterwards: a solver's word is no evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from polvet.budget import UNLIMITED
from polvet.errors import InputError
from polvet.mdp.sparse import Mask
from polvet.shield.permissive import is_safe
from polvet.shield.world import World
from polvet.solvers.smt import Question, Term, either, exactly, implies, real, total, truth


class PermissiveSmt:
    """The encoding, kept in one incremental solver."""

    def __init__(self, world: World, bound: Fraction, *, maximise: bool = False) -> None:
        if not world.mdp.is_exact:
            raise InputError("the encoding needs exact probabilities.", hint="Build the world with exact=True.")
        self.world, self.bound = world, bound
        self.question = Question(UNLIMITED, maximise=maximise)
        self.allow = [truth(f"y{o}") for o in range(world.options)]
        self.value = [real(f"p{s}") for s in range(world.mdp.states)]
        self._encode()
        if maximise:
            self.question.prefer(self.allow)

    def _encode(self) -> None:
        world = self.world
        mdp = world.mdp
        exact = mdp.exact_probabilities()
        number = {p: exactly(p) for p in set(exact)}
        starts, choices = world.option_start.tolist(), world.option_choice.tolist()
        branches, target = mdp.branch_start.tolist(), mdp.target.tolist()
        add = self.question.add
        for s in mdp.initial.tolist():
            add(self.value[s] <= exactly(self.bound))  # (1)
        for s in range(mdp.states):
            add(self.value[s] >= 0, self.value[s] <= 1)
            if starts[s] < starts[s + 1]:
                add(either(self.allow[starts[s] : starts[s + 1]]))  # (2)
            if world.fail[s]:
                add(self.value[s] == 1)  # (3)
            for o in range(starts[s], starts[s + 1]):
                for c in range(choices[o], choices[o + 1]):
                    terms = [number[exact[b]] * self.value[target[b]] for b in range(branches[c], branches[c + 1])]
                    add(implies(self.allow[o], self.value[s] >= total(terms)))  # (4)

    def exclude(self, permitted: Mask) -> None:
        """Ban every permissive scheduler that is part of this one."""
        self.question.add(either(self.allow[o] for o in np.flatnonzero(~permitted)))

    def _find(self, *assumptions: Term) -> Mask | None:
        """Return what the solver proposes in time; not yet checked."""
        if self.question.budget.is_over() or self.question.ask(*assumptions) != "sat":
            return None
        values = self.question.values()
        return np.array([values.holds(one) for one in self.allow], dtype=bool)

    def find(self) -> Mask | None:
        """Return a safe permissive scheduler, or None where the solver finds none (in time)."""
        mask = self._find()
        return None if mask is None else self._checked(mask)

    def _checked(self, mask: Mask) -> Mask:
        if not is_safe(self.world, mask, self.bound):
            raise RuntimeError("the solver's permissive scheduler is not safe")
        return mask

    def enlarge(self, permitted: Mask) -> Mask:
        """Return a locally maximal one: options are added one by one as long as the solver agrees (greedy, until time is up)."""
        current = permitted.copy()
        self.question.push()
        self.question.add(*(self.allow[o] for o in np.flatnonzero(current)))
        for o in np.flatnonzero(~permitted).tolist():
            if current[o]:
                continue
            if (wider := self._find(self.allow[o])) is not None:
                added = wider & ~current
                current |= wider
                self.question.add(*(self.allow[k] for k in np.flatnonzero(added)))
        self.question.pop()
        return self._checked(current)


def iterate_all(world: World, bound: Fraction) -> Iterator[Mask]:
    """Yield safe permissive schedulers that together hold every safe deterministic scheduler (Theorem 1: complete)."""
    encoding = PermissiveSmt(world, bound)
    while (mask := encoding.find()) is not None:
        largest = encoding.enlarge(mask)
        yield largest
        encoding.exclude(largest)
