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
from typing import Any

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.fuzz.anytime import Share
from polvet.worlds.clonable import Clonable, Restore, Snapshot

Observation = Any
Failing = Callable[[Observation, dict[str, Any]], bool]
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


def fuzz_environment(
    env: Any,
    policy: Choosing,
    fail: Failing,
    *,
    seed: int = 0,
    episodes: int = 100,
    max_steps: int = 500,
    tries: int = 24,
    horizon: int = 50,
    most_runs: int = 10,
    snapshot: Snapshot | None = None,
    restore: Restore | None = None,
    budget: Budget = UNLIMITED,
) -> EnvironmentReport:
    """Return unsafe runs of the policy in the environment and the steps on them that are probably faults.

    The budget ends it between two episodes, and its `on_progress` is told the steps made and the episodes run.
    """
    world = Clonable(env, snapshot, restore)
    rng = np.random.default_rng(seed)
    runs: list[EnvironmentRun] = []
    suspicions: list[Suspicion] = []
    share = Share()
    steps = 0
    limit = None
    for episode in range(episodes):
        try:
            budget.check()
        except LimitReached as reached:
            limit = reached
            break
        if budget.on_progress is not None:
            budget.on_progress(steps, episode)
        number = seed * 1_000_003 + episode
        run, saved, failed = _run(world, policy, fail, number, max_steps, keep=len(runs) < most_runs)
        steps += len(run.actions)
        share = share.seen(int(failed), 1)
        if not failed:
            continue
        runs.append(run)
        if saved:
            new, more = _blame(world, policy, fail, run, saved, len(runs) - 1, rng, tries, horizon)
            steps += more
            suspicions += new
    return EnvironmentReport(tuple(runs), tuple(suspicions), share, steps, limit=limit)


def _run(
    world: Clonable, policy: Choosing, fail: Failing, seed: int, max_steps: int, *, keep: bool
) -> tuple[EnvironmentRun, list[Any], bool]:
    observation, info = world.env.reset(seed=seed)
    observations: list[Observation] = [observation]
    actions: list[int] = []
    saved: list[Any] = []
    failed = fail(observation, info)
    while not failed and len(actions) < max_steps:
        if keep:
            saved.append(world.save())
        action = int(policy(observation))
        observation, _, terminated, truncated, info = world.env.step(action)
        observations.append(observation)
        actions.append(action)
        failed = fail(observation, info)
        if terminated or truncated:
            break
    return EnvironmentRun(seed, tuple(observations), tuple(actions)), saved, failed


def _blame(
    world: Clonable,
    policy: Choosing,
    fail: Failing,
    run: EnvironmentRun,
    saved: Sequence[Any],
    number: int,
    rng: np.random.Generator,
    tries: int,
    horizon: int,
) -> tuple[list[Suspicion], int]:
    """Judge the steps of a run from its end backwards, until two in a row are blameless after one was not."""
    suspicions: list[Suspicion] = []
    steps = quiet = 0
    for step in range(len(run.actions) - 1, -1, -1):
        shares: dict[int, list[Share]] = {}
        for action in range(world.actions):
            shares[action] = []
            for continuation in range(world.actions + 2):
                failing = 0
                for _ in range(tries):
                    world.load(saved[step], int(rng.integers(2**63)))
                    failed, length = _continue(world, policy, fail, action, continuation, rng, horizon)
                    failing += failed
                    steps += length
                shares[action].append(Share(failing, tries))
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


def _continue(
    world: Clonable,
    policy: Choosing,
    fail: Failing,
    action: int,
    continuation: int,
    rng: np.random.Generator,
    horizon: int,
) -> tuple[bool, int]:
    """Take the action, then continue; continuation k < actions takes k for ever, then come the policy and chance."""
    for length in range(1, horizon + 1):
        observation, _, terminated, truncated, info = world.env.step(action)
        if fail(observation, info):
            return True, length
        if terminated or truncated:
            return False, length
        if continuation < world.actions:
            action = continuation
        elif continuation == world.actions:
            action = int(policy(observation))
        else:
            action = int(rng.integers(world.actions))
    return False, horizon
