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
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from polvet.budget import Budget
from polvet.campaign.goals import Floor, Goals, Reached, find_goals, lost_states, reach_goal
from polvet.campaign.policies import files_of, place_of, policy_stem
from polvet.campaign.settings import Settings
from polvet.campaign.store import Store
from polvet.campaign.strengthen import strengthen
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
from polvet.policy.runs import Inspection, Judgement, Run
from polvet.policy.save import save_policy
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import UnitGraph
from polvet.records.fault_files import Fault, FaultList, write_faults
from polvet.records.run_files import run_to_json
from polvet.repair.certificate import repair_certificate
from polvet.repair.demands import Mode
from polvet.repair.fence import fence
from polvet.repair.leaves import MANY
from polvet.repair.library import repair_checked
from polvet.repair.repair import Repaired
from polvet.safety.certificates import prove
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
MOST_SETTLED = 300_000
"""States that a tree over many faults leaves alone, at most."""
GOOD = 0.5
"""From this share of goal-reaching runs on, what a policy does where it has no fault is worth keeping."""
LITTLE = 100
"""Fewer new faults by fuzzing: what is left is rare, and searching finds more of it at once."""
Done = tuple[dict[str, Any], dict[str, str]]


@dataclass(frozen=True, slots=True)
class _Kept:
    """Goal-reaching runs to be kept, how many are made per start, and what must be left of them."""

    found: Goals
    runs: int
    floor: Floor


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """A repair, the policy ready to run, and how it reaches the goal."""

    made: Repaired
    after: Bound
    reached: Reached


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

    def sizes(self) -> dict[str, Any]:
        """Return what the campaign works on."""
        return {
            "debugging_starts": len(self.debugging.states), "evaluation_starts": len(self.evaluation.states),
            "same_starts": self.debugging is self.evaluation, "starts_total": self.debugging.total,
            "start_method": self.debugging.method,
        }  # fmt: skip

    def _starts(self) -> tuple[StartSample, StartSample]:
        """Disjoint starts to debug and to evaluate on; where the task has too few, all of them for both."""
        wanted, seed = self.settings.starts, self.settings.seed
        debugging = evaluation_starts(self.task, wanted, seed, budget=self.budget)
        if debugging.complete or (debugging.total is not None and debugging.total < 2 * wanted):
            every = evaluation_starts(self.task, 2 * wanted, seed, budget=self.budget)
            return every, every
        return debugging, evaluation_starts(self.task, wanted, seed + 1, exclude=debugging.states, budget=self.budget)

    def possible(self) -> Done:
        """Return the best %Goal over the evaluation starts that any safe policy can have, or why it is not known."""
        world = self._world
        found = world if isinstance(world, str) else world.best(budget=self._left())
        if isinstance(found, str):
            return {"goal_percent_possible": None, "goal_percent_possible_reason": found}, {}
        low, high = found.mean
        return {"goal_percent_possible": 100 * high, "goal_percent_possible_interval": [100 * low, 100 * high]}, {}

    @cached_property
    def _world(self) -> SafeWorld | str:
        """What safe policies meet from the evaluation starts, where that is little."""
        packed = self.decider.compiled.pack(self.evaluation.states)
        return find_safe_world(self.decider, packed, budget=self._left(self.settings.max_states))

    def evaluate(self, bound: Bound) -> Done:
        """Return %Unsafe and %Goal over the evaluation starts."""
        settings = self.settings
        found = evaluate(
            bound, self.evaluation, runs=self._enough_runs(len(self.evaluation.states)), max_steps=settings.max_steps,
            seed=settings.seed, threads=self.threads, budget=self._left(settings.max_states),
        )  # fmt: skip
        self._refuse_cut(found.batch.limit)
        self._refuse_cut(found.unsolved)
        low, high = found.unsafe_interval
        return {
            "unsafe_percent": 100 * found.unsafe, "unsafe_percent_interval": [100 * low, 100 * high],
            "goal_percent": 100 * found.goal, "goal_percent_interval": [100 * end for end in found.goal_interval],
            "undecided": found.open, "unsafe_by_runs": found.sampled_unsafe, "certain": found.certain,
            "goal_exact": found.goal_is_exact, "run_length": found.run_length,
        }, {}  # fmt: skip

    def _enough_runs(self, starts: int) -> int:
        """So many runs of each start that their mean is told within a point, and no fewer than were asked for."""
        return max(self.settings.runs, math.ceil(enough_draws(GOAL_PRECISION) / starts))

    def search(self, iteration: int, bound: Bound, policy: Path) -> Done:
        """Fuzz from the debugging starts; where that gives little new, or few states are reached, search exhaustively."""
        settings = self.settings
        fuzzed = find_unsafe_runs(
            bound, self.packed, seed=settings.seed + iteration, runs_per_start=settings.fuzz_runs,
            max_steps=settings.max_steps, threads=self.threads, budget=self._left(),
        )  # fmt: skip
        self._refuse_cut(fuzzed.limit)
        found = find_faults(bound, self.decider, fuzzed.runs, budget=self._left(VERIFIED * settings.max_states))
        self._refuse_cut(found.limit)
        figures = {**found.figures, **fuzzed.figures, "exhaustive": False}
        shown = self._shown(found, fuzzed.runs)
        faults = {(fault.state, fault.action): fault for fault in found.faults}
        if every := self._search_all(bound, little_new=len(self._new(found.faults)) < LITTLE):
            figures |= {**every.figures, "runs": fuzzed.figures["runs"]}
            faults |= {(fault.state, fault.action): fault for fault in every.faults}
        unsafe_starts = (every or found).unsafe_starts
        new = self._new(list(faults.values()))
        figures |= {
            "new_faults": len(new), "faults_so_far": len(self.faults) + len(new),
            "faults": len(faults), "unsafe_starts": len(unsafe_starts), "policy_sha256": bound.fitted.sha256,
        }  # fmt: skip
        files = self._write_faults(
            f"faults/{iteration}.json", new, policy, (every or found).exhaustive and self.debugging.complete
        )
        if shown:
            lines = "".join(json.dumps(run_to_json(self.task, run), ensure_ascii=False) + "\n" for run in shown)
            files["runs"] = self.store.write(f"runs/{iteration}.jsonl", lines)
        if unsafe_starts:
            prover = Decider(self.task, compiled=self.decider.compiled)  # of one thread: it remembers why
            within = self._left(VERIFIED * settings.max_states)
            try:
                proof = prove(prover, unsafe_starts[:1], Verdict.UNSAFE, budget=within)
            except LimitReached as limit:
                figures["unsafe_start_proof"] = f"none: {limit}"  # what smaller games tell has no proof of its own
            else:
                name = f"certificates/unsafe-start-{iteration}.json"
                files["certificate"] = self.store.write(name, json.dumps(proof))
        return figures, files

    def _search_all(self, bound: Bound, *, little_new: bool) -> FaultAnalysis | None:
        """All faults where the policy reaches few states; else, where fuzzing found few, those on runs that searching finds."""
        if self._reached(bound, QUICK_STATES) is not None:
            found = all_faults(bound, self.decider, starts=self.packed, budget=self._left())
        elif little_new:
            runs = self._unsafe_runs(bound, self.packed, self.settings.max_states)
            found = find_faults(bound, self.decider, runs, budget=self._left())
        else:
            return None
        self._refuse_cut(found.limit)
        return found

    def _shown(self, found: FaultAnalysis, runs: PackedRuns) -> list[Run]:
        """One run for each fault that comes first on some run, the shortest, and one without any fault."""
        best: dict[int, int] = {}
        lengths = runs.lengths
        for k, fault in enumerate(found.first_faults.tolist()):
            if fault not in best or lengths[k] < lengths[best[fault]]:
                best[fault] = k
        return [runs[k] for _, k in sorted(best.items())[:SHOWN_RUNS]]

    def verify(self, iteration: int, bound: Bound, policy: Path, method: str = "auto") -> Done:
        """Prove the policy safe, or find an unsafe run and its faults."""
        found = verify(
            bound,
            method=method,
            budget=self._left(VERIFIED * self.settings.max_states),
            seed=self.settings.seed,
            threads=self.threads,
        )
        figures = {"verdict": found.verdict.value, "method": found.method, "reason": None, "faults": 0}
        if isinstance(found, Unknown):
            if self.budget.seconds is not None and method == "auto":
                raise LimitReached(found.reason, "time")  # more time may decide it: resuming tries again
            return figures | {"reason": found.reason}, {}
        proof = json.dumps(certificate_of(bound, found, self._left()), ensure_ascii=False)
        files = {"certificate": self.store.write(f"certificates/{found.verdict.value}-{iteration}.json", proof)}
        if isinstance(found, Unsafe):
            # Which method found its run depends on the clock; what searching finds does not.
            runs = self._more_unsafe_runs(bound) or [found.run]
            faults = find_faults(bound, self.decider, runs, budget=self._left())
            self._refuse_cut(faults.limit)
            new = self._new(faults.faults)
            files |= self._write_faults(f"faults/{iteration}-verify.json", new, policy, exhaustive=False)
            figures |= {
                "faults": len(faults.faults), "new_faults": len(new), "faults_so_far": len(self.faults) + len(new),
            }  # fmt: skip
        return figures, files

    def _unsafe_runs(self, bound: Bound, starts: Words, states: int) -> list[Run]:
        """Runs to `fail` from packed starts, one for each start that searching up to so many states shows unsafe."""
        inspection = Inspection(bound)
        judged = inspection.judge(starts, budget=self._left(states))
        self._refuse_cut(inspection.limit)
        unsafe = [k for k, judgement in enumerate(judged) if judgement is Judgement.UNSAFE]
        return [inspection.witness(state) for state in bound.compiled.unpack(starts[unsafe[:SHOWN_RUNS]])]

    def _more_unsafe_runs(self, bound: Bound) -> list[Run]:
        """Unsafe runs from all start states, where these can be searched."""
        within = self._left()
        starts = Starts.of(self.task, within)
        most = VERIFIED * self.settings.max_states
        if starts.count is None or starts.count > most:
            return []
        return self._unsafe_runs(bound, bound.compiled.pack_starts(starts, budget=within), most)

    def repair(self, iteration: int, bound: Bound, first: Path) -> Done:
        """Make a policy that fixes all faults so far; where it loses too much of what was reached, others are tried."""
        settings = self.settings
        goals = self._goals(iteration, bound)
        # The less often the policy reaches the goal, the less there is to keep.
        keep = list(goals.found.states[: math.ceil(settings.keep * goals.found.reached.share)])
        if goals.found.reached.share >= GOOD:
            keep += self._settled(bound, without=set(keep))
        candidates: list[_Candidate] = []
        for one in self._candidates(bound, goals, keep):
            candidates.append(one)
            if goals.floor.is_kept(one.reached) and not one.made.left:
                break
        best = min(candidates, key=lambda one: (len(one.made.left), goals.floor.cost(one.reached)))
        made = best.made
        figures = {
            "faults_fixed": len(made.fixed), "faults_left": len(made.left), "objective": made.objective,
            "trees_added": made.trees_added, "method": made.method, "attempts": len(candidates), "kept_states": len(keep),
            "repair_seconds": made.seconds, "gap": made.gap, **_before_and_after(goals.found.reached, best.reached),
        }  # fmt: skip
        return figures, self._save(f"repair-{iteration}", iteration, bound, made, first)

    def _candidates(self, bound: Bound, goals: _Kept, keep: list[State]) -> Iterator[_Candidate]:
        """Repairs to choose from, until one is good enough: first those that change little, then those that reach the goal."""
        faults = list(self.faults.values())
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
        others = OTHERS.get(type(bound.fitted.policy), ()) if chosen == "auto" else ()
        for method in others:
            yield self._candidate(bound, wanted, keep, method, goals)
        planned = self._planned(bound, faults)
        if planned is not None:
            for method in (chosen, *others):
                yield self._candidate(bound, planned, keep, method, goals)
        if chosen == "auto" and (fenced := self._fenced(bound, faults)) is not None:
            yield self._tried(bound, fenced, goals)

    def _candidate(self, bound: Bound, wanted: list[Fault], keep: list[State], method: str, goals: _Kept) -> _Candidate:
        return self._tried(bound, self._repaired(bound, wanted, keep, method), goals)

    def _tried(self, bound: Bound, made: Repaired, goals: _Kept) -> _Candidate:
        after = bind_policy(fit(bound.fitted.task, made.policy), bound.compiled)  # a repair may read more variables
        return _Candidate(made, after, self._reach(after, goals.runs))

    def _planned(self, bound: Bound, faults: list[Fault]) -> list[Fault] | None:
        """The faults with the safe actions from which the goal is reached best, where the world is small enough to tell."""
        if self.settings.mode != "safe" or self.task.goal == FALSE or isinstance(self._world, str):
            return None
        return self._world.plan(bound, faults, budget=self._left())

    def _fenced(self, bound: Bound, faults: list[Fault]) -> Repaired | None:
        """The policy kept from leaving what is won, where that can be told and fixes every fault."""
        if self.task.network.disables_out_of_bounds or self.settings.mode != "safe" or isinstance(self._exits, str):
            return None
        made = fence(bound.fitted, self._exits, faults, bound.compiled)
        return None if isinstance(made, str) or made.left else made

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

    def strengthen(self, iteration: int, bound: Bound, first: Path, *, faulty: bool) -> Done:
        """Give the policy a fence where it has faults or no quick proof, one over a few variables needs it, and %Goal allows it."""
        if self.task.network.disables_out_of_bounds or self.settings.method not in FENCED:
            return {"reason": "not asked for"}, {}
        if not faulty:
            quick = verify(bound, method="explicit", budget=self._left(QUICK_PROOF), threads=self.threads)
            if not isinstance(quick, Unknown):
                return {"reason": "not needed"}, {}
        exits = self._exits
        if isinstance(exits, str):
            return {"reason": exits}, {}
        made = strengthen(bound, exits, list(self.faults.values()), self._left(), self.settings.seed)
        if isinstance(made, str):
            return {"reason": made}, {}
        goals = self._goals(iteration, bound)
        reached = self._reach(bind_policy(fit(bound.fitted.task, made.policy), bound.compiled), goals.runs)
        figures = {
            "exits": int(exits.labels.sum()), "won_cells": len(exits.cells), "fence_trees": made.trees_added,
            "fence_units": made.units_added, "reason": None, **_before_and_after(goals.found.reached, reached),
        }  # fmt: skip
        if reached.share < min(goals.floor.share, goals.found.reached.share):
            return figures | {"reason": "the goal would be reached less often"}, {}
        return figures, self._save(f"strengthen-{iteration}", iteration, bound, made, first)

    @cached_property
    def _exits(self) -> Exits | str:
        """What leaves the states that are won whatever most variables hold, or why that cannot be told."""
        try:
            found = find_exits(self.task, budget=self._left())
        except NotLinear as refusal:
            self._left()  # raises where time is over: then a game was cut short
            return refusal.why
        self._left()
        return found

    def _goals(self, iteration: int, bound: Bound) -> _Kept:
        """What is to be kept of the policy: goal-reaching runs, and how the best policy so far made them."""
        sample = self.packed[:GOAL_STARTS]
        runs = 1 if self._is_certain(iteration) else self._enough_runs(len(sample))
        faulty = {state for state, _ in self.faults}
        found = find_goals(bound, sample, without=faulty, runs=runs, budget=self._left(), **self._chance())
        best = max([found.reached, *self._reached_before(iteration)], key=lambda one: (one.share, -(one.length or 0)))
        # Half of the allowed loss, as the runs are a sample.
        return _Kept(found, runs, Floor(best.share - self.settings.max_goal_loss / 200, best.length))

    def _reached_before(self, iteration: int) -> list[Reached]:
        """How the policies of earlier iterations reached the goal, as their repairs noted it."""
        records = [self.store.find(k, step) for k in range(iteration) for step in ("strengthen", "repair")]
        noted = [record["figures"] for record in records if record is not None]
        return [
            Reached(figures["goal_percent_before"] / 100, figures.get("run_length_before"))
            for figures in noted
            if "goal_percent_before" in figures
        ]

    def _reach(self, bound: Bound, runs: int) -> Reached:
        return reach_goal(bound, self.packed[:GOAL_STARTS], runs=runs, budget=self._left(), **self._chance())

    def _chance(self) -> dict[str, Any]:
        return {"max_steps": self.settings.max_steps, "seed": self.settings.seed, "threads": self.threads}

    def _wanted(self, bound: Bound, faults: list[Fault], runs: int) -> list[Fault]:
        """The faults with the safe actions that the repair should choose from."""
        if self.settings.mode != "safe":
            return faults
        return prefer_goal(bound, faults, runs=1 if runs == 1 else RUNS, budget=self._left(), **self._chance())

    def _repaired(self, bound: Bound, wanted: list[Fault], keep: list[State], method: str) -> Repaired:
        made, _ = repair_checked(
            bound.fitted, wanted, method=method, mode=cast(Mode, self.settings.mode), keep=keep, seed=self.settings.seed,
            budget=self._left(), compiled=bound.compiled,
        )  # fmt: skip
        return made

    def _save(self, proof: str, iteration: int, bound: Bound, made: Repaired, first: Path) -> dict[str, str]:
        name = place_of(first, policy_stem(iteration + 1))
        save_policy(made.policy, self.store.folder / name)
        claim = repair_certificate(bound.fitted, made, self.store.folder / name)
        shown = self.store.write(f"certificates/{proof}.json", json.dumps(claim, ensure_ascii=False))
        return {**files_of(self.store.folder, name), "certificate": shown}

    def _is_certain(self, iteration: int) -> bool:
        """Whether evaluation found one run only from each start: then simulating it once is enough."""
        evaluated = self.store.find(iteration, "evaluate")
        return evaluated is not None and bool(evaluated["figures"]["certain"])

    def _new(self, faults: Sequence[Fault]) -> list[Fault]:
        return [fault for fault in faults if (fault.state, fault.action) not in self.faults]

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


def _before_and_after(before: Reached, after: Reached) -> dict[str, Any]:
    return {
        "goal_percent_before": 100 * before.share, "goal_percent_after": 100 * after.share,
        "run_length_before": before.length, "run_length_after": after.length,
    }  # fmt: skip


def _lost(bound: Bound, after: Bound, goals: _Kept, keep: list[State]) -> list[State]:
    """States of goal-reaching runs whose action changed although nothing asked for it."""
    kept = set(keep)
    return [state for state in lost_states(bound, after, goals.found.states) if state not in kept]
