"""Is there a policy that keeps the goal in reach: a strong-cyclic policy, which reaches it surely where chance is fair.

Source   Cimatti, Pistore, Roveri and Traverso, Weak, strong, and strong cyclic planning, AIJ 2003: from all states,
         prune what leads out, then what has lost the goal, until nothing changes
Differs  explicit: reachable states in compressed rows; what is pruned keeps the round in which it was, as evidence
Cost     linear in the transitions for each round; as many rounds as there are detours to lose the goal by
Limits   all reachable states must fit into memory

An action is a label with all its outcomes, silent operators' included (as for state safety). Runs end at the goal; to
end elsewhere, or in `fail`, is to lose. States from which no policy will do are *lost*; the round of a fail state is 0,
and in round k those are lost that cannot reach the goal by actions none of whose outcomes was lost before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, Where
from polvet.files import Json
from polvet.kernel.compiled import Compiled, Words, describe_limit
from polvet.model.expressions import FALSE
from polvet.model.properties import PolicyTask
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.records.certificate_files import Certificate, certificate_head, conditions_of
from polvet.records.state_json import state_to_json

FAIL, GOAL = 0, 1
SILENT = -1
NEVER = -1

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """Reachable states: the actions of s are first[s] .. first[s + 1], the outcomes of an action likewise in `target`."""

    task: Task
    compiled: Compiled
    space: Any
    first: Ints
    outcomes: Ints
    target: Ints
    label: Ints
    fail: Mask
    goal: Mask

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.first) - 1

    def state(self, number: int) -> State:
        """Return the state of that number."""
        return self.compiled.unpack(self.space.states(number, number + 1))[0]

    def action(self, number: int) -> str | None:
        """Return the label of the action of that number; None is the silent pseudo-action."""
        return None if self.label[number] == SILENT else self.task.network.labels[self.label[number]]

    def actions_of(self, state: int) -> range:
        """Return the numbers of the state's actions."""
        return range(self.first[state], self.first[state + 1])

    def outcomes_of(self, action: int) -> list[int]:
        """Return where the action may lead, each state once."""
        outcomes: list[int] = np.unique(self.target[self.outcomes[action] : self.outcomes[action + 1]]).tolist()
        return outcomes


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """Of each state: the round in which it was lost (NEVER: it is won), its distance to the goal and the action there."""

    game: Game
    lost: Ints
    distance: Ints
    choice: Ints  # NEVER where runs end, and where the state is lost

    def is_won(self, state: State) -> bool:
        """Return whether a strong-cyclic policy exists from the state."""
        return bool(self.lost[self.number(state)] == NEVER)

    def number(self, state: State) -> int:
        """Return the number of a state that was asked about."""
        return int(self.game.space.find(self.game.compiled.pack([state])[0]))


def solve(task: Task, starts: Sequence[State], *, budget: Budget = UNLIMITED) -> Solved:
    """Return which states reachable from the starts are won, or raise LimitReached."""
    if not has_goal(task):
        raise InputError("the task has no goal.", Where("--goal-reaching"), "Give one with --goal.")
    compiled = Compiled(task.network, conditions=[task.fail, task.goal])
    return solve_packed(task, compiled, compiled.pack(starts), budget=budget)


def solve_packed(task: Task, compiled: Compiled, starts: Words, *, budget: Budget = UNLIMITED) -> Solved:
    """Do the same for packed starts; `compiled` has `fail` and `goal` as its first conditions."""
    game = _build(task, compiled, starts, budget)
    sources = np.repeat(np.arange(game.states), np.diff(game.first))  # the state of each action
    action_of = np.repeat(np.arange(len(game.label)), np.diff(game.outcomes))  # the action of each outcome
    order = np.argsort(game.target, kind="stable")
    arrivals = np.concatenate(([0], np.cumsum(np.bincount(game.target, minlength=game.states)))).astype(np.int64)
    before = action_of[order]  # the actions with an outcome in t: before[arrivals[t] : arrivals[t + 1]]
    lost = np.where(game.fail, 0, NEVER).astype(np.int64)
    number = 0
    while True:
        budget.check()
        number += 1
        spoilt = np.zeros(len(game.label), dtype=bool)
        spoilt[action_of[lost[game.target] != NEVER]] = True
        distance, choice = _distances(game, sources, arrivals, before, spoilt, lost != NEVER)
        fresh = (distance == NEVER) & (lost == NEVER)
        if not fresh.any():
            return Solved(game, lost, distance, choice)
        lost[fresh] = number


def has_goal(task: Task) -> bool:
    """Return whether a goal was given, by whom ever; it may turn out to be false everywhere."""
    if task.goal != FALSE or task.options.goal is not None:
        return True
    named = [one.expression for one in task.network.model.properties if isinstance(one.expression, PolicyTask)]
    return any(one.objective is not None and one.objective.goal is not None for one in named)


def _distances(game: Game, sources: Ints, arrivals: Ints, before: Ints, spoilt: Mask, lost: Mask) -> tuple[Ints, Ints]:
    """The least number of steps to the goal by actions that are not spoilt, and the action to take: by layers."""
    distance = np.where(game.goal & ~lost, 0, NEVER).astype(np.int64)
    choice = np.full(game.states, NEVER, dtype=np.int64)
    frontier = np.flatnonzero(distance == 0)
    steps = 0
    while len(frontier):
        steps += 1
        lengths = arrivals[frontier + 1] - arrivals[frontier]
        places = np.repeat(arrivals[frontier] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        actions = before[places]
        actions = actions[~spoilt[actions]]
        actions = np.sort(actions[(distance[sources[actions]] == NEVER) & ~lost[sources[actions]]])
        frontier, chosen = np.unique(sources[actions], return_index=True)
        distance[frontier], choice[frontier] = steps, actions[chosen]
    return distance, choice


def _build(task: Task, compiled: Compiled, starts: Words, budget: Budget) -> Game:
    space = compiled.explore(starts, build=True, stop_at=[FAIL, GOAL], budget=budget)
    if (limit := describe_limit(space, budget)) is not None:
        raise limit
    choice_start, branch_start, target, _, labels, _ = space.take_matrix()
    fail = space.mask(FAIL).astype(bool)
    first, outcomes = choice_start.astype(np.int64), branch_start.astype(np.int64)
    game = Game(
        task,
        compiled,
        space,
        first,
        outcomes,
        target.astype(np.int64),
        labels.astype(np.int64),
        fail,
        space.mask(GOAL).astype(bool) & ~fail,
    )
    sources = np.repeat(np.arange(game.states), np.diff(first))
    pairs = np.unique(np.stack([sources, game.label]), axis=1).shape[1]
    if pairs == len(labels) and not (game.label == SILENT).any():
        return game
    return _grouped(game)


def _grouped(game: Game) -> Game:
    """Return the game with one action per label: the outcomes of its operators, and of all silent ones."""
    first, outcomes, target, label = [0], [0], list[int](), list[int]()
    for state in range(game.states):
        groups: dict[int, list[int]] = {}
        for operator in game.actions_of(state):
            groups.setdefault(int(game.label[operator]), []).extend(game.outcomes_of(operator))
        silent = groups.pop(SILENT, [])
        if not groups and silent:
            groups[SILENT] = []
        for name, reached in groups.items():
            target += sorted({*reached, *silent})
            outcomes.append(len(target))
            label.append(name)
        first.append(len(label))
    first_, outcomes_, target_, label_ = (np.array(one, dtype=np.int64) for one in (first, outcomes, target, label))
    return replace(game, first=first_, outcomes=outcomes_, target=target_, label=label_)


def prove_won(solved: Solved, starts: Sequence[State], *, budget: Budget = UNLIMITED) -> Certificate:
    """Return the certificate `strong-cyclic` for starts that are won: what the policy reaches, with distances."""
    game = solved.game
    places = {solved.number(state): k for k, state in enumerate(dict.fromkeys(starts))}
    listed = list(places)
    for number in listed:  # grows while it is walked
        budget.check()
        if solved.choice[number] != NEVER:
            for outcome in game.outcomes_of(solved.choice[number]):
                if outcome not in places:
                    places[outcome] = len(listed)
                    listed.append(outcome)
    rows = [
        {
            "state": state_to_json(game.task, game.state(number)),
            "action": None if solved.choice[number] == NEVER else game.action(solved.choice[number]),
            "distance": int(solved.distance[number]),
        }
        for number in listed
    ]
    return _certificate("strong-cyclic", solved, starts, places, rows)


def prove_lost(solved: Solved, starts: Sequence[State], *, budget: Budget = UNLIMITED) -> Certificate:
    """Return the certificate `no-strong-cyclic` for starts that are lost: lost states with their rounds."""
    game = solved.game
    places = {solved.number(state): k for k, state in enumerate(dict.fromkeys(starts))}
    listed = list(places)
    for number in listed:  # grows while it is walked
        budget.check()
        if game.fail[number]:
            continue
        for action in game.actions_of(number):
            reached = game.outcomes_of(action)
            earlier = [one for one in reached if NEVER < solved.lost[one] < solved.lost[number]]
            for outcome in earlier[:1] or reached:
                if outcome not in places:
                    places[outcome] = len(listed)
                    listed.append(outcome)
    rows = [
        {"state": state_to_json(game.task, game.state(number)), "round": int(solved.lost[number])} for number in listed
    ]
    return _certificate("no-strong-cyclic", solved, starts, places, rows)


def _certificate(
    kind: str, solved: Solved, starts: Sequence[State], places: dict[int, int], rows: list[Json]
) -> Certificate:
    task = solved.game.task
    start = [places[solved.number(state)] for state in dict.fromkeys(starts)]
    return {**certificate_head(kind, task), **conditions_of(task), "start": start, "states": rows}
