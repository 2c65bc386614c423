"""Deciding the safety of states, by any of the algorithms, one by one or many at once.

Source   Schmalz and Jain, Algorithms for Deciding the Safety of States in Fully Observable Non-deterministic Problems,
         2026. `safety/algorithms.py` says which file holds which algorithm
Cost     see there; with sharing every state of the model is decided about once, whatever the number of questions
Limits   models with infinitely many reachable states are searched on the fly and end at a limit where that never closes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.choices import listed, one_of
from polvet.errors import InputError, LimitReached, Where, suggest
from polvet.kernel.compiled import Compiled, Words, limit_of
from polvet.model.deadlocks import deadlock_condition
from polvet.model.expressions import Expression, conjunction, disjunction, negation
from polvet.model.network import OutOfBounds
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.policy.compiled import Bound
from polvet.safety.algorithms import ALGORITHMS, DEFAULT, ORDERS
from polvet.safety.game_verdicts import GameVerdicts
from polvet.system import resident_bytes
from polvet.verdict import Verdict

NO_RADIUS = 2**32 - 1
SILENT, ENDED = -1, -2
FAIL, GOAL = 0, 1  # the places of the conditions in the compiled task
UNDECIDED, UNSAFE, SAFE = 0, 1, 2  # as the kernel tells verdicts
LISTED_STATE, LISTED_VALUE = 600, 140
"""Bytes that a state of a certificate takes in Python, and each of its values: as a state, by names, and as text."""

Preference = Callable[[State], str | None]
"""A policy as an action order: the label it would choose."""

Judged = list[tuple[str | None, bool]]
"""Labels of a state, each with whether all its outcomes are safe; None stands for the silent pseudo-action."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The verdict on one state and what it cost; `limit` is what was reached where the verdict is unknown."""

    verdict: Verdict
    expanded: int  # looks at the outcomes of a (state, action) pair, repeated ones counted
    passes: int
    seconds: float
    limit: LimitReached | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """How states are decided: all that another process needs to answer in the same way."""

    algorithm: str
    order: str
    share: bool
    seed: int
    radius: int | None


@dataclass(frozen=True, slots=True)
class ActionOrder:
    """In which order the actions of a state are tried: one of `ORDERS`; the seed is for `random`, the preference for `policy`."""

    name: str = "app"
    seed: int = 0
    preference: Bound | Preference | None = None


AS_APPLICABLE = ActionOrder()


def compile_task(task: Task, budget: Budget = UNLIMITED) -> Compiled:
    """Return the task's network as the kernel runs it, with what is unsafe and `goal` as its conditions."""
    return Compiled(task.network, conditions=[unsafe_condition(task), task.goal], budget=budget)


def unsafe_condition(task: Task) -> Expression:
    """Return `fail`, and where the task avoids deadlocks also the states outside the goal in which runs end."""
    if not task.avoid.deadlock:
        return task.fail
    if task.network.out_of_bounds is OutOfBounds.DISABLE:
        what = "deadlocks are told by guards, but here bounds disable operators, too."
        raise InputError(what, Where("--avoid"), "Leave --out-of-bounds disable away, or write bounds into guards.")
    return disjunction(task.fail, conjunction(negation(task.goal), deadlock_condition(task.network)))


class Decider:
    """Answers questions about one task. With `share` it remembers what it proved; threads tell each other.

    Evidence (`safe_policy`, `unsafe_rank`) is made by a single thread with the algorithm `lazy` and sharing.
    """

    def __init__(
        self,
        task: Task,
        *,
        algorithm: str = DEFAULT,
        order: ActionOrder = AS_APPLICABLE,
        share: bool | None = None,
        threads: int = 1,
        radius: int | None = None,
        compiled: Compiled | None = None,
    ) -> None:
        chosen = ALGORITHMS[one_of(algorithm, ALGORITHMS, "--algorithm")]
        one_of(order.name, ORDERS, "--order")
        if not chosen.search:
            searches = listed(name for name, other in ALGORITHMS.items() if other.search)
            what = f"'{algorithm}' is no search from single states ({chosen.file})."
            raise InputError(what, Where("--algorithm"), f"Use {searches}.")
        if radius is not None and not chosen.radius:
            able = listed(name for name, other in ALGORITHMS.items() if other.radius)
            raise InputError(f"'{algorithm}' takes no radius.", Where("--radius"), f"Add --algorithm {able}.")
        if order.name == "policy" and order.preference is None:
            raise InputError("the order 'policy' needs a policy.", Where("--order"), "Add --policy FILE.")
        self.task = task
        self.algorithm, self.share = algorithm, algorithm == DEFAULT if share is None else share
        self.radius = radius
        self.stopped: LimitReached | None = None  # why the last call for many states left some open
        self.question = Question(algorithm, order.name, self.share, order.seed, radius)
        self.smaller_games = 0  # how many of them told it verdicts
        self.lost_games: list[GameVerdicts] = []  # those that told lost states alone, for other deciders
        self.compiled = compiled or compile_task(task)
        self._core = _core.Decider(
            self.compiled.program,
            FAIL,
            GOAL,
            algorithm,
            order.name,
            order.seed,
            self.share,
            threads,
            NO_RADIUS if radius is None else radius,
            _preferred(order.preference, self.compiled),
        )

    def decide(self, states: Iterable[State], *, budget: Budget = UNLIMITED) -> list[Decided]:
        """Return the verdict on each state."""
        return self.decide_packed(self.compiled.pack(states), budget=budget)

    def decide_packed(self, states: Words, *, budget: Budget = UNLIMITED) -> list[Decided]:
        """Return the verdict on each packed state."""
        known, status, looks, passes, nanoseconds = self._core.decide(
            states, budget.left(), self._room(budget), budget.most_states, budget.on_progress
        )
        self._raise_what_stopped()
        verdicts = (Verdict.UNKNOWN, Verdict.UNSAFE, Verdict.SAFE)
        return [
            Decided(
                verdicts[k],
                expanded,
                rounds,
                spent * 1e-9,
                None if verdicts[k] is not Verdict.UNKNOWN else self._limit(why, budget),
            )
            for k, why, expanded, rounds, spent in zip(
                known.tolist(), status.tolist(), looks.tolist(), passes.tolist(), nanoseconds.tolist(), strict=True
            )
        ]

    def known_packed(self, states: Words, *, budget: Budget = UNLIMITED) -> NDArray[np.uint8]:
        """Return what is known about each packed state as a number: 0 a limit came first (`stopped`), 1 unsafe, 2 safe."""
        known, status, *_ = self._core.decide(
            states, budget.left(), self._room(budget), budget.most_states, budget.on_progress
        )
        self._raise_what_stopped()
        left = np.flatnonzero(known == 0)
        self.stopped = self._limit(int(status[left[0]]), budget) if len(left) else None
        return known

    def foresee(self, told: GameVerdicts) -> None:
        """Take the verdicts of a smaller game.

        From then on there is no evidence to be had from this decider where something is won; where all that was told is lost, safe
        policies enter nothing of it, and the ranks of unsafe states end there.
        """
        if SAFE not in told.verdicts:
            self.lost_games.append(told)
        program = self.compiled.program
        self._core.foresee(program, told.variables, told.lines, told.clocks, told.tops, told.verdicts)
        self.smaller_games += 1

    def safe_actions(self, state: State, *, budget: Budget = UNLIMITED) -> tuple[str | None, ...]:
        """Return the labels of the state all of whose outcomes are safe; None stands for the silent pseudo-action."""
        return tuple(label for label, safe in self.judge_actions(state, budget=budget) if safe)

    def judge_actions(self, state: State, *, budget: Budget = UNLIMITED) -> Judged:
        """Return each applicable label of the state with whether all its outcomes are safe; none where runs end.

        A limit raises LimitReached.
        """
        judgement = self.judge_actions_packed(self.compiled.pack([state]), budget=budget)[0]
        if judgement is None:
            assert self.stopped is not None
            raise self.stopped
        return judgement

    def judge_actions_packed(self, states: Words, *, budget: Budget = UNLIMITED) -> list[Judged | None]:
        """Return for each packed state what `judge_actions` does, or None where a limit came first (`stopped`)."""
        starts, numbers, outcome_start, outcomes = self._core.outlook(states, budget.left(), self._room(budget))
        self._raise_what_stopped(budget)
        known = self._known_of_each(outcome_start.astype(np.int64), outcomes, budget).tolist()
        labels = [None if label == SILENT else self.task.network.labels[label] for label in numbers.tolist()]
        result: list[Judged | None] = []
        for first, last in pairwise(starts.tolist()):
            clear = UNDECIDED not in known[first:last]
            result.append([(labels[k], known[k] == SAFE) for k in range(first, last)] if clear else None)
        return result

    def _known_of_each(self, start: NDArray[np.int64], outcomes: Words, budget: Budget) -> NDArray[np.uint8]:
        """Return what is known about each set of outcomes: all are safe, or one is unsafe; the others are not asked about then."""
        stopped: LimitReached | None = None
        known = np.full(len(start) - 1, SAFE, dtype=np.uint8)
        count, offset, width = np.diff(start), 0, 1
        while (open_ := np.flatnonzero((known != UNSAFE) & (count > offset))).size:
            sizes = np.minimum(count[open_] - offset, width)
            owner = np.repeat(open_, sizes)
            places = np.repeat(start[open_] + offset - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(owner))
            told = self.known_packed(np.ascontiguousarray(outcomes[places]), budget=budget)
            known[owner[told == UNDECIDED]] = UNDECIDED
            known[owner[told == UNSAFE]] = UNSAFE
            stopped = stopped or self.stopped
            offset, width = offset + width, 2 * width
        self.stopped = stopped
        return known

    def safe_policy(
        self, states: Sequence[State], *, budget: Budget = UNLIMITED, most: int | None = None
    ) -> dict[State, str | None]:
        """Return a closed set of states around the given safe ones with the label each takes (None: silent or ended)."""
        words, chosen = self._core.safe_policy(self.compiled.pack(states), budget.left(), self._room(budget))
        self._raise_what_stopped(budget)
        self._refuse_more(words, most, budget)
        labels = self.task.network.labels
        return {
            state: labels[label] if label >= 0 else None
            for state, label in zip(self.compiled.unpack(words), chosen.tolist(), strict=True)
        }

    def unsafe_rank(
        self, states: Sequence[State], *, budget: Budget = UNLIMITED, most: int | None = None
    ) -> list[Ranked]:
        """Return why the given unsafe states are unsafe: ranked states, witnesses first; what games lost has rank 0."""
        words, rank, start, label, witness = self._core.unsafe_rank(
            self.compiled.pack(states), budget.left(), self._room(budget)
        )
        self._raise_what_stopped(budget)
        self._refuse_more(words, most, budget)
        labels = self.task.network.labels
        result = []
        for k, state in enumerate(self.compiled.unpack(words)):
            pairs = range(int(start[k]), int(start[k + 1]))
            outcomes = tuple((labels[label[p]] if label[p] >= 0 else None, int(witness[p])) for p in pairs)
            result.append(Ranked(state, int(rank[k]), outcomes))
        return result

    def _refuse_more(self, words: Words, most: int | None, budget: Budget) -> None:
        """Raise LimitReached where a proof lists more states than are wanted, or than fit into memory as a document."""
        if most is not None and len(words) > most:
            raise LimitReached(f"a proof needs {len(words):,} states, at most {most:,} are wanted")
        needed = len(words) * (LISTED_STATE + LISTED_VALUE * len(self.task.network.variables))
        if budget.megabytes is not None and resident_bytes() + needed > budget.megabytes * 2**20:
            raise budget.reached("memory")

    def _room(self, budget: Budget) -> int:
        """Return how many bytes searches may hold so that the whole process stays within the limit.

        Growing tables are copied, so that half of what others leave free is theirs.
        """
        if budget.megabytes is None:
            return 2**63
        others = resident_bytes() - self._core.held_bytes
        return max(2**20, (budget.megabytes * 2**20 - max(0, others)) // 2)

    @property
    def peak_bytes(self) -> int:
        """Return the most memory the searches have held."""
        return self._core.peak_bytes

    @property
    def known_states(self) -> int:
        """Return how many states are remembered, over all threads."""
        return self._core.known_states

    @property
    def busy_seconds(self) -> list[float]:
        """Return the CPU seconds of each thread in the last batch."""
        return self._core.busy

    def _raise_what_stopped(self, budget: Budget | None = None) -> None:
        match self._core.status:
            case _core.Status.FAULT:
                self.compiled.explain_fault(self.compiled.unpack(self._core.faulty)[0], self._core.fault)
            case _core.Status.INTERRUPTED:
                raise KeyboardInterrupt
            case status if budget is not None and status != _core.Status.DONE:
                raise self._limit(status.value, budget)

    def _limit(self, status: int, budget: Budget) -> LimitReached:
        beyond = LimitReached(f"safety radius of {self.radius} steps reached", "radius")
        return limit_of(_core.Status(status), budget) or beyond


@dataclass(frozen=True, slots=True)
class Ranked:
    """An unsafe state: for each of its actions the place of an outcome with a smaller rank; rank 0 is `fail`."""

    state: State
    rank: int
    outcomes: tuple[tuple[str | None, int], ...]


def _preferred(
    preference: Bound | Preference | None, compiled: Compiled
) -> _core.BoundPolicy | Callable[[Words], int] | None:
    """Return the preference as the kernel asks for it: a compiled policy, or from a packed state to the number of a label."""
    if preference is None or isinstance(preference, Bound):
        return None if preference is None else preference.core
    number: dict[str | None, int] = {label: i for i, label in enumerate(compiled.network.labels)}

    def preferred(words: Words) -> int:
        label = preference(compiled.unpack(words.reshape(1, -1))[0])
        if label is not None and label not in number and label not in compiled.network.model.actions:
            raise InputError(
                f"'{label}' is no label of the model.",
                Where("preference"),
                suggest(str(label), compiled.network.labels),
            )
        return number.get(label, SILENT)  # a label without edges is never taken

    return preferred
