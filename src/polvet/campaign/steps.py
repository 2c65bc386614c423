"""The steps of the loop on one policy. Each is a function of the files before it, the settings and the seed.

`possible`    the best %Goal that any safe policy can have, where the world is small
`evaluate`    %Unsafe and %Goal on the evaluation starts
`search`      (A) and (B): unsafe runs from the debugging starts and the faults on them; exhaustively where fuzzing finds few
`repair`      (C): a policy that fixes all faults so far and reaches the goal as the best one so far did
`strengthen`  a policy with a fence, so that a proof over a few variables goes through
`verify`      (D): a proof, or an unsafe run and its faults
A step returns its figures and its files {role: name}; a step that a time limit cuts short raises LimitReached instead.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeAlias, TypedDict

from polvet.budget import Budget, stopwatch
from polvet.campaign.goals import Floor, GoalRate, Goals, find_goals, lost_states, reach_goal
from polvet.campaign.policies import files_of, place_of, policy_stem
from polvet.campaign.record import (
    EVALUATE,
    REPAIR,
    STRENGTHEN,
    EvaluationFigures,
    F,
    FenceFigures,
    PossibleFigures,
    RepairFigures,
    SearchFigures,
    SizeFigures,
    VerificationFigures,
    WorldFigures,
)
from polvet.campaign.settings import Settings
from polvet.campaign.store import Store
from polvet.campaign.strengthen import strengthen
from polvet.choices import AUTO
from polvet.confirm.confirmation import about_policy, confirm
from polvet.confirm.outcome import told
from polvet.debug.confidence import enough_draws
from polvet.debug.evaluate import StartSample, evaluate, evaluation_starts
from polvet.debug.faults import FaultAnalysis, all_faults, find_faults
from polvet.debug.possible import SafeWorld, find_safe_world
from polvet.debug.prospects import RUNS, prefer_goal
from polvet.errors import LimitReached
from polvet.fuzz.packed import PackedRuns
from polvet.fuzz.search import find_unsafe_runs
from polvet.kernel.compiled import Words, describe_limit
from polvet.kernel.starts import Starts
from polvet.model.expressions import FALSE
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.policy.binding import fit, load_fitted
from polvet.policy.compiled import FAIL, GOAL, Bound, bind_policy, compile_policy
from polvet.policy.identity import policy_sha256
from polvet.policy.networks import Network
from polvet.policy.protocol import Policy
from polvet.policy.runs import Inspection, Run
from polvet.policy.save import save_policy
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import UnitGraph
from polvet.records.fault_files import Fault, FaultList, write_faults
from polvet.records.run_files import run_to_json
from polvet.repair.confirmed import confirm_repair
from polvet.repair.fence import fence
from polvet.repair.leaves import MANY
from polvet.repair.library import repair_checked
from polvet.repair.repair import Options, Repaired
from polvet.safety.certificates import prove
from polvet.safety.confirmed import confirm_states
from polvet.safety.decide import SAFE, Decider, Verdict
from polvet.safety.exits import Exits, find_exits
from polvet.symbolic.linear import NotLinear
from polvet.verify.certificates import certificate_of
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Unknown, Unsafe

GOAL_STARTS = 2_000
"""So many debugging starts are simulated to watch over %Goal."""
GOAL_PRECISION = 0.01
"""%Goal is told within so much, where the number of start states does not set the limit."""
REPAIR_ROUNDS = 4
OTHERS: dict[type[Policy], tuple[str, ...]] = {
    TreeEnsemble: ("tree", "penalty"),
    Network: ("units",),
    UnitGraph: ("units",),
}
"""Repairs to try where the first one costs too much of %Goal; the last changes the choice in the faulty states only."""
SHOWN_RUNS = 1_000
VERIFIED = 25
"""Verification and deciding which states are safe may visit so many times the states that a search may."""
QUICK_STATES = 500_000
"""A policy that reaches no more states is searched exhaustively in every iteration."""
FENCED = ("auto", "leaves", "tree")
"""Methods of repair that go together with fences."""
QUICK_PROOF = 1_000_000
"""Where explicit search needs no more states, nothing is strengthened."""
BY_TREE = ("auto", "tree")
RETRAIN = "retrain"
MOST_SETTLED = 300_000
"""States that a tree over many faults leaves alone, at most."""
GOOD = 0.5
"""From this share of goal-reaching runs on, what a policy does where it has no fault is worth keeping."""
LITTLE = 100
"""Fewer new faults by fuzzing: what is left is rare, and searching finds more of it at once."""
Done: TypeAlias = tuple[F, dict[str, str]]


class _Chance(TypedDict):
    max_steps: int
    seed: int
    threads: int


@dataclass(frozen=True, slots=True)
class GoalRuns:
    """Goal-reaching runs to be kept, how many are made per start, and what must be left of them."""

    before: Goals
    runs: int
    floor: Floor


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A repair, the policy ready to run, and how it reaches the goal."""

    repair: Repaired
    after: Bound
    reached: GoalRate


class Steps:
    """The steps on the policies of one campaign; `faults` are those found so far, by state and action."""

    def __init__(self, task: Task, store: Store, settings: Settings, budget: Budget, *, threads: int = 1) -> None:
        self.task, self.store, self.settings, self.budget, self.threads = task, store, settings, budget, threads
        self.decider = Decider(task, threads=threads)
        self.faults: dict[tuple[State, str], Fault] = {}
        self.debugging, self.evaluation = self._starts()
        self.packed: Words = self.decider.compiled.pack(self.debugging.states)

    def load(self, policy: Path) -> Bound:
        """Return the policy in the file, ready to run."""
        return compile_policy(load_fitted(self.task, policy))

    def sizes(self) -> SizeFigures:
        """Return what the campaign works on."""
        return SizeFigures(
            debugging_starts=len(self.debugging.states),
            evaluation_starts=len(self.evaluation.states),
            same_starts=self.debugging is self.evaluation,
            starts_total=self.debugging.total,
            start_method=self.debugging.method,
        )

    def _starts(self) -> tuple[StartSample, StartSample]:
        """Disjoint starts to debug and to evaluate on; where the task has too few, all of them for both."""
        wanted, seed = self.settings.starts, self.settings.seed
        debugging = evaluation_starts(self.task, wanted, seed, budget=self.budget)
        if debugging.complete or (debugging.total is not None and debugging.total < 2 * wanted):
            every = evaluation_starts(self.task, 2 * wanted, seed, budget=self.budget)
            return every, every
        return debugging, evaluation_starts(self.task, wanted, seed + 1, exclude=debugging.states, budget=self.budget)

    def possible(self) -> Done[PossibleFigures]:
        """Return the best %Goal over the evaluation starts that any safe policy can have, or why it is not known."""
        world = self._world
        best = world if isinstance(world, str) else world.best(budget=self._left())
        if isinstance(best, str):
            return PossibleFigures(None, goal_percent_possible_reason=best), {}
        low, high = best.mean
        return PossibleFigures(100 * high, goal_percent_possible_interval=(100 * low, 100 * high)), {}

    @cached_property
    def _world(self) -> SafeWorld | str:
        """What safe policies meet from the evaluation starts, where that is little."""
        packed = self.decider.compiled.pack(self.evaluation.states)
        return find_safe_world(self.decider, packed, budget=self._left(self.settings.max_states))

    def evaluate(self, bound: Bound) -> Done[EvaluationFigures]:
        """Return %Unsafe and %Goal over the evaluation starts."""
        settings = self.settings
        evaluation = evaluate(
            bound, self.evaluation, runs=self._enough_runs(len(self.evaluation.states)), max_steps=settings.max_steps,
            seed=settings.seed, threads=self.threads, budget=self._left(settings.max_states),
        )  # fmt: skip
        self._refuse_cut(evaluation.batch.limit)
        self._refuse_cut(evaluation.unsolved)
        low, high = evaluation.unsafe_interval
        goal_low, goal_high = evaluation.goal_interval
        figures = EvaluationFigures(
            unsafe_percent=100 * evaluation.unsafe,
            unsafe_percent_interval=(100 * low, 100 * high),
            goal_percent=100 * evaluation.goal,
            goal_percent_interval=(100 * goal_low, 100 * goal_high),
            undecided=evaluation.open,
            unsafe_by_runs=evaluation.sampled_unsafe,
            certain=evaluation.certain,
            goal_exact=evaluation.goal_is_exact,
            run_length=evaluation.run_length,
        )
        return figures, {}

    def _enough_runs(self, starts: int) -> int:
        """So many runs of each start that their mean is told within a point, and no fewer than were asked for."""
        return max(self.settings.runs, math.ceil(enough_draws(GOAL_PRECISION) / starts))

    def search(self, iteration: int, bound: Bound, policy: Path) -> Done[SearchFigures]:
        """Fuzz from the debugging starts; where that gives little new, or few states are reached, search exhaustively."""
        settings, spent = self.settings, stopwatch()
        fuzzed = find_unsafe_runs(
            bound, self.packed, seed=settings.seed + iteration, runs_per_start=settings.fuzz_runs,
            max_steps=settings.max_steps, threads=self.threads, budget=self._left(),
        )  # fmt: skip
        self._refuse_cut(fuzzed.limit)
        analysis = find_faults(bound, self.decider, fuzzed.runs, budget=self._left(VERIFIED * settings.max_states))
        self._refuse_cut(analysis.limit)
        shown = self._shown(analysis, fuzzed.runs)
        faults = {(fault.state, fault.action): fault for fault in analysis.faults}
        every = self._search_all(bound, little_new=len(self._new(analysis.faults)) < LITTLE)
        if every is not None:
            faults |= {(fault.state, fault.action): fault for fault in every.faults}
        judged = every or analysis
        new = self._new(list(faults.values()))
        files = self._write_faults(
            f"faults/{iteration}.json", new, policy, judged.exhaustive and self.debugging.complete
        )
        if shown:
            lines = "".join(json.dumps(run_to_json(self.task, run), ensure_ascii=False) + "\n" for run in shown)
            files["runs"] = self.store.write(f"runs/{iteration}.jsonl", lines)
        unproved, checked = None, None
        if judged.unsafe_starts:
            prover = Decider(self.task, compiled=self.decider.compiled)  # of one thread: it remembers why
            within = self._left(VERIFIED * settings.max_states)
            name = f"certificates/unsafe-start-{iteration}.json"
            try:
                proof, checked = confirm_states(
                    self.task, "unsafe", judged.unsafe_starts[:1],
                    partial(prove, prover, verdict=Verdict.UNSAFE, budget=within),
                    found=spent(), budget=within, output=self.store.folder / name,
                )  # fmt: skip
            except LimitReached as limit:
                unproved = f"none: {limit}"  # what smaller games tell has no proof of its own
            else:
                files["certificate"] = self.store.write(name, json.dumps(proof))
        figures = SearchFigures(
            faults=len(faults),
            states=judged.states,
            safe_states=judged.safe_states,
            open=judged.open,
            unsafe_starts=len(judged.unsafe_starts),
            runs=fuzzed.tried,
            runs_never_safe=len(judged.never_safe),
            runs_with_fault=judged.runs_with_fault,
            exhaustive=every is not None and every.exhaustive,
            near_ties=judged.near_ties,
            unjudged=judged.unjudged,
            unsafe_runs=len(fuzzed.runs),
            steps=fuzzed.steps,
            ends=fuzzed.ends,
            new_faults=len(new),
            faults_so_far=len(self.faults) + len(new),
            policy_sha256=bound.fitted.sha256,
            unsafe_start_proof=unproved,
            **told(checked),
        )
        return figures, files

    def _search_all(self, bound: Bound, *, little_new: bool) -> FaultAnalysis | None:
        """All faults where the policy reaches few states; else, where fuzzing found few, those on runs that searching finds."""
        if self._reached(bound, QUICK_STATES) is not None:
            analysis = all_faults(bound, self.decider, starts=self.packed, budget=self._left())
        elif little_new:
            runs = self._unsafe_runs(bound, self.packed, self.settings.max_states)
            analysis = find_faults(bound, self.decider, runs, budget=self._left())
        else:
            return None
        self._refuse_cut(analysis.limit)
        return analysis

    def _shown(self, analysis: FaultAnalysis, runs: PackedRuns) -> list[Run]:
        """One run for each fault that comes first on some run, the shortest, and one without any fault."""
        best: dict[int, int] = {}
        lengths = runs.lengths
        for k, fault in enumerate(analysis.first_faults.tolist()):
            if fault not in best or lengths[k] < lengths[best[fault]]:
                best[fault] = k
        return [runs[k] for _, k in sorted(best.items())[:SHOWN_RUNS]]

    def verify(self, iteration: int, bound: Bound, policy: Path, method: str = "auto") -> Done[VerificationFigures]:
        """Prove the policy safe, or find an unsafe run and its faults; the certificate is checked before it is believed."""
        spent = stopwatch()
        result = verify(
            bound,
            method=method,
            budget=self._left(VERIFIED * self.settings.max_states),
            seed=self.settings.seed,
            threads=self.threads,
        )
        figures = VerificationFigures(result.verdict.value, result.method, reason=None, faults=0)
        if isinstance(result, Unknown):
            if self.budget.seconds is not None and method == "auto":
                raise LimitReached(result.reason, "time")  # more time may decide it: resuming tries again
            return replace(figures, reason=result.reason), {}
        certificate, name = (
            certificate_of(bound, result, self._left()),
            f"certificates/{result.verdict.value}-{iteration}.json",
        )
        checked = confirm(
            f"{result.verdict.value} policy", certificate, about_policy(bound.task, policy, bound.fitted.sha256),
            found=spent(), budget=self.budget, output=self.store.folder / name,
        )  # fmt: skip
        figures = replace(figures, **told(checked))
        files = {"certificate": self.store.write(name, json.dumps(certificate, ensure_ascii=False))}
        if isinstance(result, Unsafe):
            # Which method found its run depends on the clock; what searching finds does not.
            runs = self._more_unsafe_runs(bound) or [result.run]
            faults = find_faults(bound, self.decider, runs, budget=self._left())
            self._refuse_cut(faults.limit)
            new = self._new(faults.faults)
            files |= self._write_faults(f"faults/{iteration}-verify.json", new, policy, exhaustive=False)
            so_far = len(self.faults) + len(new)
            figures = replace(figures, faults=len(faults.faults), new_faults=len(new), faults_so_far=so_far)
        return figures, files

    def _unsafe_runs(self, bound: Bound, starts: Words, states: int) -> list[Run]:
        """Runs to `fail` from packed starts, one for each start that searching up to so many states shows unsafe."""
        inspection = Inspection(bound)
        unsafe = inspection.unsafe(starts, budget=self._left(states))
        self._refuse_cut(inspection.limit)
        return [inspection.witness(state) for state in bound.compiled.unpack(starts[unsafe[:SHOWN_RUNS]])]

    def _more_unsafe_runs(self, bound: Bound) -> list[Run]:
        """Unsafe runs from all start states, where these can be searched."""
        within = self._left()
        starts = Starts.of(self.task, within)
        most = VERIFIED * self.settings.max_states
        if starts.count is None or starts.count > most:
            return []
        return self._unsafe_runs(bound, bound.compiled.pack_starts(starts, budget=within), most)

    def repair(self, iteration: int, bound: Bound, first: Path) -> Done[RepairFigures]:
        """Make a policy that fixes all faults so far; where it loses too much of what was reached, others are tried."""
        goals = self._goals(iteration, bound)
        keep = self._kept(bound, goals)
        candidates: list[Candidate] = []
        for one in self._candidates(bound, goals, keep, self._to_fix()):
            candidates.append(one)
            if goals.floor.is_kept(one.reached) and not one.repair.left:
                break
        best = min(candidates, key=lambda one: (len(one.repair.left), goals.floor.cost(one.reached)))
        figures = self._repair_figures(best, len(candidates), len(keep), goals)
        return figures, self._save(f"repair-{iteration}", iteration, bound, best.repair, first)

    def _to_fix(self) -> list[Fault]:
        """The faults that a repair is given."""
        return list(self.faults.values())

    def _kept(self, bound: Bound, goals: GoalRuns) -> list[State]:
        """States in which a repair should leave the policy as it is."""
        # The less often the policy reaches the goal, the less there is to keep.
        keep = list(goals.before.states[: math.ceil(self.settings.keep * goals.before.reached.share)])
        if goals.before.reached.share >= GOOD:
            keep += self._settled(bound, without=set(keep))
        return keep

    def _repair_figures(self, best: Candidate, attempts: int, kept: int, goals: GoalRuns) -> RepairFigures:
        repair = best.repair
        return RepairFigures(
            faults_fixed=len(repair.fixed),
            faults_left=len(repair.left),
            objective=repair.objective,
            trees_added=repair.trees_added,
            method=repair.method,
            attempts=attempts,
            kept_states=kept,
            repair_seconds=repair.seconds,
            gap=repair.gap,
            **_before_and_after(goals.before.reached, best.reached),
        )

    def _candidates(self, bound: Bound, goals: GoalRuns, keep: list[State], faults: list[Fault]) -> Iterator[Candidate]:
        """Repairs to choose from, until one is good enough: first those that change little, then those that reach the goal."""
        chosen = self.settings.method
        wanted = self._wanted(bound, faults, goals.runs)
        for _ in range(REPAIR_ROUNDS):
            one = self._candidate(bound, wanted, keep, chosen, goals)
            yield one
            lost = _lost(bound, one.after, goals, keep)
            # The repaired policy goes on where the present one fails: it knows better which safe action leads to the goal.
            again = self._wanted(one.after, faults, goals.runs)
            if not lost and again == wanted:
                break
            keep += lost[: self.settings.keep]
            wanted = again
        policy = bound.fitted.policy
        fixed_shape = getattr(policy, "archive", None) is not None
        others = OTHERS.get(type(policy), ()) if chosen == "auto" and not fixed_shape else ()
        for method in others:
            yield self._candidate(bound, wanted, keep, method, goals)
        planned = self._planned(bound, faults)
        if planned is not None:
            for method in (chosen, *others):
                yield self._candidate(bound, planned, keep, method, goals)
        if chosen == "auto" and (fenced := self._fenced(bound, faults)) is not None:
            yield self._tried(bound, fenced, goals)

    def _candidate(
        self, bound: Bound, wanted: list[Fault], keep: list[State], method: str, goals: GoalRuns
    ) -> Candidate:
        return self._tried(bound, self._repaired(bound, wanted, keep, method), goals)

    def _tried(self, bound: Bound, repair: Repaired, goals: GoalRuns) -> Candidate:
        after = bind_policy(fit(bound.fitted.task, repair.policy), bound.compiled)  # a repair may read more variables
        return Candidate(repair, after, self._reach(after, goals.runs))

    def _planned(self, bound: Bound, faults: list[Fault]) -> list[Fault] | None:
        """The faults with the safe actions from which the goal is reached best, where the world is small enough to tell."""
        if self.settings.mode != "safe" or self.task.goal == FALSE or isinstance(self._world, str):
            return None
        return self._world.plan(bound, faults, budget=self._left())

    def _fenced(self, bound: Bound, faults: list[Fault]) -> Repaired | None:
        """The policy kept from leaving what is won, where that can be told and fixes every fault."""
        if self.task.network.disables_out_of_bounds or self.settings.mode != "safe" or isinstance(self._exits, str):
            return None
        repair = fence(bound.fitted, self._exits, faults, bound.compiled)
        return None if isinstance(repair, str) or repair.left else repair

    def _reached(self, bound: Bound, most: int) -> Words | None:
        """The states the policy reaches from the debugging starts; None where they are more than so many."""
        few = self._left(min(most, self.settings.max_states))
        space = bound.compiled.explore(self.packed, stop_at=[FAIL, GOAL], budget=few, policy=bound.core)
        limit = describe_limit(space, few)
        self._refuse_cut(limit)
        return space.states(0, len(space)) if limit is None else None

    def _settled(self, bound: Bound, without: set[State]) -> list[State]:
        """States that the policy reaches, with no fault in them: where a tree repairs many faults, it leaves all these alone."""
        settings = self.settings
        if (
            len(self.faults) <= MANY
            or not isinstance(bound.fitted.policy, TreeEnsemble)
            or settings.method not in BY_TREE
        ):
            return []
        words = self._reached(bound, MOST_SETTLED)
        if words is None:
            return []
        known = self.decider.known_packed(words, budget=self._left())
        self._refuse_cut(self.decider.stopped)
        avoided = without | {state for state, _ in self.faults}
        return [state for state in bound.compiled.unpack(words[known == SAFE]) if state not in avoided]

    def strengthen(self, iteration: int, bound: Bound, first: Path, *, faulty: bool) -> Done[FenceFigures]:
        """Give the policy a fence where it has faults or no quick proof, one over a few variables needs it, and %Goal allows it."""
        if self.task.network.disables_out_of_bounds or self.settings.method not in FENCED:
            return FenceFigures("not asked for"), {}
        if not faulty:
            quick = verify(bound, method="explicit", budget=self._left(QUICK_PROOF), threads=self.threads)
            if not isinstance(quick, Unknown):
                return FenceFigures("not needed"), {}
        exits = self._exits
        if isinstance(exits, str):
            return FenceFigures(exits), {}
        repair = strengthen(bound, exits, list(self.faults.values()), self._left(), self.settings.seed)
        if isinstance(repair, str):
            return FenceFigures(repair), {}
        goals = self._goals(iteration, bound)
        reached = self._reach(bind_policy(fit(bound.fitted.task, repair.policy), bound.compiled), goals.runs)
        figures = FenceFigures(
            reason=None,
            exits=int(exits.labels.sum()),
            won_cells=len(exits.cells),
            fence_trees=repair.trees_added,
            fence_units=repair.units_added,
            **_before_and_after(goals.before.reached, reached),
        )
        if reached.share < min(goals.floor.share, goals.before.reached.share):
            return replace(figures, reason="the goal would be reached less often"), {}
        return figures, self._save(f"strengthen-{iteration}", iteration, bound, repair, first)

    @cached_property
    def _exits(self) -> Exits | str:
        """What leaves the states that are won whatever most variables hold, or why that cannot be told."""
        try:
            exits = find_exits(self.task, budget=self._left())
        except NotLinear as refusal:
            self._left()  # raises where time is over: then a game was cut short
            return refusal.why
        self._left()
        return exits

    def _goals(self, iteration: int, bound: Bound) -> GoalRuns:
        """What is to be kept of the policy: goal-reaching runs, and how the best policy so far made them."""
        sample = self.packed[:GOAL_STARTS]
        runs = 1 if self._is_certain(iteration) else self._enough_runs(len(sample))
        faulty = {state for state, _ in self.faults}
        before = find_goals(bound, sample, without=faulty, runs=runs, budget=self._left(), **self._chance())
        best = max([before.reached, *self._reached_before(iteration)], key=lambda one: (one.share, -(one.length or 0)))
        # Half of the allowed loss, as the runs are a sample.
        return GoalRuns(before, runs, Floor(best.share - self.settings.max_goal_loss / 200, best.length))

    def _reached_before(self, iteration: int) -> list[GoalRate]:
        """How the policies of earlier iterations reached the goal, as their repairs noted it."""
        fences = [self.store.find(k, STRENGTHEN) for k in range(iteration)]
        repairs = [self.store.find(k, REPAIR) for k in range(iteration)]
        noted = [record.figures for record in (*fences, *repairs) if record is not None]
        return [
            GoalRate(figures.goal_percent_before / 100, figures.run_length_before)
            for figures in noted
            if figures.goal_percent_before is not None
        ]

    def _reach(self, bound: Bound, runs: int) -> GoalRate:
        return reach_goal(bound, self.packed[:GOAL_STARTS], runs=runs, budget=self._left(), **self._chance())

    def _chance(self) -> _Chance:
        return {"max_steps": self.settings.max_steps, "seed": self.settings.seed, "threads": self.threads}

    def _wanted(self, bound: Bound, faults: list[Fault], runs: int) -> list[Fault]:
        """The faults with the safe actions that the repair should choose from."""
        if self.settings.mode != "safe":
            return faults
        return prefer_goal(bound, faults, runs=1 if runs == 1 else RUNS, budget=self._left(), **self._chance())

    def _repaired(self, bound: Bound, wanted: list[Fault], keep: list[State], method: str) -> Repaired:
        if method == RETRAIN and self.store.find(0, REPAIR) is not None:
            method = AUTO  # it was taught once: what is left is mended
        starts = self.debugging.states if method == RETRAIN else ()
        how = Options(method, self.settings.mode, keep, seed=self.settings.seed, starts=starts)
        repair, _ = repair_checked(bound.fitted, wanted, how, budget=self._left(), compiled=bound.compiled)
        return repair

    def _save(self, proof: str, iteration: int, bound: Bound, repair: Repaired, first: Path) -> dict[str, str]:
        name = place_of(first, policy_stem(iteration + 1))
        save_policy(repair.policy, self.store.folder / name)
        claim, _ = confirm_repair(
            bound.fitted, repair, self.store.folder / name, found=repair.seconds, budget=self.budget,
            output=self.store.folder / f"certificates/{proof}.json",
        )  # fmt: skip
        shown = self.store.write(f"certificates/{proof}.json", json.dumps(claim, ensure_ascii=False))
        return {**files_of(self.store.folder, name), "certificate": shown}

    def _is_certain(self, iteration: int) -> bool:
        """Whether evaluation found one run only from each start: then simulating it once is enough."""
        evaluated = self.store.find(iteration, EVALUATE)
        return evaluated is not None and evaluated.figures.certain

    def _new(self, faults: Sequence[Fault]) -> list[Fault]:
        return [fault for fault in faults if (fault.state, fault.action) not in self.faults]

    def _found_in_world(self, found: FaultAnalysis, name: str, policy: Path) -> Done[WorldFigures]:
        """Return the figures of faults that only all of the world tells, and the file of those that are new."""
        new = self._new(found.faults)
        figures = WorldFigures(
            faults=len(found.faults),
            states=found.states,
            good_states=found.safe_states,
            lost_starts=len(found.unsafe_starts),
            open=found.open,
            exhaustive=found.exhaustive,
            near_ties=found.near_ties,
            new_faults=len(new),
            faults_so_far=len(self.faults) + len(new),
        )
        return figures, self._write_faults(name, new, policy, found.exhaustive)

    def _write_faults(self, name: str, new: list[Fault], policy: Path, exhaustive: bool) -> dict[str, str]:
        if not new:
            return {}
        listed = FaultList(tuple(new), self.task.sha256, policy_sha256(policy), exhaustive)
        write_faults(self.task, listed, self.store.folder / name)
        return {"faults": name}

    def _left(self, states: int | None = None) -> Budget:
        """Return what is left of the budget; nothing left raises LimitReached."""
        self.budget.check()
        return self.budget.at_most(states=states)

    def _refuse_cut(self, limit: LimitReached | None) -> None:
        """Raise where time or memory cut the step short: it is not recorded, and done again on resuming."""
        if limit is not None and limit.kind != "states":
            raise limit


class _BeforeAndAfter(TypedDict):
    goal_percent_before: float
    goal_percent_after: float
    run_length_before: float | None
    run_length_after: float | None


def _before_and_after(before: GoalRate, after: GoalRate) -> _BeforeAndAfter:
    return {
        "goal_percent_before": 100 * before.share,
        "goal_percent_after": 100 * after.share,
        "run_length_before": before.length,
        "run_length_after": after.length,
    }


def _lost(bound: Bound, after: Bound, goals: GoalRuns, keep: list[State]) -> list[State]:
    """States of goal-reaching runs whose action changed although nothing asked for it."""
    kept = set(keep)
    return [state for state in lost_states(bound, after, goals.before.states) if state not in kept]
