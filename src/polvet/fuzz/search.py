"""Finding unsafe runs of a policy from given start states: chance that leans towards `fail`, several tries per start.

Source   step (A), fuzzing, of Cascioli, Jain, Steinmetz, Davis and Hoffmann, Safety debugging of tree-ensemble action
         policies, 2026; its assumption (a), that every run of the policy may be found, is `find_unsafe_runs` with any
         temperature: no outcome ever gets the weight 0
Differs  the paper's tool samples outcomes as the model says; here they lean towards `fail` by the distance of
         `fuzz/distance.py` and towards states seldom met. Temperatures take turns, so that some tries are plain ones
Cost     one pass over the start states per try; those whose unsafe run is found leave (with `first_only`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget, stopwatch
from polvet.errors import LimitReached
from polvet.fuzz.distance import distance_to_fail
from polvet.fuzz.packed import PackedRuns
from polvet.kernel.compiled import Compiled, Words, limit_of
from polvet.kernel.lower import Reward
from polvet.model.semantics import State
from polvet.policy.compiled import FAIL, GOAL, Bound, bind_policy
from polvet.policy.runs import MAX_STEPS, End, raise_what_broke

TEMPERATURES = (0.5, inf, 0.1, 2.0)
"""One after the other, try by try; infinite: outcomes as likely as the model says."""
UNBIASED = (inf,)
NOVELTY = 0.25
LOOP = 6
START = 2  # the place of the start condition among a guided program's conditions


@dataclass(frozen=True, slots=True)
class Search:
    """How unsafe runs are searched for; `temperatures=UNBIASED, novelty=0` draws outcomes as the model says."""

    seed: int = 0
    runs_per_start: int = 8
    max_steps: int = MAX_STEPS
    temperatures: Sequence[float] = TEMPERATURES
    novelty: float = NOVELTY
    first_only: bool = True  # one unsafe run per start, else all that are met
    first_run: int = 0  # the number of the first run: with the seed, its chance
    threads: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class GuidedPolicy:
    """A bound policy whose program also measures how far `fail` is."""

    bound: Bound
    visits: _core.Visits

    @classmethod
    def of(cls, bound: Bound, budget: Budget = UNLIMITED) -> GuidedPolicy:
        """Return the same policy over the same packed states, with the distance as a reward."""
        task = bound.task
        start = task.start if task.start is not None else task.network.initial_condition
        kept = task.network.derived
        key = "distance", task.fail
        far = kept.get(key) or distance_to_fail(task, budget)
        if not budget.is_over():  # or it may be coarser than it could be
            kept[key] = far
        compiled = Compiled(task.network, conditions=[task.fail, task.goal, start], rewards=[Reward(far, None)])
        return cls(bind_policy(bound.fitted, compiled), _core.Visits())


@dataclass(frozen=True, slots=True, eq=False)
class Tries:
    """What one try from each of some start states gave."""

    ends: NDArray[np.uint8]
    lengths: NDArray[np.uint32]
    choices: NDArray[np.uint32]  # steps that could have gone another way
    nearest: NDArray[np.float64]
    unsafe: NDArray[np.uint64]  # which of the starts have an unsafe run
    runs: PackedRuns  # these, in the same order
    steps: int
    limit: LimitReached | None


@dataclass(frozen=True, slots=True, eq=False)
class FuzzResult:
    """The unsafe runs found, each with the number of its start, and what they cost."""

    runs: PackedRuns
    starts: NDArray[np.int64]
    tried: int  # runs begun and ended
    steps: int
    ends: dict[str, int]
    seconds: float
    seed: int
    limit: LimitReached | None = None


def find_unsafe_runs(
    bound: Bound,
    starts: Sequence[State] | Words,
    search: Search = Search(),
    *,
    budget: Budget = UNLIMITED,
    guided: GuidedPolicy | None = None,
) -> FuzzResult:
    """Return unsafe runs of the policy from the start states.

    Deterministic for a seed, whatever the number of threads, unless a time limit cuts it short.
    """
    spent = stopwatch()
    guide = guided or GuidedPolicy.of(bound)
    packed = starts if isinstance(starts, np.ndarray) else bound.compiled.pack(starts)
    waiting = np.arange(len(packed), dtype=np.int64)
    parts: list[PackedRuns] = []
    owners: list[NDArray[np.int64]] = []
    ends: Counter[str] = Counter()
    steps = 0
    limit = None
    for attempt in range(search.runs_per_start):
        if not len(waiting):
            break
        numbers = (search.first_run + attempt * len(packed) + waiting).astype(np.uint64)
        temperature = search.temperatures[attempt % len(search.temperatures)]
        tries = try_once(guide, packed[waiting], numbers, temperature, search, budget=budget)
        count_ends(tries.ends, ends)
        steps += tries.steps
        mine = waiting[tries.unsafe.astype(np.int64)]
        parts.append(replace(tries.runs, bound=bound))
        owners.append(mine)
        # A run without a choice on it is the only run from its start: trying again would repeat it.
        again = tries.choices > 0
        if search.first_only:
            again &= tries.ends != End.FAIL
        waiting = waiting[again]
        if tries.limit is not None:
            limit = tries.limit
            break
    runs = PackedRuns.joined(bound, parts)
    who = np.concatenate(owners) if owners else np.zeros(0, dtype=np.int64)
    tried = sum(count for name, count in ends.items() if name != "unfinished")
    return FuzzResult(runs, who, tried, steps, dict(ends), spent(), search.seed, limit)


def try_once(
    guide: GuidedPolicy,
    starts: Words,
    numbers: NDArray[np.uint64],
    temperature: float | NDArray[np.float64],
    search: Search,
    *,
    budget: Budget = UNLIMITED,
) -> Tries:
    """Return one run from each packed start; run k draws its chance by (seed, numbers[k])."""
    heat = np.broadcast_to(np.asarray(temperature, dtype=np.float64), (len(starts),))
    result = _core.fuzz(
        guide.bound.core,
        np.ascontiguousarray(starts),
        np.ascontiguousarray(numbers),
        np.ascontiguousarray(heat),
        FAIL,
        GOAL,
        0,
        search.novelty,
        guide.visits if search.novelty > 0 else None,
        search.max_steps,
        search.seed,
        search.threads,
        budget.left(),
        budget.on_progress,
    )
    raise_what_broke(guide.bound, result["status"], result["faulty"], result["fault"], result["policy_broken"])
    limit = limit_of(result["status"], budget)
    runs = PackedRuns(
        guide.bound,
        result["states"],
        result["state_start"],
        result["labels"],
        np.full(len(result["unsafe"]), End.FAIL, dtype=np.uint8),
    )
    return Tries(
        result["end"],
        result["length"],
        result["choices"],
        result["nearest"],
        result["unsafe"],
        runs,
        result["steps"],
        limit,
    )


def count_ends(ends: NDArray[np.uint8], into: Counter[str]) -> None:
    """Add how runs ended; a run that provably repeats itself for ever is a `loop`."""
    for code, count in zip(*np.unique(ends, return_counts=True), strict=True):
        into["loop" if code == LOOP else End(int(code)).text] += int(count)
