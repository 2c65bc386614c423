"""From a network to a sparse MDP: by the kernel for speed, or by the slow interpreter where exact fractions are wanted.

A choice is one enabled operator; in a Markov chain (`dtmc`) it is the draw among all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, LimitReached, ModelError
from polvet.kernel.compiled import Compiled, describe_limit
from polvet.kernel.lower import Reward
from polvet.mdp.sparse import Mask, SparseMdp
from polvet.model.expressions import Expression
from polvet.model.network import Network
from polvet.model.semantics import Move, Semantics, State
from polvet.policy.binding import Fitted
from polvet.policy.compiled import bind_policy

EXACT_STATES = 300_000


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """An MDP with, for each condition, the states where it holds; `labels` has one label number per choice, -1 silent."""

    mdp: SparseMdp
    masks: tuple[Mask, ...]
    labels: NDArray[np.int32]
    state_of: Callable[[int], State]
    limit: LimitReached | None = None
    near_ties: int = 0  # states where another float32 evaluation order of the policy may choose otherwise

    @property
    def deadlocks(self) -> Mask:
        """Return the states without a choice."""
        return np.asarray(np.diff(self.mdp.choice_start) == 0)


def matrix_of(space: _core.Space, rewards: Iterable[str]) -> tuple[SparseMdp, NDArray[np.int32]]:
    """Return the matrix of an explored space with its rewards by name, and the label of each choice; the space loses it."""
    choice_start, branch_start, target, probability, labels, earned = space.take_matrix()
    named = dict(zip(rewards, earned, strict=True))
    return SparseMdp(choice_start, branch_start, target, probability, space.initial, rewards=named), labels


def build(
    network: Network,
    *,
    conditions: Sequence[Expression] = (),
    rewards: Mapping[str, Reward] | None = None,
    stop_at: Sequence[int] = (),
    budget: Budget = UNLIMITED,
    policy: Fitted | None = None,
    threads: int = 1,
) -> Built:
    """Return the reachable MDP; states where a condition in `stop_at` holds are not left.

    With a policy (fitted to a task of this network) only the operators of its label and silent ones are choices.
    """
    rewards = rewards or {}
    compiled = Compiled(network, conditions=conditions, rewards=tuple(rewards.values()))
    bound = None if policy is None else bind_policy(policy, compiled).core
    space = compiled.explore(build=True, stop_at=stop_at, budget=budget, policy=bound, threads=threads)
    mdp, labels = matrix_of(space, rewards)
    limit = describe_limit(space, budget)
    masks = () if limit else tuple(space.mask(i).astype(bool) for i in range(len(conditions)))
    return Built(mdp, masks, labels, lambda n: compiled.unpack(space.states(n, n + 1))[0], limit, space.near_ties)


def build_exactly(
    network: Network,
    *,
    conditions: Sequence[Expression] = (),
    rewards: Mapping[str, Reward] | None = None,
    stop_at: Sequence[int] = (),
    budget: Budget = UNLIMITED,
    policy: Fitted | None = None,
) -> Built:
    """Return the same MDP with every probability and reward as a Fraction, built by the slow interpreter."""
    most = min(EXACT_STATES, budget.most_states)
    semantics = Semantics(network)
    tests = [semantics.compile(condition) for condition in conditions]
    gains = {name: _Gain(semantics, reward) for name, reward in (rewards or {}).items()}
    number: dict[State, int] = {}
    for state in semantics.initial_states():
        number.setdefault(state, len(number))
    initial = list(number.values())
    order = list(number)
    rows: list[list[list[tuple[int, Fraction]]]] = []
    labels: list[int] = []
    earned: dict[str, list[Fraction]] = {name: [] for name in gains}
    limit = None
    for state in order:  # grows while it is walked
        if len(order) > most:
            limit = LimitReached(f"exact mode is limited to {most} states", "states")
            break
        try:
            budget.check()
        except LimitReached as reached:
            limit = reached
            break
        choices: list[list[tuple[int, Fraction]]] = []
        if not any(tests[i](state) for i in stop_at):
            moves = semantics.moves(state)
            if policy is not None:
                moves = policy.followed(state, moves)
            for move in moves:
                choices.append(_row(move, number, order))
                labels.append(-1 if move.label is None else network.labels.index(move.label))
                for name, gain in gains.items():
                    earned[name].append(gain.of(state, move))
        rows.append(choices)
    if limit is not None:
        return Built(SparseMdp.build([[]]), (), np.zeros(0, np.int32), order.__getitem__, limit)
    mdp = SparseMdp.build(rows, initial=initial, rewards=earned)
    masks = tuple(np.array([bool(test(state)) for state in order], dtype=bool) for test in tests)
    return Built(mdp, masks, np.array(labels, dtype=np.int32), order.__getitem__)


def _row(move: Move, number: dict[State, int], order: list[State]) -> list[tuple[int, Fraction]]:
    row: dict[int, Fraction] = {}
    for outcome in move.outcomes:
        if outcome.state not in number:
            number[outcome.state] = len(number)
            order.append(outcome.state)
        target = number[outcome.state]
        row[target] = row.get(target, Fraction(0)) + outcome.probability
    return sorted(row.items())


class _Gain:
    """The exact expected reward of a choice: for the state it is made in, and for each of its outcomes."""

    def __init__(self, semantics: Semantics, reward: Reward) -> None:
        self._semantics = semantics
        self._resting = (
            None if reward.per_state is None else semantics.compile(reward.per_state, exact=True, exact_tests=False)
        )
        self._moving = (
            None if reward.per_step is None else semantics.compile(reward.per_step, exact=True, exact_tests=False)
        )

    def of(self, state: State, move: Move) -> Fraction:
        try:
            gain = self._sum(state, move)
            float(gain)  # the bounds beside exact values are doubles
        except (InputError, OverflowError) as error:
            what = error.what if isinstance(error, InputError) else "it is beyond the range of doubles."
            shown = self._semantics.show(state)
            raise ModelError(
                f"a reward cannot be computed in state {shown}: {what}",
                self._semantics.network.model.where,
                "Guard the operation.",
            ) from None
        return gain

    def _sum(self, state: State, move: Move) -> Fraction:
        gain = Fraction(0) if self._resting is None else Fraction(self._resting(state))
        if self._moving is not None:
            for outcome in move.outcomes:
                gain += outcome.probability * Fraction(self._moving((*outcome.state, *outcome.scratch)))
        return gain
