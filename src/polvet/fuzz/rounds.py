"""A fuzzing campaign: rounds of start states, half drawn uniformly and half searched, kept in a journal as they end.

Source   step (A) of the debugging loop where no start states are given; see `search.py` and `population.py`
Differs  a round depends on (seed, its number, the best starts of earlier generations) alone, and these stand in the journal:
         a campaign that was killed goes on exactly as if it had not been. Rounds of one generation do not know each other, so
         that a crew of workers makes them at the same time; generations grow from 1 round to 64
Figures  the share of uniformly drawn starts with an unsafe run found, and of plain runs that reach the goal, each with a
         confidence sequence (`anytime.py`): the uniform half is tried without novelty, so that its draws are independent
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached, Where
from polvet.files import Figures, Json
from polvet.fuzz.anytime import Share, StopRule
from polvet.fuzz.packed import PackedRuns
from polvet.fuzz.population import Population
from polvet.fuzz.search import (
    NOVELTY,
    START,
    TEMPERATURES,
    UNBIASED,
    FuzzResult,
    GuidedPolicy,
    Search,
    count_ends,
    find_unsafe_runs,
    try_once,
)
from polvet.interrupts import noting
from polvet.kernel.compiled import Words
from polvet.kernel.starts import drawable_starts
from polvet.model.infix import dump_expression
from polvet.model.semantics import State
from polvet.policy.compiled import Bound
from polvet.policy.runs import MAX_STEPS, End, Run
from polvet.records.journal import Journal
from polvet.records.run_files import run_from_json, run_to_json
from polvet.records.state_files import StateFormat
from polvet.workers.parcel import Parcel
from polvet.workers.protocol import Crew
from polvet.workers.simulation import bound_in

BEST, KEPT = 16, 256
WIDEST = 64  # rounds in a generation, at most
FORMAT = "fuzz/2"


@dataclass(frozen=True, slots=True)
class RoundOptions:
    """What a campaign is made of; part of its identity."""

    seed: int = 0
    starts: int = 512  # per round; the first half uniform
    tries: int = 4  # per start
    max_steps: int = MAX_STEPS
    biased: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What a round found: counts of the uniform half, all unsafe runs, the starts that came nearest to `fail`."""

    number: int
    draws: int
    unsafe_draws: int
    goal_draws: int
    tried: int
    steps: int
    ends: Mapping[str, int]
    runs: tuple[Run, ...]
    best: tuple[tuple[State, float], ...]  # states with the distance their runs came to
    limit: LimitReached | None = None


@dataclass(slots=True, eq=False)
class Campaign:
    """All rounds so far: their sums, and the different unsafe runs."""

    unsafe: Share = field(default_factory=Share)
    goal: Share = field(default_factory=Share)
    rounds: int = 0
    tried: int = 0
    steps: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    runs: list[Run] = field(default_factory=list)
    limit: LimitReached | None = None
    stopped_by: str | None = None
    seen: set[tuple[tuple[State, ...], tuple[str | None, ...]]] = field(default_factory=set)

    def add(self, result: Round) -> None:
        """Add a round; a run that was found before is not kept again."""
        self.unsafe = self.unsafe.seen(result.unsafe_draws, result.draws)
        self.goal = self.goal.seen(result.goal_draws, result.draws)
        self.rounds += 1
        self.tried += result.tried
        self.steps += result.steps
        self.ends.update(result.ends)
        for run in result.runs:
            key = run.states, run.actions
            if key not in self.seen:
                self.seen.add(key)
                self.runs.append(run)

    @property
    def figures(self) -> Figures:
        """Return the campaign as figures for people and files, percentages in points."""
        return {
            "runs": self.tried,
            "unsafe_runs": len(self.runs),
            "rounds": self.rounds,
            "steps": self.steps,
            "ends": dict(self.ends),
            "starts_drawn": self.unsafe.draws,
            "unsafe_percent": 100 * self.unsafe.mean,
            "unsafe_percent_interval": [100 * end for end in self.unsafe.interval],
            "goal_percent": 100 * self.goal.mean,
            "goal_percent_interval": [100 * end for end in self.goal.interval],
            "confidence": self.unsafe.confidence,
        }


class Fuzzer:
    """Makes rounds for one policy."""

    def __init__(self, bound: Bound, options: RoundOptions, *, threads: int = 1, budget: Budget = UNLIMITED) -> None:
        self.bound, self.options, self.threads = bound, options, threads
        self.guided = GuidedPolicy.of(bound, budget)
        self.starts = drawable_starts(bound.task, budget=budget)
        self.best: list[tuple[State, float]] = []  # of earlier generations
        self._learnt: list[tuple[State, float]] = []  # of this one

    def learn(self, result: Round) -> None:
        """Remember the starts that came nearest to `fail`, for the generations to come."""
        self._learnt += result.best
        if result.number + 1 == generation_end(result.number):
            self.best = sorted([*self.best, *self._learnt], key=lambda one: one[1])[:KEPT]
            self._learnt = []

    def round(self, number: int, *, budget: Budget = UNLIMITED) -> Round:
        """Return the round of that number, after what was learnt."""
        options = self.options
        rng = random.Random(f"{options.seed}/{number}")
        population = Population(self.guided.bound.compiled, START, self.starts, rng)
        half = options.starts // 2
        uniform = population.draw(options.starts - half, budget)
        first_run = number * options.starts * (2 * options.tries + 2)
        guide = replace(self.guided, visits=_core.Visits())
        plain = try_once(
            guide,
            uniform,
            np.arange(len(uniform), dtype=np.uint64) + np.uint64(first_run),
            inf,
            self._search(0.0),
            budget=budget,
        )
        ends: Counter[str] = Counter()
        count_ends(plain.ends, ends)
        unsafe = plain.ends == End.FAIL
        nearest = plain.nearest.copy()
        again = np.flatnonzero(~unsafe & (plain.choices > 0) & (plain.ends != End.UNFINISHED))
        more = self._tries(guide, uniform[again], first_run + options.starts, 0.0, options.tries - 1, budget)
        unsafe[again[more.starts]] = True
        nearest[unsafe] = 0.0
        population.learn(uniform, nearest)
        if self.best:
            known = self.bound.compiled.pack([state for state, _ in self.best])
            population.learn(known, np.array([distance for _, distance in self.best]))
        searched = population.breed(half) if options.biased else population.draw(half)
        novelty = NOVELTY if options.biased else 0.0
        rest = self._tries(
            guide, searched, first_run + options.starts * (options.tries + 1), novelty, options.tries, budget
        )
        limit = plain.limit or more.limit or rest.limit
        runs = PackedRuns.joined(self.bound, [replace(plain.runs, bound=self.bound), more.runs, rest.runs])
        for part in (more, rest):
            ends.update(part.ends)
        hits = searched[np.unique(rest.starts)] if len(rest.starts) else searched[:0]
        population.learn(hits, np.zeros(len(hits)))
        unfinished = (plain.ends == End.UNFINISHED).any() or limit is not None
        return Round(
            number=number,
            # SOUND: a round that a limit cut short tells nothing about the share: it is left out whole.
            draws=0 if unfinished else len(uniform),
            unsafe_draws=0 if unfinished else int(unsafe.sum()),
            goal_draws=0 if unfinished else int((plain.ends == End.GOAL).sum()),
            tried=sum(count for name, count in ends.items() if name != "unfinished"),
            steps=plain.steps + more.steps + rest.steps,
            ends=dict(ends),
            runs=tuple(runs),
            best=self._best(population),
            limit=limit,
        )

    def _tries(
        self, guide: GuidedPolicy, starts: Words, first_run: int, novelty: float, tries: int, budget: Budget
    ) -> FuzzResult:
        """Return what so many tries from each start give, in the time that is left."""
        search = replace(self._search(novelty), runs_per_start=tries, first_run=first_run)
        return find_unsafe_runs(self.bound, starts, search, budget=budget, guided=guide)

    def _search(self, novelty: float) -> Search:
        options = self.options
        return Search(
            seed=options.seed,
            max_steps=options.max_steps,
            temperatures=TEMPERATURES if options.biased else UNBIASED,
            novelty=novelty,
            threads=self.threads,
        )

    def _best(self, population: Population) -> tuple[tuple[State, float], ...]:
        rows = population.rows[:BEST]
        states = self.bound.compiled.unpack(self.bound.compiled.machine.pack(np.ascontiguousarray(rows)))
        return tuple(zip(states, population.fitness[:BEST].tolist(), strict=True))


def generation_end(number: int) -> int:
    """Return the first round after the generation of a round: 0 | 1 | 2 3 | 4 to 7 | 8 to 15 | ... and then 64 each.

    >>> [generation_end(number) for number in (0, 1, 2, 3, 4, 8, 63, 64, 127, 128)]
    [1, 2, 4, 4, 8, 16, 64, 128, 128, 192]
    """
    return (number // WIDEST + 1) * WIDEST if number >= WIDEST else 1 << number.bit_length()


def iter_rounds(
    fuzzer: Fuzzer, first: int = 0, *, budget: Budget = UNLIMITED, crew: Crew | None = None
) -> Iterator[Round]:
    """Yield round after round; the last one where a time limit was reached. A crew makes the rounds of a generation."""
    number = first
    while not budget.is_over():
        rounds: Iterable[Round]
        if crew is None:
            rounds = [fuzzer.round(number, budget=budget)]
        else:
            orders = [Order(fuzzer.options, tuple(fuzzer.best), n) for n in range(number, generation_end(number))]
            rounds = crew.map(make_round, orders, budget=budget)
        for result in rounds:
            fuzzer.learn(result)
            yield result
            if result.limit is not None:
                return
            number += 1


@dataclass(frozen=True, slots=True)
class Order:
    """A round for somebody else to make."""

    options: RoundOptions
    best: tuple[tuple[State, float], ...]
    number: int


def make_round(parcel: Parcel, order: Order) -> Round:
    """Return the round that was ordered, as `Fuzzer.round` makes it."""
    fuzzer = _fuzzer(parcel, order.options)
    fuzzer.best = list(order.best)
    return fuzzer.round(order.number)


@lru_cache(maxsize=2)
def _fuzzer(parcel: Parcel, options: RoundOptions) -> Fuzzer:
    return Fuzzer(bound_in(parcel), options)


@dataclass(frozen=True, slots=True)
class Target:
    """When a campaign ends: runs tried, unsafe runs found, or a rule on the interval; the first that comes."""

    runs: int = 100_000
    unsafe_runs: int = 10_000
    rule: StopRule | None = None

    def ended(self, campaign: Campaign) -> str | None:
        """Return what ends the campaign, if anything does."""
        if self.rule is not None and self.rule.holds(campaign.unsafe):
            return f"the interval of %Unsafe is narrower than {self.rule.width:g}"
        if len(campaign.runs) >= self.unsafe_runs:
            return f"{self.unsafe_runs:,} unsafe runs found"
        if campaign.tried >= self.runs and self.rule is None:
            return f"{self.runs:,} runs tried"
        return None


def run_campaign(
    fuzzer: Fuzzer,
    target: Target,
    *,
    journal: Path | None = None,
    budget: Budget = UNLIMITED,
    identity: Any = None,
    crew: Crew | None = None,
    on_round: Callable[[Campaign], None] | None = None,
) -> Campaign:
    """Fuzz until the target is met or the budget is spent; with a journal, go on where an earlier call of the same identity was stopped.

    Ctrl-C ends the round under way and keeps all before; a kill loses nothing but that round, which is made again.
    """
    campaign = Campaign()
    head = {"format": FORMAT, "options": asdict(fuzzer.options), **(identity or {})}
    store = None if journal is None else _open(journal, head)
    try:
        with noting() as interrupts:
            if store is not None:
                for record in store.records[1:]:
                    result = _round_from_json(fuzzer.bound, record)
                    fuzzer.learn(result)
                    campaign.add(result)
            campaign.stopped_by = target.ended(campaign)
            if campaign.stopped_by is not None:
                return campaign
            for result in iter_rounds(fuzzer, campaign.rounds, budget=budget, crew=crew):
                interrupts.check()  # a round that swallowed one may be wrong
                with interrupts.held():  # what is counted is on the disk, and the other way round
                    if store is not None and result.limit is None:
                        store.append(_round_to_json(fuzzer.bound, result))
                    campaign.add(result)
                    campaign.limit = result.limit
                if on_round is not None:
                    on_round(campaign)
                campaign.stopped_by = target.ended(campaign)
                if campaign.stopped_by is not None:
                    break
            else:
                campaign.limit = budget.reached("time")
    except LimitReached as limit:  # of a crew; what it has not brought back is made again the next time
        campaign.limit = limit
    except KeyboardInterrupt:
        campaign.limit = LimitReached("interrupted")
    finally:
        if store is not None:
            store.close()
    return campaign


def journal_of(output: Path) -> Path:
    """Return where a campaign that writes this file keeps its rounds."""
    return output.with_name(output.name + ".journal")


def identity_of(bound: Bound) -> Json:
    """Return what a campaign is about: one of another identity is not gone on with."""
    task = bound.task
    return {
        "task_sha256": task.sha256,
        "policy_sha256": bound.fitted.sha256,
        "mode": task.reading.mode,
        "constants": {name: str(value) for name, value in task.network.constants.items()},
        "start": None if task.start is None else dump_expression(task.start),
        "fail": dump_expression(task.fail),
        "goal": dump_expression(task.goal),
        "out_of_bounds": task.network.out_of_bounds.value,
    }


def _open(path: Path, head: Json) -> Journal:
    store = Journal(path)
    if store.records and store.records[0] != head:
        # Another policy, task or option: that campaign is over, but what it found is not thrown away.
        store.close()
        path.replace(path.with_name(path.name + ".old"))
        store = Journal(path)
    if not store.records:
        store.append(head)
    return store


def _round_to_json(bound: Bound, result: Round) -> Json:
    write = StateFormat(bound.task).write
    return {
        "round": result.number,
        "draws": result.draws,
        "unsafe_draws": result.unsafe_draws,
        "goal_draws": result.goal_draws,
        "tried": result.tried,
        "steps": result.steps,
        "ends": dict(result.ends),
        "runs": [run_to_json(bound.task, run) for run in result.runs],
        "best": [{"state": write(state), "nearest": nearest} for state, nearest in result.best],
    }


def _round_from_json(bound: Bound, record: Json) -> Round:
    where = Where(f"round {record['round']}")
    reader = StateFormat(bound.task)
    return Round(
        record["round"],
        record["draws"],
        record["unsafe_draws"],
        record["goal_draws"],
        record["tried"],
        record["steps"],
        record["ends"],
        tuple(run_from_json(bound.task, run, where) for run in record["runs"]),
        tuple((reader.read(item["state"], where), item["nearest"]) for item in record["best"]),
    )
