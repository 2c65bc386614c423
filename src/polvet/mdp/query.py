"""What can be asked of an MDP: small frozen questions, with sets of states as masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from polvet.mdp.sparse import Mask


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """The least or greatest probability of `safe U goal`, bounded by steps or integer reward where that is given.

    `reward_bound` (name, k): a goal is entered with an accumulated reward of at most k; `reward_at_least`: at least k
    (goals entered with less are passed through).
    """

    goal: Mask
    safe: Mask | None = None
    minimise: bool = False
    step_bound: int | None = None
    reward_bound: tuple[str, int] | None = None
    reward_at_least: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Always:
    """The least or greatest probability of never leaving `safe` (within so many steps if a bound is given)."""

    safe: Mask
    minimise: bool = False
    step_bound: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Reward:
    """The least or greatest expected reward until `goal`: infinite where the goal is not reached almost surely.

    The minimum ranges over the schedulers that reach the goal almost surely; the maximum is infinite as soon as one
    scheduler does not.
    """

    reward: str
    goal: Mask
    minimise: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CumulativeReward:
    """The least or greatest expected reward collected in exactly `steps` steps (a deadlock collects nothing more).

    Where a `goal` is given, a run collects nothing from the goal on.
    """

    reward: str
    steps: int
    minimise: bool = False
    goal: Mask | None = None


Query: TypeAlias = Reach | Always | Reward | CumulativeReward
