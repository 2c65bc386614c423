"""The steps of the loop on one policy. Each is a function of the files before it, the settings and the seed.

`evaluate`    %Unsafe and %Goal on the evaluation starts
`search`      (A) and (B): unsafe runs from the debugging starts and the faults on them; exhaustively where fuzzing finds few
`repair`      (C): a policy that fixes all faults so far and keeps decisions on goal-reaching runs
`strengthen`  a policy with a fence, so that a proof over a few variables goes through
`verify`      (D): a proof, or an unsafe run and its faults
A step returns its figures and its files {role: name}; a step that a time limit cuts short raises LimitReached instead.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from polvet.budget import Budget
from polvet.campaign.goals import Goals, find_goals, goal_share, lost_states
from polvet.campaign.policies import files_of, place_of, policy_stem
from polvet.campaign.settings import Settings
from polvet.campaign.store import Store
from polvet.campaign.strengthen import strengthen
from polvet.debug.evaluate import StartSample, evaluate, evaluation_starts
from polvet.debug.faults import FaultAnalysis, all_faults, find_faults
from polvet.debug.prospects import RUNS, prefer_goal
from polvet.errors import LimitReached
from polvet.evidence.fault_files import Fault, FaultList, write_faults
from polvet.evidence.run_files import run_to_json
from polvet.fuzz.packed import PackedRuns
from polvet.fuzz.search import find_unsafe_runs
from polvet.kernel.compiled import Words, describe_limit
from polvet.kernel.starts import Starts
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.policy.binding import FAIL, GOAL, Bound, fit, load_fitted
from polvet.policy.identity import policy_sha256
from polvet.policy.networks import Network
from polvet.policy.protocol import Policy
from polvet.policy.runs import Inspection, Judgement, Run
from polvet.policy.save import save_policy
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import UnitGraph
from polvet.repair.certificate import repair_certificate
from polvet.repair.demands import Mode
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
REPAIR_ROUNDS = 4
LOCAL: dict[type[Policy], str] = {TreeEnsemble: "penalty", Network: "units", UnitGraph: "units"}
"""Repairs that change the choice in the faulty states only, where others cost too much of %Goal."""
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
    """Goal-reaching runs to be kept, how many are made per start, and the share of them that must be left."""

    found: Goals
    runs: int
    allowed: float


class Steps:
    """The steps on the policies of one campaign; `faults` are those found so far, by state and action."""

    def __init__(self, task: Task, store: Store, settings: Settings, budget: Budget, *, threads: int = 1) -> None:
        self.task, self.store, self.settings, self.budget, self.threads = task, store, settings, budget, threads
        self.decider = Decider(task, threads=threads)
        self.faults: dict[tuple[State, str], Fault] = {}
        self.debugging, self.evaluation = self._starts()
        self.packed: Words = self.decider.compiled.pack(self.debugging.states)
        self._first_share: float | None = None

    def load(self, policy: Path) -> Bound:
        """Return the policy in the file, ready to run."""
        return load_fitted(self.task, policy).compile()

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

    def evaluate(self, bound: Bound) -> Done:
        """Return %Unsafe and %Goal over the evaluation starts."""
        settings = self.settings
        found = evaluate(
            bound, self.evaluation, runs=settings.runs, max_steps=settings.max_steps, seed=settings.seed,
            threads=self.threads, budget=self._left(settings.max_states),
        )  # fmt: skip
        self._refuse_cut(found.batch.limit)
        low, high = found.unsafe_interval
        return {
            "unsafe_percent": 100 * found.unsafe, "unsafe_percent_interval": [100 * low, 100 * high],
            "goal_percent": 100 * found.goal, "goal_percent_interval": [100 * end for end in found.goal_interval],
            "undecided": found.open, "unsafe_by_runs": found.sampled_unsafe, "certain": found.certain,
        }, {}  # fmt: skip

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
        proof = json.dumps(certificate_of(bound, found), ensure_ascii=False)
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
        """Make a policy that fixes all faults so far; `first` is the campaign's first policy, whose %Goal is to be kept."""
        settings = self.settings
        goals = self._goals(iteration, bound, first)
        wanted = self._wanted(bound, list(self.faults.values()), goals.runs)
        # The less often the policy reaches the goal, the less there is to keep.
        keep = list(goals.found.states[: math.ceil(settings.keep * goals.found.share)])
        if goals.found.share >= GOOD:
            keep += self._settled(bound, without=set(keep))
        candidates: list[tuple[float, Repaired]] = []
        local = LOCAL.get(type(bound.fitted.policy)) if settings.method == "auto" else None
        method: str | None = settings.method
        while method is not None:
            made = self._repaired(bound, wanted, keep, method)
            after = fit(bound.fitted.task, made.policy).bind(bound.compiled)  # a repair may read more variables
            share = self._goal_share(after, goals)
            candidates.append((share, made))
            if share >= min(goals.allowed, goals.found.share) or method == local:
                break
            kept = set(keep)
            lost = [state for state in lost_states(bound, after, goals.found.states) if state not in kept]
            # What cannot be had by keeping more states is had by changing the faulty states only.
            method = method if lost and len(candidates) < REPAIR_ROUNDS else local
            keep += lost[: settings.keep]
        share, made = min(candidates, key=lambda one: (len(one[1].left), -one[0]))
        figures = {
            "faults_fixed": len(made.fixed), "faults_left": len(made.left), "objective": made.objective,
            "trees_added": made.trees_added, "method": made.method, "attempts": len(candidates), "kept_states": len(keep),
            "goal_percent_before": 100 * goals.found.share, "goal_percent_after": 100 * share,
            "repair_seconds": made.seconds, "gap": made.gap,
        }  # fmt: skip
        return figures, self._save(f"repair-{iteration}", iteration, bound, made, first)

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
        goals = self._goals(iteration, bound, first)
        share = self._goal_share(fit(bound.fitted.task, made.policy).bind(bound.compiled), goals)
        figures = {
            "exits": int(exits.labels.sum()), "won_cells": len(exits.cells), "fence_trees": made.trees_added,
            "fence_units": made.units_added, "reason": None,
            "goal_percent_before": 100 * goals.found.share, "goal_percent_after": 100 * share,
        }  # fmt: skip
        if share < min(goals.allowed, goals.found.share):
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

    def _goals(self, iteration: int, bound: Bound, first: Path) -> _Kept:
        """What is to be kept of the policy: goal-reaching runs, and how often the first policy made them."""
        runs = 1 if self._is_certain(iteration) else self.settings.runs
        sample = self.packed[:GOAL_STARTS]
        faulty = {state for state, _ in self.faults}
        found = find_goals(bound, sample, without=faulty, runs=runs, budget=self._left(), **self._chance())
        # Half of the allowed loss, as the runs are a sample.
        allowed = self._first_goals(first, sample, runs) - self.settings.max_goal_loss / 200
        return _Kept(found, runs, allowed)

    def _goal_share(self, bound: Bound, goals: _Kept) -> float:
        sample = self.packed[:GOAL_STARTS]
        return goal_share(bound, sample, runs=goals.runs, budget=self._left(), **self._chance())

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

    def _first_goals(self, policy: Path, sample: Words, runs: int) -> float:
        """How often the campaign's first policy reaches the goal."""
        if self._first_share is None:
            self._first_share = goal_share(self.load(policy), sample, runs=runs, budget=self._left(), **self._chance())
        return self._first_share

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
