"""Fuzzing where there is no model: any Gymnasium environment with discrete actions that can be put back where it was.

Runs      of a policy from seeded resets, until `fail(observation, info)` holds
Faults    on unsafe runs, from the end backwards: each step is put back and every action tried again and again, followed by
          each continuation (the policy itself, each action for ever, chance). The policy's action is *suspected* where
          it fails more often than another action with its best continuation, whatever continuation it is given itself,
          beyond the confidence sequences of both
Level     `statistical`, never `proved`: outcomes are those that sampling showed, continuations those that were tried
Putting back  `worlds/clonable.py`; chance is seeded anew after each time
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, LimitReached, Where
from polvet.fuzz.anytime import Share
from polvet.worlds.clonable import Clonable, Info, Restore, Snapshot, answer_of

Observation = Any
Failing = Callable[[Observation, Info], bool]
Choosing = Callable[[Observation], int]
LEVEL = "statistical"


@dataclass(frozen=True, slots=True, eq=False)
class EnvironmentRun:
    """An unsafe run: the seed of its reset, what was observed and done; replays where the environment is deterministic."""

    seed: int
    observations: tuple[Observation, ...]
    actions: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Suspicion:
    """A step that is probably a fault: the action taken, a better one, and how often each fails."""

    run: int
    step: int
    observation: Observation
    action: int
    better: int
    fails: tuple[float, float]  # interval of the taken action's failing share under its best continuation
    better_fails: tuple[float, float]
    level: str = LEVEL


@dataclass(frozen=True, slots=True, eq=False)
class EnvironmentReport:
    """What fuzzing an environment found; `unsafe` is the share of seeded resets whose run fails, valid at any time."""

    runs: tuple[EnvironmentRun, ...]
    suspicions: tuple[Suspicion, ...]
    unsafe: Share
    steps: int
    level: str = LEVEL
    limit: LimitReached | None = None  # what ended it before all episodes were run


@dataclass(frozen=True, slots=True)
class Trials:
    """How much is tried: runs, and on those that fail each action of each step, followed by each continuation."""

    seed: int = 0
    episodes: int = 100
    max_steps: int = 500
    tries: int = 24  # of each action with each continuation
    horizon: int = 50  # of a continuation
    most_runs: int = 10  # whose steps are judged


def fuzz_environment(
    env: Any,
    policy: Choosing,
    fail: Failing,
    trials: Trials = Trials(),
    *,
    snapshot: Snapshot | None = None,
    restore: Restore | None = None,
    budget: Budget = UNLIMITED,
) -> EnvironmentReport:
    """Return unsafe runs of the policy in the environment and the steps on them that are probably faults.

    `policy(observation)` gives the number of an action, and `fail(observation, info)` says whether a run has failed. The budget ends it
    between two episodes, and its `on_progress` is told the steps made and the episodes run.
    """
    if not isinstance(trials, Trials):
        raise InputError(f"{trials!r} is no record of trials.", Where("trials"), "Give Trials(episodes=100).")
    chance = np.random.default_rng(trials.seed)
    world = Clonable(env, snapshot, restore)

    def chosen(observation: Observation) -> int:
        action = answer_of("policy", Where("policy"), "It is given an observation.", policy, observation)
        try:
            number = index(
                action.item() if getattr(action, "size", 0) == 1 else action
            )  # arrays of one, as learners give them
        except TypeError:
            number = -1
        if not 0 <= number < world.actions:
            what = f"the policy's action {action!r} is no number from 0 to {world.actions - 1}."
            raise InputError(what, Where("policy"), "Return the number of an action.")
        return number

    def failing(observation: Observation, info: Info) -> bool:
        hint = "Write it as a function of (observation, info)."
        return bool(answer_of("fail", Where("fail"), hint, fail, observation, info))

    judge = _Judge(world, chosen, failing, chance, trials.tries, trials.horizon)
    runs: list[EnvironmentRun] = []
    suspicions: list[Suspicion] = []
    share = Share()
    steps = 0
    limit = None
    for episode in range(trials.episodes):
        try:
            budget.check()
        except LimitReached as reached:
            limit = reached
            break
        if budget.on_progress is not None:
            budget.on_progress(steps, episode)
        number = trials.seed * 1_000_003 + episode
        run, saved, failed = judge.run(number, trials.max_steps, keep=len(runs) < trials.most_runs)
        steps += len(run.actions)
        share = share.seen(int(failed), 1)
        if not failed:
            continue
        runs.append(run)
        if saved:
            blamed, more = judge.blame(run, saved, len(runs) - 1)
            suspicions += blamed
            steps += more
    return EnvironmentReport(tuple(runs), tuple(suspicions), share, steps, limit=limit)


@dataclass(frozen=True, slots=True, eq=False)
class _Judge:
    """A policy in an environment that can be put back: its runs, and what would have come of other actions."""

    world: Clonable
    policy: Choosing
    fail: Failing
    rng: np.random.Generator
    tries: int
    horizon: int

    def run(self, seed: int, max_steps: int, *, keep: bool) -> tuple[EnvironmentRun, list[Any], bool]:
        """Return a run, the environment before each of its steps where it is kept, and whether the run failed."""
        observation, info = self.world.env.reset(seed=seed)
        observations: list[Observation] = [observation]
        actions: list[int] = []
        saved: list[Any] = []
        failed = self.fail(observation, info)
        while not failed and len(actions) < max_steps:
            if keep:
                saved.append(self.world.save())
            action = self.policy(observation)
            observation, _, terminated, truncated, info = self.world.env.step(action)
            observations.append(observation)
            actions.append(action)
            failed = self.fail(observation, info)
            if terminated or truncated:
                break
        return EnvironmentRun(seed, tuple(observations), tuple(actions)), saved, failed

    def blame(self, run: EnvironmentRun, saved: Sequence[Any], number: int) -> tuple[list[Suspicion], int]:
        """Judge the steps of a run from its end backwards, until two in a row are blameless after one was not."""
        suspicions: list[Suspicion] = []
        steps = quiet = 0
        for step in range(len(run.actions) - 1, -1, -1):
            shares: dict[int, list[Share]] = {}
            for action in range(self.world.actions):
                shares[action] = []
                for continuation in range(self.world.actions + 2):
                    failing = 0
                    for _ in range(self.tries):
                        self.world.load(saved[step], int(self.rng.integers(2**63)))
                        failed, length = self._continue(action, continuation)
                        failing += failed
                        steps += length
                    shares[action].append(Share(failing, self.tries))
            taken = run.actions[step]
            least = min(shares[taken], key=lambda share: share.interval[0])
            better, best = min(
                ((action, share) for action in shares if action != taken for share in shares[action]),
                key=lambda pair: pair[1].interval[1],
                default=(taken, least),
            )
            if least.interval[0] > best.interval[1]:
                suspicions.append(
                    Suspicion(number, step, run.observations[step], taken, better, least.interval, best.interval)
                )
                quiet = 0
            else:
                quiet += 1
                if suspicions and quiet >= 2:
                    break
        return suspicions[::-1], steps

    def _continue(self, action: int, continuation: int) -> tuple[bool, int]:
        """Take the action, then continue; continuation k < actions takes k for ever, then come the policy and chance."""
        for length in range(1, self.horizon + 1):
            observation, _, terminated, truncated, info = self.world.env.step(action)
            if self.fail(observation, info):
                return True, length
            if terminated or truncated:
                return False, length
            if continuation < self.world.actions:
                action = continuation
            elif continuation == self.world.actions:
                action = self.policy(observation)
            else:
                action = int(self.rng.integers(self.world.actions))
        return False, self.horizon
