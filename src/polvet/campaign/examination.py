"""The steps that judge a policy. Each is a function of the files before it, the settings and the seed.

`possible`    the best %Goal that any safe policy can have, and the fewest steps, where the world is small
`evaluate`    %Unsafe and %Goal on the evaluation starts
`search`      (A) and (B): unsafe runs from the debugging starts and the faults on them; exhaustively where fuzzing finds few
`verify`      (D): a proof, or an unsafe run and its faults
A step returns its figures and its files {role: name}; a step that a time limit cuts short raises LimitReached instead.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from polvet.budget import stopwatch
from polvet.campaign.ground import Done, Ground
from polvet.campaign.record import EvaluationFigures, PossibleFigures, SearchFigures, VerificationFigures, WorldFigures
from polvet.confirm.confirmation import about_policy, confirm
from polvet.confirm.outcome import Confirmation, confirmation_json
from polvet.debug.confidence import enough_draws
from polvet.debug.evaluate import evaluate
from polvet.debug.faults import FaultAnalysis, all_faults, find_faults
from polvet.debug.possible import SafeWorld, find_safe_world
from polvet.errors import LimitReached
from polvet.fuzz.packed import PackedRuns
from polvet.fuzz.search import Search, find_unsafe_runs
from polvet.kernel.compiled import Words, describe_limit
from polvet.kernel.starts import Starts
from polvet.policy.compiled import FAIL, GOAL, Bound
from polvet.policy.runs import Inspection, Run
from polvet.records.run_files import run_to_json
from polvet.safety.certificates import prove
from polvet.safety.confirmed import confirm_states
from polvet.safety.decide import Decider
from polvet.verdict import Verdict
from polvet.verify.certificates import certificate_of
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Unknown, Unsafe

GOAL_PRECISION = 0.01
"""%Goal is told within so much, where the number of start states does not set the limit."""
SHOWN_RUNS = 1_000
VERIFIED = 25
"""Verification and deciding which states are safe may visit so many times the states that a search may."""
QUICK_STATES = 500_000
"""A policy that reaches no more states is searched exhaustively in every iteration."""
LITTLE = 100
"""Fewer new faults by fuzzing: what is left is rare, and searching finds more of it at once."""


class Examination(Ground):
    """The steps that judge the policies of one campaign."""

    def possible(self) -> Done[PossibleFigures]:
        """Return the best %Goal over the evaluation starts of any safe policy, and the fewest steps, or why that is not known."""
        world = self._world
        if isinstance(world, str):
            return PossibleFigures(None, goal_percent_possible_reason=world), {}
        best = world.best(budget=self._left())
        if isinstance(best, str):
            return PossibleFigures(None, goal_percent_possible_reason=best), {}
        low, high = best.mean
        soonest = world.soonest(budget=self._left())
        figures = PossibleFigures(
            100 * high,
            goal_percent_possible_interval=(100 * low, 100 * high),
            run_length_possible=None if soonest is None else soonest.mean[0],
        )
        return figures, {}

    @cached_property
    def _world(self) -> SafeWorld | str:
        """What safe policies meet from the evaluation starts, where that is little."""
        packed = self.decider.compiled.pack(self.evaluation.states)
        return find_safe_world(self.decider, packed, budget=self._left(self.settings.max_states))

    def evaluate(self, bound: Bound) -> Done[EvaluationFigures]:
        """Return %Unsafe and %Goal over the evaluation starts."""
        settings = self.settings
        evaluation = evaluate(
            bound,
            self.evaluation,
            runs=self._enough_runs(len(self.evaluation.states)),
            max_steps=settings.run_steps(self.task),
            seed=settings.seed,
            threads=self.threads,
            budget=self._left(settings.max_states),
        )
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
        search = Search(settings.seed + iteration, settings.fuzz_runs, settings.max_steps, threads=self.threads)
        fuzzed = find_unsafe_runs(bound, self.packed, search, budget=self._left())
        self._refuse_cut(fuzzed.limit)
        fuzzing = spent()
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
                    self.task,
                    "unsafe",
                    judged.unsafe_starts[:1],
                    partial(prove, prover, verdict=Verdict.UNSAFE, budget=within),
                    found=spent(),
                    budget=within,
                    output=self.store.folder / name,
                )
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
            fuzz_seconds=round(fuzzing, 3),
            **confirmation_json(checked),
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

    def _reached(self, bound: Bound, most: int) -> Words | None:
        """The states the policy reaches from the debugging starts; None where they are more than so many."""
        few = self._left(min(most, self.settings.max_states))
        space = bound.compiled.explore(self.packed, stop_at=[FAIL, GOAL], budget=few, policy=bound.core)
        limit = describe_limit(space, few)
        self._refuse_cut(limit)
        return space.states(0, len(space)) if limit is None else None

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
        certificate, word = certificate_of(bound, result, self._left()), result.verdict.value
        files, checked = self._confirmed(f"{word} policy", certificate, bound, policy, f"{word}-{iteration}", spent())
        figures = replace(figures, **confirmation_json(checked))
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

    def _confirmed(
        self, verdict: str, certificate: Mapping[str, Any] | None, bound: Bound, policy: Path, name: str, seconds: float
    ) -> tuple[dict[str, str], Confirmation | None]:
        """Return the file of the certificate, which took so many seconds, and whether it was checked."""
        place = f"certificates/{name}.json"
        about = about_policy(bound.task, policy, bound.fitted.sha256)
        output = self.store.folder / place
        checked = confirm(verdict, certificate, about, found=seconds, budget=self.budget, output=output)
        return {"certificate": self.store.write(place, json.dumps(certificate, ensure_ascii=False))}, checked

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

    def _world_faults(self, analysis: FaultAnalysis, name: str, policy: Path) -> Done[WorldFigures]:
        """Return the figures of faults that only all of the world tells, and the file of those that are new."""
        new = self._new(analysis.faults)
        figures = WorldFigures(
            faults=len(analysis.faults),
            states=analysis.states,
            good_states=analysis.safe_states,
            lost_starts=len(analysis.unsafe_starts),
            open=analysis.open,
            exhaustive=analysis.exhaustive,
            near_ties=analysis.near_ties,
            new_faults=len(new),
            faults_so_far=len(self.faults) + len(new),
        )
        return figures, self._write_faults(name, new, policy, analysis.exhaustive)
