"""Safety up to a bound: whether some policy keeps the probability of ever reaching `fail` at most B.

Source   the generalisation that Jain et al. (ECAI 2025) leave open. With B = 0 it is the question of `decide.py`
Method   the reachable part is a game: the policy chooses a label, the environment an operator among that label's and the
         silent ones. Fixing either side leaves an MDP, and `mdp.solve` bounds it soundly: a policy whose greatest
         failure probability is at most B proves `safe`; an environment under which even the least failure probability
         is above B proves `unsafe`. Both sides play what value iteration suggests; only the two MDPs are evidence.
Differs  where double precision cannot tell a value from B, both sides are evaluated in exact fractions
Limits   the reachable part must be finite and fit into memory; exact evaluation up to EXACT_STATES states
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, LimitReached, Where
from polvet.kernel.compiled import Compiled, describe_limit
from polvet.mdp import Reach, SparseMdp, Value, solve
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.numbers import exact
from polvet.safety.decide import FAIL, GOAL, compile_task
from polvet.verdict import Verdict

EXACT_STATES = 20_000
SWEEPS = 200_000
FINE = 1e-12  # the gap between bounds where all states are asked about
STILL = 1e-15  # values that change by less are taken to have settled
BETTER = 1e-9  # values nearer than this are taken to be equal

Group = tuple[int, ...]  # the choices (operators) among which the environment picks when a label is chosen


@dataclass(frozen=True, slots=True)
class Within:
    """Whether a policy fails with probability at most the bound; `lower` and `upper` hold for the best policy."""

    verdict: Verdict
    lower: float
    upper: float
    states: int
    limit: LimitReached | None = None


def parse_risk(given: str | float | Fraction, where: Where) -> Fraction:
    """Return the bound on the risk, read exactly as it is written: above 0 and below 1.

    >>> parse_risk("0.05", Where("--max-risk")), parse_risk(0.05, Where("max_risk")), parse_risk("1/3", Where("max_risk"))
    (Fraction(1, 20), Fraction(1, 20), Fraction(1, 3))
    """
    number = exact(str(given))
    if number is None or not 0 < number < 1:
        hint = "Give a number above 0 and below 1, such as 0.05 or 1/20; that no run fails is asked for without it."
        raise InputError(f"{str(given)[:40]!r} is no bound on a probability.", where, hint)
    return Fraction(number)


def decide_within(task: Task, state: State, bound: Fraction, *, budget: Budget = UNLIMITED) -> Within:
    """Return whether some policy from the state fails with probability at most `bound`."""
    compiled = compile_task(task)
    space = compiled.explore(compiled.pack([state]), build=True, stop_at=[FAIL, GOAL], budget=budget)
    if (limit := describe_limit(space, budget)) is not None:
        return Within(Verdict.UNKNOWN, 0.0, 1.0, len(space), limit)
    fail = space.mask(FAIL).astype(bool)
    choice_start, branch_start, target, probability, labels, _ = space.take_matrix()
    mdp = SparseMdp(choice_start, branch_start, target, probability, space.initial)
    game = RiskGame(mdp, fail, groups_of(choice_start, labels))
    worth = game.values(budget.share(0.5))
    verdict, lower, upper = game.decide(bound, worth, budget)
    if verdict is Verdict.UNKNOWN and len(space) <= EXACT_STATES:
        exact = replace(game, mdp=_exact_twin(compiled, space.states(), mdp))
        verdict, lower, upper = exact.decide(bound, worth, budget, exact=True)
    unsure = LimitReached(f"the bounds [{lower:.12g}, {upper:.12g}] do not tell the probability from {bound}")
    return Within(verdict, lower, upper, len(space), unsure if verdict is Verdict.UNKNOWN else None)


@dataclass(slots=True)
class RiskGame:
    """Who chooses what: the policy a label, the environment an operator of it; `fail` is what one avoids and the other seeks."""

    mdp: SparseMdp
    fail: NDArray[np.bool_]
    groups: list[list[Group]]  # per state, per label

    def decide(
        self, bound: Fraction, worth: NDArray[np.float64], budget: Budget, *, exact: bool = False
    ) -> tuple[Verdict, float, float]:
        """Return the verdict, and bounds on the least failure probability; `worth` approximates it per state."""
        worst = self._solve(self._best_labels(worth), False, budget, exact)
        # SOUND: this policy fails with at most `upper` (or exactly `exact`) whatever the environment does.
        if (worst.exact if worst.exact is not None else worst.upper) <= bound:
            return Verdict.SAFE, 0.0, worst.upper
        least = self._solve(self._answers(worth), True, budget, exact)
        # SOUND: against this environment no policy fails with less than `lower` (or exactly `exact`).
        if (least.exact if least.exact is not None else least.lower) > bound:
            return Verdict.UNSAFE, least.lower, worst.upper
        return Verdict.UNKNOWN, least.lower, worst.upper

    def values(self, budget: Budget) -> NDArray[np.float64]:
        """Return the least failure probability per state, approached from below by value iteration."""
        choices = np.array([c for groups in self.groups for group in groups for c in group], dtype=np.int64)
        group_sizes = [len(group) for groups in self.groups for group in groups]
        group_start = np.cumsum([0, *group_sizes])[:-1]
        owners = np.array([s for s, groups in enumerate(self.groups) if groups], dtype=np.int64)
        owner_start = np.cumsum([0, *(len(self.groups[s]) for s in owners)])[:-1]
        value = self.fail.astype(np.float64)
        for _ in range(SWEEPS if len(choices) else 0):
            operator = np.add.reduceat(
                self.mdp.probability * value[self.mdp.target], self.mdp.branch_start[:-1].astype(np.int64)
            )
            label = np.maximum.reduceat(operator[choices], group_start)
            better = np.minimum(np.minimum.reduceat(label, owner_start), 1.0)
            change = float(np.max(np.abs(better - value[owners]), initial=0.0))
            value[owners] = better
            if change < STILL or budget.is_over():
                break
        return value

    def bounds(self, worth: NDArray[np.float64], budget: Budget) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return bounds on the least failure probability from every state; `worth` approximates it."""
        worst = self._solve(self._best_labels(worth), False, budget, exact=False, gap=FINE)
        least = self._solve(self._answers(worth), True, budget, exact=False, gap=FINE)
        return least.lowers, worst.uppers

    def _best_labels(self, worth: NDArray[np.float64]) -> list[list[Group]]:
        """Return for each state the label of least value: for the side that avoids `fail`, keeping the value is enough."""
        return [
            [min(groups, key=lambda group: max(self._value(choice, worth) for choice in group))] if groups else []
            for groups in self.groups
        ]

    def _solve(
        self, kept: Sequence[Sequence[Group]], minimise: bool, budget: Budget, exact: bool, gap: float = 1e-9
    ) -> Value:
        """Solve the MDP with only the kept choices; the other side is fixed."""
        sub = _restrict(self.mdp, [[choice for group in groups for choice in group] for groups in kept])
        return solve(sub, Reach(goal=self.fail, minimise=minimise), relative_gap=gap, exact=exact, budget=budget)

    def _answers(self, worth: NDArray[np.float64]) -> list[list[Group]]:
        """Return the environment's operator for every label: one of greatest value that also comes nearer to `fail`.

        Values alone are not enough: a loop that keeps the value for ever never fails. States are taken in as soon as
        each of their labels has a best operator into states taken in before, or costs the policy anyway.
        """
        answers: list[list[Group | None]] = [[None] * len(groups) for groups in self.groups]
        near = self.fail.copy()
        waiting = [s for s in range(self.mdp.states) if worth[s] > 0 and not near[s]]
        while waiting:
            entering = []
            for s in waiting:
                for g, group in enumerate(self.groups[s]):
                    if answers[s][g] is None:
                        values = [self._value(choice, worth) for choice in group]
                        if max(values) > worth[s] + BETTER:
                            answers[s][g] = (group[int(np.argmax(values))],)
                        else:
                            tight = (c for c, v in zip(group, values, strict=True) if v >= max(values) - BETTER)
                            answers[s][g] = next(((c,) for c in tight if near[self._targets(c)].any()), None)
                if all(answer is not None for answer in answers[s]):
                    entering.append(s)
            if not entering:
                break
            near[entering] = True
            waiting = [s for s in waiting if not near[s]]
        return [
            [group[:1] if answer is None else answer for group, answer in zip(groups, replies, strict=True)]
            for groups, replies in zip(self.groups, answers, strict=True)
        ]

    def _targets(self, choice: int) -> NDArray[np.uint32]:
        return self.mdp.target[int(self.mdp.branch_start[choice]) : int(self.mdp.branch_start[choice + 1])]

    def _value(self, choice: int, worth: NDArray[np.float64]) -> float:
        part = slice(int(self.mdp.branch_start[choice]), int(self.mdp.branch_start[choice + 1]))
        return float(self.mdp.probability[part] @ worth[self.mdp.target[part]])


def groups_of(choice_start: NDArray[np.uint64], labels: NDArray[np.int32]) -> list[list[Group]]:
    """Return for each state and label the operators the environment picks from: the label's and all silent ones."""
    result: list[list[Group]] = []
    for begin, end in zip(choice_start[:-1].tolist(), choice_start[1:].tolist(), strict=True):
        own: dict[int, list[int]] = {}
        for choice in range(begin, end):
            own.setdefault(int(labels[choice]), []).append(choice)
        silent = tuple(own.pop(-1, ()))
        result.append([(*group, *silent) for group in own.values()] if own else [silent] if silent else [])
    return result


def _restrict(mdp: SparseMdp, kept: Sequence[Sequence[int]]) -> SparseMdp:
    """Return the MDP with only the given choices of each state."""
    choices = np.array([choice for one in kept for choice in one], dtype=np.int64)
    starts = mdp.branch_start.astype(np.int64)
    lengths = starts[choices + 1] - starts[choices]
    branches = np.repeat(starts[choices] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths) + np.arange(
        lengths.sum()
    )
    return SparseMdp(
        np.cumsum([0, *map(len, kept)]).astype(np.uint64),
        np.concatenate(([0], np.cumsum(lengths))).astype(np.uint64),
        mdp.target[branches],
        mdp.probability[branches],
        mdp.initial,
        None if mdp.probability_index is None else mdp.probability_index[branches],
        mdp.fractions,
    )


def _exact_twin(compiled: Compiled, words: NDArray[np.uint64], mdp: SparseMdp) -> SparseMdp:
    """Return the same MDP with the fractions of the slow interpreter; operators come in the kernel's order."""
    semantics = compiled.semantics
    states = compiled.unpack(words)
    number = {state: k for k, state in enumerate(states)}
    order = {label: k for k, label in enumerate(compiled.network.labels)}
    rows: list[list[list[tuple[int, Fraction]]]] = []
    for s, state in enumerate(states):
        row: list[list[tuple[int, Fraction]]] = []
        if mdp.choice_start[s] < mdp.choice_start[s + 1]:
            moves = sorted(
                semantics.moves(state), key=lambda move: len(order) if move.label is None else order[move.label]
            )
            for move in moves:
                shares: dict[int, Fraction] = {}
                for outcome in move.outcomes:
                    k = number[outcome.state]
                    shares[k] = shares.get(k, Fraction(0)) + outcome.probability
                row.append(sorted(shares.items()))
        rows.append(row)
    twin = SparseMdp.build(rows, initial=mdp.initial.tolist())
    if (twin.choice_start != mdp.choice_start).any() or (twin.target != mdp.target).any():
        raise AssertionError("the interpreter and the kernel order operators differently")
    return twin
