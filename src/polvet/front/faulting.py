"""Finding the faults of a policy, of each kind, repairing them, and fencing the policy in, as people ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from polvet.budget import Budget
from polvet.debug.questions import Question
from polvet.errors import InputError, LimitReached, Where
from polvet.files import Figures, Json
from polvet.front.limits import Work
from polvet.front.result import Run, why, write_certificate
from polvet.front.results import Fault, Faults, Fence, Repair
from polvet.front.workplace import keep_policy
from polvet.records.fault_files import GOAL_KINDS, FaultList

if TYPE_CHECKING:
    from polvet.debug.faults import FaultAnalysis
    from polvet.front.policy import Policy
    from polvet.fuzz.packed import PackedRuns
    from polvet.model.semantics import State
    from polvet.repair.repair import Options
    from polvet.safety.decide import Decider


def find_policy_faults(
    policy: Policy,
    question: Question,
    runs: Sequence[Run] | str | Path | None,
    work: Work,
    *,
    tries: int,
    max_steps: int,
) -> Faults:
    """Return the faults of the policy, all there are or those on the runs."""
    from polvet.debug.everywhere import find_everywhere
    from polvet.debug.faults import find_faults
    from polvet.safety.decide import Decider

    bound = policy.compiled_within(work.budget)
    decider = Decider(bound.task, threads=work.threads())
    packed, how = (None, "") if runs is None else _packed(policy, runs)
    if question.kind != "safety":
        analysis, how = _by_worlds(policy, question, decider, packed, how, work)
    elif packed is not None:
        analysis = find_faults(bound, decider, packed, budget=work.budget)
    else:
        analysis, how = find_everywhere(
            bound,
            decider,
            budget=work.budget,
            tries=tries,
            max_steps=max_steps,
            seed=work.chance,
            threads=work.threads(),
        )
    reason = why(analysis.limit)
    if not reason and not analysis.faults and analysis.near_ties:
        reason = {"reason": f"near-tie in {analysis.near_ties} states"}
    names = policy.names
    shown = tuple(
        Fault(names(one.state), one.action, one.safe_actions, tuple(map(names, one.unsafe_outcomes)), one.kind)
        for one in analysis.faults
    )
    figures = {**analysis.figures, **question.figures, "how": how, "policy": policy.fitted.describe()}
    return Faults(
        figures=figures,
        source=(bound, decider, analysis),
        faults=shown,
        exhaustive=analysis.exhaustive,
        **reason,
        **work.account(),
    )


def _packed(policy: Policy, runs: Sequence[Run] | str | Path) -> tuple[PackedRuns, str]:
    from polvet.debug.faults import refuse_foreign_runs
    from polvet.fuzz.packed import PackedRuns
    from polvet.records.run_files import iter_runs, run_from_json

    bound = policy.bound
    if isinstance(runs, str | Path):
        known, how = iter_runs(bound.task, runs), f"on the runs of {runs}"
    else:
        listed = [run for run in runs if isinstance(run, Run)] if isinstance(runs, Sequence) else []
        if not isinstance(runs, Sequence) or len(listed) != len(runs):
            hint = "Give Run objects, as Policy.fuzz returns them, or a file."
            raise InputError("these are no runs.", Where("runs"), hint)
        known = (run_from_json(bound.task, run.to_dict(), Where("runs").at(k)) for k, run in enumerate(listed))
        how = "on the given runs"
    packed = PackedRuns.of(bound, known)
    refuse_foreign_runs(bound, packed)
    return packed, how


def _by_worlds(
    policy: Policy, question: Question, decider: Decider, runs: PackedRuns | None, how: str, work: Work
) -> tuple[FaultAnalysis, str]:
    """Return faults of a kind that needs to know all that could be reached; without it they are unknown, and why."""
    from polvet.debug.faults import nothing_judged
    from polvet.debug.goal_faults import find_goal_faults
    from polvet.debug.risk_faults import find_risk_faults

    among = None if runs is None else runs.states
    where = how or "in all states the policy reaches"
    try:
        if question.kind == "goal":
            return find_goal_faults(
                policy.bound, decider, among=among, least=question.goal_chance, budget=work.budget
            ), where
        assert question.max_risk is not None
        return find_risk_faults(
            policy.bound, question.max_risk, delta=question.delta, among=among, budget=work.budget
        ), where
    except LimitReached as limit:
        return nothing_judged(limit), f"nowhere ({limit})"


def prove_goal_faults(faults: Faults, budget: Budget) -> dict[str, Json]:
    """Return certificates that the faulty states are won, and that the outcomes by which the goal is given up are lost."""
    from polvet.safety.strong_cyclic import prove_lost, prove_won, solve

    bound, _, analysis = faults.source
    if faults.figures["kind"] != "goal" or faults.figures["goal_chance"] != "1":
        what = "there is no kind of certificate for these faults."
        raise InputError(what, Where("--certificates"), "Leave it out; verify --max-risk certifies the policy's risk.")
    states = [one.state for one in analysis.faults]
    lost = [outcome for one in analysis.faults for outcome in one.unsafe_outcomes[:1]]
    solved = solve(bound.task, [*states, *lost], budget=budget)
    proofs = {"won": prove_won(solved, states, budget=budget)}
    return {**proofs, "lost": prove_lost(solved, lost, budget=budget)} if lost else proofs


def repair_policy(
    policy: Policy,
    listed: FaultList,
    how: Options,
    keep: int | Path,
    work: Work,
    output: Path | None,
    certificate: Path | None,
) -> Policy:
    """Return the policy repaired at the faults; kept are the states of a file, or of so many goal-reaching runs."""
    from polvet.repair.confirmed import confirm_repair
    from polvet.repair.guarded import repair_guarded
    from polvet.repair.keep import goal_states, kept_states
    from polvet.repair.library import repair_checked, repair_figures

    file, bound, budget = policy.own_file("Repair"), policy.bound, work.budget.told(None)
    kept: list[State] = []
    not_kept: LimitReached | None = None
    if isinstance(keep, Path):
        kept = kept_states(bound.task, keep)
    elif keep:
        try:  # most of the time is the repair's own
            kept = goal_states(bound, keep, seed=work.chance, budget=budget.share(0.3))
        except LimitReached as limit:  # a repair without them is one, too
            not_kept = limit
    work.tell("repairing", faults=len(listed.faults), kept_states=len(kept))
    how = replace(how, keep=kept)
    more: Figures = {}
    if any(fault.kind in GOAL_KINDS for fault in listed.faults):
        repair, agreement, guard = repair_guarded(bound, listed.faults, how, budget=budget)
        more = guard.figures
    else:
        repair, agreement = repair_checked(policy.fitted, listed.faults, how, budget=budget, compiled=bound.compiled)
    work.tell(fixed=len(repair.fixed), left=len(repair.left), objective=repair.objective)
    target = keep_policy(repair.policy, f"policy{file.suffix}", output)
    document, checked = confirm_repair(
        policy.fitted,
        repair,
        None if output is None else target,
        found=work.spent(),
        budget=budget,
        output=target if certificate is None else certificate,
    )
    written = None if certificate is None else str(write_certificate(document, certificate))
    done = Repair(
        figures={**repair_figures(repair, agreement), **more},
        source=(repair, agreement, document),
        confirmation=checked,
        written=written,
        left=tuple(sorted({left.reason for left in repair.left})),
        not_kept=not_kept,
        **why(repair.limit),
        **work.account(),
    )
    return policy.reopen(target, done)


def fence_policy(policy: Policy, work: Work, certificate: str | Path | None, output: str | Path | None) -> Fence:
    """Return the policy with every action forbidden that may leave the safe region, and the proof that it is safe."""
    from polvet.confirm.confirmation import about_policy, confirm
    from polvet.repair.fence import fence_exits
    from polvet.safety.real_exits import RealExits
    from polvet.verify.certificates import certificate_of
    from polvet.verify.portfolio import verify
    from polvet.verify.verdicts import Safe as Proved
    from polvet.verify.verdicts import Unknown as Open

    bound, file = policy.bound, policy.own_file("Fence")
    exits, repair = fence_exits(bound, budget=work.budget)
    if exits is None or isinstance(repair, str):
        return Fence(reason=str(repair), **work.account())
    target = keep_policy(repair.policy, f"policy{file.suffix}", output)
    fenced = policy.reopen(target)
    work.tell("proving")
    by = "grid" if isinstance(exits, RealExits) else "projection"
    result = verify(fenced.bound, method=by, budget=work.budget, seed=work.chance)
    figures = {
        "exits": int(exits.labels.sum()),
        "won_cells": len(exits.cells),
        "variables": [bound.task.network.variables[k].name for k in exits.variables],
        "trees_added": repair.trees_added,
        "units_added": repair.units_added,
    }
    proof = certificate_of(fenced.bound, result, work.budget) if isinstance(result, Proved) else None
    reason, written = None, None
    if proof is None:
        reason = result.reason if isinstance(result, Open) else "the fenced policy is not safe"
    about = about_policy(fenced.fitted.task, target, fenced.digest)
    checked = confirm("safe policy", proof, about, found=work.spent(), budget=work.budget, output=target)
    if proof is not None and certificate is not None:
        written = str(write_certificate(proof, certificate))
    return Fence(
        figures=figures,
        certificate=proof,
        reason=reason,
        policy=fenced,
        confirmation=checked,
        written=written,
        **work.account(),
    )
