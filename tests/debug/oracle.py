"""Random small tasks with random policies, and all their faults by brute force with the slow interpreter."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

import numpy as np

from polvet.errors import Where
from polvet.model.infix import parse_expression
from polvet.model.instantiate import instantiate
from polvet.model.semantics import Semantics, State
from polvet.model.task import PolicyReading, Task, condition
from polvet.policy.binding import Fitted, fit
from polvet.records.fault_files import Fault
from tests.policy.worlds import random_network
from tests.safety.networks import TOP, all_states, random_model, unsafe_states


@dataclass(frozen=True, slots=True)
class Case:
    """A fitted policy, and what the definitions say about it."""

    fitted: Fitted
    semantics: Semantics
    starts: frozenset[State]
    unsafe: frozenset[State]

    @property
    def task(self) -> Task:
        """Return the task."""
        return self.fitted.task

    def ended(self, state: State) -> bool:
        """Return whether runs end in the state by its conditions."""
        task = self.fitted.task
        return bool(self.semantics.compile(task.fail)(state) or self.semantics.compile(task.goal)(state))

    def outcomes(self, state: State) -> frozenset[State]:
        """Return every state that may follow under the policy."""
        if self.ended(state):
            return frozenset()
        moves = self.fitted.followed(state, self.semantics.moves(state))
        return frozenset(outcome.state for move in moves for outcome in move.outcomes)

    def reached(self) -> set[State]:
        """Return every state on a run of the policy."""
        found = set(self.starts)
        pending = list(found)
        while pending:
            fresh = self.outcomes(pending.pop()) - found
            found |= fresh
            pending += fresh
        return found

    def faults(self, states: set[State] | frozenset[State]) -> dict[State, Fault]:
        """Return the faults among the states, by Definition 1, word for word."""
        found = {}
        for state in states:
            bad = self.outcomes(state) & self.unsafe
            if state in self.unsafe or not bad:
                continue
            applicable = self.semantics.applicable(state)
            safe = tuple(a for a in applicable if not self.semantics.outcomes(state, a) & self.unsafe)
            chosen = self.fitted.choose(state, applicable)
            assert chosen is not None
            found[state] = Fault(state, chosen, safe, tuple(sorted(bad)))
        return found


def random_case(seed: int) -> Case | None:
    """Return a random task over 25 states with several starts and a random policy; None where no label is left."""
    rng = random.Random(seed)
    network = instantiate(random_model(rng))
    if not network.labels:
        return None
    texts = {
        "fail": f"x == {rng.randint(0, TOP)} && y >= {rng.randint(0, TOP)}"
        + (" || x + y >= 7" if rng.random() < 0.3 else ""),
        "goal": f"y == {rng.randint(0, TOP)} && x >= 3" if rng.random() < 0.5 else "false",
        "start": f"x <= {rng.randint(0, TOP)} && !(x == y)",
    }
    conditions = {name: condition(network, parse_expression(text), Where(name)) for name, text in texts.items()}
    mode = rng.choice(["filtered", "filtered", "raw"])
    task = Task(network, conditions["fail"], conditions["goal"], conditions["start"], PolicyReading(mode))
    policy = random_network(np.random.default_rng(seed), ["x", "y"], list(network.labels), exact=True)
    semantics = Semantics(network)
    states = all_states(task)
    holds = semantics.compile(conditions["start"])
    starts = frozenset(state for state in states if holds(state))
    return Case(fit(task, policy), semantics, starts, frozenset(unsafe_states(task, states)))


@cache
def cases(count: int) -> list[Case]:
    """Return so many random cases."""
    found = [case for seed in range(2 * count) if (case := random_case(seed)) is not None]
    return found[:count]
